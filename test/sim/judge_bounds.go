package sim

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// boundJudge judges whether everything ends, and soon enough: drains, the removals of pods that return, deadlines that
// messages name, and what an agent needs.
type boundJudge struct{ podJudge }

func (j boundJudge) all() {
	j.removalsBounded()
	for _, c := range j.clusters {
		for _, m := range j.markings[c.Name] {
			j.deadlineKept(c, m)
		}
	}
	if most := j.facts.goroutines; most > mostGoroutines {
		j.violate("memory bounded", time.Now(), "there were %d goroutines", most)
	}
	if most := j.facts.live; most > mostLive*uint64(runtime.GOMAXPROCS(0)) {
		j.violate("memory bounded", time.Now(), "%d MiB were in use", most>>20)
	}
}

// mostGoroutines is far more than worlds that run at the same time need.
const mostGoroutines = 3000

// mostLive is several times the bytes that a world needs whose agents call for days, with its record of the calls.
const mostLive = 256 << 20

// grantsEnd is how long a drain may take beyond its deadline and the grace periods of the pods that were told to end
// before it: half a minute, and a quarter of a minute for what is under way, a request or the completion of the hook.
const grantsEnd = 45 * time.Second

// judgeDrain judges the drain for an action, if the agent knows of it.
func (j boundJudge) judgeDrain(c *cluster, h Hook, a awsim.Action) {
	if j.cannot(c, a) || (hookJudge{j.judge}).isLost(h) {
		return
	}
	j.drainEnds(c, h, a)
	hungJudge{j}.drainEnds(c, h, a)
	j.cordonedAgain(c, h, a)
	j.staysTainted(c, h, a)
}

// knownAt returns when the agent knows of an action: with a lost message at the next resync.
func (j boundJudge) knownAt(h Hook, a awsim.Action) time.Time {
	if j.facts.losses[h.Install] {
		return a.StartedAt.Add(j.configs[h.Install].ResyncInterval)
	}
	return a.StartedAt
}

// staysTainted: when an administrator uncordons a node while a hook holds its instance, it is cordoned again. An older
// commit does not do that.
func (j boundJudge) staysTainted(c *cluster, h Hook, a awsim.Action) {
	known, closed := j.knownAt(h, a), orNow(a.ClosedAt)
	for _, at := range j.facts.uncordons[a.InstanceID] {
		due := at.Add(j.configs[h.Install].ResyncInterval + 2*time.Minute + 2*c.Timing.Watch)
		out := overlap(j.outages(h.Install, c), at.Add(-time.Minute), due) > 0
		n := nodeAt(&c.changes, a.InstanceID, due)
		if at.After(known) && due.Before(closed) && !out && n != nil && !isTainted(n) && len(j.spec.Versions) == 0 {
			j.violate("stays cordoned", due, "node %s was uncordoned %v, and is not cordoned again while hook %s is open",
				a.InstanceID, j.since(at), a.Hook)
		}
	}
}

// cordonedAgain: when the Node of an instance registers again while a hook holds it, it is cordoned again.
func (j boundJudge) cordonedAgain(c *cluster, h Hook, a awsim.Action) {
	known, closed := j.knownAt(h, a), orNow(a.ClosedAt)
	for _, at := range j.facts.rejoined[a.InstanceID] {
		due := at.Add(time.Minute + 2*c.Timing.Watch)
		out := overlap(j.outages(h.Install, c), at.Add(-time.Minute), due) > 0
		if _, marked := markAt(j.markings[c.Name], a.InstanceID, due); at.After(known) && due.Before(closed) &&
			!marked && !out && nodeAt(&c.changes, a.InstanceID, due) != nil {
			j.violate("stays cordoned", due, "node %s registered again, and is not cordoned while hook %s is open",
				a.InstanceID, a.Hook)
		}
	}
}

// isTainted reports whether a Node has the taint of an agent.
func isTainted(n *corev1.Node) bool { return slices.ContainsFunc(n.Spec.Taints, isOfAgent) }

// isOfAgent reports whether a taint is that of an agent, whose key may be configured.
func isOfAgent(t corev1.Taint) bool { return strings.HasPrefix(t.Key, "node-drainer.io/") }

