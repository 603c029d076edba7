package plan

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

// MostNames is how many instances or nodes a message lists.
const MostNames = 5

// Concurrency is how many calls are made at a time, where one call is for one group or node.
const Concurrency = 8

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
	Policy Policy
	Reader Reader
}

// NewPlanner returns a Planner. The view may be nil.
func NewPlanner(cfg Config, reader Reader, view Cluster) *Planner {
	return &Planner{Policy: Policy{cfg, NodeIndex{view}}, Reader: reader}
}

// Survey is what AWS says of the selected groups.
type Survey struct {
	Groups    []refresh.Group
	Templates refresh.Templates
	At        time.Time
}

// Survey reads the selected groups, in the order in which they are replaced, and what their instances should be
// launched from. If the second fails, the groups are returned beside the error.
func (p *Planner) Survey(ctx context.Context) (Survey, error) {
	groups, err := p.Reader.Find(ctx, p.Policy.Config.Selection)
	if err != nil {
		return Survey{}, err
	}
	refresh.SortGroups(groups, p.Policy.Config.Order)
	var pools errgroup.Group
	pools.SetLimit(Concurrency)
	for n := range groups {
		pools.Go(func() error { return p.AddPool(ctx, &groups[n]) })
	}
	if err := pools.Wait(); err != nil {
		return Survey{}, err
	}
	s, err := p.Resolve(ctx, groups)
	s.Groups = groups
	return s, err
}

// SurveyToReplace is survey for what replaces instances: those of Config.Only must be in the groups.
func (p *Planner) SurveyToReplace(ctx context.Context) (Survey, error) {
	s, err := p.Survey(ctx)
	if err != nil {
		return Survey{}, err
	}
	return s, p.checkOnly(s.Groups)
}

// checkOnly returns an error if an instance of Config.Only is in none of the groups. An earlier run that was to replace
// it, and has not ended, may have done so.
func (p *Planner) checkOnly(groups []refresh.Group) error {
	missing := slices.Clone(p.Policy.Config.Only)
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
	return fmt.Errorf("%s in no selected group, of those that --instance names: %s; correct the id, or leave it out "+
		"if it was replaced", text.Plural(len(missing), "instance is", "instances are"), text.First(missing, MostNames))
}

