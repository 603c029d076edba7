package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/cluster"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// together is how many groups are asked about at a time, where one call serves one group.
const together = 8

// survey is what AWS says of the selected groups.
type survey struct {
	groups    []refresh.Group
	templates refresh.Templates
	at        time.Time
}

func (p *Planner) survey(ctx context.Context) (survey, error) {
	groups, err := p.reader.Find(ctx, p.cfg.Selection)
	if err != nil {
		return survey{}, err
	}
	s, err := p.resolve(ctx, groups)
	s.groups = groups // also if it is not known what they should be launched from
	return s, err
}

// resolve asks for what the groups' instances should have been launched from.
func (p *Planner) resolve(ctx context.Context, groups []refresh.Group) (survey, error) {
	at := time.Now()
	templates, err := p.reader.Templates(ctx, groups, p.cfg.Version)
	if err != nil {
		return survey{}, err
	}
	if p.byAge() || refresh.NeedsEC2(groups, templates, p.criteria(nil)) {
		if err := p.reader.Complete(ctx, groups); err != nil {
			return survey{}, err
		}
	}
	return survey{groups, templates, at}, nil
}

// byAge tells whether the oldest instances go first: only EC2 knows how old they are.
func (p *Planner) byAge() bool {
	return p.cfg.Mode == refresh.ModeUnhealthy && p.cfg.Pace.Order != refresh.ByZone
}

// criteria are those of the configuration, for the instances of a group.
func (p *Planner) criteria(instances []refresh.Instance) refresh.Criteria {
	return refresh.Criteria{
		Version: p.cfg.Version, MaxAge: p.cfg.MaxAge, Only: p.cfg.Only, All: p.cfg.All,
		Exclude:          p.excluded(instances),
		IncludeProtected: p.cfg.Preferences.Protected == "Refresh",
		IncludeStandby:   p.cfg.Mode == refresh.ModeRefresh && p.cfg.Preferences.Standby == "Terminate",
	}
}

// excluded are the instances whose nodes bear one of the labels of --exclude-node-label.
func (p *Planner) excluded(instances []refresh.Instance) map[string]string {
	if len(p.cfg.Exclude) == 0 || p.view == nil {
		return nil
	}
	excluded := map[string]string{}
	for _, i := range instances {
		node, known := p.view.Node(i.ID)
		if !known {
			continue
		}
		for _, label := range p.cfg.Exclude {
			key, want, valued := strings.Cut(label, "=")
			if value, has := node.Labels[key]; has && (!valued || value == want) {
				excluded[i.ID] = fmt.Sprintf("node %s bears the label %s", node.Name, label)
			}
		}
	}
	return excluded
}

// assessment is what is found of a group's instances.
type assessment struct {
	target   refresh.Target
	verdicts map[string]refresh.Verdict
}

func (p *Planner) assess(g refresh.Group, t refresh.Templates, now time.Time) assessment {
	criteria := p.criteria(g.Instances)
	a := assessment{target: t.Resolve(g, p.cfg.Version), verdicts: map[string]refresh.Verdict{}}
	for _, i := range g.Instances {
		a.verdicts[i.ID] = refresh.Outdated(i, a.target, t, criteria, now)
	}
	return a
}

// outdated are the instances to be replaced, in the order of their ids.
func (a assessment) outdated() []string {
	return a.filter(func(v refresh.Verdict) bool { return v.Outdated && len(v.Kept) == 0 })
}

// kept are the outdated instances that somebody has to care for, because no replacement is coming to them.
// What goes already, or was excluded on purpose, is none of them.
func (a assessment) kept() []string {
	return a.filter(func(v refresh.Verdict) bool {
		return v.Outdated && len(v.Kept) > 0 && !v.KeptFor(refresh.CodeTerminating) && !v.KeptFor(refresh.CodeExcluded)
	})
}

// going are the outdated instances that are on their way out.
func (a assessment) going() []string {
	return a.filter(func(v refresh.Verdict) bool { return v.Outdated && v.KeptFor(refresh.CodeTerminating) })
}

