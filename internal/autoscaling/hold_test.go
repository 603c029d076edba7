package autoscaling

import (
	"context"
	"errors"
	"strings"
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

func TestHoldSendsHeartbeats(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		err := h.Hold(t.Context(), action, func(context.Context) error { time.Sleep(10 * time.Minute); return errWork })
		if !errors.Is(err, errWork) {
			t.Errorf("got %v, want the error of work", err)
		}
		beats := f.called("beat")
		if beats[0] != 0 || beats[len(beats)-1] < 9*time.Minute+30*time.Second || f.beats != len(beats) {
			t.Errorf("heartbeats at %v, %d reported", beats, f.beats)
		}
		checkGaps(t, f, 27*time.Second, 30*time.Second)
		time.Sleep(time.Hour)
		if n := len(f.called("beat")); n != len(beats) || len(f.called("complete")) > 0 {
			t.Errorf("%d heartbeats after work had returned, %d completions", n-len(beats), len(f.called("complete")))
		}
	})
}

// checkGaps compares the times between two heartbeats.
func checkGaps(t *testing.T, f *fakeAPI, least, most time.Duration) {
	t.Helper()
	beats := f.called("beat")
	for i, at := range beats[1:] {
		if d := at - beats[i]; d > most || d < least {
			t.Errorf("%v between two heartbeats, want from %v to %v", d, least, most)
		}
	}
}

// TestHoldCountsFromTheHeartbeat: the duration of calls is part of the hook's timeout.
func TestHoldCountsFromTheHeartbeat(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		f.beat = func(context.Context, int, *sdk.RecordLifecycleActionHeartbeatInput) error {
			time.Sleep(5 * time.Second)
			return nil
		}
		f.hooks = hang
		if err := h.Hold(t.Context(), action, waits(5*time.Minute)); err != nil {
			t.Error(err)
		}
		checkGaps(t, f, 0, shortest.Heartbeat/2) // the hook's own timeout is unknown
	})
}

// hang is an endpoint that does not answer.
func hang(ctx context.Context, _ int) ([]types.LifecycleHook, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestHoldRetriesInTime: a pause after a failure is not longer than that between two heartbeats.
func TestHoldRetriesInTime(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		f.beat = refuse(errDropped)
		h.cfg = Config{HeartbeatInterval: 2 * time.Second}
		if err := h.Hold(t.Context(), action, waits(time.Minute)); err != nil {
			t.Error(err)
		}
		checkGaps(t, f, firstRetry, 2*time.Second)
	})
}

// refuse answers every heartbeat with the error.
func refuse(err error) func(context.Context, int, *sdk.RecordLifecycleActionHeartbeatInput) error {
	return func(context.Context, int, *sdk.RecordLifecycleActionHeartbeatInput) error { return err }
}

func TestHoldStopsWhenWorkPanics(t *testing.T) {
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
			t.Errorf("%d heartbeats after the panic", got-n)
		}
	})
}

// TestHoldEndsInTime: neither work that has ended nor a process that stops waits for an endpoint that does not answer.
func TestHoldEndsInTime(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		var ended time.Duration
		f.beat = func(ctx context.Context, _ int, _ *sdk.RecordLifecycleActionHeartbeatInput) error {
			<-ctx.Done()
			ended = time.Since(f.start)
			return ctx.Err()
		}
		f.hooks = hang
		if err := h.Hold(t.Context(), action, waits(time.Second)); err != nil {
			t.Error(err)
		}
		if ended != time.Second || time.Since(f.start) != time.Second || len(f.fails) > 0 {
			t.Errorf("the heartbeat ended after %v, Hold after %v, failures %v", ended, time.Since(f.start), f.fails)
		}
		f.beat = nil
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errStop)
		defer cancel()
		err := h.Hold(ctx, action, waits(time.Hour))
		if took := time.Since(f.start); !errors.Is(err, errStop) || took != 2*time.Second {
			t.Errorf("got %v after %v", err, took)
		}
	})
}

