package rollout

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/internal/text"
)

// mostNames is how many instances or nodes a message lists.
const mostNames = 5

// maxFailures is how many attempts in a row may fail before a rollout is given up. The client has retried
// each of them for up to a minute.
const maxFailures = 5

// callTimeout bounds a call that changes something.
const callTimeout = time.Minute

// errTimeout ends a run that took longer than Config.Timeout.
var errTimeout = errors.New("timed out (--timeout)")

// ErrNotLeading is the cause with which the context of a Watcher ends when another process continues its work. Then
// rollouts are left to that, whatever Config.OnInterrupt says.
var ErrNotLeading = errors.New("another process leads")

// uncancelled returns a context for a call that changes something. The end of the run does not cut the call
// off, because then nobody would know whether AWS has served it.
func uncancelled(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
}

// A call that gives something back is made so often, with so long pauses at most: a quarter of a minute in all. One
// that fails leaves the group, or the cluster, as it must not stay.
const (
	giveBackTries        = 5
	longestGiveBackPause = 8 * time.Second
)

// untilGivenBack repeats a call that gives something back, and returns its last error, or the cause of the end of ctx.
func untilGivenBack(ctx context.Context, giveBack func() error) error {
	failures := 0
	isLast := func(error) bool { failures++; return failures == giveBackTries }
	return retry.Do(ctx, retry.Backoff(time.Second, longestGiveBackPause), giveBack, isLast, func(error) {})
}

// leaves is the ending of a rollout that could not give something back.
func (e ending) leaves() ending {
	if e.outcome == report.Done || e.outcome == report.Nothing {
		e.outcome = report.Incomplete
	}
	return e
}

// ending is how the rollout of a group ended, and what the user should know and do about it.
type ending struct {
	outcome report.Outcome
	message string
}

// endError ends a rollout with an outcome of its own. Every other error ends it with report.Error.
type endError ending

// Error is the message for the user.
func (e *endError) Error() string { return e.message }

// endingOf is how a rollout ends that returned the error. A call that failed after ctx had ended most likely
// failed because of that.
func endingOf(ctx context.Context, err error) ending {
	var end *endError
	switch {
	case errors.As(err, &end):
		return ending(*end)
	case errors.Is(context.Cause(ctx), errTimeout):
		return ending{report.TimedOut, errTimeout.Error()}
	case ctx.Err() != nil:
		return ending{report.Interrupted, "the trigger was interrupted"}
	default:
		return ending{report.Error, err.Error()}
	}
}

// verdict is how a rollout of so many instances ended, from the instances that are left or retained.
func verdict(total int, left, retained []string) ending {
	var messages []string
	if len(left) > 0 {
		messages = append(messages, fmt.Sprintf("%s still outdated: %s; trigger plan shows why",
			text.Plural(len(left), "instance is", "instances are"), text.First(left, mostNames)))
	}
	if len(retained) > 0 {
		messages = append(messages, fmt.Sprintf("%s retained, because a terminating hook was abandoned: %s; look "+
			"at the nodes, then terminate them with aws autoscaling terminate-instance-in-auto-scaling-group "+
			"--no-should-decrement-desired-capacity",
			text.Plural(len(retained), "instance is", "instances are"), text.First(retained, mostNames)))
	}
	switch {
	case len(messages) > 0:
		return ending{report.Incomplete, strings.Join(messages, "; ")}
	case total == 0:
		return ending{report.Nothing, "no instance is outdated"}
	default:
		return ending{report.Done, text.Count(total, "instance") + " replaced"}
	}
}
