package sim

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// requestJudge judges drains that an annotation asks for, and evictions that are delayed.
type requestJudge struct{ podJudge }

func (j requestJudge) all() {
	for _, r := range j.facts.removals {
		j.evictionDelayed(r)
	}
	j.inTurn()
	for _, c := range j.clusters {
		j.drainsInTurn(c)
		for _, m := range j.markings[c.Name] {
			j.marksKept(c, m)
		}
	}
	for id, m := range j.machines.instances {
		for _, t := range j.facts.truthsAt(id, time.Now(), longest) {
			if t.kind == "annotated" {
				j.drainEnds(m, t)
			}
		}
	}
}

// reasonsFor returns the reasons for the removal of a pod from its node. A drain that an annotation asks for stops when
// the watch shows that the annotation is gone, and any other one when AWS says that its reason is.
func (j requestJudge) reasonsFor(r removal) []truth {
	return slices.DeleteFunc(j.facts.truthsAt(r.pod.Spec.NodeName, r.At, longest), func(t truth) bool {
		shown := t.until.Add(slack)
		if t.kind == "annotated" {
			shown = t.until.Add(2*r.cluster.Timing.Watch + seen) // The watch may begin again just before.
		}
		return t.kind == "asked to cordon" || !t.until.IsZero() && r.At.After(shown) &&
			overlap(j.outages(r.Client, r.cluster), t.until, r.At) == 0
	})
}

// inTurn: pods are removed because of one alarm of each group at a time, and of no more in an hour than configured,
// except those that came when the node was marked already. A process that starts again starts with any alarm.
func (j requestJudge) inTurn() {
	turns := map[string][]marking{} // by group
	for _, r := range j.facts.removals {
		m, marked := markAt(j.markings[r.cluster.Name], r.pod.Spec.NodeName, r.At)
		isForAlarm := marked && j.drainsForAlarm(r, m) && r.pod.CreationTimestamp.Time.Before(m.from)
		machine := j.machines.find(r.pod.Spec.NodeName)
		if !isForAlarm || machine == nil || len(j.spec.Faults) > 0 {
			continue
		}
		before := turns[machine.group.Name]
		i := slices.IndexFunc(before, func(o marking) bool {
			return o.node == m.node && (o.from.Equal(m.from) || j.facts.hasRejoined(m.node, o.from, m.from.Add(slack)))
		})
		most := j.configs[r.Client].Event.AlarmsPerHour
		if i < 0 {
			turns[machine.group.Name] = append(before, m)
			hour := time.Hour - j.configs[r.Client].Hook.ConfirmTimeout // The turn begins before AWS confirms the alarm.
			if n := len(before); n >= most && m.from.Sub(before[n-most].from) < hour {
				j.violate("alarms in turn", r.At, "%s cordoned node %s because of an alarm %v after node %s, the first of %d",
					r.Client, m.node, m.from.Sub(before[n-most].from), before[n-most].node, most)
			}
		} else if i < len(before)-1 {
			j.violate("alarms in turn", r.At, "%s removed pod %s from node %s after others from %s, because of alarms",
				r.Client, r.pod.Name, m.node, before[i+1].node)
		}
	}
}

// wasAnnotated reports whether an annotation has asked for the drain of a node before: a drain that goes on for another
// event keeps the earlier deadline (docs/events.md).
func (j requestJudge) wasAnnotated(id string, at time.Time) bool {
	return slices.ContainsFunc(j.facts.truthsAt(id, at, longest), func(t truth) bool { return t.kind == "annotated" })
}

// evictionDelayed: no pod is evicted within DRAIN_EVICTION_DELAY of the taint, or of the begin of a drain whose node
// could not be tainted, unless half of the drain has passed, less than three minutes are left, nothing runs on the
// machine anymore, or the node was not Ready, as far as the watch shows.
func (j requestJudge) evictionDelayed(r removal) {
	delay := j.configs[r.Client].Drain.EvictionDelay
	m, marked := markAt(j.markings[r.cluster.Name], r.pod.Spec.NodeName, r.At)
	if delay == 0 || !marked || !r.IsEviction() || r.isOfEarlierPod() {
		return
	}
	machine := j.machines.find(r.pod.Spec.NodeName)
	if machine != nil && !machine.endedAt.IsZero() && machine.endedAt.Before(r.At) {
		return
	}
	for _, at := range []time.Time{r.At, r.At.Add(-2 * r.cluster.Timing.Watch)} {
		if n := nodeAt(&r.cluster.changes, r.pod.Spec.NodeName, at); n != nil && !isNodeReady(n) {
			return
		}
	}
	since, deadline := j.drainBegan(r, m), j.deadlineOf(r, m)
	due := since.Add(min(delay, deadline.Sub(since)/2))
	if r.At.Before(due.Add(-2*time.Second)) && r.At.Before(deadline.Add(-3*time.Minute)) {
		j.violate("evictions delayed", r.At, "%s evicted pod %s %v early", r.Client, r.pod.Name, due.Sub(r.At))
	}
}

// marksKept: a node stays cordoned while its annotation asks for its drain, and while EC2 is about to take its instance
// and the install drains it for that, unless a hook holds a launch of the instance.
func (j requestJudge) marksKept(c *cluster, m marking) {
	machine := j.machines.find(m.node)
	if m.until.IsZero() || m.gone || m.mark.Deadline.IsZero() || machine == nil || j.isLaunching(m.node, m.until) {
		return
	}
	install := c.manager(machine.group)
	if overlap(j.outages(install, c), m.until.Add(-slack), m.until) > 0 {
		return
	}
	if why := j.reasonToKeep(install, c, m); why != "" {
		j.violate("stays cordoned", m.until, "node %s was uncordoned, whose instance has %s", m.node, why)
	}
}

