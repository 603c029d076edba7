package sim

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// hookJudge judges what happened to hooks.
type hookJudge struct{ *judge }

// judgeAction judges a lifecycle action: most of it only if its hook belongs to an install.
func (j hookJudge) judgeAction(a awsim.Action) {
	c, _, ok := j.clusterOf(a.Group)
	h, launch := j.hookOf(a), a.Transition == awsim.Launching
	if !ok || h.Name == "" || a.StartedAt.Before(j.began) {
		return
	}
	if !launch {
		j.staysCordoned(c, a)
	}
	if h.Install == "" {
		return
	}
	j.isCompleted(c, h, a)
	drainJudge(j).heartbeatsKept(c, h, a)
	if !launch {
		boundJudge{podJudge(j)}.judgeDrain(c, h, a)
	}
	if launch {
		j.launchIsReady(c, h, a)
	} else {
		j.nodeIsEmpty(c, h, a)
	}
}

// isCompleted: the install completes each of its hooks, and in time.
func (j hookJudge) isCompleted(c *cluster, h Hook, a awsim.Action) {
	closed := a.ClosedAt
	if closed.IsZero() {
		closed = time.Now()
	}
	out := overlap(j.outages(h.Install, c, isDescription, isAdmission), a.StartedAt, closed)
	limit := max(j.limit(h, a), latestAsked(c, a.InstanceID).Sub(a.StartedAt))
	switch took := closed.Sub(a.StartedAt); {
	case a.ClosedAt.IsZero():
		j.violate("hook completed", closed, "hook %s of %s is still open after %v", a.Hook, a.InstanceID, took)
	case a.ClosedBy == awsim.ByHeartbeatTimeout, a.ClosedBy == awsim.ByGlobalTimeout:
		if out < h.Heartbeat/2-30*time.Second && !j.cannot(c, a) && !j.isLost(h) {
			j.violate("hook completed", closed, "hook %s of %s ended by %s", a.Hook, a.InstanceID, a.ClosedBy)
		}
	case took > limit+slack+2*out && !j.cannot(c, a) && !j.isLost(h): // a message that is sent again may come late
		j.violate("completed in time", closed, "hook %s of %s took %v, limit %v", a.Hook, a.InstanceID, took, limit)
	}
}

// limit returns how long an action may be held without outages.
func (j hookJudge) limit(h Hook, a awsim.Action) time.Duration {
	cfg := j.configs[h.Install]
	limit := cfg.Drain.Timeout + cfg.Node.RegistrationTimeout + cfg.Drain.VolumeTimeout
	switch {
	case h.Launch:
		return launchLimit(cfg, a)
	case j.wasForged(a), j.follows(a), j.hasLostMark(h, a):
		return limit + cfg.Drain.Timeout
	}
	return limit
}

// wasForged reports whether a message about the instance was forged before the end of the action. The node may then be
// marked for the forged action, and an agent that starts again drains it for the other one from the beginning.
func (j hookJudge) wasForged(a awsim.Action) bool {
	return slices.ContainsFunc(j.facts.truthsAt(a.InstanceID, a.ClosedAt, longest), func(t truth) bool {
		return t.kind == "forged"
	})
}

// hasLostMark reports whether the Node registered again, without the mark that has the deadline, and another process
// went on with the drain: it begins it from the beginning, within what the hook allows.
func (j hookJudge) hasLostMark(h Hook, a awsim.Action) bool {
	m := j.machines.find(a.InstanceID)
	return m != nil && j.facts.hasRejoined(a.InstanceID, a.StartedAt, a.ClosedAt) &&
		overlap(j.outages(h.Install, m.cluster), a.StartedAt, a.ClosedAt) > 0
}

// follows reports whether the action began when another one of its hook ended, which a drain was under way for. That
// goes on, unless the process ends: another process begins with the new action.
func (j hookJudge) follows(a awsim.Action) bool {
	return slices.ContainsFunc(j.actions, func(before awsim.Action) bool {
		return before.InstanceID == a.InstanceID && before.Hook == a.Hook && before.ClosedAt.Equal(a.StartedAt)
	})
}

