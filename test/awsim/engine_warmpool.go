package awsim

import "strings"

// Origins and destinations in a lifecycle notification.
const (
	placeEC2   = "EC2"
	placeGroup = "AutoScalingGroup"
	placePool  = "WarmPool"
)

const (
	warmed      = "Warmed:"
	poolStopped = "Stopped"
	poolRunning = "Running"
	// poolHibernated is like poolStopped here.
	poolHibernated = "Hibernated"
)

// warmPool is a group's store of instances that have been launched in advance.
type warmPool struct {
	minSize  int
	prepared int // MaxGroupPreparedCapacity; -1 if it is not set.
	rests    string
	reuse    bool
}

// size returns how many instances the pool is to have: the maximum, or MaxGroupPreparedCapacity, minus the
// desired capacity.
func (p *warmPool) size(g *group) int {
	most := g.max
	if p.prepared >= 0 {
		most = p.prepared
	}
	return max(p.minSize, most-g.desired)
}

// phase is the lifecycle state without the word that it is one of the warm pool.
func (i *instance) phase() string { return strings.TrimPrefix(i.state(), warmed) }

// setGroupState enters a state of the group, or its counterpart of the warm pool.
func (i *instance) setGroupState(state string) {
	if i.warm {
		state = warmed + state
	}
	i.setState(state)
}

// isTerminating reports whether the instance is being terminated, or was.
func (i *instance) isTerminating() bool { return strings.HasPrefix(i.phase(), "Terminat") }

// isRetained reports whether the group keeps the instance because its terminate hook was abandoned.
func (i *instance) isRetained() bool { return strings.HasSuffix(i.state(), ":Retained") }

// isReturning reports whether the instance is moving from the group into the warm pool.
func (i *instance) isReturning() bool {
	return i.warm && i.returnedToPool && strings.HasPrefix(i.phase(), statePending)
}

// isInPool reports whether the instance is in the warm pool and ready to be taken from it.
func (i *instance) isInPool() bool {
	return i.warm && !i.terminatingMachine &&
		contains([]string{poolStopped, poolRunning, poolHibernated}, i.phase())
}

// route returns the origin and the destination of a transition of the instance.
func (i *instance) route(transition string) (origin, destination string) {
	switch {
	case i.newVolume:
		return placeGroup, placeGroup
	case transition == Launching && i.warm:
		return placeEC2, placePool
	case transition == Launching && i.fromPool:
		return placePool, placeGroup
	case transition == Launching:
		return placeEC2, placeGroup
	case i.isReturning():
		return placeGroup, placePool
	case i.warm:
		return placePool, placeEC2
	default:
		return placeGroup, placeEC2
	}
}

// pooled are the instances that count for the warm pool's size.
func (g *roster) pooled() []*instance {
	var out []*instance
	for _, inst := range g.members {
		if inst.warm && !inst.isTerminating() && !inst.isRetained() {
			out = append(out, inst)
		}
	}
	return out
}

// scaleOut brings one more instance into service: from the warm pool, if one rests there that is of the
// version that the group launches now. It needs mu.
func (a warmPoolEngine) scaleOut(g *group) {
	want := g.launchFrom()
	for _, inst := range g.members {
		if inst.isInPool() && a.catalog.matchesSource(want, inst.template) {
			a.takeFromPool(inst)
			return
		}
	}
	a.fleet.launch(g)
}

// takeFromPool takes an instance out of the warm pool, through the group's launch hooks. It needs mu.
func (a warmPoolEngine) takeFromPool(inst *instance) {
	inst.warm, inst.fromPool, inst.returnedToPool = false, true, false
	inst.setState(statePending)
	a.hardware.startMachine(inst, func() {
		if inst.state() == statePending {
			a.lifecycle.beginHooks(inst, Launching)
		}
	})
}

