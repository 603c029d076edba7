package refresh_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// TestListProtected: tags list as many instances as their values can hold, which AWS limits to 256 characters.
func TestListProtected(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ ids, tags, rest int }{{0, 0, 0}, {1, 1, 0}, {14, 1, 0}, {15, 2, 0}, {56, 4, 0}, {60, 4, 4}} {
		var ids []string
		for n := range tt.ids {
			ids = append(ids, fmt.Sprintf("i-%017x", n))
		}
		tags, rest := refresh.ListProtected(ids)
		got := slices.Concat(refresh.ProtectedBy(refresh.Group{Tags: tags}), rest)
		if len(tags) != tt.tags || len(rest) != tt.rest || !slices.Equal(got, ids) {
			t.Errorf("%d instances: %d tags, %d left: %q", tt.ids, len(tags), len(rest), got)
		}
		for key, value := range tags {
			if len(value) > 256 {
				t.Errorf("%s has %d characters", key, len(value))
			}
		}
	}
}
