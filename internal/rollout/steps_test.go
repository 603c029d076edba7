package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// TestSteps: a plan says which calls a run would make, in their order.
func TestSteps(t *testing.T) {
	t.Parallel()
	const refreshes = "MinHealthyPercentage 100, MaxHealthyPercentage 134, AutoRollback false, SkipMatching true, " +
		"ScaleInProtectedInstances Ignore, StandbyInstances Ignore"
	active := func(a *fakeAWS) { a.begin("r-0", &refresh.Source{Template: template("2")}) }
	other := func(a *fakeAWS) { a.begin("r-0", &refresh.Source{Template: template("1")}) }
	inBatches := func(m refresh.Mode, change func(*plan.Config)) func(*plan.Config) {
		return func(c *plan.Config) {
			c.Mode, c.Surge = m, nil
			c.Pace = refresh.Pace{Batch: refresh.Amount{N: 2}, Order: refresh.ByAge, Then: refresh.ThenTerminate}
			change(c)
		}
	}
	none := func(*plan.Config) {}
	start := "StartInstanceRefresh with the desired configuration launch template node (lt-1) version 2 ($Latest): " + refreshes
	for name, tt := range map[string]struct {
		before func(*fakeAWS)
		change func(*plan.Config)
		want   []string
	}{
		"refresh": {nil, none, []string{start}},
		"refresh, without a number": {nil, func(c *plan.Config) { c.Pin = refresh.PinNever }, []string{
			"StartInstanceRefresh without a desired configuration: " + refreshes,
		}},
		"refresh, with processes and taints": {nil, func(c *plan.Config) {
			c.Suspend, c.Taint = []string{"AZRebalance"}, cluster.SoftTaint
		}, []string{"SuspendProcesses AZRebalance", "taint 3 outdated nodes: node-drainer.io/outdated (soft)", start}},
		"refresh that is under way": {active, none, []string{"follow instance refresh r-0, which has the same target"}},
		"after another":             {other, func(c *plan.Config) { c.OnConflict = plan.Wait }, []string{"wait for the end of instance refresh r-0", start}},
		"in place of another": {other, func(c *plan.Config) { c.OnConflict = plan.CancelActive }, []string{
			"CancelInstanceRefresh r-0", start,
		}},
		"refused": {func(a *fakeAWS) { a.hooks = nil }, none, nil},
		"unhealthy": {nil, inBatches(refresh.ModeUnhealthy, none), []string{
			"SetInstanceHealth Unhealthy, 2 at a time: i-1, i-2, i-3",
		}},
		"unhealthy, with a surge": {
			nil, inBatches(refresh.ModeUnhealthy, func(c *plan.Config) { c.Pace.Surge = refresh.Amount{N: 1} }), []string{
				"SetDesiredCapacity: from 3 to 4", "SetInstanceHealth Unhealthy, 2 at a time: i-1, i-2",
				"TerminateInstanceInAutoScalingGroup with ShouldDecrementDesiredCapacity, for the last 1",
			},
		},
		"standby": {nil, inBatches(refresh.ModeStandby, none), []string{
			"EnterStandby, 2 at a time: i-1, i-2, i-3",
			"TerminateInstanceInAutoScalingGroup when the replacements are ready",
		}},
		"standby, kept": {nil, inBatches(refresh.ModeStandby, func(c *plan.Config) { c.Pace.Then = refresh.ThenKeep }), []string{
			"EnterStandby, 2 at a time: i-1, i-2, i-3", "drain their nodes when the replacements are ready",
		}},
	} {
		runInBubble(t, name, func(t *testing.T) {
			a, cfg := newFakeAWS(3), defaults()
			cfg.Preferences.Protected, cfg.Preferences.Standby, cfg.Preferences.SkipMatching = "Ignore", "Ignore", true
			if tt.before != nil {
				tt.before(a)
			}
			tt.change(&cfg)
			plans, err := plan.NewPlanner(cfg, a, nil).Plan(t.Context(), func(int, int) {})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, plans[0].Steps); diff != "" {
				t.Errorf("the steps (-want +got):\n%s\n%+v", diff, plans[0].Refused)
			}
		})
	}
}