// drainEnds: a drain ends by its deadline and the grace periods that were granted before, whatever pods, webhooks and
// messages do.
func (j boundJudge) drainEnds(c *cluster, h Hook, a awsim.Action) {
	if j.failsToComplete() {
		return
	}
	closed := orNow(a.ClosedAt)
	end := j.drainDue(c, h, a, closed)
	for _, p := range j.lives[c.Name] {
		if p.Spec.NodeName == a.InstanceID && !p.deleted.IsZero() && !p.deleted.After(end) && p.isOn(a.StartedAt) {
			end = latest(end, p.DeletionTimestamp.Time)
		}
	}
	out := overlap(j.outages(h.Install, c, isDescription, isAdmission), end.Add(-2*time.Minute), closed)
	if over := closed.Sub(end) - grantsEnd - 2*out; over > 0 {
		j.violate("drains end", closed, "hook %s of %s was held for %v, and %v beyond the bound of its drain", a.Hook,
			a.InstanceID, closed.Sub(a.StartedAt), over)
	}
}

// drainDue returns the deadline of the drain for an action: that of the last mark, which may name one that is over, or
// what the settings allow, or the end of the wait for a Node.
func (j boundJudge) drainDue(c *cluster, h Hook, a awsim.Action, closed time.Time) (due time.Time) {
	var deadline time.Time
	for _, m := range j.markings[c.Name] {
		if m.node != a.InstanceID || m.from.After(closed) || !m.until.IsZero() && m.until.Before(a.StartedAt) {
			continue
		}
		for _, r := range append([]remark{{m.from, m.mark}}, m.changed...) {
			if !r.at.After(closed) && !r.mark.Deadline.Equal(deadline) {
				deadline, due = r.mark.Deadline, latest(r.mark.Deadline, r.at)
			}
		}
	}
	if due.IsZero() { // what a person asked for was about an earlier drain
		cfg := j.configs[h.Install]
		due = a.StartedAt.Add(cfg.Drain.Timeout + cfg.Node.RegistrationTimeout)
	} else {
		due = latest(due, latestAsked(c, a.InstanceID))
	}
	return latest(latest(due, j.knownAt(h, a)), j.registrationEnds(c, h, a, closed))
}

// registrationEnds returns until when the agent may wait for another Node of the instance: the mark has gone with the
// last one, and the message of the action was lost, so that a process that has started since knows neither the deadline
// nor when the action began. It is zero if the agent knows one of these.
func (j boundJudge) registrationEnds(c *cluster, h Hook, a awsim.Action, closed time.Time) (end time.Time) {
	var gone time.Time
	for _, m := range j.markings[c.Name] {
		if m.node == a.InstanceID && m.from.Before(closed) {
			gone = time.Time{}
			if m.gone && m.until.Before(closed) {
				gone = m.until
			}
		}
	}
	isOf := func(body string) bool { return strings.Contains(body, a.Token) }
	if gone.IsZero() || !slices.ContainsFunc(j.aws.Lost(queueURL(h.Install)), isOf) {
		return end
	}
	for _, agent := range j.agentsOf(h.Install) {
		for _, d := range agent.down {
			if d.until.After(gone) && d.until.Before(closed) {
				end = latest(end, d.until.Add(j.configs[h.Install].Node.RegistrationTimeout))
			}
		}
	}
	return end
}

