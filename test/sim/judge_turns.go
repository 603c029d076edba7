package sim

import (
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
)

// drainsInTurn: the drain of a node for what can wait begins only while fewer such drains run, of the same agents, than
// DRAIN_MAX_CONCURRENT allows. One runs if pods of the node are evicted later that were there before, unless it goes on
// for what cannot wait.
func (j requestJudge) drainsInTurn(c *cluster) {
	if len(j.spec.Faults) > 0 {
		return
	}
	all := slices.DeleteFunc(slices.Clone(j.markings[c.Name]), func(m marking) bool { return !isInTurn(m.mark) })
	for _, m := range all {
		machine := j.machines.find(m.node)
		// Maintenance begins in any case at last; and the mark names one of several reasons.
		hasOther := len(j.facts.truthsAt(m.node, m.from, 0)) > 1
		if machine == nil || m.mark.Reason == string(event.ScheduledChange) || hasOther {
			continue
		}
		install := c.manager(machine.group)
		running := 0
		for _, o := range all {
			other := j.machines.find(o.node)
			isOther := o.node != m.node && o.from.Before(m.from) && other != nil
			if isOther && c.manager(other.group) == install && j.isRunning(c, o, m.from) {
				running++
			}
		}
		if most := j.configs[install].Turns.Max.Of(c.nodesEver()); running >= most {
			j.violate("drains in turn", m.from, "%s began to drain node %s (%s) while %d others were being drained, not %d",
				install, m.node, m.mark.Reason, running, most)
		}
	}
}

// isInTurn reports whether the mark is for what can wait, and began with a drain.
func isInTurn(m node.Mark) bool {
	kinds := []event.Kind{event.ScheduledChange, event.DrainRequested, event.RebalanceRecommendation}
	return slices.Contains(kinds, event.Kind(m.Reason)) && !m.Deadline.IsZero()
}

// isRunning reports whether the drain of the marked node was running at the time, and in turn: pods are removed later,
// its condition does not say that it has ended, and its mark names no reason by then that cannot wait.
func (j requestJudge) isRunning(c *cluster, m marking, at time.Time) bool {
	n := nodeAt(&c.changes, m.node, at)
	now, marked := markAt(j.markings[c.Name], m.node, at)
	if n == nil || isEnded(n) || !marked || !isInTurn(now.mark) {
		return false
	}
	return slices.ContainsFunc(j.facts.removals, func(r removal) bool {
		isLater := r.At.After(at) && (m.until.IsZero() || r.At.Before(m.until))
		return isLater && r.OK() && r.pod.Spec.NodeName == m.node && !r.isOfEarlierPod() &&
			r.pod.CreationTimestamp.Time.Before(m.from)
	})
}

// nodesEver returns how many Nodes the cluster has had.
func (c *cluster) nodesEver() int {
	names := map[string]bool{}
	for _, change := range c.of("nodes") {
		if change.New != nil {
			names[change.New.GetName()] = true
		}
	}
	return len(names)
}
