package text_test

import (
	"slices"
	"testing"

	"github.com/node-drainer/node-drainer/internal/text"
)

func TestSplit(t *testing.T) {
	for s, want := range map[string][]string{
		"":               {},
		"a":              {"a"},
		"a,b":            {"a", "b"},
		"a, b":           {"a", "b"},
		" a b ,":         {"a", "b"},
		",,a,\n\tb,\r\n": {"a", "b"},
		" , ":            {},
	} {
		if got := text.Split(s); !slices.Equal(got, want) {
			t.Errorf("Split(%q) = %q, want %q", s, got, want)
		}
	}
}
