package sim

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/sim/kube"
)

// podJudge judges what happened to pods.
type podJudge struct{ *judge }

// rightNode: pods are removed only from nodes whose instance ends, and which the install manages.
func (j podJudge) rightNode() {
	for _, r := range j.facts.removals {
		id := r.pod.Spec.NodeName
		if !r.OK() || id == "" {
			continue
		}
		if wrong := j.wrongNode(r, j.machines.find(id)); wrong != "" {
			j.violate("right node", r.At, "%s removed pod %s from node %s, which %s", r.Client, r.pod.Name, id, wrong)
		}
	}
}

// wrongNode returns why pods may not be removed from a node; empty if they may.
func (j podJudge) wrongNode(r removal, m *machine) string {
	team := j.install(r.Client).Team
	switch {
	case m == nil && j.isUnanswered(r.At):
	case m == nil:
		return "is not an instance"
	case team != "" && team != m.group.Team:
		return "is of another team"
	case j.facts.isReplaced(m.id, j.lastSeen(r)):
		return "belongs to another instance by now"
	case len(requestJudge{j}.reasonsFor(r)) == 0 && !j.isLeaving(m.id, r.At) && !j.isOverdueLaunch(r) &&
		!seemsHeld(j, m, r):
		return "does not end"
	}
	return ""
}

// holdsKept: while a person has paused a drain, no pod is evicted in its first half. In the second one the deadline may
// require it.
func (j podJudge) holdsKept() {
	for _, r := range j.facts.removals {
		id := r.pod.Spec.NodeName
		if !r.OK() || id == "" || r.pod.DeletionTimestamp != nil {
			continue
		}
		m, marked := markAt(j.markings[r.cluster.Name], id, r.At)
		half := m.from.Add(j.deadlineOf(r, m).Sub(m.from)/2 - 2*time.Second)
		then := nodeAt(&r.cluster.changes, id, j.lastSeen(r))
		if now := nodeAt(&r.cluster.changes, id, r.At); marked && r.At.Before(half) && then != nil && now != nil &&
			heldUntil(then).After(r.At) && heldUntil(now).After(r.At) {
			j.violate("holds kept", r.At, "%s removed pod %s although the drain of %s is held", r.Client, r.pod.Name, id)
		}
	}
}

// heldUntil returns until when a person has paused the drain of the node; zero if nobody has.
func heldUntil(n *corev1.Node) time.Time {
	until, _ := time.Parse(time.RFC3339, n.Annotations[node.HoldAnnotation])
	return until
}

// latestAsked returns the latest deadline that a person has ever asked for; zero if nobody has.
func latestAsked(c *cluster, id string) (deadline time.Time) {
	for _, change := range c.of("nodes") {
		if n, ok := change.New.(*corev1.Node); ok && n.Name == id {
			deadline = latest(deadline, askedDeadline(n))
		}
	}
	return deadline
}

// askedDeadline returns the deadline that a person has asked for; zero if nobody has.
func askedDeadline(n *corev1.Node) time.Time {
	if n == nil {
		return time.Time{}
	}
	deadline, _ := time.Parse(time.RFC3339, n.Annotations[node.DeadlineAnnotation])
	return deadline
}

// lastSeen is until when the agent has seen what happened to Nodes before it removed a pod. After an outage client-go
// may wait for up to a minute before it watches again.
func (j podJudge) lastSeen(r removal) time.Time {
	at := r.At.Add(-r.cluster.Timing.Watch - seen)
	if out := overlap(j.outages(r.Client, r.cluster), r.At.Add(-time.Hour), r.At); out > 0 {
		return at.Add(-out - time.Minute)
	}
	return at
}

// seemsHeld reports whether a hook has held the instance whose end an outage keeps from the agent.
func seemsHeld(j podJudge, m *machine, r removal) bool {
	return overlap(j.outages(r.Client, m.cluster), r.At.Add(-slack), r.At) > 0 &&
		slices.ContainsFunc(j.actions, func(a awsim.Action) bool {
			return a.InstanceID == m.id && a.Transition == awsim.Terminating && a.StartedAt.Before(r.At) &&
				a.ClosedBy != awsim.ByCompletion
		})
}

