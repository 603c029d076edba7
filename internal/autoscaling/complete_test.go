package autoscaling

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// TestComplete: if Auto Scaling does not know the token, no other action of the instance is completed in its place.
func TestComplete(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		refusals := script(errThrottled, errNotActive, errThrottled)
		f.complete = func(ctx context.Context, n int, in *sdk.CompleteLifecycleActionInput) error {
			got := []string{*in.AutoScalingGroupName, *in.LifecycleHookName, *in.InstanceId, *in.LifecycleActionResult}
			if want := []string{groupName, "drain", instanceID, "ABANDON"}; !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			return refusals(ctx, n, in)
		}
		unknown := h.Complete(t.Context(), action, Abandon)
		a := action
		a.Token = ""
		err := h.Complete(t.Context(), a, Abandon)
		if !errors.Is(unknown, ErrUnknownToken) || err != nil || !slices.Equal(f.tokens, []string{token, token, "", ""}) {
			t.Errorf("got %v and %v after calls with the tokens %q; failures %q", unknown, err, f.tokens, f.fails)
		}
	})
}

// script refuses the first completions with these errors, and accepts the others.
func script(errs ...error) func(context.Context, int, *sdk.CompleteLifecycleActionInput) error {
	return func(_ context.Context, n int, _ *sdk.CompleteLifecycleActionInput) error {
		if n < len(errs) {
			return errs[n]
		}
		return nil
	}
}

func repeat(err error, n int) []error { return slices.Repeat([]error{err}, n) }

func TestCompleteUntilTheActionIsClosed(t *testing.T) {
	const forever = 1000
	unreadable := func(context.Context, int) ([]types.LifecycleHook, error) { return nil, errThrottled }
	for _, tt := range []struct {
		name     string
		errs     []error
		state    string
		stateErr error
		hooks    func(context.Context, int) ([]types.LifecycleHook, error)
		calls    int           // 0: until the context ends
		least    time.Duration // that it takes
	}{
		{"five failures, then success", repeat(errThrottled, 5), "Terminating:Wait", nil, nil, 6, 15 * time.Second},
		{"dropped calls, then success", repeat(errDropped, 3), "Terminating:Wait", nil, nil, 4, 3 * time.Second},
		{"accepted, but answered with an error", []error{errDropped, errNotActive}, "Terminating:Proceed", nil, nil, 2, 0},
		{"timed out long ago", []error{errNotActive}, "Terminated", nil, nil, 1, 0},
		{"the group is deleted", []error{errNoHook}, "", nil, nil, 1, 0},
		{"throttled, while the instance is past its hooks", repeat(errThrottled, 2), "Terminated", nil, nil, 3, time.Second},
		{"no action, but the only hook waits", repeat(errNotActive, 20), "Terminating:Wait", nil, nil, 21, 3 * time.Minute},
		{"no action, and the only hook waits", repeat(errNotActive, forever), "Terminating:Wait", nil, nil, 0, 0},
		{"no action, and another hook waits", repeat(errNotActive, forever), "Terminating:Wait", nil, twoHooks, 9, time.Minute},
		{"no action, and back in service", repeat(errNotActive, forever), "InService", nil, nil, 9, time.Minute},
		{"denied, and the instance is past its hooks", repeat(errDenied, forever), "Terminating:Proceed", nil, nil, 1, 0},
		{"denied, and the instance waits", repeat(errDenied, forever), "Terminating:Wait", nil, twoHooks, 0, 0},
		{"denied, and no group knows the instance", repeat(errDenied, forever), "", nil, nil, 9, time.Minute},
		{"no such hook, and another waits", repeat(errNoHook, forever), "Terminating:Wait", nil, twoHooks, 0, 0},
		{"no action, and the state cannot be read", repeat(errNotActive, 20), "", errThrottled, nil, 21, 3 * time.Minute},
		{"no action for the time of the hook, and the state is denied", repeat(errNotActive, forever), "", errDenied, nil, 13, 2 * time.Minute},
		{"no action, and state and hooks are denied", repeat(errNotActive, forever), "", errDenied, unreadable, 0, 0},
		{"throttled, and the state is denied", repeat(errThrottled, forever), "", errDenied, nil, 0, 0},
		{"no action, and the hooks cannot be read", repeat(errNotActive, forever), "Terminating:Wait", nil, unreadable, 0, 0},
		{
			// What counts is for how long the answer was "no active lifecycle action", not for how long calls failed.
			"a long outage, then no action once, then success",
			append(repeat(errThrottled, 20), errNotActive), "Terminating:Wait", nil, twoHooks, 22, 3 * time.Minute,
		},
		{"launch: the instance is in service", repeat(errNotActive, forever), "InService", nil, nil, 1, 0},
		{"launch: the instance is terminating", repeat(errNotActive, forever), "Terminating:Wait", nil, nil, 1, 0},
		{"launch: the only hook waits", repeat(errNotActive, forever), "Pending:Wait", nil, nil, 0, 0},
		{"launch: another hook waits", repeat(errNotActive, forever), "Pending:Wait", nil, twoHooks, 9, time.Minute},
	} {
		t.Run(tt.name, inBubble(func(t *testing.T, f *fakeAPI, h *Hooks) {
			a := action
			a.Launch, a.Token = strings.HasPrefix(tt.name, "launch: "), ""
			f.complete, f.hooks = script(tt.errs...), tt.hooks
			f.state = func(context.Context, string) (string, error) { return tt.state, tt.stateErr }
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, errStop)
			defer cancel()
			err := h.Complete(ctx, a, Continue)
			took := time.Since(f.start)
			if tt.calls == 0 {
				if !errors.Is(err, errStop) || took != time.Hour || len(f.tokens) < 200 {
					t.Errorf("got %v after %v and %d calls, want retries until the context ends", err, took, len(f.tokens))
				}
				return
			}
			// Each pause is up to a fifth longer at random: two minutes may have room for one call less.
			fewest := tt.calls - int(tt.least/(2*time.Minute))
			if n := len(f.tokens); err != nil || n < fewest || n > tt.calls || took < tt.least ||
				took > tt.least+2*time.Minute || len(f.fails) < n-1 {
				t.Errorf("got %v after %v and %d calls, want %d calls in at least %v; %d failures were reported",
					err, took, len(f.tokens), tt.calls, tt.least, len(f.fails))
			}
		}))
	}
}

func TestCompleteEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		f.complete = func(ctx context.Context, _ int, _ *sdk.CompleteLifecycleActionInput) error {
			<-ctx.Done()
			return ctx.Err()
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Second, errStop)
		defer cancel()
		err := h.Complete(ctx, action, Continue)
		if took := time.Since(f.start); !errors.Is(err, errStop) || took != 100*time.Second || len(f.tokens) < 5 {
			t.Errorf("got %v after %v and %d calls", err, took, len(f.tokens))
		}
	})
}
