package text_test

import (
	"testing"

	"github.com/node-drainer/node-drainer/internal/text"
)

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "", 3},
		{"workers", "workers", 0},
		{"wrokers", "workers", 2},
		{"DRYRUN", "DRY_RUN", 1},
		{"kitten", "sitting", 3},
		{"ab", "ba", 2},
		{"abcd", "bcd", 1},
	} {
		if got := text.Distance(tt.a, tt.b); got != tt.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
