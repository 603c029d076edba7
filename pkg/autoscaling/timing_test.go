package autoscaling

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/smithy-go"
)

func TestTiming(t *testing.T) {
	for _, tt := range []struct {
		name              string
		heartbeat, global *int32
		want              Timing
	}{
		{"as described", aws.Int32(60), aws.Int32(6000), Timing{time.Minute, 100 * time.Minute}},
		{"no global timeout: 100 times the heartbeat timeout", aws.Int32(30), nil, Timing{30 * time.Second, 50 * time.Minute}},
		{"no global timeout: 48 hours at most", aws.Int32(7200), nil, Timing{2 * time.Hour, 48 * time.Hour}},
		{"empty: the default of an hour", nil, nil, Timing{time.Hour, 48 * time.Hour}},
		{"invalid", aws.Int32(-1), aws.Int32(0), Timing{time.Hour, 48 * time.Hour}},
	} {
		got := timingOf(types.LifecycleHook{HeartbeatTimeout: tt.heartbeat, GlobalTimeout: tt.global})
		if got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestUnknownHook(t *testing.T) {
	bubble(t, func(t *testing.T, _ *fakeAPI, h *Hooks) {
		other := action
		other.Hook = "notify"
		if _, err := h.Timing(t.Context(), other); !errors.Is(err, ErrGone) {
			t.Errorf("got %v, want ErrGone", err)
		}
		if _, err := h.Deadline(t.Context(), other, time.Now()); !errors.Is(err, ErrGone) {
			t.Errorf("got %v, want ErrGone", err)
		}
	})
}

// TestNewHook: a hook may be created while the group's hooks are cached.
func TestNewHook(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		f.hooks = func(_ context.Context, n int) ([]types.LifecycleHook, error) {
			return []types.LifecycleHook{lifecycleHook("drain", terminating, 30), lifecycleHook("new", terminating, 90)}[:min(n+1, 2)], nil
		}
		if _, err := h.Timing(t.Context(), action); err != nil {
			t.Fatal(err)
		}
		got, err := h.Timing(t.Context(), Action{Group: groupName, Hook: "new"})
		if err != nil || got.Heartbeat != 90*time.Second {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

func TestHasSiblings(t *testing.T) {
	drain := lifecycleHook("drain", terminating, 60)
	for _, tt := range []struct {
		name  string
		hooks []types.LifecycleHook
		err   error
		want  bool
	}{
		{"the only hook", []types.LifecycleHook{drain}, nil, false},
		{"and a launching hook", []types.LifecycleHook{lifecycleHook("l", launching, 60), drain}, nil, false},
		{"and another terminating hook", []types.LifecycleHook{drain, lifecycleHook("o", terminating, 60)}, nil, true},
		{"and a hook without a name", []types.LifecycleHook{{}, drain}, nil, false},
		{"the hooks cannot be read", nil, errThrottled, false},
	} {
		t.Run(tt.name, inBubble(func(t *testing.T, f *fakeAPI, h *Hooks) {
			f.hooks = func(context.Context, int) ([]types.LifecycleHook, error) { return tt.hooks, tt.err }
			if got := h.hasSiblings(t.Context(), action); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		}))
	}
}

func TestDeadline(t *testing.T) {
	for _, tt := range []struct {
		name              string
		heartbeat, global int32
		margin            time.Duration
		want              time.Duration // after the action began
	}{
		{"the margin before the global timeout", 3600, 172_800, 30 * time.Second, 48*time.Hour - 30*time.Second},
		{"at most a tenth of the global timeout", 30, 100, 30 * time.Second, 90 * time.Second},
		{"the margin is a tenth", 30, 300, 30 * time.Second, 270 * time.Second},
		{"no margin", 30, 3000, 0, 50 * time.Minute},
	} {
		t.Run(tt.name, inBubble(func(t *testing.T, f *fakeAPI, h *Hooks) {
			f.hooks = func(context.Context, int) ([]types.LifecycleHook, error) {
				hook := lifecycleHook("drain", terminating, tt.heartbeat)
				hook.GlobalTimeout = aws.Int32(tt.global)
				return []types.LifecycleHook{hook}, nil
			}
			h.cfg = Config{Margin: tt.margin}
			began := time.Now().Add(-time.Minute)
			got, err := h.Deadline(t.Context(), action, began)
			if err != nil || got.Sub(began) != tt.want {
				t.Errorf("got %v after the beginning, %v; want %v", got.Sub(began), err, tt.want)
			}
		}))
	}
}

// TestDeadlineOfAHookThatCannotBeRead: a call without an answer is an error. An agent that is not allowed to read the
// hook assumes the shortest one.
func TestDeadlineOfAHookThatCannotBeRead(t *testing.T) {
	errNoGroup := &smithy.GenericAPIError{Code: "ValidationError", Message: "AutoScalingGroup name not found"}
	for _, tt := range []struct {
		name  string
		err   error
		began time.Duration // before now
		want  time.Duration // after now
	}{
		{"denied: that of the shortest hook there can be", errDenied, time.Minute, 49*time.Minute - 30*time.Second},
		{"denied, of an action that waits for longer: as if it began now", errDenied, 3 * time.Hour, 50*time.Minute - 30*time.Second},
		{"denied, of an action that reaches it: as if it began now", errDenied, 50*time.Minute - 30*time.Second, 50*time.Minute - 30*time.Second},
		{"no such group: the same", errNoGroup, time.Minute, 49*time.Minute - 30*time.Second},
		{"throttled: an error", errThrottled, time.Minute, 0},
		{"no answer: an error", errDropped, time.Minute, 0},
	} {
		t.Run(tt.name, inBubble(func(t *testing.T, f *fakeAPI, h *Hooks) {
			f.hooks = func(context.Context, int) ([]types.LifecycleHook, error) { return nil, tt.err }
			got, err := h.Deadline(t.Context(), action, time.Now().Add(-tt.began))
			if tt.want == 0 {
				if !errors.Is(err, tt.err) {
					t.Errorf("got %v, %v", got, err)
				}
				return
			}
			if left := time.Until(got); err != nil || left != tt.want {
				t.Errorf("got %v from now, %v; want %v", left, err, tt.want)
			}
			if len(f.fails) != 1 || !strings.Contains(f.fails[0], tt.err.Error()) {
				t.Errorf("the failures reported are %q", f.fails)
			}
		}))
	}
}
