package autoscaling

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/google/go-cmp/cmp"
)

var errWork = errors.New("the node is not empty yet")

// longestPause is longestRetry with its jitter.
const longestPause = longestRetry * 6 / 5

func TestHoldBeatsAtOnceAndBeforeHalfOfTheTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		if err := h.Hold(t.Context(), action, waits(10*time.Minute)); err != nil {
			t.Error(err)
		}
		beats := f.called("beat")
		if beats[0] != 0 || beats[len(beats)-1] < 9*time.Minute+30*time.Second || f.beats != len(beats) {
			t.Errorf("beats at %v, %d told of", beats, f.beats)
		}
		for i, at := range beats[1:] {
			if d := at - beats[i]; d > 30*time.Second || d < 27*time.Second {
				t.Errorf("%v between two beats, want from 27s to 30s", d)
			}
		}
		time.Sleep(time.Hour)
		if n := len(f.called("beat")); n != len(beats) {
			t.Errorf("%d beats after work had returned", n-len(beats))
		}
	})
}

// TestHoldCountsFromTheBeat: what calls take is part of the hook's timeout.
func TestHoldCountsFromTheBeat(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		f.beat = func(context.Context, int, *sdk.RecordLifecycleActionHeartbeatInput) error {
			time.Sleep(5 * time.Second)
			return nil
		}
		f.hooks = func(ctx context.Context, _ int) ([]types.LifecycleHook, error) { <-ctx.Done(); return nil, ctx.Err() }
		if err := h.Hold(t.Context(), action, waits(5*time.Minute)); err != nil {
			t.Error(err)
		}
		beats := f.called("beat")
		for i, at := range beats[1:] {
			if d := at - beats[i]; d > shortest.Heartbeat/2 { // the hook's own timeout is unknown
				t.Errorf("%v between two beats, want at most 15s", d)
			}
		}
	})
}

func TestHoldReturnsTheErrorOfWork(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		err := h.Hold(t.Context(), action, func(context.Context) error { time.Sleep(time.Minute); return errWork })
		if !errors.Is(err, errWork) {
			t.Errorf("got %v", err)
		}
		n := len(f.called("beat"))
		time.Sleep(time.Hour)
		if len(f.called("beat")) != n || len(f.called("complete")) > 0 {
			t.Errorf("beats go on, or the action was completed")
		}
	})
}

func TestHoldEndsWithWorkThatPanics(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_ = h.Hold(t.Context(), action, func(context.Context) error { time.Sleep(time.Minute); panic("work") })
		}()
		n := len(f.called("beat"))
		time.Sleep(time.Hour)
		if got := len(f.called("beat")); got != n {
			t.Errorf("%d beats after the panic", got-n)
		}
	})
}

func TestHoldWaitsForTheBeatUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		var ended time.Duration
		f.beat = func(ctx context.Context, _ int, _ *sdk.RecordLifecycleActionHeartbeatInput) error {
			<-ctx.Done()
			ended = time.Since(f.start)
			return ctx.Err()
		}
		if err := h.Hold(t.Context(), action, waits(time.Second)); err != nil {
			t.Error(err)
		}
		if ended != time.Second || time.Since(f.start) != time.Second || len(f.fails) > 0 {
			t.Errorf("the beat ended after %v, Hold after %v, failures %v", ended, time.Since(f.start), f.fails)
		}
	})
}

// TestHoldStopsAtOnce: a process that stops must not wait for an endpoint that does not answer.
func TestHoldStopsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		f.hooks = func(ctx context.Context, _ int) ([]types.LifecycleHook, error) { <-ctx.Done(); return nil, ctx.Err() }
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errStop)
		defer cancel()
		err := h.Hold(ctx, action, waits(time.Hour))
		if took := time.Since(f.start); !errors.Is(err, errStop) || took != time.Second {
			t.Errorf("got %v after %v", err, took)
		}
	})
}

