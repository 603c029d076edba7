package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/rollouts"
	"github.com/node-drainer/node-drainer/test/sim/kube"
)

// grace is how long a trigger may act on what it has read before somebody else changed the group, or AWS failed.
const grace = 3 * time.Minute

// judgeCall judges a call of a trigger that changes something, before AWS sees it.
func (f *rolloutFacts) judgeCall(p *triggerProcess, c triggerCall) {
	key, value := c.form.Get("Tags.member.1.Key"), c.form.Get("Tags.member.1.Value")
	if key != refresh.LeaseTag { // A lease is renewed all the time.
		words := append([]string{c.action, c.group, c.form.Get("DesiredCapacity"), key, value}, c.ids...)
		words = slices.DeleteFunc(words, func(s string) bool { return s == "" })
		f.log.add(p.name, strings.Join(words, " "))
	}
	p.mu.Lock()
	if p.naming = ""; key == refresh.SurgeTag && strings.Contains(value, " i-") {
		p.naming = c.group
	}
	p.mu.Unlock()
	g := f.groups[c.group]
	if g == nil {
		return
	}
	if g.cluster != p.cluster {
		f.violate("others untouched", "%s of another cluster: %s by %s", c.group, c.action, p.name)
	}
	decrement := c.form.Get("ShouldDecrementDesiredCapacity") == "true"
	switch c.action {
	case "SetInstanceHealth", "EnterStandby":
		f.replaces(g, p, c)
	case "TerminateInstanceInAutoScalingGroup":
		f.terminates(g, p, c, decrement)
	case "StopInstances":
		f.drainedFirst(g, c)
	case "StartInstanceRefresh", "UpdateNodegroupVersion":
		f.starts(g, p, c)
	case "SetDesiredCapacity":
		f.resizes(g, p, c)
	}
}

// keepsPart records that a trigger was killed between the tag that names an instance and the call that terminates it
// with a part of the surge. If somebody else terminates that instance, nobody can know if the call was made: the
// part stays, since the other error would take what others have asked for.
func (f *rolloutFacts) keepsPart(group string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g := f.groups[group]; g != nil {
		g.high++
	}
}

