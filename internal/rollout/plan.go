package rollout

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/cluster"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Plan describes for each selected group what would be done. Of groups without an outdated instance it reads
// nothing further.
func (p *Planner) Plan(ctx context.Context) ([]report.Plan, error) {
	s, err := p.survey(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	found := make([]assessment, len(s.groups))
	for i, g := range s.groups {
		found[i] = p.policy.assess(g, s.templates, now)
	}
	plans := make([]report.Plan, len(s.groups))
	loads, unlistable := p.loads(ctx, s.groups, found)
	if ctx.Err() != nil {
		return nil, unlistable
	}
	var work errgroup.Group
	work.SetLimit(concurrency)
	for i, g := range s.groups {
		work.Go(func() error {
			plan, err := p.plan(ctx, g, found[i], loads)
			if unlistable != nil && len(plan.Findings) > 0 {
				plan.Findings = withUnlisted(plan.Findings, unlistable)
			}
			plans[i] = plan
			return err
		})
	}
	return plans, work.Wait()
}

// withUnlisted adds to the findings that pods or budgets cannot be listed. The rest of the plan does not
// need them.
func withUnlisted(findings []refresh.Finding, err error) []refresh.Finding {
	others := slices.DeleteFunc(findings, func(f refresh.Finding) bool {
		return f.Check == refresh.CheckBudgets
	})
	return append(others, refresh.Finding{Check: refresh.CheckBudgets, Level: refresh.Warn, Text: fmt.Sprintf(
		"the pods on the nodes cannot be listed: %v", err)})
}

func (p *Planner) plan(
	ctx context.Context, g refresh.Group, a assessment, loads map[string]cluster.Load,
) (report.Plan, error) {
	plan := report.Plan{
		Group: g.Name, Mode: p.policy.cfg.Mode, Target: a.target.Text, Desired: g.Desired,
		Outdated: len(a.outdated()), Kept: len(a.kept()),
		Instances: []report.Planned{}, Findings: []refresh.Finding{}, // empty, not null, in JSON
	}
	for _, i := range g.Instances {
		plan.Instances = append(plan.Instances, p.planned(i, a.verdicts[i.ID], loads))
	}
	if plan.Outdated+plan.Kept == 0 && a.target.Problem == "" {
		return plan, nil
	}
	facts, err := p.facts(ctx, g, a, loads)
	if err != nil {
		return plan, err
	}
	if facts.Active != nil {
		plan.Active = facts.Active.ID
	}
	plan.Findings = refresh.Preflight(g, facts)
	return plan, nil
}

func (p *Planner) planned(
	i refresh.Instance, v refresh.Verdict, loads map[string]cluster.Load,
) report.Planned {
	planned := report.Planned{
		ID: i.ID, Zone: i.Zone, Type: i.Type, State: i.State, Image: i.ImageID, Launched: i.Launched,
		Outdated: v.Outdated, Reasons: v.Reasons, Kept: v.Kept, Node: p.policy.nodes.of(i.ID),
	}
	if planned.Node != nil {
		if load, known := loads[planned.Node.Name]; known {
			planned.Load = &load
		}
	}
	return planned
}
