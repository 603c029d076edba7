package report

import (
	"strings"
	"testing"
	"unicode"

	"github.com/node-drainer/node-drainer/internal/text"
)

// FuzzEscape checks what is promised of names and reasons that come from others: none changes how a terminal shows
// other text, and none is a command of a workflow.
func FuzzEscape(f *testing.F) {
	f.Add("a\x1b]0;owned\a\u202e\u009b::error::x")
	f.Add("##[error] \r\n::set-output name=a::b")
	f.Fuzz(func(t *testing.T, content string) {
		for name, got := range map[string]string{
			"escape": escape(content), "escapeData": escapeData(content), "escapeProperty": escapeProperty(content),
		} {
			for _, r := range got {
				if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
					t.Fatalf("%s(%q) has %q", name, content, r)
				}
			}
		}
		line := escapeCommand(text.Clean(content))
		if strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##[") {
			t.Fatalf("%q is a command", line)
		}
	})
}