func TestHoldNamesTheAction(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		var got []string
		f.beat = func(_ context.Context, n int, in *sdk.RecordLifecycleActionHeartbeatInput) error {
			got = append(got, aws.ToString(in.AutoScalingGroupName), aws.ToString(in.LifecycleHookName),
				aws.ToString(in.InstanceId), aws.ToString(in.LifecycleActionToken))
			return []error{errNotActive, nil}[n]
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

// TestHoldEndsWithTheAction: the context of work ends when the action has ended, and not before that is certain.
func TestHoldEndsWithTheAction(t *testing.T) {
	const workTime = 30 * time.Minute
	for _, tt := range []struct {
		name  string
		err   error
		state string
		gone  time.Duration // the least time until the context of work ends; 0 is never
	}{
		{"the instance is past its hooks", errNotActive, "Terminating:Proceed", time.Nanosecond},
		{"the instance is terminated, and its group deleted", errNoHook, "Terminated", time.Nanosecond},
		{"the instance is retained", errNotActive, "Terminating:Retained", time.Nanosecond},
		{"no action, but the instance waits", errNotActive, "Terminating:Wait", 0},
		{"no action, but the instance will wait soon", errNotActive, "Terminating", 0},
		{"no action, and the instance is in service", errNotActive, "InService", 2 * time.Minute},
		{"no action, and the instance launches after its root volume was replaced", errNotActive, "Pending:Wait", 2 * time.Minute},
		{"the root volume is replaced", errNotActive, "RootVolumeReplaced", time.Nanosecond},
		{"no action, but the instance waits for the replacement of its root volume", errNotActive, "ReplacingRootVolume:Wait", 0},
		{"denied, and the instance is terminated", errDenied, "Terminated", time.Nanosecond},
		{"denied, and the instance waits", errDenied, "Terminating:Wait", 0},
		{"denied, and no group knows the instance", errDenied, "", 2 * time.Minute},
		{"throttled, whatever the state", errThrottled, "Terminated", 0},
		{"the connection drops, whatever the state", errDropped, "Terminated", 0},
		{"no group knows the instance", errNotActive, "", 2 * time.Minute},
		{"throttled, and no group knows the instance", errThrottled, "", 0},
		{"launch: another client has completed it", errNotActive, "InService", time.Nanosecond},
		{"launch: the group has abandoned it", errNotActive, "Terminating:Wait", time.Nanosecond},
		{"launch: no action, but the instance waits", errNotActive, "Pending:Wait", 0},
		{"launch: an old state from before the root volume was replaced", errNotActive, "RootVolumeReplaced", 2 * time.Minute},
	} {
		t.Run(tt.name, inBubble(func(t *testing.T, f *fakeAPI, h *Hooks) {
			f.beat = refuse(tt.err)
			f.state = func(context.Context, string) (string, error) { return tt.state, nil }
			a := action
			a.Launch = strings.HasPrefix(tt.name, "launch: ")
			err := h.Hold(t.Context(), a, waits(workTime))
			took := time.Since(f.start)
			if tt.gone == 0 {
				if err != nil || took != workTime {
					t.Errorf("work ended after %v with %v", took, err)
				}
				if n := len(f.called("beat")); n < int(workTime/longestPause) {
					t.Errorf("only %d heartbeats", n)
				}
				return
			}
			if !errors.Is(err, ErrGone) || !errors.Is(err, tt.err) {
				t.Errorf("got %v, want ErrGone and why", err)
			}
			if took < tt.gone || took > tt.gone+longestPause+time.Second || f.beats > 0 {
				t.Errorf("the context of work ended after %v", took)
			}
		}))
	}
}

// TestHoldEndsWithoutTheState: an action without a heartbeat for the time of its hook has ended, also if a permission
// is missing to see that.
func TestHoldEndsWithoutTheState(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		f.beat = refuse(errNotActive)
		f.state = func(context.Context, string) (string, error) { return "", errDenied }
		err := h.Hold(t.Context(), action, waits(24*time.Hour))
		took := time.Since(f.start)
		if !errors.Is(err, ErrGone) || took < 2*time.Minute || took > 2*time.Minute+longestPause {
			t.Errorf("work ended after %v with %v", took, err)
		}
	})
}

