package retry_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/retry"
)

// sleeper is an informer that sleeps when its context ends.
type sleeper time.Duration

func (s sleeper) RunWithContext(ctx context.Context) {
	<-ctx.Done()
	time.Sleep(time.Duration(s))
}

// TestWatch: what has ended its watch does not wait for a pause of the informer, but for its end.
func TestWatch(t *testing.T) {
	for pause, most := range map[time.Duration]time.Duration{
		0: 0, 50 * time.Millisecond: 50 * time.Millisecond, 30 * time.Second: 100 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			began := time.Now()
			retry.Watch(ctx, sleeper(pause))
			if took := time.Since(began); took != time.Minute+most {
				t.Errorf("with a pause of %v it took %v", pause, took)
			}
			time.Sleep(pause)
		})
	}
}