// failsToComplete reports whether AWS fails to complete hooks at some time.
func (j boundJudge) failsToComplete() bool {
	return slices.ContainsFunc(j.spec.Faults, func(f Fault) bool { return f.Do == "aws-fail" || f.Do == "aws-drop" })
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// removalsBounded: a drain removes the pods of a controller that were on its node, and once those that return. Of pods
// that a scheduler binds late, it removes as many again and some more, and then some each time that twice as much time
// has passed.
func (j boundJudge) removalsBounded() {
	removed := map[string][]removal{}
	for _, r := range j.facts.removals {
		owner, counts := r.owner()
		if !counts {
			continue
		}
		key := fmt.Sprint(r.cluster.Name, "/", r.pod.Spec.NodeName, "/", owner)
		removed[key] = append(removed[key], r)
	}
	for _, all := range removed {
		first, last := all[0], all[len(all)-1]
		if len(all) <= 6 { // for a drain of a node that had none of them
			continue
		}
		owner, _ := first.owner()
		if most := j.mostRemovals(owner, first); len(all) > most {
			j.violate("removals bounded", last.At, "%s removed %d pods of %s from node %s, at most %d follow from what happened",
				first.Client, len(all), metav1.GetControllerOfNoCopy(first.pod).Name, first.pod.Spec.NodeName, most)
		}
	}
}

// mostRemovals returns how many pods of an owner agents may remove from a node: in each of its drains, and again when a
// process starts.
func (j boundJudge) mostRemovals(owner types.UID, r removal) int {
	drains, pods := 1, 2
	for _, m := range j.markings[r.cluster.Name] {
		if m.node == r.pod.Spec.NodeName {
			drains++
			pods = max(pods, j.podsOf(owner, r.cluster, m))
		}
	}
	for _, a := range r.cluster.agents {
		drains += len(a.down)
	}
	for _, a := range j.actions {
		if a.InstanceID == r.pod.Spec.NodeName {
			drains++
		}
	}
	removals := 2*pods + 2
	if r.cluster.Timing.Lag > 0 && !toleratesAll(r.pod) && !namesNode(r.pod) {
		removals += lateMargin + lateTimes*pods
	}
	return drains * removals
}

// podsOf returns how many pods of an owner are on a node when it is marked.
func (j boundJudge) podsOf(owner types.UID, c *cluster, m marking) (n int) {
	for _, p := range j.lives[c.Name] {
		controller := metav1.GetControllerOfNoCopy(p)
		if p.Spec.NodeName == m.node && p.isOn(m.from) && controller != nil && controller.UID == owner {
			n++
		}
	}
	return n
}

// lateMargin is how many pods more than it had a drain removes of a controller at once, and lateTimes how often twice
// as much time passes until two minutes after the cordon.
const lateMargin, lateTimes = 4, 7

// mayStay reports whether a pod may stay on a node that is drained, because its controller has put it back: neither
// taint nor cordon keeps it away, or it names the node, or it comes later than any scheduler is behind, or so near to
// the deadline that the agent only tells it to stop.
func mayStay(p *podLife, m marking) bool {
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil || !p.CreationTimestamp.After(m.from.Add(-time.Second)) {
		return false
	}
	if toleratesAll(p.Pod) || namesNode(p.Pod) || m.isSoft() && toleratesCordon(p.Pod) {
		return true
	}
	again := p.bound.Add(p.bound.Sub(m.from))
	return p.bound.After(m.from.Add(latestBinding)) || again.After(m.mark.Deadline) ||
		slices.ContainsFunc(m.changed, func(r remark) bool { return again.After(r.mark.Deadline) })
}

// latestBinding is how long after a cordon a pod may be bound by a scheduler that has not seen it.
const latestBinding = 2 * time.Minute

func toleratesAll(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.Operator == corev1.TolerationOpExists && t.Key == ""
	})
}

// isSoft reports whether the taint of the mark keeps no pod away.
func (m marking) isSoft() bool {
	return slices.ContainsFunc(m.mark.Added, func(added string) bool {
		return strings.HasSuffix(added, ":"+string(corev1.TaintEffectPreferNoSchedule))
	})
}

// toleratesCordon reports whether a pod tolerates that its node is unschedulable, as those of DaemonSets do.
func toleratesCordon(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.Operator == corev1.TolerationOpExists && t.Key == corev1.TaintNodeUnschedulable
	})
}

// namesNode reports whether the owner of a pod names its node.
func namesNode(p *corev1.Pod) bool { return len(p.ManagedFields) > 0 }

