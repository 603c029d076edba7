package agent_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/pkg/autoscaling"
	"github.com/node-drainer/node-drainer/pkg/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// TestProtectDuringARefresh: a launching node is protected from a scale-down, and no launch fails because of that.
func TestProtectDuringARefresh(t *testing.T) {
	t.Parallel()
	active := func(string) (bool, error) { return true, nil }
	for _, tt := range []struct {
		name   string
		given  func(f *fixture)
		steps  []string
		failed int
	}{
		{
			"protected when it registers", func(f *fixture) { f.refresh = active },
			[]string{"await", "protect node-1 for workers", "wait for node-1"},
			0,
		},
		{
			"retried when it is ready", func(f *fixture) { f.refresh, f.protectErrs = active, []error{errOutage} },
			[]string{"await", "wait for node-1", "protect node-1 for workers"},
			1,
		},
		{
			"not retried again", func(f *fixture) { f.refresh = func(string) (bool, error) { return false, errOutage } },
			[]string{"await", "wait for node-1"},
			2,
		},
		{"no refresh", func(*fixture) {}, []string{"await", "wait for node-1"}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newLaunchFixture()
				tt.given(f)
				if err := f.launch(t.Context(), ""); err != nil {
					t.Error(err)
				}
				f.wantSteps(t, completed("CONTINUE", tt.steps...)...)
				if n := f.observed("protection of node-1 for workers failed"); n != tt.failed {
					t.Errorf("%d failures were observed, want %d: %q", n, tt.failed, f.facts)
				}
				if (f.observed("node-1 protected for workers") == 1) != (len(f.did("protect")) == 1) {
					t.Errorf("facts %q", f.facts)
				}
			})
		})
	}
}

// TestUnprotect: a resync removes the protection from the nodes of groups whose refresh has ended.
func TestUnprotect(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		given func(f *fixture)
		steps []string
		facts []string
	}{
		{"of a finished refresh", func(*fixture) {}, []string{"unprotect old"}, []string{"old unprotected for done"}},
		{
			"fails", func(f *fixture) { f.protectErrs = []error{errOutage} },
			nil,
			[]string{"protection of old for done failed: no answer"},
		},
		{"of a deleted node", func(f *fixture) { f.protectErrs = []error{node.ErrGone} }, nil, nil},
		{
			"of a refresh that may be active",
			func(f *fixture) { f.refresh = func(string) (bool, error) { return false, errOutage } },
			nil,
			[]string{"protection of new for busy failed: no answer", "protection of old for done failed: no answer"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture()
				f.refresh = func(group string) (bool, error) { return group == "busy", nil }
				f.protected = []node.ProtectedNode{
					{Node: node.Node{Name: "new"}, Group: "busy"}, {Node: node.Node{Name: "old"}, Group: "done"},
				}
				tt.given(f)
				ctx, cancel := contextFor(t, time.Minute)
				defer cancel()
				if err := f.agent().Run(ctx); !errors.Is(err, errStopping) {
					t.Errorf("Run returned %v", err)
				}
				f.wantSteps(t, tt.steps...)
				if diff := cmp.Diff(append([]string{"resynced: found 0, lost 0"}, tt.facts...), f.facts); diff != "" {
					t.Errorf("facts (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestTerminationAfterTheWarmPool: an instance whose node was drained on its way into the warm pool is drained again
// when it terminates after its next launch, however soon.
func TestTerminationAfterTheWarmPool(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(f *fixture) queue.Message{
		"into the warm pool again": func(f *fixture) queue.Message { return message("drain", time.Now()) },
		"by a Spot interruption":   spotWarning,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newLaunchFixture()
				f.ready, f.drainTakes = 0, time.Second
				f.state = func(after time.Duration) (autoscaling.State, error) {
					if after == 2*time.Second {
						return pendingWait, nil
					}
					return terminating, nil
				}
				a := f.agent()
				for _, m := range []func(f *fixture) queue.Message{
					func(f *fixture) queue.Message { return message("drain", f.start) },
					func(*fixture) queue.Message { return launchMessage("launch", "", time.Now()) },
					next,
				} {
					if err := a.Handle(t.Context(), m(f)); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Until(f.start.Add(f.after().Truncate(time.Second) + time.Second)))
				}
				if drains, uncordons := len(f.did("drain ")), len(f.did("uncordon")); drains != 2 || uncordons != 1 {
					t.Errorf("drained %d times, uncordoned %d times: %q", drains, uncordons, f.did(""))
				}
			})
		})
	}
}
