package awsim

import (
	"context"
	"time"
)

// Versioned is an optional interface of Machines, which is used in place of Launch. It can boot the machines
// of one version of the launch template in another way than those of the next.
type Versioned interface {
	// LaunchVersion creates the instance's node. The version is zero for a group without a template.
	LaunchVersion(ctx context.Context, instanceID, zone string, version int) error
}

// Stoppable is an optional interface of Machines: a warm pool stops machines and starts them again. Without
// it their nodes do not change.
type Stoppable interface {
	// Stop ends what runs on the instance; its Node stays, and is not Ready.
	Stop(ctx context.Context, instanceID string) error
	// Start makes the instance's Node Ready again.
	Start(ctx context.Context, instanceID string) error
}

// launchMachine must be called without mu.
func (a machineEngine) launchMachine(inst *instance) bool {
	machines := a.server.opts.Machines
	if machines == nil {
		return true
	}
	return a.retry("launch", inst.id, func() error {
		if v, ok := machines.(Versioned); ok {
			return v.LaunchVersion(a.ctx, inst.id, inst.zone, inst.template.number)
		}
		return machines.Launch(a.ctx, inst.id, inst.zone)
	})
}

// TerminateMachine terminates a machine bypassing its group, as TerminateInstances does. Its group finds out when the
// machine is terminated.
func (s EC2) TerminateMachine(instanceID string) error {
	return s.asg.changeInstance(instanceID, func(inst *instance) { s.asg.hardware.terminateMachine(inst) })
}

// StopMachine stops a machine bypassing its group, as StopInstances does. Its group replaces it once it is stopped.
func (s EC2) StopMachine(instanceID string) error {
	a := s.asg
	return a.changeInstance(instanceID, func(inst *instance) {
		if inst.machine != "running" {
			return
		}
		a.hardware.stopMachine(inst, a.delays.Terminate, func() { a.capacity.recordStop(inst) })
	})
}

// stopMachine stops the instance's machine after a delay, and then has something done in the same update. It needs mu.
func (a machineEngine) stopMachine(inst *instance, after time.Duration, then func()) {
	a.enterMachine(inst, "stopping")
	stop := optional(a.server.opts.Machines, func(s Stoppable) error { return s.Stop(a.ctx, inst.id) })
	a.callMachine(inst, "stop", after, stop, func() {
		a.enterMachine(inst, "stopped")
		then()
	})
}

// startMachine starts a stopped machine; one that runs is left to run. It needs mu.
func (a machineEngine) startMachine(inst *instance, then func()) {
	start := optional(a.server.opts.Machines, func(s Stoppable) error { return s.Start(a.ctx, inst.id) })
	if inst.machine == "running" {
		start = func() error { return nil }
	} else {
		a.enterMachine(inst, "pending")
		inst.startedAt = time.Now()
	}
	a.callMachine(inst, "start", a.delays.Launch, start, func() {
		if inst.machine != "running" {
			a.enterMachine(inst, "running")
		}
		then()
	})
}

// callMachine calls Machines after a delay, and then changes the state, unless the machine is being
// terminated by then. Its termination waits for the call, like that of a machine that boots. It needs mu.
func (a machineEngine) callMachine(
	inst *instance, what string, after time.Duration, call func() error, then func(),
) {
	busy := make(chan struct{})
	inst.booted = busy
	a.spawn(func() {
		defer close(busy)
		if !a.pause(after) {
			return
		}
		if !a.retry(what, inst.id, call) {
			return
		}
		a.update(func() {
			if !inst.terminatingMachine && inst.group != nil {
				then()
			}
		})
	})
}

// optional calls an optional interface of Machines; without it nothing happens.
func optional[T any](machines Machines, call func(T) error) func() error {
	return func() error {
		if m, ok := machines.(T); ok {
			return call(m)
		}
		return nil
	}
}