// scaleIn takes one instance out of service: into the warm pool, if that reuses instances and has room. It
// needs mu.
func (a warmPoolEngine) scaleIn(inst *instance) {
	g := inst.group
	room := g.pool != nil && g.pool.reuse && len(g.pooled()) < g.pool.size(g)
	if !room || inst.state() != stateInService || inst.health != healthy {
		a.fleet.terminate(inst)
		return
	}
	inst.warm, inst.returnedToPool, inst.fromPool = true, true, false
	inst.setGroupState(statePending)
	a.lifecycle.beginHooks(inst, Terminating)
}

// settleInPool ends an instance's way into the warm pool, with its machine stopped if that is how the pool
// keeps them. It needs mu.
func (a warmPoolEngine) settleInPool(inst *instance) {
	if len(inst.waiting) > 0 {
		inst.setGroupState(statePendingProceed)
	}
	inst.waiting = nil
	state := poolStopped
	if inst.group.pool != nil {
		state = inst.group.pool.rests
	}
	settle := func() {
		if strings.HasPrefix(inst.phase(), statePending) {
			inst.setGroupState(state)
			inst.returnedToPool = false
			a.capacity.reconcile(inst.group)
		}
	}
	if state == poolRunning {
		settle()
		return
	}
	a.hardware.stopMachine(inst, 0, settle)
}

// endReturn moves an instance to the warm pool, abandoned or not, unless the group retains instances whose hook
// was abandoned. It needs mu.
func (a warmPoolEngine) endReturn(inst *instance, abandoned bool) {
	if abandoned && inst.group.retain {
		a.retain(inst, statePending)
		return
	}
	a.settleInPool(inst)
}

// retain keeps an instance whose terminate hook was abandoned: after a while in the Proceed state of the phase,
// as AWS shows it. It needs mu.
func (a warmPoolEngine) retain(inst *instance, phase string) {
	inst.waiting = nil
	inst.setGroupState(phase + ":Proceed")
	proceeding := inst.state()
	keep := func() {
		if inst.group != nil && inst.state() == proceeding && !inst.terminatingMachine {
			inst.setGroupState(phase + ":Retained")
			a.capacity.reconcile(inst.group)
		}
	}
	if a.delays.Retain == 0 {
		keep()
		return
	}
	a.capacity.reconcile(inst.group)
	a.spawn(func() {
		if a.pause(a.delays.Retain) {
			a.update(keep)
		}
	})
}

// fillPool brings the warm pool to its size. It needs mu.
func (a warmPoolEngine) fillPool(g *group) {
	if g.pool == nil {
		return
	}
	for n := len(g.pooled()); n < g.pool.size(g) && !g.suspended["Launch"]; n++ {
		a.launchWarm(g)
	}
	for len(g.pooled()) > g.pool.size(g) && !g.suspended["Terminate"] {
		a.fleet.terminate(g.poolCandidate())
	}
}

// poolCandidate returns the instance that a shrinking pool terminates: an outdated one, or else the oldest.
func (g *group) poolCandidate() *instance {
	all := g.pooled()
	if f := g.refreshing(); f != nil {
		for _, inst := range all {
			if f.poolTargets[inst] {
				return inst
			}
		}
	}
	return all[0]
}

// launchWarm starts one instance of the warm pool. It needs mu.
func (a warmPoolEngine) launchWarm(g *group) {
	inst := a.fleet.newInstance(g, a.newInstanceID(g), g.nextZone())
	inst.warm = true
	a.fleet.launchAs(inst)
}

// poolLeft returns how many instances of the warm pool a refresh has not replaced yet. A target is replaced
// when it has terminated and the pool is complete.
func (f *refresh) poolLeft() int {
	if f.group.pool == nil {
		return 0
	}
	left, missing := 0, f.group.pool.size(f.group)
	for _, inst := range f.group.pooled() {
		switch {
		case f.poolTargets[inst]:
			left++
		case inst.isInPool():
			missing--
		}
	}
	return min(f.poolTotal, left+max(0, missing))
}

// replacePool terminates the warm pool's targets, all at once: nothing runs on them. What is missing then is
// launched like any missing instance of the pool. It needs mu.
func (a warmPoolEngine) replacePool(f *refresh) {
	for _, inst := range f.group.pooled() {
		if f.poolTargets[inst] {
			a.fleet.terminate(inst)
		}
	}
}