func (a assessment) filter(fits func(refresh.Verdict) bool) []string {
	var ids []string
	for id, v := range a.verdicts {
		if fits(v) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Plan says of each selected group what would be done. Groups without an outdated instance are not looked at
// further.
func (p *Planner) Plan(ctx context.Context) ([]report.Plan, error) {
	s, err := p.survey(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	found := make([]assessment, len(s.groups))
	for i, g := range s.groups {
		found[i] = p.assess(g, s.templates, now)
	}
	plans := make([]report.Plan, len(s.groups))
	loads, unread := p.loads(ctx, s.groups, found)
	if ctx.Err() != nil {
		return nil, unread
	}
	var work errgroup.Group
	work.SetLimit(together)
	for i, g := range s.groups {
		work.Go(func() error {
			plan, err := p.plan(ctx, g, found[i], loads)
			if unread != nil && len(plan.Findings) > 0 {
				plan.Findings = unlisted(plan.Findings, unread)
			}
			plans[i] = plan
			return err
		})
	}
	return plans, work.Wait()
}

// unlisted adds to the findings that pods or budgets cannot be listed. AWS and the agent do the work, so that
// the rest of the plan is as good.
func unlisted(findings []refresh.Finding, err error) []refresh.Finding {
	told := slices.DeleteFunc(findings, func(f refresh.Finding) bool { return f.Check == refresh.CheckBudgets })
	return append(told, refresh.Finding{Check: refresh.CheckBudgets, Level: refresh.Warn, Text: fmt.Sprintf(
		"what runs on the nodes is not told, since the cluster does not say: %v", err)})
}

// loads asks what runs on the nodes of the groups in which outdated instances were found.
func (p *Planner) loads(
	ctx context.Context, groups []refresh.Group, found []assessment,
) (map[string]cluster.Load, error) {
	if p.view == nil {
		return nil, nil
	}
	var nodes []string
	for n, g := range groups {
		if len(found[n].outdated()) == 0 {
			continue
		}
		for _, i := range g.Instances {
			if node, known := p.view.Node(i.ID); known {
				nodes = append(nodes, node.Name)
			}
		}
	}
	if len(nodes) == 0 {
		return nil, nil
	}
	return p.view.Loads(ctx, nodes)
}

func (p *Planner) plan(
	ctx context.Context, g refresh.Group, a assessment, loads map[string]cluster.Load,
) (report.Plan, error) {
	plan := report.Plan{
		Group: g.Name, Mode: p.cfg.Mode, Target: a.target.Text, Desired: g.Desired,
		Outdated: len(a.outdated()), Kept: len(a.kept()),
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
		ID: i.ID, Zone: i.Zone, Type: i.Type, State: i.State, Image: i.ImageID,
		Outdated: v.Outdated, Reasons: v.Reasons, Kept: v.Kept, Node: p.node(i.ID),
	}
	if !i.Launched.IsZero() {
		planned.Launched = &i.Launched
	}
	if planned.Node != nil {
		if load, known := loads[planned.Node.Name]; known {
			planned.Load = &load
		}
	}
	return planned
}

// node is the Node of an instance, or nil.
func (p *Planner) node(instanceID string) *cluster.Node {
	if p.view == nil {
		return nil
	}
	node, known := p.view.Node(instanceID)
	if !known {
		return nil
	}
	return &node
}

// facts gathers what the preflight decides on.
func (p *Planner) facts(
	ctx context.Context, g refresh.Group, a assessment, loads map[string]cluster.Load,
) (refresh.Facts, error) {
	hooks, err := p.reader.Hooks(ctx, g.Name)
	if err != nil {
		return refresh.Facts{}, err
	}
	active, err := p.active(ctx, g.Name)
	if err != nil {
		return refresh.Facts{}, err
	}
	f := refresh.Facts{
		Mode: p.cfg.Mode, Preferences: p.preferences(g), Pin: p.cfg.Pin,
		Rollback: p.cfg.Preferences.AutoRollback || p.cfg.OnInterrupt == Rollback,
		Outdated: len(a.outdated()), Target: a.target, Hooks: hooks, Active: active,
		AllowManaged: p.cfg.AllowManaged, Self: p.cfg.Self, Verdicts: a.verdicts,
	}
	if p.cfg.Mode == refresh.ModeUnhealthy {
		f.Batch, f.Surge = p.cfg.Pace.Batch.Of(g.Desired), p.cfg.Pace.Surge
	}
	if p.view != nil {
		f.Cluster, f.LongestGrace = p.clusterFacts(g, a, loads)
	}
	return f, nil
}

// clusterFacts tells of all nodes whether they are ready, and of those that are to go what their pods wait
// for.
func (p *Planner) clusterFacts(
	g refresh.Group, a assessment, loads map[string]cluster.Load,
) (*refresh.ClusterFacts, time.Duration) {
	facts, longest := &refresh.ClusterFacts{}, time.Duration(0)
	for _, i := range g.Instances {
		node := p.node(i.ID)
		if i.InService() && (node == nil || !node.Ready) {
			facts.Missing = append(facts.Missing, i.ID)
		}
		if node != nil && a.verdicts[i.ID].Outdated {
			load := loads[node.Name]
			facts.Blocking = append(facts.Blocking, load.Blocking...)
			longest = max(longest, load.LongestGrace)
		}
	}
	slices.Sort(facts.Blocking)
	facts.Blocking = slices.Compact(facts.Blocking)
	return facts, longest
}

// active is the refresh of the group that is under way, or nil.
func (p *Planner) active(ctx context.Context, group string) (*refresh.Refresh, error) {
	all, err := p.reader.Refreshes(ctx, group)
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		if r.Active() {
			return &r, nil
		}
	}
	return nil, nil
}

// preferences are those of the configuration, with the percentages that the surge means for a group of this
// size.
func (p *Planner) preferences(g refresh.Group) refresh.Preferences {
	prefs := p.cfg.Preferences
	if p.cfg.Surge == nil || p.cfg.Mode != refresh.ModeRefresh {
		return prefs
	}
	least, most := refresh.Percentages(g.Desired, *p.cfg.Surge, p.cfg.Strategy)
	prefs.MinHealthy, prefs.MaxHealthy = &least, nil
	if most > 0 {
		prefs.MaxHealthy = &most
	}
	return prefs
}
