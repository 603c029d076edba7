package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Policy decides what is outdated and how it is replaced, from the configuration and the nodes. It makes no
// calls.
type Policy struct {
	Config Config
	Nodes  NodeIndex
}

// needsAge reports whether it matters when instances were launched, which only EC2 knows: the oldest are replaced
// first, and none that was launched for the target.
func (p Policy) needsAge() bool { return p.Config.Mode.InBatches() }

// criteria are those of the configuration, for the instances of a group.
func (p Policy) criteria(instances []refresh.Instance) refresh.Criteria {
	return refresh.Criteria{
		Version: p.Config.Version, MaxAge: p.Config.MaxAge, Only: p.Config.Only, All: p.Config.All,
		Exclude:          p.Excluded(instances),
		IncludeProtected: p.Config.Preferences.Protected == "Refresh" || p.Config.Mode == refresh.ModeNodegroup,
		IncludeStandby:   p.Config.Mode == refresh.ModeRefresh && p.Config.Preferences.Standby == "Terminate",
	}
}

// inStandby are the instances that the trigger has moved into Standby. In the other modes only those count that are
// replaced and stay there.
func (p Policy) inStandby(g refresh.Group) refresh.StandbyRecord {
	record := refresh.StandbyOf(g)
	maps.DeleteFunc(record, func(_ string, kept bool) bool { return !kept && p.Config.Mode != refresh.ModeStandby })
	return record
}

// Excluded are the instances whose nodes have one of the labels of --exclude-node-label.
func (p Policy) Excluded(instances []refresh.Instance) map[string]string {
	excluded := map[string]string{}
	for _, i := range instances {
		node := p.Nodes.Of(i.ID)
		if node == nil {
			continue
		}
		for _, label := range p.Config.Exclude {
			key, want, valued := strings.Cut(label, "=")
			if value, has := node.Labels[key]; has && (!valued || value == want) {
				excluded[i.ID] = fmt.Sprintf("node %s has the label %s", node.Name, label)
			}
		}
	}
	return excluded
}

// Preferences are those of the configuration, with the percentages that the surge means for a group of this
// size.
func (p Policy) Preferences(g refresh.Group) refresh.Preferences {
	prefs := p.Config.Preferences
	if p.Config.Surge == nil || p.Config.Mode != refresh.ModeRefresh {
		return prefs
	}
	prefs.MinHealthy, prefs.MaxHealthy = new(100), new(refresh.MaxHealthy(g.Desired, *p.Config.Surge))
	return prefs
}

// Facts are what the preflight decides on, as far as it needs no calls.
func (p Policy) Facts(g refresh.Group, a Assessment) refresh.Facts {
	f := refresh.Facts{
		Mode: p.Config.Mode, Preferences: p.Preferences(g), Pin: p.Pins(g, a.Target), Rollback: p.Config.rollsBack(),
		Outdated: len(a.Outdated()), Target: a.Target, RaiseMax: p.Config.RaiseMax, Waves: len(p.Config.Order) == 0,
		Self: p.Config.Self, Suspend: p.Config.Suspend, Verdicts: a.Verdicts,
	}
	if p.Config.Mode.InBatches() {
		f.Then = p.Config.Pace.Then
		f.Batch, f.Surge = p.Config.Pace.Batch.Of(refresh.DesiredWithoutSurge(g)), p.Config.Pace.SurgeOf(g)
	}
	return f
}

// Pins reports whether a refresh of the group to the target gets the version as a number.
func (p Policy) Pins(g refresh.Group, t refresh.Target) bool {
	return p.Config.Pin.Applies(g, t, p.Config.rollsBack())
}

// Assessment is the verdict on each instance of a group.
type Assessment struct {
	Target    refresh.Target
	Verdicts  map[string]refresh.Verdict
	Nodegroup []refresh.Reason // Why the managed node group is outdated, with or without nodes.
}

