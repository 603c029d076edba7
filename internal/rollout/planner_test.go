package rollout

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/node-drainer/node-drainer/internal/lead"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// TestPlanExpectsTheOutcome: a plan says that a run would end before it changes anything, if and only if the run does.
func TestPlanExpectsTheOutcome(t *testing.T) {
	t.Parallel()
	active := func(version string) func(*fakeAWS) {
		return func(a *fakeAWS) { a.begin("r-0", &refresh.Source{Template: template(version)}) }
	}
	for name, tt := range map[string]struct {
		before func(*fakeAWS)
		change func(*plan.Config)
		want   report.Outcome // empty if the run replaces something
	}{
		"nothing prevents it":  {before: func(*fakeAWS) {}},
		"nothing is outdated":  {before: func(a *fakeAWS) { a.replaceAll("2") }, want: report.Nothing},
		"no terminating hook":  {before: func(a *fakeAWS) { a.hooks = nil }, want: report.Refused},
		"a check is allowed":   {func(a *fakeAWS) { a.hooks = nil }, func(c *plan.Config) { c.Allow = []string{"no-terminating-hook"} }, ""},
		"the template is gone": {before: func(a *fakeAWS) { a.group.Source.Template.ID = "lt-2" }, want: report.Refused},
		"the template is gone, which cannot be allowed": {
			func(a *fakeAWS) { a.group.Source.Template.ID = "lt-2" }, func(c *plan.Config) { c.Allow = []string{"target"} }, report.Refused,
		},
		"a refresh to the same target is followed": {before: active("2")},
		"a refresh to the same target is followed, whatever the checks say": {
			before: func(a *fakeAWS) { active("2")(a); a.hooks = nil },
		},
		"a refresh has another target": {before: active("1"), want: report.Conflict},
		"a refresh is to be waited for": {
			before: active("1"), change: func(c *plan.Config) { c.OnConflict = plan.Wait },
		},
		"a refresh is not to be touched": {
			before: active("2"), change: func(c *plan.Config) { c.OnConflict = plan.Fail }, want: report.Conflict,
		},
		"a refresh in mode unhealthy": {
			before: active("2"), change: func(c *plan.Config) { c.Mode = refresh.ModeUnhealthy }, want: report.Conflict,
		},
	} {
		runInBubble(t, name, func(t *testing.T) {
			a, cfg := newFakeAWS(3), defaults()
			tt.before(a)
			if tt.change != nil {
				tt.change(&cfg)
			}
			plans, err := plan.NewPlanner(cfg, a, nil).Plan(t.Context(), func(int, int) {})
			if err != nil || plans[0].Expected() != tt.want {
				t.Fatalf("got %q (%v), %v; want %q", plans[0].Expected(), plans[0].Refused, err, tt.want)
			}
			if tt.want != "" {
				g := runGroup(t.Context(), t, cfg, a, nil)
				expect(t, g, tt.want)
				a.expectCalls(t, "")
			}
		})
	}
}

// TestInstanceThatIsInNoGroup: a mistyped --instance is an error, unless an earlier run may have replaced it.
func TestInstanceThatIsInNoGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, cfg := newFakeAWS(2), defaults()
		cfg.Mode, cfg.Only = refresh.ModeUnhealthy, []string{"i-1", "i-9"}
		_, planned := plan.NewPlanner(cfg, a, nil).Plan(t.Context(), func(int, int) {})
		_, run := New(cfg, a, a, nil, nil).Run(t.Context())
		for _, err := range []error{planned, run} {
			if err == nil || !strings.Contains(err.Error(), "1 instance is in no selected group, of those that --instance names: i-9") {
				t.Errorf("got %v", err)
			}
		}
		a.expectCalls(t, "")
		if _, err := New(cfg, a, a, nil, nil).Act(t.Context(), ActResume); err != nil {
			t.Errorf("resumed: %v", err)
		}
		a.group.Tags = map[string]string{refresh.BegunTag: refresh.Begun{Target: "lt-1/2"}.String()}
		if _, err := plan.NewPlanner(cfg, a, nil).Plan(t.Context(), func(int, int) {}); err != nil {
			t.Errorf("continued: %v", err)
		}
	})
}

// severalGroups has the group of a fakeAWS three times, under other names.
type severalGroups struct{ *fakeAWS }

func (s severalGroups) Find(ctx context.Context, selection refresh.Selection) ([]refresh.Group, error) {
	var all []refresh.Group
	for _, name := range []string{"a", "b", "c"} {
		found, err := s.fakeAWS.Find(ctx, selection)
		if err != nil {
			return nil, err
		}
		found[0].Name = name
		all = append(all, found...)
	}
	return all, nil
}

// TestAgentsAreListedOnce: a plan of many groups lists the Leases of agents once.
func TestAgentsAreListedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := &fakeCluster{agents: []lead.Agent{}}
		plans, err := plan.NewPlanner(defaults(), severalGroups{newFakeAWS(2)}, nodes).Plan(t.Context(), func(int, int) {})
		if err != nil || len(plans) != 3 || nodes.listed != 1 {
			t.Errorf("%d plans listed them %d times: %v", len(plans), nodes.listed, err)
		}
	})
}
