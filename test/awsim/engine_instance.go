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
	stateEnteringStandby    = "EnteringStandby"
	stateStandby            = "Standby"
	stateDetaching          = "Detaching"
	stateDetached           = "Detached"
)

const (
	healthy   = "Healthy"
	unhealthy = "Unhealthy"
)

// instance is one machine: EC2's view of it and, while group is set, Auto Scaling's. It outlives its end.
type instance struct {
	id          string
	zone        string
	group       *group
	groupName   string   // Of the group that it is in, or was in last.
	states      []passed // Lifecycle states in order; the last one holds now.
	health      string
	protected   bool
	inServiceAt time.Time
	template    templateVersion // What it was made of, with what an override changed.
	override    override        // What it was launched by, if its group has a mixed instances policy.
	tags        map[string]string
	market      Market
	reservation string // The Capacity Reservation that it runs in, if any.
	launchedAt  time.Time
	number      int
	machine     string        // EC2's state: pending, running, shutting-down, terminated.
	reason      string        // Why EC2 terminated it.
	seized      bool          // EC2 takes the machine, whoever waits for whatever.
	dying       bool          // The machine is being terminated, so nobody else must do that too.
	booted      chan struct{} // Closed when the last call of Machines has answered, or there was none.
	killed      []string
	activity    *activity
	waiting     []*action // Actions of the transition that is under way.
	warm        bool      // In the warm pool, or on its way there.
	drawn       bool      // Taken from the warm pool, and not in service yet.
	givenBack   bool      // On its way back from the group into the warm pool.
}

// passed is a lifecycle state and when it began. An empty state is: not in the group.
type passed struct {
	state string
	at    time.Time
}

func (i *instance) state() string { return i.states[len(i.states)-1].state }

// stateAt is what the API shows to someone who sees the world as it was at that time.
func (i *instance) stateAt(at time.Time) string {
	for _, past := range slices.Backward(i.states) {
		if !past.at.After(at) {
			return past.state
		}
	}
	return ""
}

func (i *instance) is(prefix string) bool { return strings.HasPrefix(i.state(), prefix) }

func (i *instance) enter(state string) {
	if len(i.states) == 0 || i.state() != state {
		i.states = append(i.states, passed{state: state, at: time.Now()})
	}
}

func (i *instance) privateDNS(region string) string {
	return fmt.Sprintf("ip-%s.%s.compute.internal", strings.ReplaceAll(i.privateIP(), ".", "-"), region)
}

func (i *instance) privateIP() string { return fmt.Sprintf("10.0.%d.%d", i.number/250, i.number%250+4) }

// newInstance needs mu.
func (a fleetEngine) newInstance(g *group, id, zone string) *instance {
	made, by := a.catalog.choose(g.launchFrom(), g.made)
	g.made++
	inst := &instance{
		id:         id,
		zone:       zone,
		group:      g,
		groupName:  g.name,
		health:     healthy,
		protected:  g.protectNew,
		template:   made,
		override:   by,
		tags:       map[string]string{"aws:autoscaling:groupName": g.name},
		market:     g.market,
		launchedAt: time.Now(),
		number:     a.born,
		machine:    "pending",
		booted:     make(chan struct{}),
	}
	for _, t := range g.tags {
		if t.Propagate {
			inst.tags[t.Key] = t.Value
		}
	}
	a.born++
	a.instances[id] = inst
	g.members = append(g.members, inst)
	return inst
}

// launch starts one instance of the group. It needs mu.
func (a fleetEngine) launch(g *group) {
	inst := a.newInstance(g, a.newInstanceID(), g.nextZone())
	inst.enter(statePending)
	inst.activity = g.beginActivity(a.rand, "Launching a new EC2 instance: "+inst.id,
		"an instance was started in response to a difference between desired and actual capacity, "+
			"increasing the capacity.", inst)
	a.spawn(func() { a.boot(inst) })
}

