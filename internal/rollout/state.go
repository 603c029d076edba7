package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// state is what is known of a group during a rollout, and what follows from that. It makes no calls.
type state struct {
	policy    policy
	group     refresh.Group // as described last
	templates refresh.Templates
	began     time.Time
	readAt    time.Time // when the group was described
	target    refresh.Target
	old       map[string]bool // the instances to be replaced, as counted at the start
	behind    bool            // The managed node group was outdated then.

	noLaunchHook bool // The group is known to have none.
	drains       drains

	deleted bool // AWS says that there is no such group any more
}

// update keeps what the group is now. Auto Scaling does not report when an instance was launched, nor its
// image, so that both are copied from what EC2 reported earlier.
func (s *state) update(g refresh.Group) {
	before := map[string]refresh.Instance{}
	for _, i := range s.group.Instances {
		before[i.ID] = i
	}
	for n := range g.Instances {
		i := &g.Instances[n]
		i.Launched = cmp.Or(i.Launched, before[i.ID].Launched)
		i.ImageID = cmp.Or(i.ImageID, before[i.ID].ImageID)
	}
	s.group = g
}

// described keeps a new description of the group.
func (s *state) described(g refresh.Group, now time.Time) {
	s.update(g)
	s.drains.see(g, s.old, s.policy.nodes, s.readAt, now)
	s.readAt = now
}

// assess judges the group as it was described last, at the time when the run began: no instance becomes too
// old during a run.
func (s *state) assess() assessment { return s.policy.assess(s.group, s.templates, s.began) }

// facts are what the preflight decides on, as far as it needs no calls.
func (s *state) facts() refresh.Facts { return s.policy.facts(s.group, s.assess()) }

func (s *state) isDue() bool { return s.assess().due() }

// count takes the instances for old that are outdated now, or are and terminate already.
func (s *state) count() {
	a := s.assess()
	s.target, s.old, s.behind = a.target, map[string]bool{}, len(a.nodegroup) > 0
	for _, id := range slices.Concat(a.outdated(), a.terminating()) {
		s.old[id] = true
	}
}

// countMore adds, during an update of a managed node group, the instances that it makes outdated: EKS sets the new
// version on the Auto Scaling group only some time after the update has begun.
func (s *state) countMore(a assessment) {
	if s.old == nil || s.group.Nodegroup == nil || !s.group.Nodegroup.Updating {
		return
	}
	for _, id := range a.outdated() {
		s.old[id] = true
	}
}

// replaceable are the instances that are to be replaced, or terminate already. With Config.All they are
// among those that were counted at the start: their replacements are not replaced again.
func (s *state) replaceable() []string {
	a := s.assess()
	ids := slices.Concat(a.outdated(), a.terminating())
	if s.policy.cfg.All {
		ids = slices.DeleteFunc(ids, func(id string) bool { return !s.old[id] })
	}
	return ids
}

// isOld reports whether the instance is one that is to be replaced.
func (s *state) isOld(i refresh.Instance, a assessment) bool {
	if s.old[i.ID] {
		return true
	}
	v := a.verdicts[i.ID]
	return v.Outdated && !s.policy.cfg.All && !v.KeptFor(refresh.CodeExcluded)
}

// isToBeReplaced reports whether the instance is outdated, or was at the start, also if it is kept. Its node need not
// be ready.
func (s *state) isToBeReplaced(id string, a assessment) bool {
	return s.old[id] || a.verdicts[id].Outdated && !s.policy.cfg.All
}

// isReplaced reports whether an old instance counts as replaced, as Config.Until says.
func (s *state) isReplaced(i refresh.Instance) bool {
	if i.Standby() && refresh.StandbyOf(s.group)[i.ID] {
		return true
	}
	switch s.policy.cfg.Until {
	case Replaced:
		return i.Terminating()
	case Terminated:
		return false
	default:
		return i.Terminating() && !i.Draining()
	}
}

// replaced is how many of the instances that were counted are replaced.
func (s *state) replaced() int {
	others := s.group.InstanceIDs(func(i refresh.Instance) bool { return s.old[i.ID] && !s.isReplaced(i) })
	return len(s.old) - len(others)
}

// leaving are the old instances that terminate and do not count as replaced yet. A retained one is not among
// them, because it stays until a user terminates it.
func (s *state) leaving() []string {
	a := s.assess()
	return s.group.InstanceIDs(func(i refresh.Instance) bool {
		return s.isOld(i, a) && i.Terminating() && !i.Retained() && !s.isReplaced(i)
	})
}

// remaining are the old instances that do not terminate, each with the reason, and the retained ones.
func (s *state) remaining() (left, retained []string) {
	a := s.assess()
	for _, i := range s.group.Instances {
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

// verdict is how the rollout ended, from the instances that are left or retained. A managed node group may be outdated
// without a node.
func (s *state) verdict(left, retained []string) ending {
	end := verdict(len(s.old), left, retained)
	switch a := s.assess(); {
	case len(left)+len(retained) == 0 && len(a.nodegroup) > 0:
		return ending{report.Incomplete, a.nodegroup[0].Text + "; trigger plan shows more"}
	case end.outcome == report.Nothing && s.behind:
		return ending{report.Done, "the node group is updated; it has no nodes to be replaced"}
	}
	return end
}

// withReason is the instance, and why it is left.
func withReason(i refresh.Instance, a assessment) string {
	v := a.verdicts[i.ID]
	reasons := slices.Concat(v.Kept, v.Reasons)
	if len(reasons) == 0 {
		return i.ID
	}
	return fmt.Sprintf("%s (%s)", i.ID, reasons[0].Text)
}

// fingerprint changes whenever a rollout makes progress. In batches new instances do not count until
// they are in service: launches that fail again and again would else never count as a stall, and AWS, unlike
// for an Instance Refresh, has no limit of its own for them.
func (s *state) fingerprint(f *refresh.Refresh) string {
	var b strings.Builder
	if f != nil {
		fmt.Fprint(&b, f.ID, f.Status, f.Percent, f.ToUpdate, " ")
	}
	byID := func(a, b refresh.Instance) int { return cmp.Compare(a.ID, b.ID) } // AWS documents no order.
	for _, i := range slices.SortedFunc(slices.Values(s.group.Instances), byID) {
		if s.policy.cfg.Mode.InBatches() && !s.old[i.ID] && !i.InService() {
			continue
		}
		fmt.Fprint(&b, i.ID, i.State, i.Healthy)
		if node := s.policy.nodes.of(i.ID); node != nil {
			fmt.Fprint(&b, node.Ready)
			if node.Drain != nil {
				fmt.Fprint(&b, node.Drain.Message)
			}
		}
	}
	return b.String()
}

// draining are the old instances that leave, each with what the drain of its node waits for.
func (s *state) draining() []string {
	var all []string
	for _, id := range s.leaving() {
		if node := s.policy.nodes.of(id); node != nil && node.Drain != nil {
			id = fmt.Sprintf("%s (node %s: %s)", id, node.Name, node.Drain.Message)
		}
		all = append(all, id)
	}
	return all
}
