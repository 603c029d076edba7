// Package pause waits, for as long as there is a reason to.
package pause

import (
	"context"
	"time"
)

// For returns true after d, or false as soon as ctx ends.
func For(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
