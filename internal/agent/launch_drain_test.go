package agent_test

import (
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/pkg/ec2"
	"github.com/node-drainer/node-drainer/pkg/event"
)

// TestOverdueLaunchAfterCrash: another process continues with the drain of a node that was not ready in time. It neither
// uncordons it nor gives it more time to become ready.
func TestOverdueLaunchAfterCrash(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	overdue := with(launching, readyAt(never), inGroup(pendingWait, "launch"),
		ec2Says(always(ec2.Instance{State: running})), cordoned(event.LifecycleLaunching, -m, 59*m, 0),
		func(f *fixture) { f.lacks = []string{"schedulable"} })
	want := completed("ABANDON", "await", "wait for node-1", "ask about node-1", "cordon until 1h0m0s", "drain node-1 until 59m0s", "exclude")
	each(t, "by the message", overdue, func(t *testing.T, f *fixture) {
		if err := f.agent().Handle(t.Context(), launchMessage("", f.start.Add(-16*m))); err != nil {
			t.Error(err)
		}
		f.wantSteps(t, want...)
	})
	each(t, "by the resync", overdue, func(t *testing.T, f *fixture) {
		resync(t, f.agent(), m)
		f.wantSteps(t, want...)
	})
	each(t, "the instance is in service after all: uncordoned", with(overdue, inGroup(inService)), func(t *testing.T, f *fixture) {
		resync(t, f.agent(), 10*m)
		f.wantSteps(t, "uncordon")
	})
}