// isLast reports whether a deleted pod had come back, or is one of a DaemonSet, and no other pod was left that had to
// leave: budgets then have the time between two deletions, and not half of the drain.
func (j boundJudge) isLast(r removal) bool {
	m, marked := markAt(j.markings[r.cluster.Name], r.pod.Spec.NodeName, r.At)
	p := j.lives[r.cluster.Name][r.pod.UID]
	if !marked || p == nil || !isOfDaemonSet(r.pod) && !mayStay(p, m) {
		return false
	}
	return !slices.ContainsFunc(j.podsOn(r.cluster, m.node, r.At), func(o *podLife) bool {
		return o.UID != p.UID && o.bound.Before(m.from) && o.deleted.IsZero()
	})
}

// deadlineKept: no message makes the deadline of a drain earlier than what AWS does with the instance allows.
func (j boundJudge) deadlineKept(c *cluster, m marking) {
	machine := j.machines.find(m.node)
	if machine == nil {
		return
	}
	install := c.manager(machine.group)
	var before time.Time
	for _, r := range append([]remark{{m.from, m.mark}}, m.changed...) {
		if r.mark.Deadline.Equal(before) {
			continue
		}
		before = r.mark.Deadline
		earliest, known := j.earliestDeadline(install, m.node, r.at)
		early := earliest.Add(-j.spec.Skew.Abs() - time.Minute).Sub(r.mark.Deadline)
		if !r.mark.Deadline.IsZero() && known && early > 0 {
			j.violate("deadline kept", r.at, "the deadline of node %s is %v, and AWS allows %v", m.node,
				j.since(r.mark.Deadline), j.since(earliest))
			return
		}
	}
}

// isHeld reports whether a hook holds an instance at a time: EC2 does not shut it down then.
func (j boundJudge) isHeld(id string, at time.Time) bool {
	return slices.ContainsFunc(j.actions, func(a awsim.Action) bool {
		return a.InstanceID == id && !a.StartedAt.After(at) && isAfter(a.ClosedAt, at)
	})
}

// shutDown is how long before the end of a machine EC2 may say that it shuts it down.
const shutDown = 30 * time.Second

// earliestDeadline returns the earliest deadline that a drain of an instance may have at a time, as far as what AWS
// does with it says that.
func (j boundJudge) earliestDeadline(install, id string, at time.Time) (earliest time.Time, known bool) {
	cfg := j.configs[install]
	earliest, known = j.earliestEnd(cfg.Drain.Timeout, id, at)
	if !known {
		return earliest, false
	}
	add := func(t time.Time) {
		if earliest.IsZero() || t.Before(earliest) {
			earliest = t
		}
	}
	for _, t := range j.facts.truthsAt(id, at.Add(shutDown), longest) {
		switch {
		case t.kind == "ended" && j.isHeld(id, at):
		case slices.Contains([]string{"forged", "bypass", "stopped", "killed", "ended"}, t.kind):
			return earliest, false
		case t.from.After(at):
		case !t.ends.IsZero():
			add(t.ends.Add(-cfg.Event.Margin))
			if t.kind != "maintain" {
				add(t.from.Add(cfg.Drain.Timeout))
			}
		default:
			add(t.from.Add(cfg.Drain.Timeout))
		}
	}
	return earliest, !earliest.IsZero() && !j.cannotDescribe(at)
}

// earliestEnd returns the earliest deadline that the lifecycle actions of an instance allow; zero if it has none.
func (j boundJudge) earliestEnd(timeout time.Duration, id string, at time.Time) (earliest time.Time, known bool) {
	for _, a := range j.actions {
		if a.InstanceID != id || a.StartedAt.After(at) {
			continue
		}
		if a.Transition == awsim.Launching {
			return earliest, false
		}
		h := j.hookOf(a)
		end := a.StartedAt.Add(min(timeout, min(48*time.Hour, 100*h.Heartbeat)*9/10-h.Heartbeat))
		if earliest.IsZero() || end.Before(earliest) {
			earliest = end
		}
	}
	return earliest, true
}

// cannotDescribe reports whether agents are denied what they have to know of hooks and instances, or have got no answer
// for a while at a time. They assume the shortest hook then.
func (j boundJudge) cannotDescribe(at time.Time) bool {
	return slices.ContainsFunc(j.spec.Faults, func(f Fault) bool {
		return f.keepsBack("autoscaling") && j.isDuring(f, at) || f.Do == "aws-deny" && strings.HasPrefix(f.What, "Describe")
	})
}
