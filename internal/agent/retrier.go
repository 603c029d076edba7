package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/internal/text"
)

// firstPause and longestPause bound the pauses between retries.
const firstPause, longestPause = 250 * time.Millisecond, 15 * time.Second

// firstResyncPause is the pause after a resync that failed, which asks for all instances, and may have found some whose
// hooks end soon.
const firstResyncPause = 2 * time.Second

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

// reportFailures reports why a resync is incomplete: what Auto Scaling has not answered, and other failures.
func reportFailures(o resyncObserver, unread, failed error) {
	if unread != nil {
		o.AutoScalingFailed("resync", firstErrors(unread))
	}
	if failed != nil {
		o.ResyncFailed(firstErrors(failed))
	}
}

// mostErrors is how many of the errors of many nodes are reported.
const mostErrors = 5

// firstErrors returns an error with the first of those that err joins, each once, and how many others there are.
func firstErrors(err error) error {
	var first []string
	lines := strings.Split(err.Error(), "\n")
	for _, line := range lines {
		if len(first) < mostErrors && !slices.Contains(first, line) {
			first = append(first, line)
		}
	}
	summary := strings.Join(first, "; ")
	if others := len(lines) - len(first); others > 0 {
		summary += fmt.Sprintf("; and %s like these", text.Count(others, "more error"))
	}
	return errors.New(summary)
}
