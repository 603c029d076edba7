package rollout

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/lead"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// concurrency is how many calls are made at a time, where one call is for one group or node.
const concurrency = 8

// Reader reads from AWS what a plan and a rollout need.
type Reader interface {
	Find(ctx context.Context, s refresh.Selection) ([]refresh.Group, error)
	Group(ctx context.Context, name string) (refresh.Group, error)
	// Pool returns the instances in the group's warm pool, which Find and Group leave out.
	Pool(ctx context.Context, group string) ([]refresh.Instance, error)
	Hooks(ctx context.Context, group string) ([]refresh.Hook, error)

	// Templates returns what instances should be launched from. Complete adds what EC2 alone knows of them.
	Templates(ctx context.Context, groups []refresh.Group, version string) (refresh.Templates, error)
	Complete(ctx context.Context, groups []refresh.Group) error

	// Refreshes returns the Instance Refreshes of a group, the newest first.
	Refreshes(ctx context.Context, group string) ([]refresh.Refresh, error)
	Refresh(ctx context.Context, group, id string) (refresh.Refresh, error)

	// CapacityChanges returns the changes of the desired capacity that Auto Scaling has reacted to since then.
	CapacityChanges(ctx context.Context, group string, since time.Time) ([]refresh.CapacityChange, error)

	// States returns the states of CloudWatch alarms, by name.
	States(ctx context.Context, alarms []string) (map[string]string, error)
}

// Cluster is what Kubernetes knows of the instances' nodes. It is nil where the cluster cannot be reached.
type Cluster interface {
	Node(instanceID string) (cluster.Node, bool)
	Loads(ctx context.Context, nodes []string) (map[string]cluster.Load, error)
	SinglePods(ctx context.Context, loads map[string]cluster.Load) ([]string, error)
	// Agents returns the agents whose Leases can be listed.
	Agents(ctx context.Context) ([]lead.Agent, error)
	// Stale returns why Node may return what is not so any more, or nil.
	Stale() error
}

// Planner finds what is outdated. It cannot change anything.
type Planner struct {
	policy policy
	reader Reader
}

// NewPlanner returns a Planner. The view may be nil.
func NewPlanner(cfg Config, reader Reader, view Cluster) *Planner {
	return &Planner{policy: policy{cfg, nodeIndex{view}}, reader: reader}
}

// survey is what AWS says of the selected groups.
type survey struct {
	groups    []refresh.Group
	templates refresh.Templates
	at        time.Time
}

// survey reads the selected groups, in the order in which they are replaced, and what their instances should be
// launched from. If the second fails, the groups are returned beside the error.
func (p *Planner) survey(ctx context.Context) (survey, error) {
	groups, err := p.reader.Find(ctx, p.policy.cfg.Selection)
	if err != nil {
		return survey{}, err
	}
	refresh.SortGroups(groups, p.policy.cfg.Order)
	var pools errgroup.Group
	pools.SetLimit(concurrency)
	for n := range groups {
		pools.Go(func() error { return p.addPool(ctx, &groups[n]) })
	}
	if err := pools.Wait(); err != nil {
		return survey{}, err
	}
	s, err := p.resolve(ctx, groups)
	s.groups = groups
	return s, err
}

// surveyToReplace is survey for what replaces instances: those of Config.Only must be in the groups.
func (p *Planner) surveyToReplace(ctx context.Context) (survey, error) {
	s, err := p.survey(ctx)
	if err != nil {
		return survey{}, err
	}
	return s, p.checkOnly(s.groups)
}

// checkOnly returns an error if an instance of Config.Only is in none of the groups. An earlier run that was to replace
// it, and has not ended, may have done so.
func (p *Planner) checkOnly(groups []refresh.Group) error {
	missing := slices.Clone(p.policy.cfg.Only)
	for _, g := range groups {
		if _, begun := refresh.BegunOf(g); begun {
			return nil
		}
		in := g.InstanceIDs(func(i refresh.Instance) bool { return slices.Contains(missing, i.ID) })
		missing = slices.DeleteFunc(missing, func(id string) bool { return slices.Contains(in, id) })
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s in no selected group, of those that --instance names: %s; if replaced already, leave it out",
		text.Plural(len(missing), "instance is", "instances are"), text.First(missing, mostNames))
}

// addPool adds the instances of the group's warm pool to its own, if they are replaced too: an instance refresh does
// that. An instance that has just left the pool is described by both.
func (p *Planner) addPool(ctx context.Context, g *refresh.Group) error {
	if !g.WarmPool || p.policy.cfg.Mode != refresh.ModeRefresh {
		return nil
	}
	pooled, err := p.reader.Pool(ctx, g.Name)
	if err != nil {
		return err
	}
	for _, i := range pooled {
		same := func(other refresh.Instance) bool { return other.ID == i.ID }
		if !slices.ContainsFunc(g.Instances, same) {
			g.Instances = append(g.Instances, i)
		}
	}
	return nil
}