// isLeaving reports whether Auto Scaling had begun to terminate an instance, for whatever reason, to stop it in a warm
// pool or to replace its root volume, and the instance had not returned since; or had abandoned its launch. Without a
// hook the end of the machine shows that.
func (j *judge) isLeaving(id string, at time.Time) bool {
	if m := j.machines.find(id); m != nil && !m.endedAt.IsZero() && m.endedAt.Before(at.Add(slack/10)) {
		return true
	}
	return slices.ContainsFunc(j.actions, func(a awsim.Action) bool {
		switch {
		case a.InstanceID != id:
			return false
		case a.Transition == awsim.Launching:
			return a.Result == "ABANDON" && !a.ClosedAt.After(at)
		}
		return !a.StartedAt.After(at) && !j.facts.hasReturned(id, a.StartedAt, at.Add(-slack))
	})
}

// isUnanswered reports whether EC2 cannot say that it does not know an instance. Then a message that an instance has
// ended is acted on after a few seconds.
func (j podJudge) isUnanswered(at time.Time) bool {
	return slices.ContainsFunc(j.spec.Faults, func(f Fault) bool {
		return (f.keepsBack("ec2") || f.Do == "aws-deny" && f.What == "DescribeInstances") && j.isDuring(f, at)
	})
}

// keepsBack reports whether a service of AWS gives no answer during the fault.
func (f Fault) keepsBack(service string) bool {
	return slices.Contains([]string{"aws-down", "aws-throttle", "aws-drop"}, f.Do) && (f.What == "" || f.What == service)
}

// isDuring reports whether a time is during a fault, or at most a minute after it.
func (j *judge) isDuring(f Fault, at time.Time) bool {
	from := j.began.Add(f.From)
	return from.Before(at) && from.Add(f.For+time.Minute).After(at)
}

// isOverdueLaunch reports whether the instance of the node has a launch that the install is about to give up, because
// its time is over. It drains the node first.
func (j podJudge) isOverdueLaunch(r removal) bool {
	return slices.ContainsFunc(j.actions, func(a awsim.Action) bool {
		h := j.hookOf(a)
		return a.InstanceID == r.pod.Spec.NodeName && a.Transition == awsim.Launching && h.Install == r.Client &&
			!r.At.Before(j.launchDue(r.cluster, h, a).Add(-time.Second)) && // the times in messages are in whole seconds
			(a.ClosedAt.IsZero() || a.ClosedAt.After(r.At) && a.Result != "CONTINUE")
	})
}

// budgetsKept: a pod is deleted instead of evicted only if its budget refuses, and not before the second half of the
// drain.
func (j podJudge) budgetsKept() {
	for _, r := range j.facts.removals {
		if !r.isDeletion() || j.wasDead(r.pod.Spec.NodeName, r.At) || (boundJudge{j}).isLast(r) {
			continue
		}
		j.judgeTime(r)
		if r.isAllowed() && !j.isTaken(r) && !r.isNews() && !j.wasRefused(r) && !j.mayDelete(r) {
			j.violate("evicted first", r.At, "%s deleted pod %s, which its budget would have let go", r.Client, r.pod.Name)
		}
	}
}

// judgeTime judges when a pod was deleted in spite of its budget.
func (j podJudge) judgeTime(r removal) {
	id := r.pod.Spec.NodeName
	m, marked := markAt(j.markings[r.cluster.Name], id, r.At)
	unhealthy := j.configs[r.Client].Drain.ForceUnhealthy > 0 && !isReady(r.pod)
	since := j.drainBegan(r, m)
	half := since.Add(j.deadlineOf(r, m).Sub(since)/2 - 2*time.Second)
	switch {
	case !marked || unhealthy:
	case r.At.Before(half):
		j.violate("budgets kept", r.At, "%s deleted pod %s %v before the second half of the drain", r.Client, r.pod.Name,
			half.Sub(r.At))
	case j.isEarlyForMaintenance(r, m) && askedDeadline(nodeAt(&r.cluster.changes, id, r.At)).IsZero():
		j.violate("budgets kept", r.At, "%s deleted pod %s long before the maintenance of %s", r.Client, r.pod.Name, id)
	}
}