func TestHoldSaysWhatItHolds(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		var got []string
		f.beat = func(_ context.Context, n int, in *sdk.RecordLifecycleActionHeartbeatInput) error {
			got = append(got, aws.ToString(in.AutoScalingGroupName), aws.ToString(in.LifecycleHookName),
				aws.ToString(in.InstanceId), aws.ToString(in.LifecycleActionToken))
			if n == 0 {
				return errNotActive
			}
			if in.LifecycleActionToken != nil {
				t.Error("the token that is not known is sent again")
			}
			return nil
		}
		if err := h.Hold(t.Context(), action, waits(time.Second)); err != nil {
			t.Error(err)
		}
		want := []string{groupName, "drain", instanceID, token, groupName, "drain", instanceID, ""}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// TestHoldGivesUp: after half an hour at the latest, work either is done or was told that the action is gone.
func TestHoldGivesUp(t *testing.T) {
	const patience = 30 * time.Minute
	for _, tt := range []struct {
		name  string
		err   error
		state string
		gone  time.Duration // the least time until work is told; 0 is never
	}{
		{"the instance is past its hooks", errNotActive, "Terminating:Proceed", time.Nanosecond},
		{"the instance is terminated, and its group deleted", errNoHook, "Terminated", time.Nanosecond},
		{"the instance is retained", errNotActive, "Terminating:Retained", time.Nanosecond},
		{"no action, but the instance waits", errNotActive, "Terminating:Wait", 0},
		{"no action, but the instance is about to wait", errNotActive, "Terminating", 0},
		{"no action, and Auto Scaling still shows yesterday's state", errNotActive, "InService", 0},
		{"denied, and the instance is terminated", errDenied, "Terminated", time.Nanosecond},
		{"denied, and the instance waits", errDenied, "Terminating:Wait", 0},
		{"denied, and no group knows the instance", errDenied, "", 2 * time.Minute},
		{"throttled, whatever the state", errThrottled, "Terminated", 0},
		{"the connection drops, whatever the state", errDropped, "Terminated", 0},
		{"no group knows the instance", errNotActive, "", 2 * time.Minute},
		{"throttled, and no group knows the instance", errThrottled, "", 0},
	} {
		t.Run(tt.name, inBubble(func(t *testing.T, f *fakeAPI, h *Hooks) {
			f.beat = func(context.Context, int, *sdk.RecordLifecycleActionHeartbeatInput) error { return tt.err }
			f.state = always(tt.state)
			err := h.Hold(t.Context(), action, waits(patience))
			took := time.Since(f.start)
			if tt.gone == 0 {
				if err != nil || took != patience {
					t.Errorf("work ended after %v with %v", took, err)
				}
				if n := len(f.called("beat")); n < int(patience/longestPause) {
					t.Errorf("tried only %d times", n)
				}
				return
			}
			if !errors.Is(err, ErrGone) || !errors.Is(err, tt.err) {
				t.Errorf("got %v, want ErrGone and why", err)
			}
			if took < tt.gone || took > tt.gone+longestPause+time.Second || f.beats > 0 {
				t.Errorf("gave up after %v", took)
			}
		}))
	}
}

func TestHoldDoesNotGiveUpUnlessItKnows(t *testing.T) {
	for name, state := range map[string]func(start time.Time) (string, error){
		"the state is not to be had": func(time.Time) (string, error) { return "", errThrottled },
		"the instance is missed now and then": func(start time.Time) (string, error) {
			if time.Since(start)%(2*time.Minute) < 90*time.Second {
				return "", nil
			}
			return "Terminating:Wait", nil
		},
	} {
		t.Run(name, inBubble(func(t *testing.T, f *fakeAPI, h *Hooks) {
			f.beat = func(context.Context, int, *sdk.RecordLifecycleActionHeartbeatInput) error {
				return errNotActive
			}
			f.state = func(context.Context, string) (string, error) { return state(f.start) }
			if err := h.Hold(t.Context(), action, waits(time.Hour)); err != nil {
				t.Errorf("gave up after %v: %v", time.Since(f.start), err)
			}
		}))
	}
}

func TestHoldForgetsOldTrouble(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		f.state = always("")
		f.beat = func(_ context.Context, n int, _ *sdk.RecordLifecycleActionHeartbeatInput) error {
			if n%2 == 0 {
				return errNotActive
			}
			return nil
		}
		if err := h.Hold(t.Context(), action, waits(time.Hour)); err != nil {
			t.Errorf("gave up after %v: %v", time.Since(f.start), err)
		}
	})
}

