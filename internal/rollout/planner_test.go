package rollout_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/lead"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

func (w *world) noHook() { w.operator("DeleteLifecycleHook", "LifecycleHookName=drain") }

// deleteTemplate has EC2 describe the launch template no more.
func (w *world) deleteTemplate() {
	w.edit = func(action, body string) string {
		if strings.HasPrefix(action, "DescribeLaunchTemplate") {
			return templates.ReplaceAllString(body, "lt-00000000000000000")
		}
		return body
	}
}

// TestPlanExpectsTheOutcome: a plan says that a run would end before it changes anything, if and only if the run does.
func TestPlanExpectsTheOutcome(t *testing.T) {
	active := func(version string, on plan.Conflict) func(w *world) {
		return func(w *world) { w.otherRefresh(version); w.cfg.OnConflict = on }
	}
	gone := func(allow ...string) func(w *world) {
		return func(w *world) { w.deleteTemplate(); w.cfg.Allow = allow }
	}
	for name, tt := range map[string]struct {
		before func(w *world)
		want   report.Outcome // empty if the run replaces something
	}{
		"nothing prevents it":                           {func(*world) {}, ""},
		"nothing is outdated":                           {func(w *world) { w.cfg.Version = "1" }, report.Nothing},
		"no terminating hook":                           {(*world).noHook, report.Refused},
		"a check is allowed":                            {func(w *world) { w.noHook(); w.cfg.Allow = []string{"no-terminating-hook"} }, ""},
		"the template is gone":                          {gone(), report.Refused},
		"the template is gone, which cannot be allowed": {gone("target"), report.Refused},
		"a refresh to the same target is followed":      {active("2", plan.Attach), ""},
		"a refresh to the same target is followed, whatever the checks say": {
			func(w *world) { active("2", plan.Attach)(w); w.noHook() }, "",
		},
		"a refresh has another target":   {active("1", plan.Attach), report.Conflict},
		"a refresh is to be waited for":  {active("1", plan.Wait), ""},
		"a refresh is not to be touched": {active("2", plan.Fail), report.Conflict},
		"a refresh in mode unhealthy": {
			func(w *world) { active("2", plan.Attach)(w); w.setMode(refresh.ModeUnhealthy) }, report.Conflict,
		},
	} {
		inWorld(t, name, awsim.Group{}, func(w *world) {
			tt.before(w)
			if p := w.plans()[0]; p.Expected() != tt.want {
				w.Fatalf("got %q (%v); want %q", p.Expected(), p.Refused, tt.want)
			}
			if tt.want != "" {
				w.play(scenario{want: tt.want})
			}
		})
	}
}

// TestInstanceThatIsInNoGroup: a mistyped --instance is an error, unless an earlier run may have replaced it.
func TestInstanceThatIsInNoGroup(t *testing.T) {
	inWorld(t, "", awsim.Group{}, func(w *world) {
		w.setMode(refresh.ModeUnhealthy)
		w.cfg.Only = []string{w.id("i-1"), "i-9"}
		reader, _ := w.clients()
		planned := func() error {
			_, err := plan.NewPlanner(w.cfg, reader, nil).Plan(w.Context(), func(int, int) {})
			return err
		}
		_, run := w.run(w.Context(), "")
		for _, err := range []error{planned(), run} {
			if err == nil || !strings.Contains(err.Error(), "1 instance is in no selected group, of those that --instance names: i-9") {
				w.Errorf("got %v", err)
			}
		}
		w.expectCalls("")
		if _, err := w.run(w.Context(), rollout.ActResume); err != nil {
			w.Errorf("resumed: %v", err)
		}
		w.tag(refresh.BegunTag, refresh.Begun{Target: "lt-1/2"}.String())
		w.must(planned())
	})
}

// TestAgentsAreListedOnce: a plan of many groups lists the Leases of agents once.
func TestAgentsAreListedOnce(t *testing.T) {
	inWorld(t, "", awsim.Group{}, func(w *world) {
		w.addGroups("x", "y")
		w.nodes.agents = []lead.Agent{}
		if plans := w.plans(); len(plans) != 3 || w.nodes.listed != 1 {
			w.Errorf("%d plans listed them %d times", len(plans), w.nodes.listed)
		}
	})
}

// TestSteps: a plan says which calls a run would make, in their order.
func TestSteps(t *testing.T) {
	const refreshes = "MinHealthyPercentage 100, MaxHealthyPercentage 134, AutoRollback false, SkipMatching true, " +
		"ScaleInProtectedInstances Ignore, StandbyInstances Ignore"
	inBatches := func(m refresh.Mode, surge int, then refresh.Then) func(w *world) {
		return func(w *world) {
			w.setMode(m)
			w.cfg.Pace.Batch.N, w.cfg.Pace.Surge.N, w.cfg.Pace.Then = 2, surge, then
		}
	}
	other := func(version string, on plan.Conflict) func(w *world) {
		return func(w *world) { w.otherRefresh(version); w.cfg.OnConflict = on }
	}
	const start = "StartInstanceRefresh with the desired configuration launch template node (lt) version 2 ($Latest): " + refreshes
	for name, tt := range map[string]struct {
		before func(w *world)
		want   []string
	}{
		"refresh": {func(*world) {}, []string{start}},
		"refresh, without a number": {func(w *world) { w.cfg.Pin = refresh.PinNever }, []string{
			"StartInstanceRefresh without a desired configuration: " + refreshes,
		}},
		"refresh, with processes and taints": {func(w *world) {
			w.cfg.Suspend, w.cfg.Taint = []string{"AZRebalance"}, cluster.SoftTaint
		}, []string{"SuspendProcesses AZRebalance", "taint 3 outdated nodes: node-drainer.io/outdated (soft)", start}},
		"refresh that is under way": {other("2", plan.Attach), []string{"follow instance refresh r, which has the same target"}},
		"after another":             {other("1", plan.Wait), []string{"wait for the end of instance refresh r", start}},
		"in place of another":       {other("1", plan.CancelActive), []string{"CancelInstanceRefresh r", start}},
		"refused":                   {(*world).noHook, nil},
		"unhealthy": {inBatches(refresh.ModeUnhealthy, 0, ""), []string{
			"SetInstanceHealth Unhealthy, 2 at a time: i-1, i-2, i-3",
		}},
		"unhealthy, with a surge": {inBatches(refresh.ModeUnhealthy, 1, ""), []string{
			"SetDesiredCapacity: from 3 to 4", "SetInstanceHealth Unhealthy, 2 at a time: i-1, i-2",
			"TerminateInstanceInAutoScalingGroup with ShouldDecrementDesiredCapacity, for the last 1",
		}},
		"standby": {inBatches(refresh.ModeStandby, 0, refresh.ThenTerminate), []string{
			"EnterStandby, 2 at a time: i-1, i-2, i-3", "TerminateInstanceInAutoScalingGroup when the replacements are ready",
		}},
		"standby, kept": {inBatches(refresh.ModeStandby, 0, refresh.ThenKeep), []string{
			"EnterStandby, 2 at a time: i-1, i-2, i-3", "drain their nodes when the replacements are ready",
		}},
	} {
		inWorld(t, name, awsim.Group{}, func(w *world) {
			tt.before(w)
			p := w.plans()[0]
			for n := range p.Steps {
				p.Steps[n] = w.short(p.Steps[n])
			}
			if diff := cmp.Diff(tt.want, p.Steps); diff != "" {
				w.Errorf("the steps (-want +got):\n%s\n%+v", diff, p.Refused)
			}
		})
	}
}