// deadlineOf returns the deadline of a drain, which an outage keeps the agent from writing to the mark. A drain that is
// under way keeps its earlier deadline if the mark gets a later one, and so does one that maintenance or a request
// starts again when another agent leads, before the mark gets the later one.
func (j podJudge) deadlineOf(r removal, m marking) time.Time {
	deadlines := []time.Time{m.mark.Deadline}
	joined := slices.ContainsFunc(j.facts.truthsAt(m.node, r.At, longest), truth.drainsWithoutHook)
	for _, o := range j.markings[r.cluster.Name] {
		if o.node == m.node && o.from.Equal(m.from) && (joined || o.from.After(r.At.Add(-time.Minute))) {
			deadlines = append(deadlines, o.mark.Deadline)
		}
	}
	if overlap(j.outages(r.Client, r.cluster), r.At.Add(-time.Minute), r.At) > 0 {
		deadlines = append(deadlines, unmarkedDeadlines(j, r, m)...)
	}
	for _, at := range []time.Time{r.At.Add(-r.cluster.Timing.Watch - time.Second), r.At} { // The watch may show it later.
		deadlines = append(deadlines, askedDeadline(nodeAt(&r.cluster.changes, m.node, at)))
	}
	deadlines = slices.DeleteFunc(deadlines, time.Time.IsZero)
	return slices.MinFunc(append(deadlines, m.mark.Deadline), time.Time.Compare)
}

