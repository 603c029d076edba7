package text_test

import (
	"testing"

	"github.com/node-drainer/node-drainer/internal/text"
)

func TestCount(t *testing.T) {
	for want, got := range map[string]string{
		"0 pods":      text.Count(0, "pod"),
		"1 pod":       text.Count(1, "pod"),
		"2 pods":      text.Count(2, "pod"),
		"1 node is":   text.Plural(1, "node is", "nodes are"),
		"3 nodes are": text.Plural(3, "node is", "nodes are"),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestFirst(t *testing.T) {
	for want, names := range map[string][]string{
		"":                nil,
		"a, b":            {"a", "b"},
		"a, b and 1 more": {"a", "b", "c"},
	} {
		if got := text.First(names, 2); got != want {
			t.Errorf("First(%q, 2) = %q, want %q", names, got, want)
		}
	}
}

func TestFirstWithin(t *testing.T) {
	names := []string{"web/a", "web/b", "web/c"}
	for bytes, want := range map[int]string{
		19: "web/a, web/b, web/c", 18: "web/a and 2 more", 16: "web/a and 2 more", 3: "web/a and 2 more",
	} {
		if got := text.FirstWithin(names, bytes); got != want {
			t.Errorf("FirstWithin(%d) = %q, want %q", bytes, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for s, want := range map[string]string{"": "", "123456": "123456", "1234567": "123…", "12é4567": "12…", "123€567": "123…"} {
		if got := text.Cut(s, 6); got != want {
			t.Errorf("Cut(%q) = %q, want %q", s, got, want)
		}
	}
}
