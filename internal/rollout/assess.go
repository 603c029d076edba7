package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// policy decides what is outdated and how it is replaced, from the configuration and the nodes. It makes no
// calls.
type policy struct {
	cfg   Config
	nodes nodeIndex
}

// needsAge reports whether it matters when instances were launched, which only EC2 knows: the oldest are replaced
// first, and none that was launched for the target.
func (p policy) needsAge() bool { return p.cfg.Mode.InBatches() }

// criteria are those of the configuration, for the instances of a group.
func (p policy) criteria(instances []refresh.Instance) refresh.Criteria {
	return refresh.Criteria{
		Version: p.cfg.Version, MaxAge: p.cfg.MaxAge, Only: p.cfg.Only, All: p.cfg.All,
		Exclude:          p.excluded(instances),
		IncludeProtected: p.cfg.Preferences.Protected == "Refresh" || p.cfg.Mode == refresh.ModeNodegroup,
		IncludeStandby:   p.cfg.Mode == refresh.ModeRefresh && p.cfg.Preferences.Standby == "Terminate",
	}
}

// inStandby are the instances that the trigger has moved into Standby. In the other modes only those count that are
// replaced and stay there.
func (p policy) inStandby(g refresh.Group) refresh.StandbyRecord {
	record := refresh.StandbyOf(g)
	maps.DeleteFunc(record, func(_ string, kept bool) bool { return !kept && p.cfg.Mode != refresh.ModeStandby })
	return record
}

// excluded are the instances whose nodes have one of the labels of --exclude-node-label.
func (p policy) excluded(instances []refresh.Instance) map[string]string {
	excluded := map[string]string{}
	for _, i := range instances {
		node := p.nodes.of(i.ID)
		if node == nil {
			continue
		}
		for _, label := range p.cfg.Exclude {
			key, want, valued := strings.Cut(label, "=")
			if value, has := node.Labels[key]; has && (!valued || value == want) {
				excluded[i.ID] = fmt.Sprintf("node %s has the label %s", node.Name, label)
			}
		}
	}
	return excluded
}

// preferences are those of the configuration, with the percentages that the surge means for a group of this
// size.
func (p policy) preferences(g refresh.Group) refresh.Preferences {
	prefs := p.cfg.Preferences
	if p.cfg.Surge == nil || p.cfg.Mode != refresh.ModeRefresh {
		return prefs
	}
	least, most := refresh.Percentages(g.Desired, *p.cfg.Surge, p.cfg.Strategy)
	prefs.MinHealthy, prefs.MaxHealthy = &least, &most
	return prefs
}

// facts are what the preflight decides on, as far as it needs no calls.
func (p policy) facts(g refresh.Group, a assessment) refresh.Facts {
	f := refresh.Facts{
		Mode: p.cfg.Mode, Preferences: p.preferences(g), Pin: p.pins(g, a.target), Rollback: p.cfg.rollsBack(),
		Outdated: len(a.outdated()), Target: a.target, RaiseMax: p.cfg.RaiseMax, Waves: len(p.cfg.Order) == 0,
		AllowManaged: p.cfg.AllowManaged, Self: p.cfg.Self, Suspend: p.cfg.Suspend, Verdicts: a.verdicts,
	}
	if p.cfg.Mode.InBatches() {
		f.Then = p.cfg.Pace.Then
		f.Batch, f.Surge = p.cfg.Pace.Batch.Of(refresh.DesiredWithoutSurge(g)), p.cfg.Pace.SurgeOf(g)
	}
	return f
}

// pins reports whether a refresh of the group to the target gets the version as a number.
func (p policy) pins(g refresh.Group, t refresh.Target) bool {
	return p.cfg.Pin.Applies(g, t, p.cfg.rollsBack())
}

// assessment is the verdict on each instance of a group.
type assessment struct {
	target    refresh.Target
	verdicts  map[string]refresh.Verdict
	nodegroup []refresh.Reason // Why the managed node group is outdated, with or without nodes.
}

// due reports whether there is something to do: an instance to be replaced, or a managed node group to be updated.
func (a assessment) due() bool { return len(a.nodegroup) > 0 || len(a.outdated()) > 0 }

func (p policy) assess(g refresh.Group, t refresh.Templates, now time.Time) assessment {
	criteria := p.criteria(g.Instances)
	criteria.Standby = p.inStandby(g)
	a := assessment{target: t.Resolve(g, p.cfg.Version), verdicts: map[string]refresh.Verdict{}}
	for _, i := range g.Instances {
		a.verdicts[i.ID] = refresh.Outdated(i, a.target, t, criteria, now)
	}
	if g.Nodegroup != nil {
		a.nodegroup = refresh.OutdatedNodes(g, a.verdicts)
		a.target = refresh.NodegroupTarget(g)
	} else if len(g.Instances) == 0 {
		a.target.Problem = "" // nothing is to be replaced
	}
	return a
}

// outdated are the instances to be replaced, in the order of their ids.
func (a assessment) outdated() []string {
	return a.filter(func(v refresh.Verdict) bool { return v.Outdated && len(v.Kept) == 0 })
}

// kept are the outdated instances that the user has to handle, because the rollout does not replace them.
// Those that terminate already, or were excluded on purpose, are not among them.
func (a assessment) kept() []string {
	return a.filter(func(v refresh.Verdict) bool {
		deliberate := v.KeptFor(refresh.CodeTerminating) || v.KeptFor(refresh.CodeExcluded)
		return v.Outdated && len(v.Kept) > 0 && !deliberate
	})
}

// terminating are the outdated instances that terminate already.
func (a assessment) terminating() []string {
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

// nodeIndex finds the Nodes of instances; without a Cluster, none.
type nodeIndex struct{ cluster Cluster }

// of returns the Node of an instance, or nil.
func (n nodeIndex) of(instanceID string) *cluster.Node {
	if n.cluster == nil {
		return nil
	}
	node, known := n.cluster.Node(instanceID)
	if !known {
		return nil
	}
	return &node
}

// notReady are the instances in service whose Node is missing or not Ready.
func (n nodeIndex) notReady(instances []refresh.Instance) map[string]bool {
	ids := map[string]bool{}
	for _, i := range instances {
		if node := n.of(i.ID); i.InService() && (node == nil || !node.Ready) {
			ids[i.ID] = true
		}
	}
	return ids
}

// names are the names of those of the Nodes of the instances.
func (n nodeIndex) names(instances []refresh.Instance, those func(cluster.Node) bool) (names []string) {
	for _, i := range instances {
		if node := n.of(i.ID); node != nil && those(*node) {
			names = append(names, node.Name)
		}
	}
	return names
}

// describe is an instance with its Node.
func (n nodeIndex) describe(instanceID string) string {
	if node := n.of(instanceID); node != nil {
		return fmt.Sprintf("%s (node %s)", instanceID, node.Name)
	}
	return instanceID + " (no node)"
}

// stale returns why the Nodes may not be as they are now, or nil. Without a Cluster it returns nil.
func (n nodeIndex) stale() error {
	if n.cluster == nil {
		return nil
	}
	return n.cluster.Stale()
}

// knowsAny reports whether one of the instances has a Node. Without a Cluster it reports true.
func (n nodeIndex) knowsAny(instances []refresh.Instance) bool {
	known := func(i refresh.Instance) bool { return n.of(i.ID) != nil }
	return n.cluster == nil || slices.ContainsFunc(instances, known)
}
