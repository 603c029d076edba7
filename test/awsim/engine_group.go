package awsim

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// processes are those of a group that can be suspended.
func processes() []string {
	return []string{
		"Launch", "Terminate", "AddToLoadBalancer", "AlarmNotification", "AZRebalance", "HealthCheck",
		"InstanceRefresh", "ReplaceUnhealthy", "ScheduledActions",
	}
}

// group is one Auto Scaling group.
type group struct {
	name        string
	min         int
	max         int
	desired     int
	zones       []string
	tags        []tag
	source      source
	gracePeriod time.Duration
	retain      bool
	keepsFirst  bool // It launches all instances from what the first one was launched from.
	policy      *maintenancePolicy
	account     *maintenancePolicy // That of an account setting, for a group without a policy.
	market      Market
	suspended   map[string]bool
	hooks       []Hook
	roster
	refreshes []*refresh // Oldest first.
	pool      *warmPool  // Nil without one.
	turn      int        // Counts launches, for the next zone.
	made      int        // Counts instances, for the next override.
	deleting  bool
	nodegroup *nodegroup // The managed node group of EKS that it belongs to, if any.
	history
	descriptions
}

// roster is the instances of a group, those of its warm pool included.
type roster struct{ members []*instance }

// tag is one tag of a group.
type tag struct {
	Key       string
	Value     string
	Propagate bool
}

// maintenancePolicy bounds, in percent of the desired capacity, what replacing may make of a group.
type maintenancePolicy struct {
	min int
	max int
}

// nextZone is the zone that has the fewest instances; of several, the one whose turn it is.
func (g *group) nextZone() string {
	perZone := map[string]int{}
	for _, inst := range g.live() {
		perZone[inst.zone]++
	}
	best := ""
	for i := range g.zones {
		zone := g.zones[(g.turn+i)%len(g.zones)]
		if best == "" || perZone[zone] < perZone[best] {
			best = zone
		}
	}
	g.turn++
	return best
}

// isLive reports whether the instance counts for the desired capacity: in service or on its way there, also with a
// new root volume.
func (i *instance) isLive() bool {
	return i.hasStatePrefix(statePending) || i.state() == stateInService || isReplacingVolume(i)
}

// live are the members that count for the desired capacity.
func (g *roster) live() []*instance {
	var out []*instance
	for _, inst := range g.members {
		if inst.isLive() {
			out = append(out, inst)
		}
	}
	return out
}

// liveCount is how many live members there are.
func (g *roster) liveCount() int {
	n := 0
	for _, inst := range g.members {
		n += score(inst.isLive())
	}
	return n
}

// unhealthyInService returns the members in service whose health was set to Unhealthy.
func (g *roster) unhealthyInService() []*instance {
	var out []*instance
	for _, inst := range g.members {
		if inst.state() == stateInService && inst.health == unhealthy {
			out = append(out, inst)
		}
	}
	return out
}

func (g *roster) inService() int {
	n := 0
	for _, inst := range g.members {
		n += score(inst.state() == stateInService)
	}
	return n
}

func (g *roster) remove(inst *instance) {
	g.members = slices.DeleteFunc(g.members, func(m *instance) bool { return m == inst })
}

func (g *group) hook(name string) int {
	return slices.IndexFunc(g.hooks, func(h Hook) bool { return h.Name == name })
}

// limits returns how many instances must be in service while instances are replaced, and how many may exist.
// If the policy allows neither fewer nor more than desired, one more is launched first, so that replacing
// continues.
func (g *group) limits() (fewest, most int) {
	policy := g.maintenance()
	if policy == nil {
		return 0, g.desired
	}
	fewest = int(math.Ceil(float64(g.desired*policy.min) / 100))
	most = g.desired * policy.max / 100
	if fewest == g.desired && most == g.desired {
		most++
	}
	return fewest, most
}

// reconcile brings the group nearer to its desired capacity and replaces what is unhealthy. It needs mu, and
// is called after every change that matters to it.
func (a groupEngine) reconcile(g *group) {
	if g.deleting {
		return
	}
	a.terminateDead(g)
	a.notices.failMaintained(g)
	a.replaceUnhealthy(g)
	a.refreshes.advance(g)
	a.scale(g)
	a.pools.fillPool(g)
}

// scale launches and terminates as many instances as the group is to have more or fewer. Each is an activity, with what
// has changed the desired capacity since the last time as its cause.
func (a groupEngine) scale(g *group) {
	want := g.wanted()
	for n := g.liveCount(); n < want; n = g.liveCount() {
		if g.suspended["Launch"] {
			return
		}
		a.pools.scaleOut(g)
		g.began("Launching a new EC2 instance", "an instance was started in response to a difference between desired and "+
			"actual capacity, increasing the capacity from %d to %d", n, want)
	}
	for n := g.liveCount(); n > want; n = g.liveCount() {
		victim := g.scaleInCandidate()
		if victim == nil || g.suspended["Terminate"] {
			return
		}
		a.pools.scaleIn(victim)
		g.began("Terminating EC2 instance: "+victim.id, "an instance was taken out of service in response to a difference "+
			"between desired and actual capacity, shrinking the capacity from %d to %d", n, want)
	}
	g.causes = nil
}

