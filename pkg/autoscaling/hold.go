package autoscaling

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/smithy-go"

	"github.com/node-drainer/node-drainer/internal/retry"
)

const (
	// callTimeout bounds a call: an endpoint that does not answer must not stop the heartbeats.
	callTimeout = 10 * time.Second
	// firstRetry and lastRetry bound the pause after a call that failed.
	firstRetry, lastRetry = 500 * time.Millisecond, 15 * time.Second
	// doubtful is how long "no active lifecycle action" may be said of an instance that waits for a hook of a
	// group with several, or no group may know the instance, before our own action is taken to be closed.
	doubtful = time.Minute
)

// Hold runs work while it keeps the action pending, and returns work's error: the first heartbeat is sent at
// once, the others before half of the hook's timeout has passed. If the group gives up on the action first,
// the context of work ends with the cause ErrGone. Hold never completes the action, and no heartbeat is sent
// after work has returned.
func (h *Hooks) Hold(ctx context.Context, a Action, work func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	beating := make(chan struct{})
	go func() {
		defer close(beating)
		if err := h.beat(ctx, a); err != nil {
			cancel(err)
		}
	}()
	defer func() { // also when work panics
		cancel(nil)
		<-beating
	}()
	return work(ctx)
}

// beat sends heartbeats until ctx ends, or returns ErrGone when there is nothing left to hold.
func (h *Hooks) beat(ctx context.Context, a Action) error {
	delay := firstRetry
	var unknown time.Time // since when no group knows the instance
	for {
		start := time.Now()
		err := h.heartbeat(ctx, a)
		next := h.interval(ctx, a) - time.Since(start)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			h.observer.HeartbeatSent(a)
			delay, unknown = firstRetry, time.Time{}
		case h.gone(ctx, a, err, &unknown):
			return fmt.Errorf("%w: %w", ErrGone, err)
		default:
			h.observer.AutoScalingFailed("send a heartbeat for "+a.String(), err)
			a = a.retried(err)
			next, delay = min(delay, next), min(2*delay, lastRetry)
		}
		if !retry.Sleep(ctx, next) {
			return nil
		}
	}
}

// interval is half of the hook's timeout, less up to a tenth, so that many hooks do not beat in step.
func (h *Hooks) interval(ctx context.Context, a Action) time.Duration {
	t, err := h.Timing(ctx, a)
	if err != nil {
		t = shortest
	}
	d := t.Heartbeat / 2
	if h.cfg.HeartbeatInterval > 0 {
		d = min(d, h.cfg.HeartbeatInterval)
	}
	return d - rand.N(d/10+1) //nolint:gosec // spreads calls, keeps no secret
}

func (h *Hooks) heartbeat(ctx context.Context, a Action) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := h.api.RecordLifecycleActionHeartbeat(ctx, &sdk.RecordLifecycleActionHeartbeatInput{
		AutoScalingGroupName: aws.String(a.Group),
		LifecycleHookName:    aws.String(a.Hook),
		InstanceId:           aws.String(a.InstanceID),
		LifecycleActionToken: optional(a.Token),
	})
	return err
}

// IsPending tells whether Auto Scaling says that the action is pending, which it does by taking a heartbeat for
// it. That it knows of no such action is likely, but no proof.
func (h *Hooks) IsPending(ctx context.Context, a Action) (bool, error) {
	err := h.heartbeat(ctx, a)
	switch {
	case err == nil:
		return true, nil
	case isNotActive(err):
		return false, nil
	}
	return false, fmt.Errorf("ask by a heartbeat for %s: %w", a, err)
}

// Complete ends the action with result, and returns nil only when the action is proven closed: Auto Scaling
// took the completion, or refuses it while no hook holds the instance. Everything else is tried again until
// ctx ends.
func (h *Hooks) Complete(ctx context.Context, a Action, result Result) error {
	var doubted time.Time // since when Auto Scaling says that no action is active, or knows no such instance
	for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
		err := h.complete(ctx, a, result)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("complete %s: %w", a, context.Cause(ctx))
		}
		if h.closed(ctx, a, err, &doubted) {
			return nil
		}
		h.observer.AutoScalingFailed("complete "+a.String(), err)
		a = a.retried(err)
		if !retry.Sleep(ctx, delay) {
			return fmt.Errorf("complete %s: %w", a, context.Cause(ctx))
		}
	}
}

// retried is the action as the next call names it: by its instance alone if Auto Scaling does not know the
// token.
func (a Action) retried(err error) Action {
	if isNotActive(err) {
		a.Token = ""
	}
	return a
}

func (h *Hooks) complete(ctx context.Context, a Action, result Result) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := h.api.CompleteLifecycleAction(ctx, &sdk.CompleteLifecycleActionInput{
		AutoScalingGroupName:  aws.String(a.Group),
		LifecycleHookName:     aws.String(a.Hook),
		InstanceId:            aws.String(a.InstanceID),
		LifecycleActionToken:  optional(a.Token),
		LifecycleActionResult: aws.String(string(result)),
	})
	return err
}

// closed tells whether the refused completion means that the action is over. An instance that waits on may do
// so for another hook of its group, and one that is not terminating at all has come back to service.
func (h *Hooks) closed(ctx context.Context, a Action, err error, doubted *time.Time) bool {
	if !isRefused(err) {
		return false
	}
	state, stateErr := h.State(ctx, a.InstanceID)
	switch {
	case stateErr != nil:
		return false
	case a.over(state), state.Unknown() && isValidation(err):
		return true
	case !state.Unknown() && !isNotActive(err):
		return false
	case doubted.IsZero():
		*doubted = time.Now()
	}
	return time.Since(*doubted) >= doubtful && (!a.pending(state) || h.shared(ctx, a))
}

// gone tells whether a heartbeat that failed means that there is no action left: Auto Scaling refuses it, and
// the instance is past its hooks. "No active Lifecycle Action" alone proves nothing: it has been seen for
// instances in Terminating:Wait. An instance that no group knows may only have been missed by an answer that
// is eventually consistent: it counts as gone when that has lasted for twice the time in which a message is
// confirmed.
func (h *Hooks) gone(ctx context.Context, a Action, err error, unknown *time.Time) bool {
	if !isRefused(err) {
		return false
	}
	state, stateErr := h.State(ctx, a.InstanceID)
	switch {
	case stateErr != nil:
		return false
	case !state.Unknown():
		*unknown = time.Time{}
	case unknown.IsZero():
		*unknown = time.Now()
	}
	return a.over(state) || state.Unknown() && time.Since(*unknown) >= 2*h.cfg.ConfirmTimeout
}

// isRefused tells whether Auto Scaling has understood the call and will not do it: for what it names, or for
// want of a permission. Such a call may fail for ever, so what has become of the instance is asked for.
func isRefused(err error) bool { return isValidation(err) || hasCode(err, "AccessDenied") }

// isValidation tells whether Auto Scaling refused the call for what it names. Auto Scaling models no error
// type of its own for ended actions, unknown hooks and unknown groups.
func isValidation(err error) bool { return hasCode(err, "ValidationError") }

func hasCode(err error, code string) bool {
	var api smithy.APIError
	return errors.As(err, &api) && api.ErrorCode() == code
}

func isNotActive(err error) bool {
	var api smithy.APIError
	return isValidation(err) && errors.As(err, &api) &&
		strings.HasPrefix(api.ErrorMessage(), "No active Lifecycle Action found")
}

func (a Action) String() string { return a.Group + "/" + a.Hook + " for " + a.InstanceID }

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
