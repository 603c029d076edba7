package autoscaling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// phase is where in its life an instance is, as far as the hooks of its termination are concerned.
type phase int

const (
	inService   phase = iota // or elsewhere: no hook of a termination holds it
	onItsWay                 // a hook may hold it, or be about to
	pastItsHook              // nothing is left to hold
)

// TestState classifies every state that the SDK knows. A state that a new SDK adds must be put here on purpose.
func TestState(t *testing.T) {
	want := map[types.LifecycleState]phase{
		types.LifecycleStatePending:        inService,
		types.LifecycleStatePendingWait:    inService, // a hook holds it, but not one of a termination
		types.LifecycleStatePendingProceed: inService,
		types.LifecycleStateInService:      inService,
		types.LifecycleStateQuarantined:    inService,

		types.LifecycleStateDetaching:       inService, // lives on outside of the group
		types.LifecycleStateDetached:        inService,
		types.LifecycleStateEnteringStandby: inService,
		types.LifecycleStateStandby:         inService,

		types.LifecycleStateReplacingRootVolume:        inService, // keeps its id and its group
		types.LifecycleStateReplacingRootVolumeWait:    inService,
		types.LifecycleStateReplacingRootVolumeProceed: inService,
		types.LifecycleStateRootVolumeReplaced:         inService,

		types.LifecycleStateTerminating:         onItsWay,
		types.LifecycleStateTerminatingWait:     onItsWay,
		types.LifecycleStateTerminatingProceed:  pastItsHook,
		types.LifecycleStateTerminatingRetained: pastItsHook,
		types.LifecycleStateTerminated:          pastItsHook,

		types.LifecycleStateWarmedPending:         onItsWay, // out of service, back into the warm pool
		types.LifecycleStateWarmedPendingWait:     onItsWay,
		types.LifecycleStateWarmedPendingProceed:  pastItsHook,
		types.LifecycleStateWarmedPendingRetained: pastItsHook,
		types.LifecycleStateWarmedStopped:         pastItsHook,
		types.LifecycleStateWarmedRunning:         pastItsHook,
		types.LifecycleStateWarmedHibernated:      pastItsHook,

		types.LifecycleStateWarmedTerminating:         onItsWay,
		types.LifecycleStateWarmedTerminatingWait:     onItsWay,
		types.LifecycleStateWarmedTerminatingProceed:  pastItsHook,
		types.LifecycleStateWarmedTerminatingRetained: pastItsHook,
		types.LifecycleStateWarmedTerminated:          pastItsHook,
	}
	waiting := []types.LifecycleState{
		types.LifecycleStatePendingWait, types.LifecycleStateTerminatingWait, types.LifecycleStateWarmedPendingWait,
		types.LifecycleStateWarmedTerminatingWait, types.LifecycleStateReplacingRootVolumeWait,
	}
	for _, value := range types.LifecycleState("").Values() {
		p, known := want[value]
		if !known {
			t.Errorf("%s is new: say here, and in State, what it means", value)
		}
		s := State(value)
		if s.Terminating() != (p == onItsWay) || s.Gone() != (p == pastItsHook) || s.Unknown() {
			t.Errorf("%s: terminating %v, gone %v, unknown %v", s, s.Terminating(), s.Gone(), s.Unknown())
		}
		if got := s.Waiting(); got != slices.Contains(waiting, value) {
			t.Errorf("%s: waiting %v", s, got)
		}
	}
	if n := len(types.LifecycleState("").Values()); n != len(want) {
		t.Errorf("the SDK knows %d states, this table %d", n, len(want))
	}
	for _, s := range []State{"", "Terminating:Someday"} {
		if s.Terminating() || s.Gone() || s.Waiting() || s.Unknown() != (s == "") {
			t.Errorf("%q: terminating %v, gone %v, waiting %v, unknown %v",
				s, s.Terminating(), s.Gone(), s.Waiting(), s.Unknown())
		}
	}
}