// wanted is how many instances the group is to have now: the desired capacity, and what is launched in
// advance of instances that are to be replaced.
func (g *group) wanted() int {
	want := g.desired
	for _, inst := range g.members {
		want += score(isRebalancing(inst))
	}
	if _, most := g.limits(); g.maintenance() != nil && !g.suspended["ReplaceUnhealthy"] {
		want = max(want, min(g.desired+len(g.unhealthyInService()), most))
	}
	if f := g.refreshing(); f != nil {
		want = max(want, f.wanted(time.Now()))
	}
	return want
}

// terminateDead terminates the members whose machine EC2, or a user of its console, has terminated.
func (a groupEngine) terminateDead(g *group) {
	if g.suspended["HealthCheck"] || g.suspended["ReplaceUnhealthy"] || g.suspended["Terminate"] {
		return
	}
	for _, inst := range slices.Clone(g.members) {
		if inst.machine == "terminated" && !inst.isTerminating() && !inStandby(inst) {
			inst.health = unhealthy
			a.fleet.terminate(inst)
		}
	}
}

// replaceUnhealthy terminates marked instances: all at once without a maintenance policy, else as many as
// leave enough in service. What is missing then is launched like any missing capacity.
func (a groupEngine) replaceUnhealthy(g *group) {
	if g.suspended["ReplaceUnhealthy"] || g.suspended["Terminate"] {
		return
	}
	fewest, _ := g.limits()
	for _, inst := range g.unhealthyInService() {
		if g.maintenance() != nil && g.inService()-1 < fewest {
			return
		}
		a.fleet.terminate(inst)
	}
}

// scaleInCandidate returns the instance that a scale-in terminates: unhealthy ones first, then the oldest in
// the zone with the most instances. Protected instances are left out.
func (g *group) scaleInCandidate() *instance {
	perZone := map[string]int{}
	var open []*instance
	for _, inst := range g.live() {
		perZone[inst.zone]++
		if !inst.protected {
			open = append(open, inst)
		}
	}
	if len(open) == 0 {
		return nil
	}
	return slices.MinFunc(open, func(x, y *instance) int {
		return cmp.Or(
			-cmp.Compare(score(x.health == unhealthy), score(y.health == unhealthy)),
			-cmp.Compare(perZone[x.zone], perZone[y.zone]),
			x.launchedAt.Compare(y.launchedAt),
			cmp.Compare(x.index, y.index),
		)
	})
}

func score(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// resize sets the desired capacity within the group's bounds. It needs mu.
func (a groupEngine) resize(g *group, desired int) error {
	switch {
	case desired > g.max:
		return errorf("ValidationError",
			"New SetDesiredCapacity value %d is above max value %d for the AutoScalingGroup.", desired, g.max)
	case desired < g.min:
		return errorf("ValidationError",
			"New SetDesiredCapacity value %d is below min value %d for the AutoScalingGroup.", desired, g.min)
	}
	if desired != g.desired {
		g.changed("a user request explicitly set group desired capacity changing the desired capacity from %d to %d",
			g.desired, desired)
	}
	g.desired = desired
	a.reconcile(g)
	return nil
}

// deleteGroup deletes the group, with force including its instances. Their terminate hooks run, as in captures of
// AWS of 2026-09; its guide says that none does. An abandoned hook retains no instance of such a group. It needs mu.
func (a groupEngine) deleteGroup(g *group, force bool) error {
	if !force && len(g.members) > 0 {
		return errorf("ResourceInUse", "You cannot delete an AutoScalingGroup while there are instances or "+
			"pending Spot instance request(s) still in the group.")
	}
	if f := g.refreshing(); f != nil {
		f.reason = "The group is deleted."
		a.refreshes.endRefresh(f, refreshCancelled)
	}
	g.deleting = true
	if len(g.members) == 0 {
		delete(a.groups, g.name)
		return nil
	}
	for _, inst := range slices.Clone(g.members) {
		a.fleet.terminate(inst)
	}
	return nil
}

// deleteHook deletes a hook. Its open actions are closed: a termination continues, a launch is abandoned. It
// needs mu.
func (a groupEngine) deleteHook(g *group, index int) {
	name := g.hooks[index].Name
	g.hooks = slices.Delete(g.hooks, index, index+1)
	for _, act := range slices.Clone(a.actions) {
		if act.Group != g.name || act.Hook != name || !act.open() {
			continue
		}
		result := resume
		if act.Transition == Launching {
			result = abandon
		}
		act.claimed = ByHookDeletion
		a.spawn(func() { a.lifecycle.finish(act, ByHookDeletion, result) })
	}
}