// reasonToKeep returns why a node may not be uncordoned when it is, as far as the watch shows it; empty if it may.
func (j requestJudge) reasonToKeep(install string, c *cluster, m marking) string {
	known := m.until.Add(-c.Timing.Watch - seen)
	for _, t := range j.facts.truthsAt(m.node, known, 0) {
		if t.kind == "annotated" && isAfter(t.until, m.until) {
			return "the annotation"
		}
	}
	for _, i := range j.aws.Interruptions() {
		if i.InstanceID == m.node && i.WarnedAt.Before(known) && i.TakenAt.After(m.until) && j.canTell(install, c, i) {
			return "a warning"
		}
	}
	return ""
}

// isLaunching reports whether a hook holds a launch of the instance: the agent uncordons its node then, so that it can
// become ready. It drains an annotated one again when it is in service.
func (j requestJudge) isLaunching(id string, at time.Time) bool {
	return slices.ContainsFunc(j.actions, func(a awsim.Action) bool {
		hasEnded := !a.ClosedAt.IsZero() && a.ClosedAt.Before(at) // not at the same moment
		return a.InstanceID == id && a.Transition == awsim.Launching && !a.StartedAt.After(at) && !hasEnded
	})
}

// drainsForAlarm reports whether the pod was removed because of an alarm. If alarms only cordon nodes, their pods
// are removed for other events.
func (j requestJudge) drainsForAlarm(r removal, m marking) bool {
	cordons := j.configs[r.Client].Event.Alarm == event.Cordon
	return !r.isOfEarlierPod() && m.mark.Reason == string(event.Alarm) && !cordons
}

// drainEnds: a drain that an annotation asks for ends within DRAIN_TIMEOUT, or by the deadline that a person has set.
// The condition of the node says so, or that the node is lost, unless the API server refuses what the agent does in the
// last minute. It begins again when a hook no longer holds the instance.
func (j requestJudge) drainEnds(m *machine, t truth) {
	install := m.cluster.manager(m.group)
	if install == "" {
		return
	}
	end := orNow(t.until)
	cfg, from := j.configs[install], j.drainStarts(m.id, t.from, end)
	outages := j.outages(install, m.cluster)
	out := overlap(outages, t.from, end)
	longestDrain := cfg.Drain.Timeout + cfg.ResyncInterval + slack + 2*out
	from = j.turnOf(m, from, end, longestDrain)
	due := latest(from.Add(longestDrain), latestAsked(m.cluster, m.id).Add(slack))
	n := nodeAt(&m.cluster.changes, m.id, due)
	if due.After(end) || n == nil || j.isLeaving(m.id, due) || len(j.facts.truthsAt(m.id, due, 0)) > 1 {
		return
	}
	marking, marked := markAt(j.markings[m.cluster.Name], m.id, due)
	deadline := marking.mark.Deadline
	refused := overlap(outages, deadline.Add(-time.Minute), deadline) > 0
	ended := isDrained(n) || j.facts.isHung(m.id, due) && isLost(n)
	if !marked || cfg.Drain.AtDeadline == "delete" && !refused && !ended {
		j.violate("requested drains end", due, "node %s is not drained %v after its annotation", m.id, due.Sub(from))
	}
}

// turnOf returns when the drain of a node begins that may wait for its turn since the given time: when its condition
// says so no more, and at the latest when each other node has had a drain, unless pods find no room.
func (j requestJudge) turnOf(m *machine, since, end time.Time, longestDrain time.Duration) time.Time {
	begins, waits, lacksRoom := since, false, false
	for _, change := range m.cluster.of("nodes") {
		n, ok := change.New.(*corev1.Node)
		if !ok || n.Name != m.id || change.At.After(end) {
			continue
		}
		if waits && !isPostponed(n) {
			begins = latest(since, change.At)
		}
		waits = isPostponed(n)
		lacksRoom = lacksRoom || waits && strings.Contains(drainCondition(n).Message, "have found room")
	}
	if waits {
		begins = end
	}
	if due := j.lastTurn(m.cluster, since, begins, longestDrain); begins.After(due) && !lacksRoom {
		return due
	}
	return begins
}

// lastTurn returns when each node has had a drain since the time, and those for maintenance that began by then as well.
func (j requestJudge) lastTurn(c *cluster, since, begins time.Time, longestDrain time.Duration) time.Time {
	due := since.Add(longestDrain * time.Duration(1+c.nodesEver()))
	for _, m := range j.markings[c.Name] {
		if m.mark.Reason == string(event.ScheduledChange) && m.from.Before(begins) {
			due = latest(due, m.mark.Deadline.Add(longestDrain))
		}
	}
	return due
}

// isPostponed reports whether the condition of a Node says that it waits for its drain.
func isPostponed(n *corev1.Node) bool {
	return drainCondition(n).Reason == "DrainPostponed"
}

// drainStarts returns when the last drain of an annotated node starts: with the annotation, or when the last hook ended
// that held its instance.
func (j requestJudge) drainStarts(id string, from, end time.Time) time.Time {
	for _, a := range j.actions {
		if a.InstanceID == id && a.ClosedAt.After(from) && a.ClosedAt.Before(end) {
			from = a.ClosedAt
		}
	}
	return from
}

// isDrained reports whether the condition of a Node says that it is drained.
func isDrained(n *corev1.Node) bool {
	return drainCondition(n).Status == corev1.ConditionTrue
}

// isLost reports whether the condition of a Node says that its machine or its kubelet has failed.
func isLost(n *corev1.Node) bool {
	return drainCondition(n).Reason == "NodeLost"
}

// orNow returns a time, or the present for one that is zero.
func orNow(t time.Time) time.Time {
	if t.IsZero() {
		return time.Now()
	}
	return t
}