// resolve reads what the groups' instances should be launched from.
func (p *Planner) resolve(ctx context.Context, groups []refresh.Group) (survey, error) {
	at := time.Now()
	templates, err := p.reader.Templates(ctx, groups, p.policy.cfg.Version)
	if err != nil {
		return survey{}, err
	}
	if p.policy.needsAge() || refresh.NeedsEC2(groups, templates, p.policy.criteria(nil)) {
		if err := p.reader.Complete(ctx, groups); err != nil {
			return survey{}, err
		}
	}
	return survey{groups, templates, at}, nil
}

// activeRefresh is the refresh of the group that is under way, or nil.
func (p *Planner) activeRefresh(ctx context.Context, group string) (*refresh.Refresh, error) {
	all, err := p.reader.Refreshes(ctx, group)
	if i := slices.IndexFunc(all, refresh.Refresh.Active); err == nil && i >= 0 {
		return &all[i], nil
	}
	return nil, err
}

// inCluster is what is read from Kubernetes for all groups at once.
type inCluster struct {
	loads  map[string]cluster.Load      // Of nodes; without those that could not be listed.
	agents func() ([]lead.Agent, error) // Lists them when it is called first.
}

// inCluster reads which pods run on the nodes of the groups that have outdated instances. If that fails, the rest is
// returned beside the error.
func (p *Planner) inCluster(
	ctx context.Context, groups []refresh.Group, found []assessment,
) (in inCluster, err error) {
	if p.policy.nodes.cluster == nil {
		return in, nil
	}
	in.agents = sync.OnceValues(func() ([]lead.Agent, error) { return p.policy.nodes.cluster.Agents(ctx) })
	var nodes []string
	for n, g := range groups {
		if len(found[n].outdated()) == 0 {
			continue
		}
		for _, i := range g.Instances {
			if node := p.policy.nodes.of(i.ID); node != nil {
				nodes = append(nodes, node.Name)
			}
		}
	}
	if len(nodes) > 0 {
		in.loads, err = p.policy.nodes.cluster.Loads(ctx, nodes)
	}
	return in, err
}

// facts reads what the preflight decides on, besides the active refresh.
func (p *Planner) facts(
	ctx context.Context, g refresh.Group, a assessment, in inCluster, active *refresh.Refresh,
) (refresh.Facts, error) {
	hooks, err := p.reader.Hooks(ctx, g.Name)
	if err != nil {
		return refresh.Facts{}, err
	}
	f := p.policy.facts(g, a)
	f.Hooks, f.Active = hooks, active
	if len(f.Preferences.Alarms) > 0 {
		f.AlarmStates, f.AlarmsUnknown = p.reader.States(ctx, f.Preferences.Alarms)
	}
	if p.policy.nodes.cluster == nil {
		return f, nil
	}
	agents, err := in.agents()
	f.Agents = agentFacts(agents, err, g, hooks, time.Now())
	f.Cluster, f.LongestGrace = p.clusterFacts(g, a, in.loads)
	if g.Nodegroup != nil {
		f.Cluster.Single, f.Cluster.SingleUnknown = p.policy.nodes.cluster.SinglePods(ctx, p.loadsOf(g, in.loads))
	}
	return f, ctx.Err()
}

// loadsOf are those of the loads that are of the group's nodes.
func (p *Planner) loadsOf(g refresh.Group, loads map[string]cluster.Load) map[string]cluster.Load {
	own := map[string]cluster.Load{}
	for _, i := range g.Instances {
		if node := p.policy.nodes.of(i.ID); node != nil {
			own[node.Name] = loads[node.Name]
		}
	}
	return own
}

// clusterFacts gathers which nodes are missing or not ready, and what blocks or delays the drains of the
// outdated ones.
func (p *Planner) clusterFacts(
	g refresh.Group, a assessment, loads map[string]cluster.Load,
) (*refresh.ClusterFacts, time.Duration) {
	facts, longest := &refresh.ClusterFacts{}, time.Duration(0)
	for _, i := range g.Instances {
		node := p.policy.nodes.of(i.ID)
		if i.InService() && (node == nil || !node.Ready) {
			facts.Missing = append(facts.Missing, i.ID)
		}
		if node != nil && a.verdicts[i.ID].Outdated {
			load := loads[node.Name]
			facts.Blocking = append(facts.Blocking, load.Blocking...)
			facts.Responders = append(facts.Responders, load.Responders...)
			facts.PodGroups = append(facts.PodGroups, load.PodGroups...)
			longest = max(longest, load.LongestGrace)
		}
	}
	for _, names := range []*[]string{&facts.Blocking, &facts.Responders, &facts.PodGroups} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	return facts, longest
}

// Plan describes for each selected group what would be done. Of groups without an outdated instance it reads
// nothing further. It calls progress whenever it has read another group, one call at a time.
func (p *Planner) Plan(ctx context.Context, progress func(read, of int)) ([]report.Plan, error) {
	s, err := p.surveyToReplace(ctx)
	if err != nil {
		return nil, err
	}
	return p.plans(ctx, s, progress)
}

