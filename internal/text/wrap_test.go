package text

import (
	"slices"
	"testing"
)

func TestIndent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"short text", "a bc d", "  a bc d\n"},
		{"text longer than the width", "abc def ghi", "  abc def\n  ghi\n"},
		{"white space", " a \n b ", "  a b\n"},
		{"a long word", "a verylongword b", "  a\n  verylongword\n  b\n"},
		{"a long word at the start", "verylongword b", "  verylongword\n  b\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Indent(tt.text, "  ", 9); got != tt.want {
				t.Errorf("wrapped as %q, want %q", got, tt.want)
			}
		})
	}
}

func TestWrapWithoutALimit(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, -4} {
		if got := Wrap("one two", limit, func(s string) int { return len(s) }); !slices.Equal(got, []string{"one two"}) {
			t.Errorf("wrapped as %q", got)
		}
	}
}