// unmarkedDeadlines returns the deadlines that may not be in the mark yet: those of the next minute, after which the
// node may be gone, and those of hooks and of what EC2 has announced.
func unmarkedDeadlines(j podJudge, r removal, m marking) (out []time.Time) {
	for _, c := range m.changed {
		if c.at.Before(r.At.Add(time.Minute)) {
			out = append(out, c.mark.Deadline)
		}
	}
	for _, a := range j.actions {
		if a.InstanceID == m.node && a.Transition == awsim.Terminating && !a.StartedAt.After(r.At) {
			out = append(out, a.StartedAt.Add(j.configs[r.Client].Drain.Timeout))
		}
	}
	for _, t := range j.facts.truthsAt(m.node, r.At, 0) {
		if !t.ends.IsZero() {
			out = append(out, t.ends.Add(-j.configs[r.Client].Event.Margin))
		}
	}
	return out
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// wasRefused reports whether an eviction of the pod was refused or failed in the minutes before.
func (j podJudge) wasRefused(r removal) bool {
	return slices.ContainsFunc(j.facts.removals, func(e removal) bool {
		return e.IsEviction() && e.pod.UID == r.pod.UID && !e.At.After(r.At) && e.At.After(r.At.Add(-slack))
	})
}

// isTaken reports whether the eviction of another pod took what the budget allowed at that moment, or was to, and the
// process ended before.
func (j podJudge) isTaken(r removal) bool {
	ended := overlap(j.outages(r.Client, r.cluster), r.At, r.At.Add(2*r.cluster.Timing.Latency)) > 0
	return ended || slices.ContainsFunc(slices.Concat(j.facts.removals, j.facts.evictions), func(e removal) bool {
		return e.IsEviction() && e.pod.UID != r.pod.UID && e.pod.Labels["app"] == r.pod.Labels["app"] &&
			e.At.Sub(r.At).Abs() < 10*time.Second
	})
}

// isNews reports whether watches may not have shown yet that a budget of the pod allows its eviction again.
func (r removal) isNews() bool {
	shown := r.At.Add(-r.cluster.Timing.Watch - time.Second)
	return slices.ContainsFunc(r.cluster.of("poddisruptionbudgets"), func(c kube.Change) bool {
		before, ok := c.Old.(*policyv1.PodDisruptionBudget)
		isOfPod := func(b *policyv1.PodDisruptionBudget) bool { return b.UID == before.UID }
		return ok && before.Status.DisruptionsAllowed == 0 && c.At.After(shown) && !c.At.After(r.At) &&
			slices.ContainsFunc(r.Budgets, isOfPod)
	})
}

// drainBegan returns when the drain of a node began, which may be before the node could be marked: an event that has
// another deadline than a hook's starts it without a mark only if the API server does not answer.
func (j podJudge) drainBegan(r removal, m marking) time.Time {
	id, began := r.pod.Spec.NodeName, m.mark.Since
	for _, a := range j.actions {
		if a.InstanceID == id && a.Transition == awsim.Terminating && a.StartedAt.Before(began) {
			began = a.StartedAt
		}
	}
	for _, t := range j.facts.truthsAt(id, began, 0) {
		out := overlap(j.outages(r.Client, r.cluster), t.from, began) > 0
		if (t.kind == "interrupt" || out && t.drainsWithoutHook()) && t.from.Before(began) {
			began = t.from
		}
	}
	return began
}

// drainsWithoutHook reports whether maintenance, an annotation or an alarm starts a drain of its own.
func (t truth) drainsWithoutHook() bool {
	return slices.Contains([]string{"maintain", "annotated", "asked to drain", "asked to replace"}, t.kind)
}

// mayDelete reports whether something kept the agent from evicting, or from seeing that it could. A drain without time
// deletes at once: it could not wait for the answer to an eviction.
func (j podJudge) mayDelete(r removal) bool {
	m, marked := markAt(j.markings[r.cluster.Name], r.pod.Spec.NodeName, r.At)
	return marked && m.mark.Deadline.Sub(m.from) < 2*time.Second ||
		overlap(j.outages(r.Client, r.cluster), r.At.Add(-2*time.Minute), r.At) > 0
}

// isEarlyForMaintenance reports whether nothing but a maintenance that is more than a drain ahead ends the instance.
func (j podJudge) isEarlyForMaintenance(r removal, m marking) bool {
	truths := j.facts.truthsAt(r.pod.Spec.NodeName, r.At, 0)
	return m.mark.Reason == string(event.ScheduledChange) && m.mark.Hook == "" && len(truths) == 1 &&
		truths[0].kind == "maintain" && r.At.Before(truths[0].ends.Add(-j.configs[r.Client].Drain.Timeout-graceOf(r.pod))) &&
		!isForCanceledOne(j, m) && !requestJudge{j}.wasAnnotated(m.node, r.At)
}

// isForCanceledOne reports whether the mark is for maintenance that was canceled when EC2 had already scheduled another
// one: the agent then goes on as announced (docs/events.md).
func isForCanceledOne(j podJudge, m marking) bool {
	return slices.ContainsFunc(j.facts.truthsAt(m.node, m.mark.Deadline, slack+24*time.Hour), func(t truth) bool {
		return t.kind == "maintain" && !t.until.IsZero() && t.ends.Sub(m.mark.Deadline).Abs() < time.Minute
	})
}

func graceOf(p *corev1.Pod) time.Duration {
	return time.Duration(*p.Spec.TerminationGracePeriodSeconds) * time.Second
}

// noMarksLeft: a node whose instance stays has nothing of the agents in the end. In Standby it is uncordoned when the
// instance is in service again (docs/events.md).
func (j *judge) noMarksLeft() {
	for _, c := range j.clusters {
		for _, n := range kube.List[*corev1.Node](c.server) {
			replaced := j.facts.isReplaced(n.Name, time.Now())
			ends := !replaced && len(j.facts.truthsAt(n.Name, time.Now(), 0)) > 0 || !replaced && j.isLeaving(n.Name, time.Now())
			unknown := j.cannotVerify() || j.cannotAsk() || j.isInStandby(n.Name)
			if marks := j.marksOn(n); len(marks) > 0 && j.machines.find(n.Name) != nil && !ends && !unknown {
				j.violate("no marks left", time.Now(), "node %s, which does not end, has %q", n.Name, marks)
			}
		}
	}
}

// isInStandby reports whether the instance of a Node is in Standby now.
func (j *judge) isInStandby(id string) bool {
	m := j.machines.find(id)
	return m != nil && slices.ContainsFunc(j.aws.Instances(m.group.Name), func(i awsim.Instance) bool {
		return i.ID == id && i.State == "Standby"
	})
}

// marksOn returns what the agents have added to a Node.
func (j *judge) marksOn(n *corev1.Node) (marks []string) {
	for _, key := range []string{node.Annotation, node.MaintenanceAnnotation} {
		if text, ok := n.Annotations[key]; ok {
			marks = append(marks, key+"="+text)
		}
	}
	for _, t := range n.Spec.Taints {
		if isOfAgent(t) {
			marks = append(marks, t.ToString())
		}
	}
	_, byOthers := j.facts.cordons[n.Name]
	if n.Spec.Unschedulable && !byOthers {
		marks = append(marks, "unschedulable")
	}
	m := j.machines.find(n.Name)
	byEKS := byOthers && m != nil && m.group.Managed
	if _, ok := n.Labels[corev1.LabelNodeExcludeBalancers]; ok && !byEKS {
		marks = append(marks, corev1.LabelNodeExcludeBalancers)
	}
	if c := drainCondition(n); c.Type != "" {
		marks = append(marks, string(c.Type)+"="+c.Reason+": "+c.Message)
	}
	return marks
}

// cannotVerify reports whether the agents may never ask EC2 about instances: an event that is acted on without an
// answer is then never found to be wrong.
func (j *judge) cannotVerify() bool {
	return slices.ContainsFunc(j.spec.Faults, func(f Fault) bool {
		return f.Do == "aws-deny" && f.What == "DescribeInstances" && f.For >= lastingFault
	})
}

// podsTold: when EC2 takes an instance as announced, its pods have been told to end in time.
func (j podJudge) podsTold() {
	for _, i := range j.aws.Interruptions() {
		m := j.machines.find(i.InstanceID)
		if m == nil || i.TakenAt.IsZero() || j.wasDead(i.InstanceID, i.TakenAt.Add(-time.Second)) {
			continue
		}
		for _, install := range m.cluster.Installs {
			if install.Team != m.group.Team || !j.canTell(install.Name, m.cluster, i) {
				continue
			}
			j.judgeInterrupted(m.cluster, i)
		}
	}
}

// judgeInterrupted judges the pods of an instance that EC2 took: those that were there at the warning, or, if the Node
// registered after it, a minute before the end.
func (j podJudge) judgeInterrupted(c *cluster, i awsim.Interruption) {
	last := i.WarnedAt
	if j.machines.find(i.InstanceID).began.After(last) {
		last = i.DueAt.Add(-time.Minute)
	}
	for _, p := range j.podsOn(c, i.InstanceID, i.TakenAt.Add(-time.Second)) {
		due := i.DueAt.Add(max(0, j.spec.Skew))                                           // as the agent reads it
		isTold := !p.deleted.IsZero() && !p.DeletionTimestamp.After(due.Add(time.Second)) // It is in whole seconds.
		seemsEarly := p.deleted.IsZero() && i.TakenAt.Before(due.Add(-graceOf(p.Pod)-slack/10)) ||
			!p.deleted.IsZero() && i.TakenAt.Before(due.Add(-slack/20)) // its grace period is cut just before the end
		m, marked := markAt(j.markings[c.Name], i.InstanceID, i.TakenAt.Add(-time.Second))
		isReturned := marked && mayStay(p, m)
		if p.bound.Before(last) && !isTold && !seemsEarly && !isReturned {
			j.violate("pods told in time", i.TakenAt, "pod %s ran with a grace period beyond the end of %s", p.Name,
				i.InstanceID)
		}
	}
}

// canTell reports whether an install is to end the pods of an instance that EC2 interrupts, and nothing keeps it from
// doing so.
func (j podJudge) canTell(install string, c *cluster, i awsim.Interruption) bool {
	cfg := j.configs[install]
	action := map[string]event.Action{
		awsim.SpotWarning: cfg.Event.SpotInterruption, awsim.ReservationWarning: cfg.Event.ReservationInterrupt,
		awsim.BlockWarning: cfg.Event.CapacityBlockExpiring,
	}[i.Warning]
	return action == event.Drain && cfg.Drain.AtDeadline == "delete" && !j.facts.losses[install] &&
		overlap(j.outages(install, c), i.WarnedAt.Add(-time.Minute), i.TakenAt) == 0
}

// deadNodes: pods that are lost with a dead machine are not reported as pods that an agent left behind. One that has
// booted again is not dead.
func (j *judge) deadNodes() {
	for _, l := range j.log.all() {
		if !strings.Contains(l.text, `"termination ended"`) || !strings.Contains(l.text, `"left-behind"`) {
			continue
		}
		for id, m := range j.machines.instances {
			install := agentOf(l.who)
			deletes := j.configs[install].Drain.AtDeadline == "delete"
			sees := overlap(j.outages(install, m.cluster), l.at.Add(-slack), l.at) == 0 && !j.facts.isReplaced(id, l.at) &&
				!j.facts.hasReturned(id, j.began, l.at)
			if strings.Contains(l.text, id) && deletes && sees && j.facts.hasFailed(id, l.at.Add(-2*slack)) {
				j.violate("dead nodes", l.at, "the termination of %s, whose machine is dead, is reported as left-behind", id)
			}
		}
	}
}

// agentOf returns the install of a replica.
func agentOf(replica string) string { return replica[:max(0, strings.LastIndexByte(replica, '-'))] }