// launchLimit returns how long a launch may be held. One that is given up is drained.
func launchLimit(cfg config.Agent, a awsim.Action) time.Duration {
	if a.Result == "ABANDON" {
		return cfg.Launch.Timeout + cfg.Drain.Timeout
	}
	return cfg.Launch.Timeout
}

// isDescription reports whether a fault denies the description of instances. A hook needs none: a heartbeat that Auto
// Scaling accepts confirms its message, after a few seconds.
func isDescription(f Fault) bool {
	return f.Do == "aws-deny" && f.What == "DescribeAutoScalingInstances"
}

// isAdmission reports whether a fault is a webhook: it holds up requests for some pods, and no drain beyond its bound.
func isAdmission(f Fault) bool { return f.Do == "kube-admission" }

// isLost reports whether the message of an action of the hook may have been lost, and no resync finds the action in
// time. A resync recognizes hooks by their names, or by their target.
func (j hookJudge) isLost(h Hook) bool {
	knows := j.install(h.Install).Named || h.Via == "queue"
	return j.facts.losses[h.Install] && (!knows || j.configs[h.Install].ResyncInterval > h.Heartbeat/2)
}

// cannot reports whether a permission that an action cannot do without was withdrawn meanwhile.
func (j *judge) cannot(c *cluster, a awsim.Action) bool {
	return slices.ContainsFunc(j.spec.Faults, func(f Fault) bool {
		from := j.began.Add(f.From)
		meets := from.Before(a.ClosedAt) && from.Add(f.For).After(a.StartedAt.Add(-time.Minute))
		return meets && (f.Do == "aws-deny" && !isDescription(f) || f.Do == "kube-deny" && f.On == c.Name)
	})
}

// launchIsReady: a launch is completed when the node is ready for pods, and is given up only when its time is over.
func (j hookJudge) launchIsReady(c *cluster, h Hook, a awsim.Action) {
	cfg := j.configs[h.Install].Launch
	due := j.launchDue(c, h, a)
	if a.ClosedBy != awsim.ByCompletion || a.Destination == "WarmPool" ||
		len(j.facts.truthsAt(a.InstanceID, a.ClosedAt, 0)) > 0 {
		return
	}
	ready := j.looksReady(c, h, a)
	early := a.ClosedAt.Before(due.Add(-time.Minute))
	switch {
	case a.Result == "CONTINUE" && !ready && (early || cfg.AtTimeout == "abandon"):
		j.violate("launch ready", a.ClosedAt, "launch of %s completed before its node was ready", a.InstanceID)
	case a.Result == "ABANDON" && early:
		j.violate("launch ready", a.ClosedAt, "launch of %s abandoned %v early", a.InstanceID, due.Sub(a.ClosedAt))
	}
}

// looksReady reports whether the node is ready at the end of the action, or the agent may think so: the instance has
// the Node that it had before its root volume was replaced, and no terminating hook of the install has had the boot ID
// of that Node recorded.
func (j hookJudge) looksReady(c *cluster, h Hook, a awsim.Action) bool {
	if isNodeReady(nodeAt(&c.changes, a.InstanceID, a.ClosedAt)) {
		return true
	}
	drains := func(other Hook) bool { return !other.Launch && other.Install == h.Install }
	return nodeAt(&c.changes, a.InstanceID, a.StartedAt) != nil &&
		!slices.ContainsFunc(j.machines.find(a.InstanceID).group.Hooks, drains)
}

// launchDue returns from when on an install may give up a launch. Its message has the time of AWS's clock. A launch
// whose message cannot be handled, and which a resync finds, seems to be as old as its instance.
func (j *judge) launchDue(c *cluster, h Hook, a awsim.Action) time.Time {
	if j.cannot(c, a) {
		return a.StartedAt
	}
	return a.StartedAt.Add(min(j.configs[h.Install].Launch.Timeout, 100*h.Heartbeat*9/10) - j.spec.Skew.Abs())
}

