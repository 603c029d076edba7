package agent_test

import (
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// TestNoticeBeforeTheNode: the notice of an instance that is launching waits for the Node, as long as one may take to
// register, and has then the time that is left.
func TestNoticeBeforeTheNode(t *testing.T) {
	t.Parallel()
	ignored := func(kind event.Kind) string {
		return "ignored " + string(kind) + " of " + instance + ": the instance is not a node that this agent manages"
	}
	waited := func(steps ...string) []string { return append([]string{"await"}, steps...) }
	late := func(f *fixture) queue.Message { return spotWarning(&fixture{start: f.start.Add(-time.Minute)}) }
	hurried := func(f *fixture) { f.cfg.RegistrationTimeout = 30 * time.Second }
	for _, tt := range []struct {
		name    string
		given   given
		message source
		steps   []string
		took    time.Duration
		fact    string
	}{
		{
			"Spot interruption", registers(40 * time.Second), spotWarning, waited(drainedWithoutHook("1m55s")...),
			50 * time.Second, "ended drained",
		},
		{
			"interruption of a Capacity Reservation", registers(30 * time.Second), reservationInterruption,
			waited(drainedWithoutHook("55s")...), 40 * time.Second, "ended drained",
		},
		{
			"Spot interruption, and the instance ends before it registers", with(registers(4*time.Minute), uncalled), spotWarning,
			waited(), 3 * time.Minute, ignored(event.SpotInterruption),
		},
		{
			"Spot interruption, and the node registers after its end, by the clock of the agent",
			registers(2*time.Minute + 30*time.Second), spotWarning,
			waited(drainedWithoutHook("2m30s")...), 2*time.Minute + 40*time.Second, "ended drained",
		},
		{
			"Spot interruption, a minute late: the instance may have been launched since", with(registers(20*time.Second), hurried),
			late, waited(drainedWithoutHook("55s")...), 30 * time.Second, "ended drained",
		},
		{
			"Spot interruption, a minute late, and the node does not register in time", with(noNode, uncalled, hurried),
			late, waited(), 30 * time.Second, ignored(event.SpotInterruption),
		},
		{
			"rebalance recommendation", registers(4 * time.Minute), rebalance, waited(drainedWithoutHook("1h4m0s")...),
			4*time.Minute + 10*time.Second, "ended drained",
		},
		{
			"rebalance recommendation of an instance that never registers", with(noNode, uncalled), rebalance,
			waited(), 5 * time.Minute, ignored(event.RebalanceRecommendation),
		},
		{
			"maintenance of an instance that never registers", with(noNode, uncalled), maintenance,
			waited(), 5 * time.Minute, ignored(event.ScheduledChange),
		},
		{
			"the node is another agent's", with(registers(10*time.Second), theirs, func(f *fixture) { f.cfg.ConfirmTimeout = 0 }),
			spotWarning, waited(), 10 * time.Second, ignored(event.SpotInterruption),
		},
		{
			"a stopping instance does not register", with(registers(10*time.Second), uncalled), stateChange("stopping"),
			nil, 0, ignored(event.StateChange),
		},
	} {
		each(t, tt.name, tt.given, func(t *testing.T, f *fixture) {
			mustHandle(t, f, f.agent(), tt.message)
			f.wantSteps(t, tt.steps...)
			if took := f.after(); took < tt.took || took > tt.took+time.Second {
				t.Errorf("took %v, want %v", took, tt.took)
			}
			if f.observed(tt.fact) != 1 {
				t.Errorf("%q was not observed: %q", tt.fact, f.facts)
			}
		})
	}
}