// boot makes the machine run and then begins the launch hooks.
func (a fleetEngine) boot(inst *instance) {
	defer close(inst.booted)
	a.mu.Lock()
	delay := a.delays.Launch
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

// serve puts an instance into service: its launch hooks are done, or it had none. It needs mu.
func (a fleetEngine) serve(inst *instance) {
	if len(inst.waiting) > 0 {
		inst.enter(statePendingProceed)
	}
	inst.waiting, inst.drawn = nil, false
	inst.enter(stateInService)
	inst.inServiceAt = time.Now()
	inst.activity.end("Successful", "")
	a.bus.announce(inst, LaunchSuccessful)
	a.capacity.reconcile(inst.group)
}

// terminate begins the end of an instance, with its hooks. It needs mu.
func (a fleetEngine) terminate(inst *instance, cause string) *activity {
	if inst.ending() && !inst.retained() {
		return inst.activity
	}
	for _, act := range inst.waiting {
		a.lifecycle.shut(act, ByAbandon, abandon)
	}
	inst.waiting = nil
	if inst.activity != nil && !inst.activity.ended() {
		inst.activity.end("Cancelled", "the instance was terminated while it was launching")
	}
	inst.activity = inst.group.beginActivity(a.rand, "Terminating EC2 instance: "+inst.id, cause, inst)
	if inst.retained() {
		a.proceed(inst)
		return inst.activity
	}
	inst.move(stateTerminating)
	a.lifecycle.beginHooks(inst, Terminating)
	return inst.activity
}

// proceed takes the machine away: the terminate hooks are done, or there were none. It needs mu.
func (a fleetEngine) proceed(inst *instance) {
	inst.waiting = nil
	inst.move(stateTerminatingProceed)
	if inst.machine == "terminated" {
		a.leave(inst, stateTerminated)
	} else {
		a.hardware.strike(inst)
	}
}

// kill ends the machine, and tells Auto Scaling, which either waits for that or learns of it now.
func (a machineEngine) kill(inst *instance) {
	a.mu.Lock()
	booted := inst.booted
	a.mu.Unlock()
	select {
	case <-booted: // A node that joins after its machine has died would stay for ever.
	case <-a.ctx.Done():
		return
	}
	a.mu.Lock()
	delay := a.delays.Terminate
	a.mu.Unlock()
	if !a.pause(delay) {
		return
	}
	a.notices.witness(inst)
	var killed []string
	machines := a.server.opts.Machines
	if machines != nil && !a.insist("terminate", inst.id, func() (err error) {
		killed, err = machines.Terminate(a.ctx, inst.id)
		return err
	}) {
		return
	}
	a.update(func() { a.buried(inst, killed) })
}

// buried records that the machine is gone. It needs mu.
func (a machineEngine) buried(inst *instance, killed []string) {
	inst.killed = append(inst.killed, killed...)
	for _, act := range a.actions {
		if act.InstanceID == inst.id && act.Transition == Terminating {
			act.Killed = inst.killed
		}
	}
	a.enterMachine(inst, "terminated")
	a.notices.reckon(inst)
	switch {
	case inst.group == nil:
	case inst.phase() == stateTerminatingProceed, inst.group.deleting:
		a.fleet.leave(inst, stateTerminated)
	case !inst.ending():
		inst.health = unhealthy
		a.capacity.reconcile(inst.group)
	}
}

// leave takes the instance out of its group, in its last state. It needs mu.
func (a fleetEngine) leave(inst *instance, last string) {
	g := inst.group
	inst.move(last)
	inst.activity.end("Successful", "")
	if last == stateTerminated {
		a.bus.announce(inst, TerminateSuccessful)
	}
	g.remove(inst)
	inst.group = nil
	if g.deleting && len(g.members) == 0 {
		delete(a.groups, g.name)
		return
	}
	a.capacity.reconcile(g)
}

// enterMachine gives the machine EC2's next state and tells the bus. It needs mu.
func (a machineEngine) enterMachine(inst *instance, state string) {
	inst.machine = state
	event := StateChange(a.bus.envelope(), inst.id, state)
	a.later(func() { a.bus.publish(StateChanged, event) })
}

// announce tells the bus that an instance has come or gone. It needs mu.
func (a eventBus) announce(inst *instance, detailType string) {
	cause := ""
	if inst.activity != nil {
		cause = inst.activity.Cause
	}
	event := InstanceEvent(a.envelope(), detailType, inst.group.name, inst.id, inst.zone, cause)
	a.later(func() { a.publish(detailType, event) })
}

// pods asks what runs on the instance's node. The time is bounded: a lifecycle action must be able to end
// while an API server does not answer. It must be called without mu.
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
