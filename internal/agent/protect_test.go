package agent_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

func refreshing(active bool, err error) given {
	return func(f *fixture) { f.refresh = func(string) (bool, error) { return active, err } }
}

// TestProtectDuringARefresh: a launching node is protected from a scale-down, and no launch fails because of that.
func TestProtectDuringARefresh(t *testing.T) {
	t.Parallel()
	const await, wait, protect = "await", "wait for node-1", "protect node-1 for workers"
	for _, tt := range []struct {
		name   string
		given  given
		steps  []string
		failed int
	}{
		{"protected when it registers", refreshing(true, nil), []string{await, protect, wait}, 0},
		{
			"retried when it is ready", with(refreshing(true, nil), fails("protect", 1, errOutage)),
			[]string{await, wait, protect},
			1,
		},
		{"not retried again", refreshing(false, errOutage), []string{await, wait}, 2},
		{"no refresh", nil, []string{await, wait}, 0},
	} {
		each(t, tt.name, with(launching, tt.given), func(t *testing.T, f *fixture) {
			mustHandle(t, f, f.agent(), launchTo(""))
			f.wantSteps(t, completed("CONTINUE", tt.steps...)...)
			if n := f.observed("protection of node-1 for workers failed"); n != tt.failed {
				t.Errorf("%d failures were observed, want %d: %q", n, tt.failed, f.facts)
			}
			if f.observed("node-1 protected for workers") != len(f.did("protect")) {
				t.Errorf("facts %q", f.facts)
			}
		})
	}
}

// TestUnprotect: a resync removes the protection from the nodes of groups whose refresh has ended.
func TestUnprotect(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		given given
		steps []string
		facts []string
	}{
		{"of a finished refresh", nil, []string{"unprotect old"}, []string{"old unprotected for done"}},
		{"fails", fails("protect", 1, errOutage), nil, []string{"protection of old for done failed: no answer"}},
		{"of a deleted node", fails("protect", 1, node.ErrGone), nil, nil},
		{
			"of a refresh that may be active", refreshing(false, errOutage), nil,
			[]string{"protection of new for busy failed: no answer", "protection of old for done failed: no answer"},
		},
	} {
		refreshed := func(f *fixture) {
			f.refresh = func(group string) (bool, error) { return group == "busy", nil }
			f.protected = []node.ProtectedNode{
				{Node: node.Node{Name: "new"}, Group: "busy"}, {Node: node.Node{Name: "old"}, Group: "done"},
			}
		}
		each(t, tt.name, with(refreshed, tt.given), func(t *testing.T, f *fixture) {
			resync(t, f.agent(), time.Minute)
			f.wantSteps(t, tt.steps...)
			if diff := cmp.Diff(append([]string{"resynced: found 0, lost 0"}, tt.facts...), f.facts); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTerminationAfterTheWarmPool: an instance whose node was drained on its way into the warm pool is drained again
// when it terminates after its next launch, however soon.
func TestTerminationAfterTheWarmPool(t *testing.T) {
	t.Parallel()
	now := func(*fixture) queue.Message { return message("drain", time.Now()) }
	for name, next := range map[string]source{"into the warm pool again": now, "by a Spot interruption": spotWarning} {
		each(t, name, launching, func(t *testing.T, f *fixture) {
			f.ready, f.drainTakes = 0, time.Second
			f.state = func(after time.Duration) (autoscaling.State, error) {
				if after == 2*time.Second {
					return pendingWait, nil
				}
				return terminating, nil
			}
			a := f.agent()
			relaunch := func(*fixture) queue.Message { return launchMessage("", time.Now()) }
			for _, m := range []source{termination, relaunch, next} {
				mustHandle(t, f, a, m)
				time.Sleep(time.Until(f.start.Add(f.after().Truncate(time.Second) + time.Second)))
			}
			if drains, uncordons := len(f.did("drain ")), len(f.did("uncordon")); drains != 2 || uncordons != 1 {
				t.Errorf("drained %d times, uncordoned %d times: %q", drains, uncordons, f.did(""))
			}
		})
	}
}
