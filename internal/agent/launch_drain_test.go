package agent_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// TestOverdueLaunchAfterCrash: another process continues with the drain of a node that was not ready in time. It neither
// uncordons it nor gives it more time to become ready.
func TestOverdueLaunchAfterCrash(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	overdue := with(launching, readyAt(never), inGroup(pendingWait, "launch"),
		ec2Says(always(ec2.Instance{State: running})), cordoned(event.LifecycleLaunching, -m, 59*m, 0),
		func(f *fixture) { f.lacks = []string{"schedulable"} })
	want := completed("ABANDON", "ask about node-1", "cordon until 1h0m0s", "drain node-1 until 59m0s", "exclude")
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

// TestOverdueLaunchThatIsOver: a hook ends by its default result while the node becomes overdue. It is not cordoned.
func TestOverdueLaunchThatIsOver(t *testing.T) {
	inService := stateIs(changes(pendingWait, 14*time.Minute, inService))
	inBubble(t, with(launching, readyAt(never), inService), func(t *testing.T, f *fixture) {
		mustHandle(t, f, f.agent(), func(f *fixture) queue.Message { return launchMessage("", f.start) })
		f.wantSteps(t, held("await", "wait for node-1", "ask about node-1")...)
	})
}

// TestLaunchEndsEarlierDrain: the root volume of an instance is replaced while its node is drained. The drain does not go
// on without a mark, even if AWS has not yet said that its lifecycle action is over.
func TestLaunchEndsEarlierDrain(t *testing.T) {
	t.Parallel()
	drained := []string{"cordon until 1h0m0s", "drain node-1 until 1h0m0s"}
	for _, tt := range []struct {
		name   string
		drains source
		state  answer[autoscaling.State]
		before []string
		ends   []string
	}{
		{"for an alarm", alarmOn, always(pendingWait), drained, nil},
		{
			"for the replacement", replacing, changes(replacingWait, 15*time.Second, pendingWait),
			slices.Concat([]string{"hold drain"}, drained),
			[]string{"release drain"},
		},
	} {
		each(t, tt.name, with(launching, ec2State(running), stateIs(tt.state)), func(t *testing.T, f *fixture) {
			f.drainTakes = 10 * time.Minute
			a := f.agent()
			var draining sync.WaitGroup
			draining.Go(func() { mustHandle(t, f, a, tt.drains) })
			time.Sleep(30 * time.Second)
			mustHandle(t, f, a, func(f *fixture) queue.Message { return launchMessage("", f.start.Add(20*time.Second)) })
			draining.Wait()
			f.wantOutcome(t, agent.Canceled)
			f.wantSteps(t, slices.Concat(tt.before, []string{"hold launch", "await"}, tt.ends,
				[]string{"uncordon", "wait for node-1", "release launch", "complete launch with CONTINUE"})...)
		})
	}
}
