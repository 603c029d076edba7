package sim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// hungJudge judges drains of nodes whose container runtimes hang: their pods never end, and the nodes become not Ready.
type hungJudge struct{ boundJudge }

// hasWebhook reports whether an admission webhook may keep pods of DaemonSets that must leave.
func (j hungJudge) hasWebhook(c *cluster) bool {
	return slices.ContainsFunc(j.spec.Faults, func(f Fault) bool { return isAdmission(f) && f.On == c.Name })
}

// isGivenUp reports whether an install need not wait for the end of a pod any longer, which nobody reports: its grace
// period is over, and the node is not Ready, or the time has passed that is configured for pods that are stuck.
func (j hungJudge) isGivenUp(c *cluster, h Hook, p *podLife, at time.Time) bool {
	if !j.facts.isHung(p.Spec.NodeName, at) || p.deleted.IsZero() || p.DeletionTimestamp.After(at) {
		return false
	}
	stuck := j.configs[h.Install].Drain.StuckAfter
	return !isNodeReady(nodeAt(&c.changes, p.Spec.NodeName, at)) || !p.DeletionTimestamp.Add(stuck).After(at)
}

// drainEnds: the drain of a node ends when the node is not Ready and the grace periods of all pods there are over. It
// waits neither for its deadline, nor for as long as for pods that are stuck on a node that is Ready.
func (j hungJudge) drainEnds(c *cluster, h Hook, a awsim.Action) {
	closed, id := orNow(a.ClosedAt), a.InstanceID
	m, marked := markAt(j.markings[c.Name], id, closed)
	unready := j.unreadySince(c, id, closed)
	if !marked || unready.IsZero() || !j.facts.isHung(id, closed) || j.failsToComplete() {
		return
	}
	// A late scheduler may bind pods until then, and a person may have paused the drain.
	held := heldUntil(nodeAt(&c.changes, id, closed))
	due := latest(latest(latest(unready, m.from.Add(latestBinding)), j.knownAt(h, a)), held)
	refuses := j.hasWebhook(c)
	for _, p := range j.lives[c.Name] {
		switch {
		case p.Spec.NodeName != id, p.bound.After(closed), !isAfter(p.ended, unready):
		case isOfDaemonSet(p.Pod) && p.deleted.IsZero() && !refuses:
			// It stays. Others leave last, when their budgets allow that.
		case p.deleted.IsZero(), p.deleted.After(closed):
			return // The drain waits for something else.
		default:
			due = latest(due, p.DeletionTimestamp.Time)
		}
	}
	cfg := j.configs[h.Install].Drain
	due = due.Add(cfg.LoadBalancerWait + 2*c.Timing.Watch)
	if slices.ContainsFunc(c.Workloads, func(w Workload) bool { return w.Detach > 0 }) {
		due = due.Add(cfg.VolumeTimeout)
	}
	out := overlap(j.outages(h.Install, c, isAdmission), due.Add(-slack), closed)
	if over := closed.Sub(due) - grantsEnd - 2*out; over > 0 {
		j.violate("hung drains end", closed, "hook %s of %s was held %v beyond the bound, whose node is not Ready since %v",
			a.Hook, id, over, j.since(unready))
	}
}

// unreadySince returns since when a Node is not Ready; zero if it is, or if there is none.
func (j hungJudge) unreadySince(c *cluster, id string, at time.Time) (since time.Time) {
	if n := nodeAt(&c.changes, id, at); n == nil || isNodeReady(n) {
		return since
	}
	for _, change := range c.of("nodes") {
		if change.At.After(at) {
			break
		}
		n, ok := change.New.(*corev1.Node)
		switch {
		case !ok || n.Name != id:
		case isNodeReady(n):
			since = time.Time{}
		case since.IsZero():
			since = change.At
		}
	}
	return since
}
