// Package retry waits between attempts.
package retry

import (
	"context"
	"time"
)

// Sleep returns true after d, or false as soon as ctx ends.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
