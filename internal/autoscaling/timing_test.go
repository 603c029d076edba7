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

// TestNewHook: a hook may be created while the group's hooks are cached.
func TestNewHook(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		f.hooks = func(_ context.Context, n int) ([]types.LifecycleHook, error) {
			return []types.LifecycleHook{lifecycleHook("drain", terminating, 30), lifecycleHook("new", terminating, 90)}[:min(n+1, 2)], nil
		}
		if _, err := h.Timing(t.Context(), action); err != nil {
			t.Fatal(err)
		}
		time.Sleep(keepMissing)
		got, err := h.Timing(t.Context(), Action{Group: groupName, Hook: "new"})
		if err != nil || got.Heartbeat != 90*time.Second {
			t.Errorf("got %v, %v", got, err)
		}
		unknown := Action{Group: groupName, Hook: "notify"}
		_, timing := h.Timing(t.Context(), unknown)
		_, deadline := h.Deadline(t.Context(), unknown, time.Now())
		if !errors.Is(timing, ErrGone) || !errors.Is(deadline, ErrGone) {
			t.Errorf("an unknown hook: %v, %v; want ErrGone", timing, deadline)
		}
	})
}

// TestDeadlineOfAFoundAction: it may have begun a heartbeat timeout before it was found.
func TestDeadlineOfAFoundAction(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		h.cfg.Margin = time.Minute
		f.hooks = func(context.Context, int) ([]types.LifecycleHook, error) {
			return []types.LifecycleHook{lifecycleHook("drain", terminating, 600)}, nil
		}
		found := action
		found.Token, found.Found, found.Seen = "", true, time.Now()
		got, err := h.Deadline(t.Context(), found, time.Now())
		if want := 1000*time.Minute - 11*time.Minute; err != nil || time.Until(got) != want {
			t.Errorf("got %v from now, %v; want %v", time.Until(got), err, want)
		}
	})
}

// TestDeadline: a call without an answer is an error. An agent that is not allowed to read the hook assumes the
// shortest one.
func TestDeadline(t *testing.T) {
	errNoGroup := &smithy.GenericAPIError{Code: "ValidationError", Message: "AutoScalingGroup name not found"}
	const margin = 30 * time.Second
	for _, tt := range []struct {
		name              string
		heartbeat, global int32
		margin            time.Duration
		err               error         // of the call
		began             time.Duration // before now
		want              time.Duration // after now
	}{
		{"the margin before the global timeout", 3600, 172_800, margin, nil, time.Minute, 48*time.Hour - margin - time.Minute},
		{"at most a tenth of the global timeout", 30, 100, margin, nil, time.Minute, 30 * time.Second},
		{"the margin is a tenth", 30, 300, margin, nil, time.Minute, 210 * time.Second},
		{"no margin", 30, 3000, 0, nil, time.Minute, 49 * time.Minute},
		{"denied: that of the shortest hook there can be", 0, 0, margin, errDenied, time.Minute, 49*time.Minute - margin},
		{"denied, of an action that waits for longer: as if it began now", 0, 0, margin, errDenied, 3 * time.Hour, 50*time.Minute - margin},
		{"denied, of an action that reaches it: as if it began now", 0, 0, margin, errDenied, 50*time.Minute - margin, 50*time.Minute - margin},
		{"no such group: the same", 0, 0, margin, errNoGroup, time.Minute, 49*time.Minute - margin},
		{"throttled: an error", 0, 0, margin, errThrottled, time.Minute, 0},
		{"no answer: an error", 0, 0, margin, errDropped, time.Minute, 0},
	} {
		t.Run(tt.name, inBubble(func(t *testing.T, f *fakeAPI, h *Hooks) {
			f.hooks = func(context.Context, int) ([]types.LifecycleHook, error) {
				hook := lifecycleHook("drain", terminating, tt.heartbeat)
				hook.GlobalTimeout = aws.Int32(tt.global)
				return []types.LifecycleHook{hook}, tt.err
			}
			h.cfg = Config{Margin: tt.margin}
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
			if tt.err != nil && (len(f.fails) != 1 || !strings.Contains(f.fails[0], tt.err.Error())) {
				t.Errorf("the failures reported are %q", f.fails)
			}
		}))
	}
}
