package agent

import (
	"context"
	"errors"
	"slices"
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

// do calls step until it succeeds or returns an error that no retry can change, and returns that: the Node
// or the lifecycle action is gone, the event is for others, or there is no time left for the cordon. If
// ctx ends first, do returns its cause.
func (r retrier) do(ctx context.Context, e event.Event, operation string, step func() error) error {
	final := func(err error) bool {
		return slices.ContainsFunc([]error{
			node.ErrGone, node.ErrUnselected, autoscaling.ErrGone, errOtherCluster, errOtherReader, errCordonLate,
		}, func(known error) bool { return errors.Is(err, known) })
	}
	failed := func(err error) { r.observer.Retrying(e, operation, err) }
	return retry.Do(ctx, retry.Backoff(firstPause, longestPause), step, final, failed)
}
