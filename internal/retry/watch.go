package retry

import (
	"context"
	"time"
)

// stopTime is how long Watch waits for the end of an informer that does not sleep.
const stopTime = 100 * time.Millisecond

// Watch runs an informer of client-go until ctx ends. It does not wait for the end of its pause then: after an API
// server that refuses connections, or answers with 429, client-go sleeps for up to a minute, whatever its context
// (watchList in tools/cache/reflector.go). The drain or the process that ends would sleep, too.
func Watch(ctx context.Context, informer interface{ RunWithContext(ctx context.Context) }) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		informer.RunWithContext(ctx)
	}()
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	timer := time.NewTimer(stopTime)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
}