// AddPool adds the instances of the group's warm pool to its own, if they are replaced too: an instance refresh does
// that. An instance that has just left the pool is described by both.
func (p *Planner) AddPool(ctx context.Context, g *refresh.Group) error {
	if !g.WarmPool || p.Policy.Config.Mode != refresh.ModeRefresh {
		return nil
	}
	pooled, err := p.Reader.Pool(ctx, g.Name)
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

// Resolve reads what the groups' instances should be launched from.
func (p *Planner) Resolve(ctx context.Context, groups []refresh.Group) (Survey, error) {
	at := time.Now()
	templates, err := p.Reader.Templates(ctx, groups, p.Policy.Config.Version)
	if err != nil {
		return Survey{}, err
	}
	if p.Policy.needsAge() || refresh.NeedsEC2(groups, templates, p.Policy.criteria(nil)) {
		if err := p.Reader.Complete(ctx, groups); err != nil {
			return Survey{}, err
		}
	}
	return Survey{groups, templates, at}, nil
}

// ActiveRefresh is the refresh of the group that is under way, or nil.
func (p *Planner) ActiveRefresh(ctx context.Context, group string) (*refresh.Refresh, error) {
	all, err := p.Reader.Refreshes(ctx, group)
	if i := slices.IndexFunc(all, refresh.Refresh.Active); err == nil && i >= 0 {
		return &all[i], nil
	}
	return nil, err
}

// ClusterState is what is read from Kubernetes for all groups at once.
type ClusterState struct {
	loads       map[string]cluster.Load // Of nodes; without those that could not be listed.
	agents      []lead.Agent
	agentsError error // why they are not known
}

// InCluster reads which agents run, and which pods run on the nodes of the groups that have outdated instances. If the
// pods cannot be listed, the rest is returned beside the error.
func (p *Planner) InCluster(
	ctx context.Context, groups []refresh.Group, found []Assessment,
) (in ClusterState, err error) {
	if p.Policy.Nodes.Cluster == nil {
		return in, nil
	}
	isRead := func(a Assessment) bool { return a.Due() || a.Target.Problem != "" }
	if slices.ContainsFunc(found, isRead) {
		in.agents, in.agentsError = p.Policy.Nodes.Cluster.Agents(ctx)
	}
	var nodes []string
	for n, g := range groups {
		if len(found[n].Outdated()) == 0 {
			continue
		}
		for _, i := range g.Instances {
			if node := p.Policy.Nodes.Of(i.ID); node != nil {
				nodes = append(nodes, node.Name)
			}
		}
	}
	if len(nodes) > 0 {
		in.loads, err = p.Policy.Nodes.Cluster.Loads(ctx, nodes)
	}
	return in, err
}

// Facts reads what the preflight decides on, besides the active refresh.
func (p *Planner) Facts(
	ctx context.Context, g refresh.Group, a Assessment, in ClusterState, active *refresh.Refresh,
) (refresh.Facts, error) {
	hooks, err := p.Reader.Hooks(ctx, g.Name)
	if err != nil {
		return refresh.Facts{}, err
	}
	f := p.Policy.Facts(g, a)
	f.Hooks, f.Active = hooks, active
	if len(f.Preferences.Alarms) > 0 {
		f.AlarmStates, f.AlarmsUnknown = p.Reader.States(ctx, f.Preferences.Alarms)
	}
	if p.Policy.Nodes.Cluster == nil {
		return f, nil
	}
	f.Agents = agentFacts(in.agents, in.agentsError, g, hooks, time.Now())
	f.Cluster, f.LongestGrace = p.clusterFacts(g, a, in.loads)
	if g.Nodegroup != nil {
		f.Cluster.Single, f.Cluster.SingleUnknown = p.Policy.Nodes.Cluster.SinglePods(ctx, p.loadsOf(g, in.loads))
	}
	return f, ctx.Err()
}

// loadsOf are those of the loads that are of the group's nodes.
func (p *Planner) loadsOf(g refresh.Group, loads map[string]cluster.Load) map[string]cluster.Load {
	own := map[string]cluster.Load{}
	for _, i := range g.Instances {
		if node := p.Policy.Nodes.Of(i.ID); node != nil {
			own[node.Name] = loads[node.Name]
		}
	}
	return own
}

// clusterFacts gathers which nodes are missing or not ready, and what blocks or delays the drains of the
// outdated ones.
func (p *Planner) clusterFacts(
	g refresh.Group, a Assessment, loads map[string]cluster.Load,
) (*refresh.ClusterFacts, time.Duration) {
	facts, longest := &refresh.ClusterFacts{}, time.Duration(0)
	for _, i := range g.Instances {
		node := p.Policy.Nodes.Of(i.ID)
		if i.InService() && (node == nil || !node.Ready) {
			facts.Missing = append(facts.Missing, i.ID)
		}
		if node != nil && a.Verdicts[i.ID].Outdated {
			load := loads[node.Name]
			facts.Blocking = append(facts.Blocking, load.Blocking...)
			facts.Pinned = append(facts.Pinned, load.Pinned...)
			facts.Responders = append(facts.Responders, load.Responders...)
			facts.PodGroups = append(facts.PodGroups, load.PodGroups...)
			longest = max(longest, load.LongestGrace)
		}
	}
	for _, names := range []*[]string{&facts.Blocking, &facts.Pinned, &facts.Responders, &facts.PodGroups} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	return facts, longest
}

// Plan describes for each selected group what would be done. Of groups without an outdated instance it reads
// nothing further. It calls progress whenever it has read another group, one call at a time.
func (p *Planner) Plan(ctx context.Context, progress func(read, of int)) ([]report.Plan, error) {
	s, err := p.SurveyToReplace(ctx)
	if err != nil {
		return nil, err
	}
	return p.Plans(ctx, s, progress)
}

// Plans is Plan for groups that were read.
func (p *Planner) Plans(ctx context.Context, s Survey, progress func(read, of int)) ([]report.Plan, error) {
	now := time.Now()
	found := make([]Assessment, len(s.Groups))
	for i, g := range s.Groups {
		found[i] = p.Policy.Assess(g, s.Templates, now)
	}
	plans := make([]report.Plan, len(s.Groups))
	in, unlistable := p.InCluster(ctx, s.Groups, found)
	if ctx.Err() != nil {
		return nil, unlistable
	}
	var work errgroup.Group
	work.SetLimit(Concurrency)
	var mu sync.Mutex
	read := 0
	for i, g := range s.Groups {
		work.Go(func() error {
			plan, err := p.plan(ctx, g, found[i], in)
			if unlistable != nil && len(plan.Findings) > 0 {
				plan.Findings = withUnlisted(plan.Findings, unlistable)
			}
			plans[i] = plan
			mu.Lock()
			defer mu.Unlock()
			read++
			progress(read, len(s.Groups))
			return err
		})
	}
	return plans, work.Wait()
}

// Holds are what triggers have changed of the group, of its nodes, and of the Cluster Autoscaler, as far as that is
// known.
func (p *Planner) Holds(ctx context.Context, g refresh.Group) []refresh.Hold {
	all := refresh.HoldsOf(g)
	lease, _ := refresh.LeaseOf(g)
	add := func(kind refresh.HoldKind, what string, nodes []string) {
		if len(nodes) > 0 {
			all = append(all, refresh.Hold{
				Kind: kind, Owner: lease.Holder, Expires: lease.Expires, Text: what + text.First(nodes, MostNames),
			})
		}
	}
	tainted := func(n cluster.Node) bool { return n.Tainted }
	kept := func(n cluster.Node) bool { return n.ScaleDownGroup == g.Name }
	add(refresh.HoldTaint, "taint "+cluster.OutdatedTaint+" on ", p.Policy.Nodes.names(g.Instances, tainted))
	add(refresh.HoldScaleDown, "scale-down disabled of ", p.Policy.Nodes.names(g.Instances, kept))
	scaler := p.Policy.Config.Autoscaler
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
	ctx context.Context, g refresh.Group, a Assessment, in ClusterState,
) (report.Plan, error) {
	plan := report.Plan{
		Group: g.Name, Mode: p.Policy.Config.Mode, Nodegroup: g.ManagedNodegroup(), Target: a.Target.Text,
		Newer: a.Target.Newer, Desired: g.Desired,
		Outdated: len(a.Outdated()), Kept: len(a.Kept()), Holds: p.Holds(ctx, g),
		Reasons: a.Nodegroup, Instances: []report.Planned{}, Findings: []refresh.Finding{}, // empty, not null, in JSON
	}
	for _, i := range g.Instances {
		plan.Instances = append(plan.Instances, p.planned(i, a.Verdicts[i.ID], in.loads))
	}
	if !plan.IsDue() && a.Target.Problem == "" {
		return plan, nil
	}
	active, err := p.ActiveRefresh(ctx, g.Name)
	if err != nil {
		return plan, err
	}
	facts, err := p.Facts(ctx, g, a, in, active)
	if err != nil {
		return plan, err
	}
	if active != nil {
		plan.Active = active.ID
	}
	plan.Findings = refresh.Preflight(g, facts)
	forecast(ctx, plan.Instances, facts.Held())
	plan.Duration = p.duration(g, a, facts, plan.Instances)
	if plan.Refused = p.refused(plan.Findings, a, active); len(plan.Refused) == 0 && a.Due() {
		plan.Steps = p.Policy.steps(g, a, facts)
	}
	return plan, nil
}

// refused are the checks for which a run would end before it changes anything. What the preflight finds is a warning
// where a run follows what is under way.
func (p *Planner) refused(findings []refresh.Finding, a Assessment, active *refresh.Refresh) (checks []string) {
	cfg := p.Policy.Config
	underWay := active != nil && !cfg.Mode.InBatches()
	switch {
	case !a.Due() && a.Target.Problem == "":
		return nil
	case underWay && cfg.OnConflict == Fail, underWay && cfg.OnConflict == Attach && !active.HasTarget(a.Target):
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
		Outdated: v.Outdated, Reasons: v.Reasons, Kept: v.Kept, Node: p.Policy.Nodes.Of(i.ID),
	}
	if planned.Node != nil {
		if load, known := loads[planned.Node.Name]; known {
			planned.Load = &load
		}
	}
	return planned
}
