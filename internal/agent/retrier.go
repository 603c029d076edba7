package agent

import (
	"context"
	"errors"
	"time"

	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/autoscaling"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/node"
)

// firstPause and longestPause bound the pauses between retries.
const firstPause, longestPause = 250 * time.Millisecond, 15 * time.Second

// retryObserver records failed attempts.
type retryObserver interface {
	Retrying(e event.Event, operation string, err error)
}

// retrier repeats the steps of terminations and launches.
type retrier struct{ observer retryObserver }

// do calls step until it succeeds or returns an error that no retry can change, and returns that: the Node or
// the lifecycle action is gone, or there is no time left for the cordon. If ctx ends first, do returns its
// cause.
func (r retrier) do(ctx context.Context, e event.Event, operation string, step func() error) error {
	final := func(err error) bool {
		return errors.Is(err, node.ErrGone) || errors.Is(err, autoscaling.ErrGone) || errors.Is(err, errCordonLate)
	}
	failed := func(err error) { r.observer.Retrying(e, operation, err) }
	return retry.Do(ctx, retry.Backoff(firstPause, longestPause), step, final, failed)
}