func TestValidate(t *testing.T) {
	good := Config{ConfirmTimeout: time.Minute, Margin: 30 * time.Second}
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   []string
	}{
		{"good", func(*Config) {}, nil},
		{"the least", func(c *Config) { *c = Config{HeartbeatInterval: time.Second, ConfirmTimeout: time.Second} }, nil},
		{"the most", func(c *Config) {
			*c = Config{HeartbeatInterval: 2 * time.Hour, ConfirmTimeout: 10 * time.Minute, Margin: time.Hour}
		}, nil},
		{"beats too often", func(c *Config) { c.HeartbeatInterval = time.Millisecond }, []string{"HOOK_HEARTBEAT_INTERVAL"}},
		{"beats backwards", func(c *Config) { c.HeartbeatInterval = -1 }, []string{"HOOK_HEARTBEAT_INTERVAL"}},
		{"beats too seldom", func(c *Config) { c.HeartbeatInterval = 3 * time.Hour }, []string{"HOOK_HEARTBEAT_INTERVAL"}},
		{"believes at once", func(c *Config) { c.ConfirmTimeout = 0 }, []string{"HOOK_CONFIRM_TIMEOUT"}},
		{"never believes", func(c *Config) { c.ConfirmTimeout = time.Hour }, []string{"HOOK_CONFIRM_TIMEOUT"}},
		{"too late", func(c *Config) { c.Margin = -time.Second }, []string{"HOOK_MARGIN"}},
		{"too early", func(c *Config) { c.Margin = 2 * time.Hour }, []string{"HOOK_MARGIN"}},
		{"names of every kind", func(c *Config) { c.Names = []string{"a", "Z-9_x/y", strings.Repeat("n", 255)} }, nil},
		{"a space in a name", func(c *Config) { c.Names = []string{"drain", "a b"} }, []string{"HOOK_NAMES"}},
		{"an ARN for a name", func(c *Config) { c.Names = []string{"arn:aws:autoscaling"} }, []string{"HOOK_NAMES"}},
		{"no name", func(c *Config) { c.Names = []string{""} }, []string{"HOOK_NAMES"}},
		{"too long a name", func(c *Config) { c.Names = []string{strings.Repeat("n", 256)} }, []string{"HOOK_NAMES"}},
		{"all at once", func(c *Config) { *c = Config{HeartbeatInterval: -1, ConfirmTimeout: -1, Margin: -1} }, []string{
			"HOOK_HEARTBEAT_INTERVAL", "HOOK_CONFIRM_TIMEOUT", "HOOK_MARGIN",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := good
			tt.change(&cfg)
			var lines []string
			if err := cfg.Validate(); err != nil {
				lines = strings.Split(err.Error(), "\n")
			}
			if len(lines) != len(tt.want) {
				t.Fatalf("got %q, want complaints about %q", lines, tt.want)
			}
			for i, line := range lines {
				if !strings.HasPrefix(line, tt.want[i]+" is ") {
					t.Errorf("got %q, want a complaint about %s", line, tt.want[i])
				}
			}
		})
	}
}

// ask asks for the states of n instances at once.
func ask(h *Hooks, n int, each func(i int, s State, err error)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			s, err := h.State(context.Background(), fmt.Sprintf("i-%08x", i))
			each(i, s, err)
		})
	}
	wg.Wait()
}

func TestStateIsAskedForInBatches(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		states := []string{"InService", "Terminating:Wait", "Terminated", ""}
		f.state = func(_ context.Context, id string) (string, error) {
			var i int
			_, err := fmt.Sscanf(id, "i-%x", &i)
			return states[i%len(states)], err
		}
		ask(h, 60, func(i int, s State, err error) {
			if err != nil || string(s) != states[i%len(states)] {
				t.Errorf("instance %d is %q, %v; want %q", i, s, err, states[i%len(states)])
			}
		})
		if len(f.asked) != 2 || len(f.asked[0])+len(f.asked[1]) != 60 {
			t.Errorf("%d calls for 60 questions: %v", len(f.asked), f.asked)
		}
		for _, ids := range f.asked {
			if len(ids) > 50 {
				t.Errorf("%d instances in one call", len(ids))
			}
		}
	})
}

func TestStateOfOneInstanceAskedTwice(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if s, err := h.State(t.Context(), instanceID); s != "Terminating:Wait" || err != nil {
					t.Errorf("got %q, %v", s, err)
				}
			})
		}
		wg.Wait()
		if len(f.asked) != 1 || len(f.asked[0]) != 1 {
			t.Errorf("asked %v, want once for one", f.asked)
		}
	})
}

func TestStateErrorReachesAll(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		f.state = func(context.Context, string) (string, error) { return "", errThrottled }
		var mu sync.Mutex
		told := 0
		ask(h, 60, func(i int, s State, err error) {
			if !errors.Is(err, errThrottled) || s != "" {
				t.Errorf("instance %d is %q, %v", i, s, err)
			}
			mu.Lock()
			defer mu.Unlock()
			told++
		})
		if told != 60 {
			t.Errorf("%d of 60 were told", told)
		}
	})
}

func TestStateFromADeadEndpoint(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		f.state = func(ctx context.Context, _ string) (string, error) { <-ctx.Done(); return "", ctx.Err() }
		_, err := h.State(t.Context(), instanceID)
		if took := time.Since(f.start); err == nil || took > callTimeout+time.Second {
			t.Errorf("got %v after %v", err, took)
		}
	})
}