func TestInterval(t *testing.T) {
	for _, tt := range []struct {
		name       string
		configured time.Duration
		timeout    int32 // 0: not to be had
		want       time.Duration
	}{
		{"half of the hook's timeout", 0, 60, 30 * time.Second},
		{"of the longest", 0, 7200, time.Hour},
		{"of the shortest, while it is unknown", 0, 0, 15 * time.Second},
		{"as configured", 10 * time.Second, 60, 10 * time.Second},
		{"never longer than half, whatever is configured", time.Hour, 60, 30 * time.Second},
		{"the least", time.Second, 7200, time.Second},
	} {
		t.Run(tt.name, inBubble(func(t *testing.T, f *fakeAPI, h *Hooks) {
			f.hooks = func(context.Context, int) ([]types.LifecycleHook, error) {
				if tt.timeout == 0 {
					return nil, errThrottled
				}
				return []types.LifecycleHook{lifecycleHook("drain", terminating, tt.timeout)}, nil
			}
			h.cfg = Config{HeartbeatInterval: tt.configured}
			seen := map[time.Duration]bool{}
			for range 200 {
				got := h.interval(t.Context(), action)
				if got > tt.want || got < tt.want*9/10 {
					t.Fatalf("got %v, want from %v to %v", got, tt.want*9/10, tt.want)
				}
				seen[got] = true
			}
			if len(seen) < 100 {
				t.Errorf("only %d intervals of 200 differ", len(seen))
			}
		}))
	}
}

func TestComplete(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		f.complete = func(_ context.Context, _ int, in *sdk.CompleteLifecycleActionInput) error {
			want := &sdk.CompleteLifecycleActionInput{
				AutoScalingGroupName: aws.String(groupName), LifecycleHookName: aws.String("drain"),
				InstanceId: aws.String(instanceID), LifecycleActionToken: aws.String(token),
				LifecycleActionResult: aws.String("ABANDON"),
			}
			if *in.AutoScalingGroupName != *want.AutoScalingGroupName || *in.LifecycleHookName != *want.LifecycleHookName ||
				*in.InstanceId != *want.InstanceId || *in.LifecycleActionToken != *want.LifecycleActionToken ||
				*in.LifecycleActionResult != *want.LifecycleActionResult {
				t.Errorf("got %+v", in)
			}
			return nil
		}
		if err := h.Complete(t.Context(), action, Abandon); err != nil || len(f.tokens) != 1 || len(f.fails) > 0 {
			t.Errorf("got %v after %d calls", err, len(f.tokens))
		}
	})
}

// script answers the first completions with these errors, and takes the rest.
func script(errs ...error) func(context.Context, int, *sdk.CompleteLifecycleActionInput) error {
	return func(_ context.Context, n int, _ *sdk.CompleteLifecycleActionInput) error {
		if n < len(errs) {
			return errs[n]
		}
		return nil
	}
}

func repeat(err error, n int) []error { return slices.Repeat([]error{err}, n) }

func TestCompleteUntilItIsProven(t *testing.T) {
	const forever = 1 << 20
	for _, tt := range []struct {
		name     string
		errs     []error
		state    string
		stateErr error
		hooks    func(context.Context, int) ([]types.LifecycleHook, error)
		calls    int           // 0: it goes on for ever
		least    time.Duration // that it takes
	}{
		{"five failures, then success", repeat(errThrottled, 5), "Terminating:Wait", nil, nil, 6, 15 * time.Second},
		{"dropped calls, then success", repeat(errDropped, 3), "Terminating:Wait", nil, nil, 4, 3 * time.Second},
		{"taken, but answered with an error", []error{errDropped, errNotActive}, "Terminating:Proceed", nil, nil, 2, 0},
		{"timed out long ago", []error{errNotActive}, "Terminated", nil, nil, 1, 0},
		{"the group is deleted", []error{errNoHook}, "", nil, nil, 1, 0},
		{"throttled, while the instance is past its hooks", repeat(errThrottled, 2), "Terminated", nil, nil, 3, time.Second},
		{"no action, but the only hook waits", repeat(errNotActive, 20), "Terminating:Wait", nil, nil, 21, 3 * time.Minute},
		{"no action, the only hook waits on", repeat(errNotActive, forever), "Terminating:Wait", nil, nil, 0, 0},
		{"no action, and another hook waits", repeat(errNotActive, forever), "Terminating:Wait", nil, twoHooks, 9, time.Minute},
		{"no action, and back in service", repeat(errNotActive, forever), "InService", nil, nil, 9, time.Minute},
		{"denied, and the instance is past its hooks", repeat(errDenied, forever), "Terminating:Proceed", nil, nil, 1, 0},
		{"denied, and the instance waits", repeat(errDenied, forever), "Terminating:Wait", nil, twoHooks, 0, 0},
		{"denied, and no group knows the instance", repeat(errDenied, forever), "", nil, nil, 9, time.Minute},
		{"no such hook, and another waits", repeat(errNoHook, forever), "Terminating:Wait", nil, twoHooks, 0, 0},
		{"no action, and the state is not to be had", repeat(errNotActive, 20), "", errThrottled, nil, 21, 3 * time.Minute},
		{
			"no action, and nobody knows how many hooks there are", repeat(errNotActive, forever), "Terminating:Wait", nil,
			func(context.Context, int) ([]types.LifecycleHook, error) { return nil, errThrottled }, 0, 0,
		},
		{
			// What counts is how long "no active lifecycle action" has been said, not how long anything failed.
			"a long outage, then no action once, then success",
			append(repeat(errThrottled, 20), errNotActive), "Terminating:Wait", nil, twoHooks, 22, 3 * time.Minute,
		},
	} {
		t.Run(tt.name, inBubble(func(t *testing.T, f *fakeAPI, h *Hooks) {
			f.complete, f.hooks = script(tt.errs...), tt.hooks
			f.state = func(context.Context, string) (string, error) { return tt.state, tt.stateErr }
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, errStop)
			defer cancel()
			err := h.Complete(ctx, action, Continue)
			took := time.Since(f.start)
			if tt.calls == 0 {
				if !errors.Is(err, errStop) || took != time.Hour || len(f.tokens) < 200 {
					t.Errorf("got %v after %v and %d calls, want it to try on", err, took, len(f.tokens))
				}
				return
			}
			if err != nil || len(f.tokens) != tt.calls || took < tt.least || took > tt.least+2*time.Minute {
				t.Errorf("got %v after %v and %d calls, want %d calls in %v or somewhat more",
					err, took, len(f.tokens), tt.calls, tt.least)
			}
			if len(f.fails) < tt.calls-1 {
				t.Errorf("told of %d failures", len(f.fails))
			}
		}))
	}
}

