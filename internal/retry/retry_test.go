package retry_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/retry"
)

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if !retry.Sleep(t.Context(), time.Minute) || time.Since(start) != time.Minute {
			t.Errorf("a pause of a minute took %v", time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if retry.Sleep(ctx, time.Minute) || time.Since(start) != time.Second {
			t.Errorf("a pause whose context ended after a second took %v", time.Since(start))
		}
	})
}
