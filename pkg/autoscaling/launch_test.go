package autoscaling

import (
	"context"
	"errors"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// TestLaunchingState says of every state that the SDK knows whether the hook of a launch may hold it.
func TestLaunchingState(t *testing.T) {
	launch := map[State]bool{
		"Pending": true, "Pending:Wait": true, "Warmed:Pending": true, "Warmed:Pending:Wait": true,
	}
	for _, value := range types.LifecycleState("").Values() {
		s := State(value)
		if s.Launching() != launch[s] {
			t.Errorf("%s: launching %v", s, s.Launching())
		}
		if a := (Action{Launch: true}); a.pending(s) != launch[s] || a.over(s) == launch[s] {
			t.Errorf("%s: the launch is pending %v, over %v", s, a.pending(s), a.over(s))
		}
		if a := (Action{}); a.pending(s) != s.Terminating() || a.over(s) != s.Gone() {
			t.Errorf("%s: the termination is pending %v, over %v", s, a.pending(s), a.over(s))
		}
	}
	if (Action{Launch: true}).over("") {
		t.Error("an instance that an answer misses has passed its hook")
	}
}

func TestWarmed(t *testing.T) {
	for s, want := range map[State]bool{"Warmed:Pending:Wait": true, "Warmed:Stopped": true, "Pending:Wait": false, "": false} {
		if s.Warmed() != want {
			t.Errorf("%q: warmed %v", s, s.Warmed())
		}
	}
}

// launchAction is action for a launching instance.
func launchAction() Action {
	a := action
	a.Launch = true
	return a
}

func TestHoldOfALaunch(t *testing.T) {
	for _, tt := range []struct {
		name  string
		state string
		want  error
	}{
		{"ends when somebody else has completed it", "InService", ErrGone},
		{"ends when the group has given it up", "Terminating:Wait", ErrGone},
		{"goes on while the instance waits, whatever is said of the action", "Pending:Wait", nil},
	} {
		t.Run(tt.name, inBubble(func(t *testing.T, f *fakeAPI, h *Hooks) {
			f.state = always(tt.state)
			f.beat = func(context.Context, int, *sdk.RecordLifecycleActionHeartbeatInput) error {
				return errNotActive
			}
			err := h.Hold(t.Context(), launchAction(), waits(10*time.Minute))
			if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		}))
	}
}

func TestCompleteOfALaunch(t *testing.T) {
	for _, tt := range []struct {
		name        string
		state       string
		hooks       func(context.Context, int) ([]types.LifecycleHook, error)
		least, most time.Duration
	}{
		{"is done when the instance is in service", "InService", nil, 0, time.Second},
		{"is done when the instance is on its way out", "Terminating:Wait", nil, 0, time.Second},
		{"is tried on while the only hook waits", "Pending:Wait", nil, time.Hour, time.Hour},
		{"is done after a minute if other hooks wait", "Pending:Wait", twoHooks, time.Minute, 2 * time.Minute},
	} {
		t.Run(tt.name, inBubble(func(t *testing.T, f *fakeAPI, h *Hooks) {
			f.state, f.hooks = always(tt.state), tt.hooks
			f.complete = func(context.Context, int, *sdk.CompleteLifecycleActionInput) error { return errNotActive }
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, errStop)
			defer cancel()
			err := h.Complete(ctx, launchAction(), Continue)
			if took := time.Since(f.start); took < tt.least || took > tt.most || (err == nil) != (tt.least < time.Hour) {
				t.Errorf("got %v after %v", err, took)
			}
		}))
	}
}

func refreshes(statuses ...types.InstanceRefreshStatus) *sdk.DescribeInstanceRefreshesOutput {
	out := &sdk.DescribeInstanceRefreshesOutput{}
	for _, s := range statuses {
		out.InstanceRefreshes = append(out.InstanceRefreshes, types.InstanceRefresh{Status: s})
	}
	return out
}

// TestRefreshActive says of every status that the SDK knows whether instances may still be launched.
func TestRefreshActive(t *testing.T) {
	want := map[types.InstanceRefreshStatus]bool{
		"Pending": true, "InProgress": true, "Baking": true, "Cancelling": true, "RollbackInProgress": true,
		"Successful": false, "Failed": false, "Cancelled": false, "RollbackFailed": false, "RollbackSuccessful": false,
	}
	for _, status := range types.InstanceRefreshStatus("").Values() {
		active, known := want[status]
		if !known {
			t.Errorf("%s is new: say here what it means", status)
		}
		bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
			f.refreshes = func(int, string) (*sdk.DescribeInstanceRefreshesOutput, error) {
				return refreshes("Successful", status, "Cancelled"), nil
			}
			if got, err := h.RefreshActive(t.Context(), groupName); got != active || err != nil {
				t.Errorf("%s: active %v, %v", status, got, err)
			}
		})
	}
}

func TestRefreshIsAskedAfterOnceInHalfAMinute(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		f.refreshes = func(n int, group string) (*sdk.DescribeInstanceRefreshesOutput, error) {
			switch {
			case group != groupName:
				return refreshes(), nil
			case n == 0:
				return nil, errThrottled // not kept
			}
			return refreshes("InProgress"), nil
		}
		if _, err := h.RefreshActive(t.Context(), groupName); !errors.Is(err, errThrottled) {
			t.Errorf("got %v, want the failure", err)
		}
		for range 60 {
			if active, err := h.RefreshActive(t.Context(), groupName); !active || err != nil {
				t.Errorf("active %v, %v", active, err)
			}
			time.Sleep(time.Second)
		}
		if n := len(f.called("refreshes")); n < 3 || n > 4 {
			t.Errorf("%d calls in a minute, want one for the failure and two or three", n)
		}
		if active, err := h.RefreshActive(t.Context(), "other"); active || err != nil {
			t.Errorf("the other group: active %v, %v", active, err)
		}
	})
}