// replaces judges a call that has the group replace instances.
func (f *rolloutFacts) replaces(g *rolledGroup, p *triggerProcess, c triggerCall) {
	for _, id := range c.ids {
		name, i, _ := f.aws.Member(id)
		if name == "" {
			continue
		}
		if !f.isOutdated(g, i, grace) {
			f.violate("current instances stay", "%s of %s is current: %s by %s", id, g.Name, c.action, p.name)
		}
		f.replacedOnce(g, i)
		if g.user[id] && !f.isDisturbed(g) {
			f.violate("others untouched", "%s of %s is an operator's: %s", id, g.Name, c.action)
		}
	}
	f.begins(g, p)
	if c.action == "SetInstanceHealth" {
		if g.MinHealthy == 0 { // Otherwise the group launches first.
			f.capacity(g, c.action, c.ids)
		}
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range c.ids { // They run on.
		g.entered[id] = true
	}
}

// isOutdated reports whether triggers are to replace an instance, or were so long ago.
func (f *rolloutFacts) isOutdated(g *rolledGroup, i awsim.Instance, within time.Duration) bool {
	switch o := f.optionsOf(g); {
	case o.Only > 0:
		return f.isNamed(g, i.ID)
	case o.All: // Later ones may have been launched before the trigger began.
		return within > 0 || i.Launched.Before(f.began)
	case o.MaxAge > 0 && time.Since(i.Launched) > o.MaxAge:
		return true
	}
	return f.differs(g, i, within)
}

// isNamed reports whether triggers have named an instance.
func (f *rolloutFacts) isNamed(g *rolledGroup, id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(g.named, id)
}

// differs reports whether the group would launch the instance otherwise, or would have so long ago.
func (f *rolloutFacts) differs(g *rolledGroup, i awsim.Instance, within time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := g.current()
	return i.Image != last.image || time.Since(last.since) < within
}

// replacedOnce checks that no instance is replaced that was launched since the rollout to the same version began.
func (f *rolloutFacts) replacedOnce(g *rolledGroup, i awsim.Instance) {
	f.mu.Lock()
	if image := g.current().image; g.target != image {
		g.target, g.since = image, time.Now()
	}
	since := g.since
	f.mu.Unlock()
	if i.Launched.After(since) && !f.optionsOf(g).All {
		f.violate("replaced once", "%s of %s was launched for this version", i.ID, g.Name)
	}
}

// terminates judges a call that terminates an instance: one that has left Standby, one of a rollback, or one by which
// the desired capacity is lowered again.
func (f *rolloutFacts) terminates(g *rolledGroup, p *triggerProcess, c triggerCall, decrement bool) {
	_, i, known := f.aws.Member(c.ids[0])
	switch {
	case !known:
		return
	case p.Command == rollouts.Rollback:
		if i.Launched.Before(f.began) && !f.isDisturbed(g) {
			f.violate("old instances stay", "%s of %s is terminated by a rollback", i.ID, g.Name)
		}
		return
	case g.user[i.ID] || !decrement && i.State == "InService" && !f.isDisturbed(g):
		f.violate("others untouched", "%s of %s (%s) is terminated by %s", i.ID, g.Name, i.State, p.name)
	}
	f.capacity(g, c.action, c.ids)
	if decrement && !f.isOutdated(g, i, grace) && !f.isDisturbed(g) && f.isServing(g, i) {
		f.takesBack(g, i)
	}
}

// isServing reports whether an instance is in service with a ready node. One that is not is taken back first.
func (f *rolloutFacts) isServing(g *rolledGroup, i awsim.Instance) bool {
	n, ok := kube.Get[*corev1.Node](g.cluster.server, nodeName(i.ID))
	return i.State == "InService" && ok && isNodeReady(n) && !f.facts.isReplaced(i.ID, time.Now())
}

// takesBack judges a call that terminates a current instance to lower the desired capacity again.
func (f *rolloutFacts) takesBack(g *rolledGroup, i awsim.Instance) {
	for _, other := range f.aws.Instances(g.Name) {
		if other.State == "InService" && other.Health == "Healthy" && f.isOutdated(g, other, 0) {
			f.violate("current instances stay", "%s of %s is terminated, and %s is outdated", i.ID, g.Name, other.ID)
			return
		}
	}
	if _, _, desired := f.aws.Sizes(g.Name); desired <= g.low {
		f.violate("current instances stay", "%s of %s is terminated, and nothing is left of a surge", i.ID, g.Name)
	}
}

// drainedFirst checks that nodes are drained whose instances are stopped.
func (f *rolloutFacts) drainedFirst(g *rolledGroup, c triggerCall) {
	for _, id := range c.ids {
		n, ok := kube.Get[*corev1.Node](g.cluster.server, nodeName(id))
		isEmpty := !slices.ContainsFunc(g.cluster.server.PodsOn(id), mustLeave) // by now, whatever the agent has left
		if ok && !f.facts.isReplaced(id, time.Now()) && (!node.IsDrainRequested(n) || !isDrained(n) && !isEmpty) {
			f.violate("drained before the stop", "node %s of %s: its drain is requested: %t, and done: %t", id, g.Name,
				node.IsDrainRequested(n), isDrained(n))
		}
	}
}

// begins checks that a trigger begins to replace instances only while a window is open, of which EKS knows none, and
// after the gate has passed.
func (f *rolloutFacts) begins(g *rolledGroup, p *triggerProcess) {
	if f.isDisturbed(g) {
		return
	}
	if now := time.Now(); !p.Options.InWindow(now) && !g.Managed {
		f.violate("windows kept", "%s is changed by %s at %s", g.Name, p.name, now.UTC().Format(time.TimeOnly))
	}
	if p.Options.Gate && !f.gate.Passed(g.Name, p.Options.Poll) {
		f.violate("gate passed", "%s is changed by %s, and the gate has not passed", g.Name, p.name)
	}
}

// starts judges a call that has AWS replace what is outdated.
func (f *rolloutFacts) starts(g *rolledGroup, p *triggerProcess, c triggerCall) {
	f.begins(g, p)
	isUpdated := !g.Managed || managed{g.cluster}.isAt(g.Name, len(g.versions))
	all := f.aws.Instances(g.Name)
	if isUpdated && !slices.ContainsFunc(all, func(i awsim.Instance) bool { return f.isOutdated(g, i, grace) }) {
		f.violate("current instances stay", "nothing of %s is outdated, and %s has AWS replace instances", g.Name, p.name)
	}
	skips := c.form.Get("Preferences.SkipMatching") == "true" || f.optionsOf(g).All
	if c.action == "StartInstanceRefresh" && !skips {
		f.violate("current instances stay", "%s has AWS replace all instances of %s", p.name, g.Name)
	}
}

// resizes judges a desired capacity that a trigger sets.
func (f *rolloutFacts) resizes(g *rolledGroup, p *triggerProcess, c triggerCall) {
	desired, err := strconv.Atoi(c.form.Get("DesiredCapacity"))
	if err != nil || f.isDisturbed(g) {
		return
	}
	if desired > g.high+p.Options.Surge.Of(g.high) {
		f.violate("surge bounded", "%s: the desired capacity is set to %d; others have asked for %d", g.Name, desired, g.high)
	}
	if desired < g.low {
		f.violate("capacity kept", "%s: the desired capacity is set to %d; others have asked for %d", g.Name, desired, g.low)
	}
}

// isDisturbed reports whether somebody else has changed the group, or AWS or Kubernetes has failed, a short time ago.
func (f *rolloutFacts) isDisturbed(g *rolledGroup) bool {
	now := time.Now()
	for _, fault := range f.spec.Faults {
		from := f.began.Add(fault.From)
		ofGroup := strings.HasPrefix(fault.Do, "aws-") || strings.HasPrefix(fault.Do, "kube-") && fault.On == g.cluster.Name
		if ofGroup && now.After(from) && now.Before(from.Add(fault.For+grace)) {
			return true
		}
	}
	f.mu.Lock()
	recently := now.Sub(g.disturbed) < grace
	f.mu.Unlock()
	return recently || slices.ContainsFunc(f.aws.Instances(g.Name), func(i awsim.Instance) bool {
		return f.isChangedByOthers(i.ID, now)
	})
}

// isChangedByOthers reports whether somebody but a trigger or a plain termination has changed an instance a short time
// ago, or EC2 takes it.
func (f *rolloutFacts) isChangedByOthers(id string, now time.Time) bool {
	return slices.ContainsFunc(f.facts.truthsAt(id, now, grace), func(t truth) bool {
		isFailed := t.kind == "killed" || t.kind == "bypass" // The group will find out.
		isRecent := now.Sub(t.from) < grace || !t.until.IsZero() || !t.ends.IsZero() && now.After(t.ends.Add(-grace))
		return isFailed || isRecent && !slices.Contains([]string{"ended", "annotated", "stopped"}, t.kind)
	})
}

// sample judges the capacity of all groups at a moment.
func (f *rolloutFacts) sample() {
	for _, g := range f.groups {
		f.capacity(g, "without a call", nil)
	}
}

// capacity checks that as many instances serve as others have asked for, without those that a call takes, and but for
// those that a batch may take beyond the surge. After somebody else has changed the group, that holds again when it has
// held once.
func (f *rolloutFacts) capacity(g *rolledGroup, action string, taken []string) {
	serving := 0
	for _, i := range f.aws.Instances(g.Name) {
		if f.serves(g, i) && !slices.Contains(taken, i.ID) {
			serving++
		}
	}
	isDisturbed, missing := f.isDisturbed(g), f.mayMiss(g)
	f.mu.Lock()
	low := g.low
	if isDisturbed || serving >= low {
		g.excused = isDisturbed
	}
	excused := g.excused
	g.excused = g.excused || serving < low-missing // One violation is enough.
	f.mu.Unlock()
	if !excused && serving < low-missing {
		f.violate("capacity kept", "%s: %d serve (%s %v): others have asked for %d, and %d may be missing", g.Name, serving,
			action, taken, low, missing)
	}
}

// mayMiss is how many instances may be missing: those of a batch beyond the surge. In modes refresh and standby, and
// with a maintenance policy, instances are launched first.
func (f *rolloutFacts) mayMiss(g *rolledGroup) int {
	o := f.optionsOf(g)
	if o.Mode != refresh.ModeUnhealthy || o.Surge.N == 0 {
		return 0
	}
	return max(o.Batch.Of(g.high)-o.Surge.Of(g.low), 0)
}

// optionsOf are those of the triggers of a group.
func (f *rolloutFacts) optionsOf(g *rolledGroup) rollouts.Options {
	for _, t := range f.spec.Triggers {
		if t.Cluster == g.cluster.Name {
			return t.Options
		}
	}
	return rollouts.Options{}
}

// serves reports whether an instance is in service with a ready node, or runs in Standby and no trigger has asked for
// the drain of its node.
func (f *rolloutFacts) serves(g *rolledGroup, i awsim.Instance) bool {
	n, ok := kube.Get[*corev1.Node](g.cluster.server, nodeName(i.ID))
	ok = ok && !f.facts.isReplaced(i.ID, time.Now())
	ready := !f.waitsForNodes(g) || ok && isNodeReady(n) || f.differs(g, i, 0) || f.isOutdated(g, i, 0)
	if i.State == "InService" {
		return ready && (i.Health == "Healthy" || g.MinHealthy > 0)
	}
	f.mu.Lock()
	entered := g.entered[i.ID]
	f.mu.Unlock()
	inStandby := slices.Contains([]string{"Standby", "EnteringStandby", "Pending"}, i.State)
	return entered && inStandby && ready && (!ok || !f.isAsked(n))
}

// waitsForNodes reports whether the triggers of a group wait for the nodes of its new instances. AWS does not where it
// launches first. An old instance whose node is not ready is replaced first.
func (f *rolloutFacts) waitsForNodes(g *rolledGroup) bool {
	mode := f.optionsOf(g).Mode
	return mode == refresh.ModeStandby || mode == refresh.ModeUnhealthy && g.MinHealthy == 0
}

// judgeOutcome judges how the rollout of a group has ended.
func (f *rolloutFacts) judgeOutcome(p *triggerProcess, end report.Group) {
	g := f.groups[end.Name]
	if g == nil || p.isDead() {
		return
	}
	reached := end.Outcome == report.Done || end.Outcome == report.Nothing
	replaces := p.Command == rollouts.Trigger || p.Command == rollouts.Watch
	if reached || p.Command == rollouts.Resume {
		f.mu.Lock()
		g.target = ""
		f.mu.Unlock()
	}
	if p.Command == rollouts.Rollback && reached {
		f.noDrainsRequested(g)
	}
	if reached && replaces && !f.isDisturbed(g) {
		f.isTruthful(p, g, end)
	}
}

// isTruthful checks that a rollout that is done has left nothing outdated. Node groups are updated to the release that
// was the newest when it began.
func (f *rolloutFacts) isTruthful(p *triggerProcess, g *rolledGroup, end report.Group) {
	if g.Managed && g.current().since.After(p.began) {
		return
	}
	for _, i := range f.aws.Instances(end.Name) {
		isNew := time.Since(g.current().since) < grace
		if f.isToBeReplaced(g, i) && f.isOutdated(g, i, 0) && !isNew {
			f.violate("outcome truthful", "%s is %s, and %s is outdated", g.Name, end.Outcome, i.ID)
		}
	}
}

// isToBeReplaced reports whether triggers replace an instance if it is outdated: one in service, and with an Instance
// Refresh also one that rests in the warm pool, or is on its way there.
func (f *rolloutFacts) isToBeReplaced(g *rolledGroup, i awsim.Instance) bool {
	pooled := slices.Contains([]string{"Warmed:Pending", "Warmed:Pending:Wait", "Warmed:Stopped"}, i.State)
	return i.State == "InService" || pooled && f.optionsOf(g).Mode == refresh.ModeRefresh
}

// noDrainsRequested checks that no trigger asks for the drains of nodes whose instances are in service.
func (f *rolloutFacts) noDrainsRequested(g *rolledGroup) {
	for _, i := range f.aws.Instances(g.Name) {
		n, ok := kube.Get[*corev1.Node](g.cluster.server, nodeName(i.ID))
		if ok && i.State == "InService" && f.isAsked(n) {
			f.violate("nothing left", "%s was rolled back, and the drain of node %s is requested", g.Name, i.ID)
		}
	}
}

// isAsked reports whether a trigger asks for the drain of a node.
func (f *rolloutFacts) isAsked(n *corev1.Node) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[n.Name] && node.IsDrainRequested(n)
}

// mostStopping is how long an interrupted process may take to end.
const mostStopping = 30 * time.Minute

// judgeEnd judges a process that has ended.
func (p *triggerProcess) judgeEnd() {
	if took := time.Since(p.began); p.Interrupt > 0 && took > p.Interrupt+mostStopping {
		p.violate("rollouts end", "%s has ended %v after its interrupt", p.name, took-p.Interrupt)
	}
}
