package loop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/internal/text"
)

// MaxFailures is how many attempts in a row may fail before a rollout is given up. The client has retried
// each of them for up to a minute.
const MaxFailures = 5

// CallTimeout bounds a call that changes something.
const CallTimeout = time.Minute

// ErrTimeout ends a run that took longer than Config.Timeout.
var ErrTimeout = errors.New("timed out (--timeout)")

// ErrNotLeading is the cause with which the context of a Watcher ends when another process continues its work. Then
// rollouts are left to that, whatever Config.OnInterrupt says.
var ErrNotLeading = errors.New("another process leads")

// Uncancelled returns a context for a call that changes something. The end of the run does not cut the call
// off, because then nobody would know whether AWS has served it.
func Uncancelled(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), CallTimeout)
}

// A call that gives something back is made so often, with so long pauses at most: a quarter of a minute in all. One
// that fails leaves the group, or the cluster, as it must not stay.
const (
	GiveBackTries        = 5
	longestGiveBackPause = 8 * time.Second
)

// UntilGivenBack repeats a call that gives something back, and returns its last error, or the cause of the end of ctx.
func UntilGivenBack(ctx context.Context, giveBack func() error) error {
	failures := 0
	isLast := func(error) bool { failures++; return failures == GiveBackTries }
	return retry.Do(ctx, retry.Backoff(time.Second, longestGiveBackPause), giveBack, isLast, func(error) {})
}

// Leaves is the ending of a rollout that could not give something back.
func (e Ending) Leaves() Ending {
	if e.Outcome == report.Done || e.Outcome == report.Nothing {
		e.Outcome = report.Incomplete
	}
	return e
}

// Ending is how the rollout of a group ended, and what the user should know and do about it.
type Ending struct {
	Outcome report.Outcome
	Message string
}

// EndError ends a rollout with an outcome of its own. Every other error ends it with report.Error.
type EndError Ending

// EndWith returns the error that ends a rollout with an outcome of its own, and the message for the user.
func EndWith(outcome report.Outcome, message string) error { return &EndError{outcome, message} }

// Error is the message for the user.
func (e *EndError) Error() string { return e.Message }

// EndingOf is how a rollout ends that returned the error. A call that failed after ctx had ended most likely
// failed because of that.
func EndingOf(ctx context.Context, err error) Ending {
	var end *EndError
	switch {
	case errors.As(err, &end):
		return Ending(*end)
	case errors.Is(context.Cause(ctx), ErrTimeout):
		return Ending{Outcome: report.TimedOut, Message: ErrTimeout.Error()}
	case ctx.Err() != nil:
		return Ending{Outcome: report.Interrupted, Message: "the trigger was interrupted"}
	default:
		return Ending{Outcome: report.Error, Message: err.Error()}
	}
}

// verdict is how a rollout of so many instances ended, from the instances that are left or retained.
func verdict(total int, left, retained []string) Ending {
	var messages []string
	if len(left) > 0 {
		messages = append(messages, fmt.Sprintf("%s still outdated: %s; trigger plan shows why",
			text.Plural(len(left), "instance is", "instances are"), text.First(left, plan.MostNames)))
	}
	if len(retained) > 0 {
		messages = append(messages, fmt.Sprintf("%s retained, because a terminating hook was abandoned: %s; look "+
			"at the nodes, then terminate them with aws autoscaling terminate-instance-in-auto-scaling-group "+
			"--no-should-decrement-desired-capacity",
			text.Plural(len(retained), "instance is", "instances are"), text.First(retained, plan.MostNames)))
	}
	switch {
	case len(messages) > 0:
		return Ending{Outcome: report.Incomplete, Message: strings.Join(messages, "; ")}
	case total == 0:
		return Ending{Outcome: report.Nothing, Message: "no instance is outdated"}
	default:
		return Ending{Outcome: report.Done, Message: text.Count(total, "instance") + " replaced"}
	}
}
