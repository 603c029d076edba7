package autoscaling

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/smithy-go"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/internal/retry"
)

const (
	// firstRetry and longestRetry bound the pause after a call that failed.
	firstRetry, longestRetry = 500 * time.Millisecond, 15 * time.Second
	// doubtPeriod is for how long Auto Scaling must answer "no active lifecycle action" for an instance that
	// waits for a hook of a group with several, or not know the instance, before the agent's action counts as
	// closed.
	doubtPeriod = time.Minute
)

// Hold runs work while it keeps the action pending, and returns work's error. It sends the first heartbeat at
// once, and each further one when half of the hook's timeout has passed, or a while later if many actions are
// pending. If the group gives up on the action first, the context of work ends with the cause ErrGone. Hold never
// completes the action, and sends no heartbeat after work has returned.
func (h *Hooks) Hold(ctx context.Context, a Action, work func(ctx context.Context) error) error {
	h.held.Add(1)
	defer h.held.Add(-1)
	return hold(ctx, work, func(ctx context.Context) error { return h.sendHeartbeats(ctx, a) })
}

// hold runs work beside sendHeartbeats, whose error ends the context of work.
func hold(ctx context.Context, work, sendHeartbeats func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if err := sendHeartbeats(ctx); err != nil {
			cancel(err)
		}
	}()
	defer func() { // also when work panics
		cancel(nil)
		<-stopped
	}()
	return work(ctx)
}

// sendHeartbeats returns nil when ctx ends, or ErrGone when the action has ended.
func (h *Hooks) sendHeartbeats(ctx context.Context, a Action) error {
	pauses := retry.Backoff(firstRetry, longestRetry)
	var doubted time.Time // since when no hook can hold the instance
	var until time.Time   // the next heartbeat may wait for those of other actions; zero if it may not
	for {
		if !a.InTurn && h.pace.wait(ctx, heartbeat, until) != nil {
			return nil
		}
		start := time.Now()
		err := h.heartbeat(ctx, a)
		if ctx.Err() != nil {
			return nil
		}
		t := h.timing(ctx, a)
		next := h.interval(t) - time.Since(start)
		switch {
		case err == nil:
			until = t.endangers(start)
			h.beats.sent(a, beat{start, t})
			h.observer.HeartbeatSent(a)
			pauses, doubted = retry.Backoff(firstRetry, longestRetry), time.Time{}
		case h.isOver(ctx, a, err, &doubted):
			return fmt.Errorf("%w: %w", ErrGone, err)
		default:
			h.observer.AutoScalingFailed("send a heartbeat for "+a.String(), err)
			a = a.afterError(err)
			next = min(pauses.Step(), next)
		}
		if !retry.Sleep(ctx, next) {
			return nil
		}
	}
}

// timing is that of the action's hook, or the shortest if that is not known. The group of an action that is not
// confirmed may not exist: its hooks are not read for that.
func (h *Hooks) timing(ctx context.Context, a Action) Timing {
	if !a.InTurn || h.hooks.has(a.Group) {
		if own, err := h.Timing(ctx, a); err == nil {
			return own
		}
	}
	return shortest
}

// interval is half of the hook's timeout, less up to a tenth, or up to a half if many actions are held, so that their
// heartbeats spread.
func (h *Hooks) interval(t Timing) time.Duration {
	d := t.Heartbeat / 2
	if h.cfg.HeartbeatInterval > 0 {
		d = min(d, h.cfg.HeartbeatInterval)
	}
	spread := min(max(d/10, round(h.held.Load())), d/2)
	return d - rand.N(spread+1) //nolint:gosec // spreads calls, keeps no secret
}

func (h *Hooks) heartbeat(ctx context.Context, a Action) error {
	if a.InTurn {
		if err := h.heartbeats.Wait(ctx); err != nil {
			return err
		}
	}
	_, err := call(ctx, callTimeout, h.api.RecordLifecycleActionHeartbeat, &sdk.RecordLifecycleActionHeartbeatInput{
		AutoScalingGroupName: &a.Group, LifecycleHookName: &a.Hook, InstanceId: textOrNil(a.InstanceID),
		LifecycleActionToken: a.token(),
	})
	h.pace.answered(err)
	return err
}

// Complete ends the action with result. It returns nil only when the action is proven closed: Auto Scaling
// accepted the completion, or refuses it while no hook holds the instance. Every other error is retried until
// ctx ends, but ErrUnknownToken is returned: without the token, which the caller may leave out, the call completes
// whatever action of the hook holds the instance by then.
func (h *Hooks) Complete(ctx context.Context, a Action, result Result) error {
	closed := false
	var since time.Time // since when Auto Scaling answers that no action is active, or knows no such instance
	err := retry.Do(ctx, retry.Backoff(firstRetry, longestRetry), func() error {
		return h.complete(ctx, a, result)
	}, func(err error) bool {
		closed = h.isClosed(ctx, a, err, &since)
		return closed || a.Token != "" && isNotActive(err)
	}, func(err error) {
		h.observer.AutoScalingFailed("complete "+a.String(), err)
	})
	switch {
	case err == nil, closed:
		h.beats.forget(a)
		return nil
	case a.Token != "" && isNotActive(err):
		return fmt.Errorf("complete %s: %w: %w", a, ErrUnknownToken, err)
	}
	return fmt.Errorf("complete %s: %w", a, err)
}

