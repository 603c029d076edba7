package loop

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// State is what is known of a group during a rollout, and what follows from that. It makes no calls.
type State struct {
	Policy    plan.Policy
	Group     refresh.Group // as described last
	Templates refresh.Templates
	Began     time.Time
	ReadAt    time.Time // when the group was described
	Target    refresh.Target
	Old       map[string]bool // the instances to be replaced, as counted at the start
	behind    bool            // The managed node group was outdated then.

	NoLaunchHook bool // The group is known to have none.
	Drains       drains

	Deleted bool // AWS says that there is no such group any more
}

// Update keeps what the group is now. Auto Scaling does not report when an instance was launched, nor its
// image, so that both are copied from what EC2 reported earlier.
func (s *State) Update(g refresh.Group) {
	before := map[string]refresh.Instance{}
	for _, i := range s.Group.Instances {
		before[i.ID] = i
	}
	for n := range g.Instances {
		i := &g.Instances[n]
		i.Launched = cmp.Or(i.Launched, before[i.ID].Launched)
		i.ImageID = cmp.Or(i.ImageID, before[i.ID].ImageID)
	}
	s.Group = g
}

// described keeps a new description of the group.
func (s *State) described(g refresh.Group, now time.Time) {
	s.Update(g)
	s.Drains.see(g, s.Old, s.Policy.Nodes, s.ReadAt, now)
	s.ReadAt = now
}

// Assess judges the group as it was described last, at the time when the run began: no instance becomes too
// old during a run.
func (s *State) Assess() plan.Assessment { return s.Policy.Assess(s.Group, s.Templates, s.Began) }

// Facts are what the preflight decides on, as far as it needs no calls.
func (s *State) Facts() refresh.Facts { return s.Policy.Facts(s.Group, s.Assess()) }

// IsDue reports whether there is something to do.
func (s *State) IsDue() bool { return s.Assess().Due() }

// Count takes the instances for old that are outdated now, or are and terminate already.
func (s *State) Count() {
	a := s.Assess()
	s.Target, s.Old, s.behind = a.Target, map[string]bool{}, len(a.Nodegroup) > 0
	for _, id := range slices.Concat(a.Outdated(), a.Terminating()) {
		s.Old[id] = true
	}
}

// countAgain counts again during an update of a managed node group, and after it. EKS sets the new version on the Auto
// Scaling group only some time after the update has begun: that makes instances outdated. Those in service that it has
// left when it succeeds are not: an earlier update, which has failed half-way, has launched them.
func (s *State) countAgain(a plan.Assessment) {
	n := s.Group.Nodegroup
	if s.Old == nil || n == nil || !n.Updating && !n.IsUpdated() {
		return
	}
	if n.Updating {
		for _, id := range a.Outdated() {
			s.Old[id] = true
		}
		return
	}
	for _, i := range s.Group.Instances {
		if i.InService() && !a.Verdicts[i.ID].Outdated {
			delete(s.Old, i.ID)
		}
	}
}

// Replaceable are the instances that are to be replaced, or terminate already. With Config.All they are
// among those that were counted at the start: their replacements are not replaced again.
func (s *State) Replaceable() []string {
	a := s.Assess()
	ids := slices.Concat(a.Outdated(), a.Terminating())
	if s.Policy.Config.All {
		ids = slices.DeleteFunc(ids, func(id string) bool { return !s.Old[id] })
	}
	return ids
}

// isOld reports whether the instance is one that is to be replaced.
func (s *State) isOld(i refresh.Instance, a plan.Assessment) bool {
	if s.Old[i.ID] {
		return true
	}
	v := a.Verdicts[i.ID]
	return v.Outdated && !s.Policy.Config.All && !v.KeptFor(refresh.CodeExcluded)
}

// NotReady are the instances in service whose Node is missing or not Ready. It is nil if that is not known, or if the
// cluster knows none of the instances: then it is most likely another group's.
func (s *State) NotReady() map[string]bool {
	nodes := s.Policy.Nodes
	if nodes.Cluster == nil || nodes.Stale() != nil || !nodes.KnowsAny(s.Group.Instances) {
		return nil
	}
	return nodes.NotReady(s.Group.Instances)
}