// TestHoldContinues while the state is uncertain, and forgets earlier failures.
func TestHoldContinues(t *testing.T) {
	for name, tt := range map[string]struct {
		answers []error // to heartbeats, in turn
		state   func(after time.Duration) (string, error)
	}{
		"the state cannot be read":                          {[]error{errNotActive}, func(time.Duration) (string, error) { return "", errThrottled }},
		"the state is denied, and heartbeats are throttled": {[]error{errThrottled}, func(time.Duration) (string, error) { return "", errDenied }},
		"the state is denied, and a heartbeat is accepted now and then": {
			[]error{errNotActive, errNotActive, nil}, func(time.Duration) (string, error) { return "", errDenied },
		},
		"some answers miss the instance": {[]error{errNotActive}, func(after time.Duration) (string, error) {
			if after%(2*time.Minute) < 90*time.Second {
				return "", nil
			}
			return "Terminating:Wait", nil
		}},
		"some answers are of an old state": {[]error{errNotActive}, func(after time.Duration) (string, error) {
			if after%(2*time.Minute) < 90*time.Second {
				return "InService", nil
			}
			return "Terminating:Wait", nil
		}},
		"every other heartbeat is accepted": {[]error{errNotActive, nil}, func(time.Duration) (string, error) { return "", nil }},
	} {
		t.Run(name, inBubble(func(t *testing.T, f *fakeAPI, h *Hooks) {
			f.beat = func(_ context.Context, n int, _ *sdk.RecordLifecycleActionHeartbeatInput) error {
				return tt.answers[n%len(tt.answers)]
			}
			f.state = func(context.Context, string) (string, error) { return tt.state(time.Since(f.start)) }
			if err := h.Hold(t.Context(), action, waits(time.Hour)); err != nil {
				t.Errorf("gave up after %v: %v", time.Since(f.start), err)
			}
		}))
	}
}

func TestInterval(t *testing.T) {
	for _, tt := range []struct {
		name       string
		configured time.Duration
		timeout    int32 // 0 cannot be read
		want       time.Duration
	}{
		{"half of the hook's timeout", 0, 60, 30 * time.Second},
		{"of the longest", 0, 7200, time.Hour},
		{"of the shortest, while it is unknown", 0, 0, 15 * time.Second},
		{"as configured", 10 * time.Second, 60, 10 * time.Second},
		{"at most half of the hook's timeout", time.Hour, 60, 30 * time.Second},
		{"the shortest that can be configured", time.Second, 7200, time.Second},
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
				got := h.interval(h.timing(t.Context(), action))
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

// TestIsPending: a heartbeat by the instance's id, without the message's token, or by the token alone, and for the
// described transition only.
func TestIsPending(t *testing.T) {
	byToken := Action{Group: groupName, Hook: "drain", Token: "t"}
	launch := Action{Group: groupName, Hook: "drain", InstanceID: instanceID, Launch: true}
	for _, tt := range []struct {
		name   string
		action Action
		answer error
		beats  int
		want   bool
		err    error
	}{
		{"Auto Scaling accepts a heartbeat", action, nil, 1, true, nil},
		{"it knows of no such action", action, errNotActive, 1, false, nil},
		{"it accepts the token of an action without an instance", byToken, nil, 1, true, nil},
		{"it does not answer", action, errDropped, 1, false, errDropped},
		{"it knows no such hook", action, errNoHook, 1, false, errNoHook},
		{"the hook has the other transition", launch, nil, 0, false, nil},
		{"the group has no such hook", Action{Group: groupName, Hook: "other"}, nil, 0, false, ErrGone},
	} {
		t.Run(tt.name, inBubble(func(t *testing.T, f *fakeAPI, h *Hooks) {
			f.beat = func(_ context.Context, _ int, in *sdk.RecordLifecycleActionHeartbeatInput) error {
				if aws.ToString(in.InstanceId) != tt.action.InstanceID || (in.LifecycleActionToken == nil) != (in.InstanceId != nil) {
					t.Errorf("a heartbeat for %+v", in)
				}
				return tt.answer
			}
			got, err := h.IsPending(t.Context(), tt.action)
			if n := len(f.called("beat")); got != tt.want || !errors.Is(err, tt.err) || n != tt.beats {
				t.Errorf("got %v, %v after %d heartbeats", got, err, n)
			}
		}))
	}
}