func (h *Hooks) complete(ctx context.Context, a Action, result Result) error {
	if err := h.pace.wait(ctx, completion, h.mayWait(a)); err != nil {
		return err
	}
	_, err := call(ctx, callTimeout, h.api.CompleteLifecycleAction, &sdk.CompleteLifecycleActionInput{
		AutoScalingGroupName: &a.Group, LifecycleHookName: &a.Hook, InstanceId: &a.InstanceID,
		LifecycleActionToken: a.token(), LifecycleActionResult: (*string)(&result),
	})
	h.pace.answered(err)
	return err
}

// mayWait returns until when the completion of an action may wait for those of others: until its hook must end, and
// until the last heartbeat keeps it pending for a short time only. It is zero if either is not known.
func (h *Hooks) mayWait(a Action) time.Time {
	last, ok := h.beats.of(a)
	if !ok {
		return time.Time{}
	}
	if endangered := last.hook.endangers(last.at); endangered.Before(a.Latest) {
		return endangered
	}
	return a.Latest
}

// isClosed reports whether the refused completion means that the action has ended. An instance that still
// waits may wait for another hook of its group, and one that is not terminating at all has returned to
// service. since is when the first such answer came; the caller keeps it between calls.
func (h *Hooks) isClosed(ctx context.Context, a Action, err error, since *time.Time) bool {
	if !isRefused(err) {
		return false
	}
	state, stateErr := h.State(ctx, a.InstanceID)
	switch {
	case stateErr != nil:
		return h.hasExpired(ctx, a, err, stateErr, since)
	case a.over(state), state.Unknown() && isValidation(err):
		return true
	case !state.Unknown() && !isNotActive(err):
		return false
	case since.IsZero():
		*since = time.Now()
	}
	return time.Since(*since) >= doubtPeriod && (!a.pending(state) || h.hasSiblings(ctx, a))
}

// hasSiblings reports whether other hooks than the action's own may hold the instance too.
func (h *Hooks) hasSiblings(ctx context.Context, a Action) bool {
	own, err := h.hook(ctx, a.Group, a.Hook)
	all, _ := h.hooks.get(ctx, a.Group)
	return err == nil && slices.ContainsFunc(all, func(l types.LifecycleHook) bool {
		return aws.ToString(l.LifecycleTransition) == aws.ToString(own.LifecycleTransition) &&
			aws.ToString(l.LifecycleHookName) != a.Hook
	})
}

// isOver reports whether a refused heartbeat means that the action has ended: the instance is past its hooks.
// "No active Lifecycle Action" alone proves nothing: it has been seen for instances in Terminating:Wait. That
// no group knows the instance, or that it is in service, may be an answer that is not consistent yet. The
// action counts as ended once that has lasted for twice the time in which a message is confirmed. doubted is
// since when; the caller keeps it between calls.
func (h *Hooks) isOver(ctx context.Context, a Action, err error, doubted *time.Time) bool {
	if !isRefused(err) {
		return false
	}
	state, stateErr := h.State(ctx, a.InstanceID)
	switch {
	case stateErr != nil:
		return h.hasExpired(ctx, a, err, stateErr, doubted)
	case a.pending(state):
		*doubted = time.Time{}
	case doubted.IsZero():
		*doubted = time.Now()
	}
	return a.over(state) || !a.pending(state) && time.Since(*doubted) >= 2*h.cfg.ConfirmTimeout
}

// hasExpired reports whether the action has ended although Auto Scaling refuses to describe the instance: it has
// had no heartbeat for longer than its hook waits. since is when the first one was refused; the caller keeps it
// between calls. Without it a missing permission would have the agent try for ever.
func (h *Hooks) hasExpired(ctx context.Context, a Action, err, stateErr error, since *time.Time) bool {
	if !isNotActive(err) || !isRefused(stateErr) {
		return false
	}
	if since.IsZero() {
		*since = time.Now()
	}
	t, err := h.Timing(ctx, a)
	return err == nil && time.Since(*since) >= max(t.Heartbeat, 2*h.cfg.ConfirmTimeout)
}

// isRefused reports whether Auto Scaling understood the call and will not do it, because of what it names or
// of a missing permission. Retries may fail forever, so the state of the instance decides.
func isRefused(err error) bool { return isValidation(err) || cloud.ErrorCode(err) == "AccessDenied" }

func isNotActive(err error) bool {
	answer, _ := errors.AsType[smithy.APIError](err)
	return isValidation(err) && strings.HasPrefix(answer.ErrorMessage(), "No active Lifecycle Action found")
}
