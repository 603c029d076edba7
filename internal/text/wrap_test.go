package text

import "testing"

func TestWrap(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"a short text is one line", "a bc d", "  a bc d\n"},
		{"a line is filled to the width", "abc def ghi", "  abc def\n  ghi\n"},
		{"spaces are one", " a \n b ", "  a b\n"},
		{"a word that is too long is left whole", "a verylongword b", "  a\n  verylongword\n  b\n"},
		{"a word that is too long comes first", "verylongword b", "  verylongword\n  b\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Wrap(tt.text, "  ", 9); got != tt.want {
				t.Errorf("wrapped as %q, want %q", got, tt.want)
			}
		})
	}
}
