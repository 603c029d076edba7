// Package retry repeats calls that fail, with pauses that grow and are jittered.
package retry

import (
	"context"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

// jitter is the part by which each pause is lengthened at random, so that callers that failed together,
// during an outage for example, do not all call again at the same moment.
const jitter = 0.2

// Pauses are those between attempts: Step returns the next one.
type Pauses = wait.Backoff

// Backoff returns pauses that begin at first and double up to longest. Each is lengthened by up to 20 % at
// random. Its method Step returns the next one, without end. A copy begins where the original stands.
func Backoff(first, longest time.Duration) Pauses {
	return Pauses{Duration: first, Factor: 2, Jitter: jitter, Steps: math.MaxInt, Cap: longest}
}

// Do calls attempt until it returns nil or an error for which final reports true, and returns that. It passes
// every other error to failed, and pauses. If ctx ends first, Do returns its cause.
func Do(
	ctx context.Context, pauses wait.Backoff, attempt func() error, final func(error) bool, failed func(error),
) error {
	for {
		err := attempt()
		switch {
		case err == nil || final(err):
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		failed(err)
		if !Sleep(ctx, pauses.Step()) {
			return context.Cause(ctx)
		}
	}
}

// Sleep returns true after d, or false as soon as ctx ends. If ctx has ended, it returns false also for a d of 0.
func Sleep(ctx context.Context, d time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// OnConflict calls attempt again, a few times, as long as it returns a conflict, and returns its last error.
// client-go's RetryOnConflict returns nil if attempt returns context.DeadlineExceeded, which it takes for an end of its
// own waits.
func OnConflict(attempt func() error) (err error) {
	_ = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		err = attempt()
		return err
	})
	return err
}

// Grace returns a context that ends at the time d after ctx, for what must still be done then, or with stop, which the
// caller must call. It has the values of ctx.
func Grace(ctx context.Context, d time.Duration) (grace context.Context, stop context.CancelFunc) {
	grace, cancel := context.WithCancel(context.WithoutCancel(ctx))
	forget := context.AfterFunc(ctx, func() {
		Sleep(grace, d)
		cancel()
	})
	return grace, func() {
		forget()
		cancel()
	}
}