func TestCompleteIsTriedWithoutTheToken(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		f.complete = script(errThrottled, errNotActive, errThrottled)
		if err := h.Complete(t.Context(), action, Continue); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{token, token, "", ""}, f.tokens); diff != "" {
			t.Error(diff)
		}
	})
}

func TestCompleteEndsWithItsContext(t *testing.T) {
	for name, answer := range map[string]func(ctx context.Context) error{
		"between two calls": func(context.Context) error { return errThrottled },
		"in a call":         func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, inBubble(func(t *testing.T, f *fakeAPI, h *Hooks) {
			f.complete = func(ctx context.Context, _ int, _ *sdk.CompleteLifecycleActionInput) error {
				return answer(ctx)
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Second, errStop)
			defer cancel()
			err := h.Complete(ctx, action, Continue)
			if took := time.Since(f.start); !errors.Is(err, errStop) || took != 100*time.Second {
				t.Errorf("got %v after %v", err, took)
			}
			if n := len(f.tokens); n < 5 {
				t.Errorf("tried %d times: an endpoint that does not answer is to be asked again", n)
			}
		}))
	}
}

// TestHoldTriesAgainInTime: a pause after trouble is never longer than the one between two beats.
func TestHoldTriesAgainInTime(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		f.beat = func(context.Context, int, *sdk.RecordLifecycleActionHeartbeatInput) error { return errDropped }
		h.cfg = Config{HeartbeatInterval: 2 * time.Second}
		if err := h.Hold(t.Context(), action, waits(time.Minute)); err != nil {
			t.Error(err)
		}
		beats := f.called("beat")
		for i, at := range beats[1:] {
			if d := at - beats[i]; d > 2*time.Second || d < firstRetry {
				t.Errorf("%v between two beats, want at most 2s", d)
			}
		}
	})
}

func TestHeld(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer error
		held   bool
		err    error
	}{
		{"Auto Scaling takes a heartbeat", nil, true, nil},
		{"it knows of no such action", errNotActive, false, nil},
		{"it does not answer", errDropped, false, errDropped},
		{"it knows no such hook", errNoHook, false, errNoHook},
	} {
		t.Run(tt.name, inBubble(func(t *testing.T, f *fakeAPI, h *Hooks) {
			f.beat = func(context.Context, int, *sdk.RecordLifecycleActionHeartbeatInput) error { return tt.answer }
			held, err := h.IsPending(t.Context(), launchAction())
			if held != tt.held || !errors.Is(err, tt.err) {
				t.Errorf("got %v, %v", held, err)
			}
			if n := len(f.called("beat")); n != 1 {
				t.Errorf("%d heartbeats", n)
			}
		}))
	}
}
