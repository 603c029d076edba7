package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/smithy-go"
)

const (
	// callTimeout bounds a call: an endpoint that does not answer must not stop the heartbeats.
	callTimeout = 10 * time.Second
	// firstRetry and lastRetry bound the pause after a call that failed.
	firstRetry, lastRetry = 500 * time.Millisecond, 15 * time.Second
	// doubtful is how long "no active lifecycle action" may be said of an instance that waits for a hook of a
	// group with several, before our own is taken to be closed.
	doubtful = time.Minute
)

// Hold runs work while it keeps the action pending, and returns work's error: the first heartbeat is sent at
// once, the others before half of the hook's timeout has passed. If the group gives up on the action first, the
// context of work ends with the cause ErrGone. Hold never completes the action, and no heartbeat is sent after
// work has returned.
func (h *Hooks) Hold(ctx context.Context, a Action, work func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	beating := make(chan struct{})
	go func() {
		defer close(beating)
		if err := h.beat(ctx, a); err != nil {
			cancel(err)
		}
	}()
	err := work(ctx)
	cancel(nil)
	<-beating
	return err
}

// beat sends heartbeats until ctx ends, or returns ErrGone when there is nothing left to hold.
func (h *Hooks) beat(ctx context.Context, a Action) error {
	retry := firstRetry
	for {
		err := h.heartbeat(ctx, a)
		next := h.interval(ctx, a)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			h.observer.HeartbeatSent(a)
			retry = firstRetry
		default:
			if gone, stateErr := h.gone(ctx, a, err); stateErr == nil && gone {
				return fmt.Errorf("%w: %w", ErrGone, err)
			}
			h.observer.AutoScalingFailed("send a heartbeat for "+a.String(), err)
			a = a.retried(err)
			next, retry = min(retry, next), min(2*retry, lastRetry)
		}
		if !wait(ctx, next) {
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
	_, err := h.api.RecordLifecycleActionHeartbeat(ctx, &autoscaling.RecordLifecycleActionHeartbeatInput{
		AutoScalingGroupName: aws.String(a.Group),
		LifecycleHookName:    aws.String(a.Hook),
		InstanceId:           aws.String(a.InstanceID),
		LifecycleActionToken: optional(a.Token),
	})
	return err
}

// Complete ends the action with result, and returns nil only when the action is proven closed: Auto Scaling
// took the completion, or says that no action is active and that no hook holds the instance. Everything else is
// tried again until ctx ends.
func (h *Hooks) Complete(ctx context.Context, a Action, result Result) error {
	start := time.Now()
	for retry := firstRetry; ; retry = min(2*retry, lastRetry) {
		err := h.complete(ctx, a, result)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("complete %s: %w", a, context.Cause(ctx))
		}
		if closed, stateErr := h.closed(ctx, a, err, time.Since(start)); stateErr == nil && closed {
			return nil
		}
		h.observer.AutoScalingFailed("complete "+a.String(), err)
		a = a.retried(err)
		if !wait(ctx, retry) {
			return fmt.Errorf("complete %s: %w", a, context.Cause(ctx))
		}
	}
}

// retried is the action as the next call names it: by its instance alone if Auto Scaling does not know the token.
func (a Action) retried(err error) Action {
	if isNotActive(err) {
		a.Token = ""
	}
	return a
}

func (h *Hooks) complete(ctx context.Context, a Action, result Result) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := h.api.CompleteLifecycleAction(ctx, &autoscaling.CompleteLifecycleActionInput{
		AutoScalingGroupName:  aws.String(a.Group),
		LifecycleHookName:     aws.String(a.Hook),
		InstanceId:            aws.String(a.InstanceID),
		LifecycleActionToken:  optional(a.Token),
		LifecycleActionResult: aws.String(string(result)),
	})
	return err
}

// closed tells whether the failed completion means that the action is over. An instance that still waits may do
// so for another hook of its group.
func (h *Hooks) closed(ctx context.Context, a Action, err error, tried time.Duration) (bool, error) {
	gone, stateErr := h.gone(ctx, a, err)
	if gone || stateErr != nil {
		return gone, stateErr
	}
	return isNotActive(err) && tried >= doubtful && h.shared(ctx, a), nil
}

// gone tells whether a call that failed means that there is no action left: Auto Scaling refused it, and no
// hook holds the instance. "No active Lifecycle Action" alone proves nothing: it has been seen for instances in
// Terminating:Wait.
func (h *Hooks) gone(ctx context.Context, a Action, err error) (bool, error) {
	if !isValidation(err) {
		return false, nil
	}
	state, stateErr := h.State(ctx, a.InstanceID)
	if stateErr != nil {
		return false, stateErr
	}
	return state.Gone() || (isNotActive(err) && !state.Waiting() && !state.Terminating()), nil
}

// isValidation tells whether Auto Scaling refused the call for what it names. Auto Scaling models no error type
// of its own for ended actions, unknown hooks and unknown groups.
func isValidation(err error) bool {
	var api smithy.APIError
	return errors.As(err, &api) && api.ErrorCode() == "ValidationError"
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

// wait returns true after d, or false as soon as ctx ends.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
