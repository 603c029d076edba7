package agent_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
)

func (f instances) Schedules(_ context.Context, ids []string) (map[string]ec2.Schedule, error) {
	if f.lostEvents == nil {
		return nil, nil
	}
	f.fact("listed the events of %q", ids)
	scheduled, err := f.lostEvents(f.after())
	if err != nil || !scheduled || !slices.Contains(ids, instance) {
		return nil, err
	}
	return map[string]ec2.Schedule{instance: {Any: true, NotBefore: f.notBefore}, "i-other": {Any: true}}, nil
}

// lostMaintenance has EC2 schedule maintenance in two days whose message is lost.
func lostMaintenance(f *fixture) {
	inGroup(inService)(f)
	f.lostEvents, f.notBefore = always(true), f.start.Add(48*time.Hour)
}

// TestLostMaintenance: a resync finds what EC2 has scheduled for the nodes of this agent, within ten minutes.
func TestLostMaintenance(t *testing.T) {
	t.Parallel()
	soon := func(f *fixture) { f.notBefore = f.start.Add(30 * time.Minute) }
	for _, tt := range []struct {
		name  string
		given given
		steps []string
		lists int
	}{
		{"it is days ahead: announced once", lead, []string{"announce maintenance at 48h0m0s"}, 1},
		{"it is soon: drained once", soon, drainedWithoutHook("29m55s"), 1},
		{"EC2 does not answer at first", with(soon, func(f *fixture) { f.lostEvents = silent(time.Second, true) }), drainedWithoutHook("29m55s"), 2},
		{"nothing is scheduled", func(f *fixture) { f.lostEvents = always(false) }, nil, 4},
		{"EC2 does not confirm it", with(soon, scheduled(always(false))), nil, 4},
		{"it is configured to be ignored", func(f *fixture) { f.cfg.Events.ScheduledChange = event.Ignore }, nil, 0},
		{"it is only cordoned for", with(soon, func(f *fixture) { f.cfg.Events.ScheduledChange = event.Cordon }), []string{"cordon"}, 1},
		{"the node is another agent's", func(f *fixture) { f.theirs = always(true) }, nil, 0},
		{"the node is managed by Karpenter", func(f *fixture) { f.node.Manager = node.Karpenter }, nil, 0},
		{"it was announced before", with(lead, func(f *fixture) { f.node.Maintenance = f.notBefore }), nil, 0},
		{"the node is drained for a hook", with(cordoned(event.LifecycleTerminating, -time.Minute, time.Hour, 0), inGroup(terminating)), nil, 0},
		{"in a dry run: once", with(soon, func(f *fixture) { f.cfg.DryRun = true }), []string{"drain node-1 until 29m55s"}, 4},
	} {
		each(t, tt.name, with(lostMaintenance, tt.given), func(t *testing.T, f *fixture) {
			resync(t, f.agent(), 10*time.Minute)
			f.wantSteps(t, tt.steps...)
			if n := f.observed("listed the events of [\"" + instance + "\"]"); n != tt.lists {
				t.Errorf("EC2 was asked %d times, want %d: %q", n, tt.lists, f.facts)
			}
		})
	}
}