// Due reports whether there is something to do: an instance to be replaced, or a managed node group to be updated.
func (a Assessment) Due() bool { return len(a.Nodegroup) > 0 || len(a.Outdated()) > 0 }

// Assess judges each instance of a group at a time.
func (p Policy) Assess(g refresh.Group, t refresh.Templates, now time.Time) Assessment {
	criteria := p.criteria(g.Instances)
	criteria.Standby = p.inStandby(g)
	a := Assessment{Target: t.Resolve(g, p.Config.Version), Verdicts: map[string]refresh.Verdict{}}
	for _, i := range g.Instances {
		a.Verdicts[i.ID] = refresh.Outdated(i, a.Target, t, criteria, now)
	}
	if g.Nodegroup != nil {
		a.Nodegroup = refresh.OutdatedNodes(g, t, a.Verdicts)
		a.Target = refresh.NodegroupTarget(g)
	} else if len(g.Instances) == 0 {
		a.Target.Problem = "" // nothing is to be replaced
	}
	return a
}

// Outdated are the instances to be replaced, in the order of their ids.
func (a Assessment) Outdated() []string { return a.filter(isToBeReplaced) }

func isToBeReplaced(v refresh.Verdict) bool { return v.Outdated && len(v.Kept) == 0 }

// Kept are the outdated instances that the user has to handle, because the rollout does not replace them.
// Those that terminate already, or were excluded on purpose, are not among them.
func (a Assessment) Kept() []string {
	return a.filter(func(v refresh.Verdict) bool {
		deliberate := v.KeptFor(refresh.CodeTerminating) || v.KeptFor(refresh.CodeExcluded)
		return v.Outdated && len(v.Kept) > 0 && !deliberate
	})
}

// Terminating are the outdated instances that terminate already.
func (a Assessment) Terminating() []string {
	return a.filter(func(v refresh.Verdict) bool { return v.Outdated && v.KeptFor(refresh.CodeTerminating) })
}

func (a Assessment) filter(fits func(refresh.Verdict) bool) []string {
	var ids []string
	for id, v := range a.Verdicts {
		if fits(v) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// NodeIndex finds the Nodes of instances; without a Cluster, none.
type NodeIndex struct{ Cluster Cluster }

// Of returns the Node of an instance, or nil.
func (n NodeIndex) Of(instanceID string) *cluster.Node {
	if n.Cluster == nil {
		return nil
	}
	node, known := n.Cluster.Node(instanceID)
	if !known {
		return nil
	}
	return &node
}

// NotReady are the instances in service whose Node is missing or not Ready.
func (n NodeIndex) NotReady(instances []refresh.Instance) map[string]bool {
	ids := map[string]bool{}
	for _, i := range instances {
		if node := n.Of(i.ID); i.InService() && (node == nil || !node.Ready) {
			ids[i.ID] = true
		}
	}
	return ids
}

// names are the names of those of the Nodes of the instances.
func (n NodeIndex) names(instances []refresh.Instance, those func(cluster.Node) bool) (names []string) {
	for _, i := range instances {
		if node := n.Of(i.ID); node != nil && those(*node) {
			names = append(names, node.Name)
		}
	}
	return names
}

// Describe is an instance with its Node.
func (n NodeIndex) Describe(instanceID string) string {
	if node := n.Of(instanceID); node != nil {
		return fmt.Sprintf("%s (node %s)", instanceID, node.Name)
	}
	return instanceID + " (no node)"
}

// Stale returns why the Nodes may not be as they are now, or nil. Without a Cluster it returns nil.
func (n NodeIndex) Stale() error {
	if n.Cluster == nil {
		return nil
	}
	return n.Cluster.Stale()
}

// KnowsAny reports whether one of the instances has a Node. Without a Cluster it reports true.
func (n NodeIndex) KnowsAny(instances []refresh.Instance) bool {
	known := func(i refresh.Instance) bool { return n.Of(i.ID) != nil }
	return n.Cluster == nil || slices.ContainsFunc(instances, known)
}
