package text_test

import (
	"os/exec"
	"testing"

	"github.com/node-drainer/node-drainer/internal/text"
)

// TestShellWord: a shell takes each for one word, and runs nothing in it.
func TestShellWord(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"workers-1/a.b": "workers-1/a.b", "two words": "'two words'", "$(reboot)": "'$(reboot)'", "": "''", "a;b": "'a;b'",
		"it's": `'it'\''s'`, "a\nb": "'a\nb'", "é": "'é'",
	} {
		if got := text.ShellWord(s); got != want {
			t.Errorf("%q: got %s, want %s", s, got, want)
		}
		echoed, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+text.ShellWord(s)).Output()
		if err != nil || string(echoed) != s {
			t.Errorf("a shell makes %q of %q: %v", echoed, s, err)
		}
	}
}