// isNodeReady reports whether a Node, which may be nil, is ready for pods.
func isNodeReady(n *corev1.Node) bool {
	return n != nil && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// nodeAt returns the Node as it was at a time, or nil.
func nodeAt(all *changes, name string, at time.Time) (n *corev1.Node) {
	for _, c := range all.of("nodes") {
		if c.At.After(at) {
			break
		}
		if after, ok := c.New.(*corev1.Node); ok && after.Name == name {
			n = after
		} else if c.New == nil && c.Old.GetName() == name {
			n = nil
		}
	}
	return n
}

// nodeIsEmpty: when an agent completes a terminating hook before the deadline of the drain, no pod that had to leave is
// on the node. An instance that EC2 shuts down has a deadline of seconds.
func (j hookJudge) nodeIsEmpty(c *cluster, h Hook, a awsim.Action) {
	if a.ClosedBy != awsim.ByCompletion || !j.completedBy(a, h.Install) || j.isEnding(a.InstanceID, a.ClosedAt) {
		return
	}
	m, marked := markAt(j.markings[c.Name], a.InstanceID, a.ClosedAt)
	if !marked { // An outage can last until the deadline.
		m.mark.Deadline = a.StartedAt.Add(j.configs[h.Install].Drain.Timeout)
	}
	rejoined := j.facts.hasRejoined(a.InstanceID, a.ClosedAt.Add(-c.Timing.Watch-time.Minute), a.ClosedAt.Add(time.Minute))
	gone := rejoined || nodeAt(&c.changes, a.InstanceID, a.ClosedAt) == nil // to the agent, which may see it late
	if gone || drainIsDue(j.judge, c, h, a, m) {
		return
	}
	settled := m.from.Add(j.configs[h.Install].Drain.Settle - c.Timing.Watch)
	j.countLatePods(c, a, settled)
	there := slices.DeleteFunc(j.podsOn(c, a.InstanceID, a.ClosedAt), func(p *podLife) bool {
		return hungJudge{boundJudge{podJudge(j)}}.isGivenUp(c, h, p, a.ClosedAt)
	})
	left := slices.IndexFunc(there, func(p *podLife) bool {
		return !marked && !j.cannot(c, a) || marked && !p.bound.After(settled) && !mayStay(p, m)
	})
	if left >= 0 {
		j.violate("node empty", a.ClosedAt, "hook %s of %s completed while pod %s is on the node", a.Hook, a.InstanceID,
			there[left].Name)
	}
}

// countLatePods counts the pods that ended with the machine, and that were bound to it after a time.
func (j hookJudge) countLatePods(c *cluster, a awsim.Action, after time.Time) {
	one := j.machines.find(a.InstanceID)
	if one == nil || one.endedAt.IsZero() {
		return
	}
	for _, p := range j.podsOn(c, a.InstanceID, one.endedAt.Add(-time.Millisecond)) {
		if p.bound.After(after) {
			j.late++
		}
	}
}

// isEnding reports whether EC2 shut an instance down at a time, or no kubelet ran on its node any more.
func (j hookJudge) isEnding(id string, at time.Time) bool {
	return j.wasDead(id, at) || slices.ContainsFunc(j.facts.truthsAt(id, at, 0), func(t truth) bool {
		return t.kind == "bypass"
	})
}

// drainIsDue reports whether the deadline of the mark is at most a minute ahead, or that of the hook or of what EC2 has
// announced, which an outage keeps from the mark: all events of an instance share its drain, which keeps the earliest
// deadline (docs/events.md). A drain that is about to end does so, whatever another event has since put into the mark.
func drainIsDue(j *judge, c *cluster, h Hook, a awsim.Action, m marking) bool {
	outages := j.outages(h.Install, c)
	isAfterOutage := func(at time.Time) bool { return overlap(outages, at.Add(-time.Minute), at) > 0 }
	announced := slices.ContainsFunc(j.facts.truthsAt(a.InstanceID, a.ClosedAt, 0), func(t truth) bool {
		due := t.ends.Add(-j.configs[h.Install].Event.Margin - time.Minute)
		return !t.ends.IsZero() && due.Before(a.ClosedAt)
	})
	hook := a.StartedAt.Add(j.configs[h.Install].Drain.Timeout - time.Minute)
	asked := askedDeadline(nodeAt(&c.changes, a.InstanceID, a.ClosedAt))
	isAsked := !asked.IsZero() && asked.Before(a.ClosedAt.Add(time.Minute))
	before, _ := markAt(j.markings[c.Name], a.InstanceID, a.ClosedAt.Add(-time.Minute))
	return isAsked || m.isDue(a.ClosedAt) || before.isDue(a.ClosedAt) || announced && isAfterOutage(m.from) ||
		(announced || hook.Before(a.ClosedAt)) && isAfterOutage(a.ClosedAt)
}

// isDue reports whether the deadline of the mark is at most a minute ahead.
func (m marking) isDue(at time.Time) bool {
	return !m.mark.Deadline.IsZero() && at.After(m.mark.Deadline.Add(-time.Minute))
}

// completedBy reports whether an install completed the action.
func (j hookJudge) completedBy(a awsim.Action, install string) bool {
	return slices.ContainsFunc(j.aws.Calls("autoscaling", "CompleteLifecycleAction"), func(c awsim.Call) bool {
		return c.Key == install && c.Code == "" && isAbout(c, a)
	})
}

// isAbout reports whether a call names the action, by its token or by its instance.
func isAbout(c awsim.Call, a awsim.Action) bool {
	token, id := c.Values.Get("LifecycleActionToken"), c.Values.Get("InstanceId")
	return c.Values.Get("LifecycleHookName") == a.Hook && c.Values.Get("AutoScalingGroupName") == a.Group &&
		(token == a.Token || token == "" && id == a.InstanceID) && !c.At.Before(a.StartedAt) && !c.At.After(a.ClosedAt)
}

// staysCordoned: the mark of a node is not removed while a hook waits for it, be it another tool's.
func (j hookJudge) staysCordoned(c *cluster, a awsim.Action) {
	for _, m := range j.markings[c.Name] {
		if m.node == a.InstanceID && !m.gone && m.until.After(a.StartedAt.Add(j.spec.Visible+30*time.Second)) &&
			m.until.Before(a.ClosedAt) {
			j.violate("stays cordoned", m.until, "node %s was uncordoned while hook %s was open", m.node, a.Hook)
		}
	}
}

// onlyOwnHooks: an install completes and keeps open no hooks of others. Whose an instance is, its Node says: without
// one, a forged message about another install's hook passes for a true one.
func (j hookJudge) onlyOwnHooks() {
	for _, action := range []string{"CompleteLifecycleAction", "RecordLifecycleActionHeartbeat"} {
		for _, call := range j.aws.Calls("autoscaling", action) {
			_, g, _ := j.clusterOf(call.Values.Get("AutoScalingGroupName"))
			hook := call.Values.Get("LifecycleHookName")
			i := slices.IndexFunc(g.Hooks, func(h Hook) bool { return h.Name == hook })
			if i < 0 && strings.HasSuffix(hook, "-LC-Hook") {
				j.violate("only own hooks", call.At, "%s called %s for hook %s of EKS", call.Key, action, hook)
			}
			if i >= 0 && call.Key != "other" && g.Hooks[i].Install != call.Key && call.Code == "" && !j.wasMisled(call) {
				j.violate("only own hooks", call.At, "%s called %s for hook %s of group %s", call.Key, action, hook, g.Name)
			}
		}
	}
}

// wasMisled reports whether a call is about an instance that a message was forged about, and that has no Node any more.
func (j hookJudge) wasMisled(call awsim.Call) bool {
	id := call.Values.Get("InstanceId")
	forged := slices.ContainsFunc(j.facts.truthsAt(id, call.At, longest), func(t truth) bool { return t.kind == "forged" })
	m := j.machines.find(id)
	return forged && m != nil && nodeAt(&m.cluster.changes, id, call.At) == nil
}