// IsToBeReplaced reports whether the instance is outdated, or was at the start, also if it is kept. Its node need not
// be ready.
func (s *State) IsToBeReplaced(id string, a plan.Assessment) bool {
	return s.Old[id] || a.Verdicts[id].Outdated && !s.Policy.Config.All
}

// isReplaced reports whether an old instance counts as replaced, as Config.Until says.
func (s *State) isReplaced(i refresh.Instance) bool {
	if i.Standby() && refresh.StandbyOf(s.Group)[i.ID] {
		return true
	}
	switch s.Policy.Config.Until {
	case plan.Replaced:
		return i.Terminating()
	case plan.Terminated:
		return false
	default:
		return i.Terminating() && !i.Draining()
	}
}

// Replaced is how many of the instances that were counted are replaced.
func (s *State) Replaced() int {
	others := s.Group.InstanceIDs(func(i refresh.Instance) bool { return s.Old[i.ID] && !s.isReplaced(i) })
	return len(s.Old) - len(others)
}

// Leaving are the old instances that terminate and do not count as replaced yet. A retained one is not among
// them, because it stays until a user terminates it.
func (s *State) Leaving() []string {
	a := s.Assess()
	return s.Group.InstanceIDs(func(i refresh.Instance) bool {
		return s.isOld(i, a) && i.Terminating() && !i.Retained() && !s.isReplaced(i)
	})
}

// Remaining are the old instances that do not terminate, each with the reason, and the retained ones.
func (s *State) Remaining() (left, retained []string) {
	a := s.Assess()
	for _, i := range s.Group.Instances {
		switch {
		case !s.isOld(i, a), i.Standby() && s.isReplaced(i):
		case i.Retained():
			retained = append(retained, i.ID)
		case !i.Terminating():
			left = append(left, withReason(i, a))
		}
	}
	return left, retained
}

// Verdict is how the rollout ended, from the instances that are left or retained. A managed node group may be outdated
// without a node.
func (s *State) Verdict(left, retained []string) Ending {
	end := verdict(len(s.Old), left, retained)
	switch a := s.Assess(); {
	case len(left)+len(retained) == 0 && len(a.Nodegroup) > 0:
		return Ending{Outcome: report.Incomplete, Message: a.Nodegroup[0].Text + "; trigger plan shows more"}
	case end.Outcome == report.Nothing && s.behind:
		return Ending{Outcome: report.Done, Message: "the node group is updated; it has no nodes to be replaced"}
	}
	return end
}

// withReason is the instance, and why it is left.
func withReason(i refresh.Instance, a plan.Assessment) string {
	v := a.Verdicts[i.ID]
	reasons := slices.Concat(v.Kept, v.Reasons)
	if len(reasons) == 0 {
		return i.ID
	}
	return fmt.Sprintf("%s (%s)", i.ID, reasons[0].Text)
}

// Fingerprint changes whenever a rollout makes progress. In batches new instances do not count until
// they are in service: launches that fail again and again would else never count as a stall, and AWS, unlike
// for an Instance Refresh, has no limit of its own for them.
func (s *State) Fingerprint(f *refresh.Refresh) string {
	var b strings.Builder
	if f != nil {
		fmt.Fprint(&b, f.ID, f.Status, f.Percent, f.ToUpdate, " ")
	}
	byID := func(a, b refresh.Instance) int { return cmp.Compare(a.ID, b.ID) } // AWS documents no order.
	for _, i := range slices.SortedFunc(slices.Values(s.Group.Instances), byID) {
		if s.Policy.Config.Mode.InBatches() && !s.Old[i.ID] && !i.InService() {
			continue
		}
		fmt.Fprint(&b, i.ID, i.State, i.Healthy)
		if node := s.Policy.Nodes.Of(i.ID); node != nil {
			fmt.Fprint(&b, node.Ready)
			if node.Drain != nil {
				fmt.Fprint(&b, node.Drain.Message)
			}
		}
	}
	return b.String()
}

// draining are the old instances that leave, each with what the drain of its node waits for.
func (s *State) draining() []string {
	var all []string
	for _, id := range s.Leaving() {
		if node := s.Policy.Nodes.Of(id); node != nil && node.Drain != nil {
			id = fmt.Sprintf("%s (node %s: %s)", id, node.Name, node.Drain.Message)
		}
		all = append(all, id)
	}
	return all
}
