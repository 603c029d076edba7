package agent_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/node"
)

// TestDuringADrain: a second event while a node is drained, after half a minute.
func TestDuringADrain(t *testing.T) {
	t.Parallel()
	draining := []string{"cordon until 1h0m0s", "drain node-1 until 1h0m0s"}
	drainingForHook := append([]string{"hold drain"}, draining...)
	maintained := []string{"cordon until 47h59m55s", "drain node-1 until 47h59m55s"}
	short := func(f *fixture) { f.drainTakes = time.Second }
	for _, tt := range []struct {
		name          string
		given         given
		first, second source
		steps         []string // until the second is handled
	}{
		{
			"the maintenance is canceled: uncordoned", inState(inService), maintenance, canceledMaintenance,
			append(slices.Clone(maintained), "uncordon"),
		},
		{
			"the maintenance is canceled after the drain: uncordoned", with(short, inState(inService)),
			maintenance, canceledMaintenance,
			append(drainedWithoutHook("47h59m55s"), "uncordon"),
		},
		{
			"the canceled maintenance is still scheduled: the drain continues", scheduled(always(true)),
			maintenance, canceledMaintenance, maintained,
		},
		{
			"the maintenance is canceled after the drain, while the instance waits for a hook of others: stays cordoned",
			with(short, inState(terminating)), maintenance, canceledMaintenance, drainedWithoutHook("47h59m55s"),
		},
		{
			"the maintenance is canceled, and Auto Scaling does not answer at first: uncordoned after its answer",
			stateIs(silent(time.Minute+20*time.Second, inService)), maintenance, canceledMaintenance,
			append(slices.Clone(maintained), "uncordon"),
		},
		{
			"the group replaces the instance itself: its hook joins the drain, whose deadline becomes earlier",
			with(inState(terminating), fails("exclude", 2, node.ErrGone), func(f *fixture) { f.drainTakes = time.Minute }),
			maintenance, termination,
			append(slices.Clone(maintained), "hold drain", "cordon until 1h0m30s", "tighten node-1 until 1h0m30s",
				"release drain", "complete drain with CONTINUE"),
		},
		{"canceled maintenance of a node that is not cordoned", nil, nil, canceledMaintenance, nil},
		{"canceled maintenance of an instance without a node", noNode, nil, canceledMaintenance, nil},
		{
			"canceled maintenance during the drain of a hook: the drain continues", nil,
			termination, canceledMaintenance, drainingForHook,
		},
		{
			"a forged event during the drain of a hook: the drain continues", ec2State(running),
			termination, spotWarning, drainingForHook,
		},
		{
			"a Spot interruption during the drain of a hook: the drain is tightened",
			// No label is wanted here: which of the two events would set it last is not defined.
			fails("exclude", 2, node.ErrGone), termination, spotWarning,
			append(drainingForHook, "cordon until 1m55s", "tighten node-1 until 1m55s", "release drain",
				"complete drain with CONTINUE"),
		},
	} {
		soonCanceled := func(f *fixture) { f.drainTakes, f.scheduled = 10*time.Minute, changes(true, time.Minute, false) }
		each(t, tt.name, with(soonCanceled, tt.given), func(t *testing.T, f *fixture) {
			a := f.agent()
			if tt.first != nil {
				go func() { _ = a.Handle(t.Context(), tt.first(f)) }()
			}
			time.Sleep(30 * time.Second)
			if err := a.Handle(t.Context(), tt.second(f)); err != nil {
				t.Errorf("the second message ended with %v", err)
			}
			if synctest.Wait(); slices.Contains(tt.steps, "complete drain with CONTINUE") {
				f.awaitEnds()
			}
			f.wantSteps(t, tt.steps...)
			if took := f.after(); took > 2*time.Minute {
				t.Errorf("the second event took until %v", took)
			}
			time.Sleep(time.Hour)
		})
	}
}

// TestEventsTakeTurns: maintenance has the node drained while the agent asks Auto Scaling whether it may uncordon it after
// a false Spot warning.
func TestEventsTakeTurns(t *testing.T) {
	given := with(func(f *fixture) {
		f.drainTakes, f.spot = time.Hour, always(fulfilled)
		f.state = func(time.Duration) (autoscaling.State, error) {
			time.Sleep(2 * time.Second)
			return inService, nil
		}
	})
	inBubble(t, given, func(t *testing.T, f *fixture) {
		a := f.agent()
		go func() { _ = a.Handle(t.Context(), spotWarning(f)) }()
		time.Sleep(31 * time.Second)
		go func() { _ = a.Handle(t.Context(), maintenance(f)) }()
		time.Sleep(10 * time.Minute)
		if f.observed("ended unconfirmed") != 1 || len(f.did("uncordon")) > 0 || len(f.did("drain")) != 2 {
			t.Errorf("%q, %+v", f.facts, f.steps)
		}
		time.Sleep(time.Hour)
	})
}

// TestMaintenanceAgainWhileADrainStops: a message that says that canceled maintenance is scheduled again, which comes
// while the drain for it stops, stays in the queue, and is acted on when it comes again.
func TestMaintenanceAgainWhileADrainStops(t *testing.T) {
	given := with(inState(inService), func(f *fixture) {
		f.drainTakes, f.drainStops = time.Hour, 2*time.Minute
		f.scheduled = func(after time.Duration) (bool, error) { return after < time.Minute || after >= 2*time.Minute, nil }
	})
	inBubble(t, given, func(t *testing.T, f *fixture) {
		a := f.agent()
		for _, m := range []source{maintenance, canceledMaintenance} {
			go func() { _ = a.Handle(t.Context(), m(f)) }()
			time.Sleep(time.Minute + time.Second)
		}
		if err := a.Handle(t.Context(), maintenance(f)); err == nil {
			t.Errorf("the message is lost; facts %q", f.facts)
		}
		time.Sleep(2 * time.Minute)
		if mustHandle(t, f, a, maintenance); len(f.did("drain")) != 2 {
			t.Errorf("steps %q, facts %q", f.did(""), f.facts)
		}
	})
}

// TestCancellationIsLost: a resync ends the drain for maintenance that EC2 no longer has scheduled.
func TestCancellationIsLost(t *testing.T) {
	given := with(inState(inService), scheduled(changes(true, 10*time.Minute, false)), func(f *fixture) {
		f.drainTakes = 48 * time.Hour
	})
	inBubble(t, given, func(t *testing.T, f *fixture) {
		a := f.agent()
		go func() { _ = a.Handle(t.Context(), maintenance(f)) }()
		resync(t, a, time.Hour)
		f.wantSteps(t, "cordon until 47h59m55s", "drain node-1 until 47h59m55s", "uncordon")
		if at := f.when("uncordon"); at < 10*time.Minute || at > 20*time.Minute {
			t.Errorf("uncordoned after %v, want the next resync after 10m", at)
		}
	})
}
