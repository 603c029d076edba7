package awsim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Lifecycle states that the engine itself gives. SetState takes any of the API's.
const (
	statePending            = "Pending"
	statePendingWait        = "Pending:Wait"
	statePendingProceed     = "Pending:Proceed"
	stateInService          = "InService"
	stateTerminating        = "Terminating"
	stateTerminatingWait    = "Terminating:Wait"
	stateTerminatingProceed = "Terminating:Proceed"
	stateRetained           = "Terminating:Retained"
	stateTerminated         = "Terminated"
	stateStandby            = "Standby"
)

const (
	healthy   = "Healthy"
	unhealthy = "Unhealthy"
)

// instance is one machine: EC2's view of it and, while group is set, Auto Scaling's. It is kept after its
// termination.
type instance struct {
	id                 string
	zone               string
	group              *group
	groupName          string   // Of its group, or its last one.
	states             []passed // Lifecycle states in order; the last one holds now.
	health             string
	protected          bool
	inServiceAt        time.Time
	template           templateVersion // What it was launched from, with the changes of an override.
	override           override        // What it was launched by, if its group has a mixed instances policy.
	tags               map[string]string
	market             Market
	spotStatus         string // of its Spot request; empty if it follows from what happens to the instance
	spotStatusAt       time.Time
	reservation        string // The Capacity Reservation that it runs in, if any.
	launchedAt         time.Time
	startedAt          time.Time // when its machine was started last, if it was stopped before
	index              int
	machine            string        // EC2's state: pending, running, shutting-down, terminated.
	interrupted        bool          // EC2 takes the machine, whatever hooks are pending.
	terminatingMachine bool          // The machine is being terminated, so it must not be terminated again.
	booted             chan struct{} // Closed when the last call of Machines has answered, or there was none.
	killed             []string
	waiting            []*action // Actions of the transition that is under way.
	actions            []*action // All that it ever had, in order of their start.
	warm               bool      // In the warm pool, or on its way there.
	fromPool           bool      // Taken from the warm pool, and not in service yet.
	returnedToPool     bool      // On its way back from the group into the warm pool.
	rebalancing        bool      // It is replaced because of a rebalance recommendation.
	newVolume          bool      // Its root volume is being replaced, until it is in service again.
}

// passed is a lifecycle state and when it began. An empty state is: not in the group.
type passed struct {
	state string
	at    time.Time
}

func (i *instance) state() string { return i.states[len(i.states)-1].state }

// stateAt returns the state at a time in the past.
func (i *instance) stateAt(at time.Time) string {
	for _, past := range slices.Backward(i.states) {
		if !past.at.After(at) {
			return past.state
		}
	}
	return ""
}

func (i *instance) hasStatePrefix(prefix string) bool { return strings.HasPrefix(i.state(), prefix) }

func (i *instance) setState(state string) {
	if len(i.states) == 0 || i.state() != state {
		i.states = append(i.states, passed{state: state, at: time.Now()})
	}
}

func (i *instance) privateDNS(region string) string {
	return fmt.Sprintf("ip-%s.%s.compute.internal", strings.ReplaceAll(privateIP(i.index), ".", "-"), region)
}

func privateIP(index int) string { return fmt.Sprintf("10.0.%d.%d", index/250, index%250+4) }

// newInstance needs mu.
func (a fleetEngine) newInstance(g *group, id, zone string) *instance {
	made, by := a.catalog.nextLaunch(g.launchFrom(), g.made)
	if g.keepsFirst && len(g.members) > 0 {
		made, by = g.members[0].template, g.members[0].override
	}
	g.made++
	inst := &instance{
		id:         id,
		zone:       zone,
		group:      g,
		groupName:  g.name,
		health:     healthy,
		template:   made,
		override:   by,
		tags:       map[string]string{"aws:autoscaling:groupName": g.name},
		market:     g.market,
		launchedAt: time.Now(),
		index:      a.launches,
		machine:    "pending",
		booted:     make(chan struct{}),
	}
	for _, t := range g.tags {
		if t.Propagate {
			inst.tags[t.Key] = t.Value
		}
	}
	a.launches++
	a.instances[id] = inst
	g.members = append(g.members, inst)
	return inst
}

// launch starts one instance of the group. It needs mu.
func (a fleetEngine) launch(g *group) {
	a.launchAs(a.newInstance(g, a.newInstanceID(g), g.nextZone()))
}

// launchAs starts a new instance, of the group or of its warm pool. EC2 launches it, and the API shows it, only
// after a while. It needs mu.
func (a fleetEngine) launchAs(inst *instance) {
	inst.launchedAt = inst.launchedAt.Add(a.delays.Appear)
	inst.setGroupState(statePending)
	a.spawn(func() { a.boot(inst) })
}

// hasAppeared reports whether EC2 has launched the instance, so that the API shows it.
func (i *instance) hasAppeared() bool { return !time.Now().Before(i.launchedAt) }

