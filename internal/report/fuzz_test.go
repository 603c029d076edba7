package report

import (
	"strings"
	"testing"
	"unicode"
)

// FuzzClean checks what is promised of names and reasons that come from others: none changes how a terminal shows
// other text, and none is a command of a workflow.
func FuzzClean(f *testing.F) {
	f.Add("a\x1b]0;owned\a\u202e\u009b::error::x")
	f.Add("##[error] \r\n::set-output name=a::b")
	f.Fuzz(func(t *testing.T, text string) {
		for name, got := range map[string]string{
			"clean": clean(text), "escape": escape(text), "escapeData": escapeData(text), "escapeProperty": escapeProperty(text),
			"cleanJSON": strings.ReplaceAll(cleanJSON(text), "\n", ""),
		} {
			for _, r := range got {
				if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
					t.Fatalf("%s(%q) has %q", name, text, r)
				}
			}
		}
		line := escapeCommand(clean(text))
		if strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##[") {
			t.Fatalf("%q is a command", line)
		}
	})
}
