package awsim

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// timed is an engine without a network, so that a bubble's clock drives it, with one waiting instance.
func timed(t *testing.T, h Hook) *Server {
	t.Helper()
	s := &Server{opts: Options{}.withDefaults()}
	s.ctx, s.cancel = context.WithCancel(t.Context())
	s.startEngine()
	t.Cleanup(func() {
		s.cancel()
		s.asg.close()
	})
	h.Name = "drain"
	for _, err := range []error{
		s.CreateGroup(Group{Name: "g"}), s.AddInstance("g", "i-1", "a"), s.PutHook("g", h),
		s.Terminate("i-1", true),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestTimeouts(t *testing.T) {
	for name, row := range map[string]struct {
		hook  Hook
		beats []time.Duration // After the one before.
		took  time.Duration
		by    ClosedBy
		want  string
	}{
		"no heartbeat": {
			hook: Hook{HeartbeatTimeout: 30 * time.Second},
			took: 30 * time.Second, by: ByHeartbeatTimeout, want: abandon,
		},
		"the default result counts": {
			hook: Hook{HeartbeatTimeout: 30 * time.Second, DefaultResult: resume},
			took: 30 * time.Second, by: ByHeartbeatTimeout, want: resume,
		},
		"half an hour into one hour makes ninety minutes": {
			hook:  Hook{HeartbeatTimeout: time.Hour},
			beats: []time.Duration{30 * time.Minute},
			took:  90 * time.Minute, by: ByHeartbeatTimeout, want: abandon,
		},
		"heartbeats do not outlast the global timeout": {
			hook:  Hook{HeartbeatTimeout: time.Hour, GlobalTimeout: 100 * time.Minute},
			beats: []time.Duration{45 * time.Minute, 45 * time.Minute},
			took:  100 * time.Minute, by: ByGlobalTimeout, want: abandon,
		},
		"nor the two days of the longest hook": {
			hook:  Hook{HeartbeatTimeout: 50 * time.Hour},
			beats: []time.Duration{40 * time.Hour},
			took:  48 * time.Hour, by: ByGlobalTimeout, want: abandon,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := timed(t, row.hook)
				for _, d := range row.beats {
					<-time.After(d)
					if err := s.asg.lifecycle.heartbeat("g", "drain", "", "i-1"); err != nil {
						t.Fatal(err)
					}
				}
				got, err := s.WaitClosed(t.Context(), "i-1")
				if err != nil {
					t.Fatal(err)
				}
				if took := got.ClosedAt.Sub(got.StartedAt); took != row.took || got.ClosedBy != row.by ||
					got.Result != row.want {
					t.Errorf("closed after %s by %s with %s", took, got.ClosedBy, got.Result)
				}
				if err := s.asg.lifecycle.complete("g", "drain", got.Token, "", resume); err == nil {
					t.Error("completed after it had timed out")
				}
			})
		})
	}
}

func TestWhatIsVisibleIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := timed(t, Hook{})
		s.SetDelays(Delays{Visible: 5 * time.Second})
		<-time.After(10 * time.Second)
		if err := s.asg.lifecycle.complete("g", "drain", "", "i-1", resume); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"Terminating:Wait", "Terminated"} {
			s.asg.mu.Lock()
			got := s.asg.shown(s.asg.instances["i-1"])
			s.asg.mu.Unlock()
			if got != want {
				t.Errorf("shown as %s, want %s", got, want)
			}
			<-time.After(6 * time.Second)
		}
	})
}

func TestSlowMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := timed(t, Hook{})
		s.SetDelays(Delays{Launch: time.Minute, Terminate: 2 * time.Minute})
		start := time.Now()
		if err := s.asg.lifecycle.complete("g", "drain", "", "i-1", resume); err != nil {
			t.Fatal(err)
		}
		if err := s.WaitState(t.Context(), "i-1", stateTerminated); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 2*time.Minute {
			t.Errorf("the machine took %s to shut down", took)
		}
	})
}