// boot makes the machine run and then begins the launch hooks.
func (a fleetEngine) boot(inst *instance) {
	defer close(inst.booted)
	a.mu.Lock()
	delay := time.Until(inst.launchedAt) + a.delays.Launch
	a.mu.Unlock()
	if !a.pause(delay) {
		return
	}
	if !a.hardware.launchMachine(inst) {
		return
	}
	a.update(func() {
		if inst.machine != "pending" {
			return
		}
		a.hardware.enterMachine(inst, "running")
		if inst.phase() == statePending {
			a.lifecycle.beginHooks(inst, Launching)
		}
	})
}

// putInService puts an instance into service after its launch hooks. It needs mu.
func (a fleetEngine) putInService(inst *instance) {
	if len(inst.waiting) > 0 {
		inst.setState(statePendingProceed)
	}
	inst.waiting, inst.fromPool, inst.newVolume = nil, false, false
	inst.setState(stateInService)
	inst.inServiceAt = time.Now()
	a.bus.announce(inst, LaunchSuccessful)
	a.capacity.reconcile(inst.group)
}

// terminate starts the termination of an instance, with its hooks. For one that is retained they run again. It
// needs mu.
func (a fleetEngine) terminate(inst *instance) {
	if inst.isTerminating() && !inst.isRetained() {
		return
	}
	for _, act := range inst.waiting {
		a.lifecycle.closeAction(act, ByAbandon, abandon)
	}
	inst.waiting, inst.newVolume = nil, false
	inst.setGroupState(stateTerminating)
	a.lifecycle.beginHooks(inst, Terminating)
}

// proceed terminates the machine after the terminate hooks. It needs mu.
func (a fleetEngine) proceed(inst *instance) {
	inst.waiting = nil
	inst.setGroupState(stateTerminatingProceed)
	if inst.machine == "terminated" {
		a.removeFromGroup(inst)
	} else {
		a.hardware.terminateMachine(inst)
	}
}

// shutDown ends the machine, and then updates the instance, whose group may not know of the termination yet.
func (a machineEngine) shutDown(inst *instance) {
	a.mu.Lock()
	booted := inst.booted
	a.mu.Unlock()
	select {
	case <-booted: // A node that joins after its machine was terminated would stay forever.
	case <-a.ctx.Done():
		return
	}
	a.mu.Lock()
	delay := a.delays.Terminate
	a.mu.Unlock()
	if !a.pause(delay) {
		return
	}
	a.notices.recordPods(inst)
	var killed []string
	machines := a.server.opts.Machines
	if machines != nil && !a.retry("terminate", inst.id, func() (err error) {
		killed, err = machines.Terminate(a.ctx, inst.id)
		return err
	}) {
		return
	}
	a.update(func() { a.recordShutDown(inst, killed) })
}

// recordShutDown records that the machine is terminated. It needs mu.
func (a machineEngine) recordShutDown(inst *instance, killed []string) {
	inst.killed = append(inst.killed, killed...)
	for _, act := range inst.actions {
		if act.Transition == Terminating {
			act.Killed = inst.killed
		}
	}
	a.enterMachine(inst, "terminated")
	a.notices.recordEnd(inst)
	switch {
	case inst.group == nil:
	case inst.phase() == stateTerminatingProceed, inst.group.deleting:
		a.fleet.removeFromGroup(inst)
	case !inst.isTerminating() && !inStandby(inst):
		inst.health = unhealthy
		a.capacity.reconcile(inst.group)
	}
}

// removeFromGroup removes a terminated instance from its group. It needs mu.
func (a fleetEngine) removeFromGroup(inst *instance) {
	g := inst.group
	inst.setGroupState(stateTerminated)
	a.bus.announce(inst, TerminateSuccessful)
	g.remove(inst)
	inst.group = nil
	if g.deleting && len(g.members) == 0 {
		delete(a.groups, g.name)
		return
	}
	a.capacity.reconcile(g)
}

// enterMachine sets EC2's state of the machine and publishes it. It needs mu.
func (a machineEngine) enterMachine(inst *instance, state string) {
	inst.machine = state
	event := StateChange(a.bus.envelope(), inst.id, state)
	a.later(func() { a.bus.publish(event) })
}

// announce publishes that an instance was launched or terminated. It needs mu.
func (a eventBus) announce(inst *instance, detailType string) {
	event := InstanceEvent(a.envelope(), detailType, inst.group.name, inst.id)
	a.later(func() { a.publish(event) })
}

// pods returns the pods on the instance's node. It has a timeout, because a lifecycle action must be able to
// end while an API server does not answer. It must be called without mu.
func (a machineEngine) pods(instanceID string) (names []string, problem string) {
	machines := a.server.opts.Machines
	if machines == nil {
		return nil, ""
	}
	ctx, cancel := context.WithTimeout(a.ctx, time.Minute)
	defer cancel()
	names, err := machines.Pods(ctx, instanceID)
	if err != nil {
		return nil, err.Error()
	}
	return names, ""
}