func (p *Planner) plans(ctx context.Context, s survey, progress func(read, of int)) ([]report.Plan, error) {
	now := time.Now()
	found := make([]assessment, len(s.groups))
	for i, g := range s.groups {
		found[i] = p.policy.assess(g, s.templates, now)
	}
	plans := make([]report.Plan, len(s.groups))
	in, unlistable := p.inCluster(ctx, s.groups, found)
	if ctx.Err() != nil {
		return nil, unlistable
	}
	var work errgroup.Group
	work.SetLimit(concurrency)
	var mu sync.Mutex
	read := 0
	for i, g := range s.groups {
		work.Go(func() error {
			plan, err := p.plan(ctx, g, found[i], in)
			if unlistable != nil && len(plan.Findings) > 0 {
				plan.Findings = withUnlisted(plan.Findings, unlistable)
			}
			plans[i] = plan
			mu.Lock()
			defer mu.Unlock()
			read++
			progress(read, len(s.groups))
			return err
		})
	}
	return plans, work.Wait()
}

// holds are what triggers have changed of the group, of its nodes, and of the Cluster Autoscaler, as far as that is
// known.
func (p *Planner) holds(ctx context.Context, g refresh.Group) []refresh.Hold {
	all := refresh.HoldsOf(g)
	lease, _ := refresh.LeaseOf(g)
	add := func(kind refresh.HoldKind, what string, nodes []string) {
		if len(nodes) > 0 {
			all = append(all, refresh.Hold{
				Kind: kind, Owner: lease.Holder, Expires: lease.Expires, Text: what + text.First(nodes, mostNames),
			})
		}
	}
	tainted := func(n cluster.Node) bool { return n.Tainted }
	kept := func(n cluster.Node) bool { return n.ScaleDownGroup == g.Name }
	add(refresh.HoldTaint, "taint "+cluster.OutdatedTaint+" on ", p.policy.nodes.names(g.Instances, tainted))
	add(refresh.HoldScaleDown, "scale-down disabled of ", p.policy.nodes.names(g.Instances, kept))
	scaler := p.policy.cfg.Autoscaler
	if scaler == nil {
		return all
	}
	switch s, err := scaler.State(ctx); {
	case err != nil:
		all = append(all, refresh.Hold{Kind: refresh.HoldAutoscaler, Text: "unknown: " + err.Error()})
	case s.Pause != nil:
		all = append(all, refresh.Hold{
			Kind: refresh.HoldAutoscaler, Owner: s.Pause.Owner, Expires: s.Pause.Expires,
			Text: fmt.Sprintf("Cluster Autoscaler %s scaled from %d to 0 replicas", scaler, s.Pause.Replicas),
		})
	}
	return all
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
	ctx context.Context, g refresh.Group, a assessment, in inCluster,
) (report.Plan, error) {
	plan := report.Plan{
		Group: g.Name, Mode: p.policy.cfg.Mode, Nodegroup: g.ManagedNodegroup(), Target: a.target.Text,
		Newer: a.target.Newer, Desired: g.Desired,
		Outdated: len(a.outdated()), Kept: len(a.kept()), Holds: p.holds(ctx, g),
		Reasons: a.nodegroup, Instances: []report.Planned{}, Findings: []refresh.Finding{}, // empty, not null, in JSON
	}
	for _, i := range g.Instances {
		plan.Instances = append(plan.Instances, p.planned(i, a.verdicts[i.ID], in.loads))
	}
	if !plan.IsDue() && a.target.Problem == "" {
		return plan, nil
	}
	active, err := p.activeRefresh(ctx, g.Name)
	if err != nil {
		return plan, err
	}
	facts, err := p.facts(ctx, g, a, in, active)
	if err != nil {
		return plan, err
	}
	if active != nil {
		plan.Active = active.ID
	}
	plan.Findings = refresh.Preflight(g, facts)
	plan.Refused = p.refused(plan.Findings, a, active)
	return plan, nil
}

// refused are the checks for which a run would end before it changes anything. What the preflight finds is a warning
// where a run follows what is under way.
func (p *Planner) refused(findings []refresh.Finding, a assessment, active *refresh.Refresh) (checks []string) {
	cfg := p.policy.cfg
	underWay := active != nil && !cfg.Mode.InBatches()
	switch {
	case !a.due() && a.target.Problem == "":
		return nil
	case underWay && cfg.OnConflict == Fail, underWay && cfg.OnConflict == Attach && !active.HasTarget(a.target):
		return []string{refresh.CheckActive}
	case underWay && cfg.OnConflict == Attach:
		return nil
	}
	mayBeAllowed := slices.DeleteFunc(slices.Clone(cfg.Allow), func(c string) bool { return c == refresh.CheckTarget })
	for _, f := range refresh.Refused(findings, mayBeAllowed) {
		checks = append(checks, f.Check)
	}
	return checks
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
