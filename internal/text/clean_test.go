package text_test

import (
	"encoding/json"
	"testing"
	"unicode"

	"github.com/node-drainer/node-drainer/internal/text"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ s, want string }{
		"plain text":           {"workers-1 (lt-0a)", "workers-1 (lt-0a)"},
		"other scripts":        {"日本 é ü 🚀", "日本 é ü 🚀"},
		"an escape sequence":   {"\x1b[31mred\x1b[0m", "[31mred[0m"},
		"C1, as a character":   {"a\u009b31mb", "a31mb"},
		"C1, as a byte":        {"a\x9bb", "a\ufffdb"},
		"DEL and BEL":          {"a\x7f\x07b", "ab"},
		"white space":          {"a\r\n\tb\u2028c\u0085d", "a   b c d"},
		"direction of writing": {"a\u202eb\u2066c", "abc"},
		"variation selector":   {"a\ufe0fb\u200dc", "abc"},
	} {
		if got := text.Clean(tt.s); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// FuzzClean checks what is promised of names and reasons that come from others: none changes how a terminal shows
// other text, and JSON keeps its meaning.
func FuzzClean(f *testing.F) {
	f.Add("a\x1b]0;owned\a\u202e\u009b\U000e0001 \r\n::error::x")
	f.Fuzz(func(t *testing.T, s string) {
		encoded, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		cleaned := text.CleanJSON(string(encoded))
		for _, got := range []string{text.Clean(s), cleaned} {
			for _, r := range got {
				if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
					t.Fatalf("%q has %q", got, r)
				}
			}
		}
		var want, back string
		if err := json.Unmarshal(encoded, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(cleaned), &back); err != nil || back != want {
			t.Fatalf("%q means %q, want %q: %v", cleaned, back, want, err)
		}
	})
}
