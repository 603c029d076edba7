package awsim

import "time"

// stateEnteringStandby is the state of an instance that is deregistered from its load balancers before it is in
// Standby. Sources for all of Standby: EnterStandby and ExitStandby in the API reference; "Temporarily remove instances
// from your Auto Scaling group" in the user guide.
const stateEnteringStandby = "EnteringStandby"

// maxStandbyIDs is how many ids EnterStandby and ExitStandby may have.
const maxStandbyIDs = 20

// inStandby reports whether the instance is in Standby, or enters it. It does not count for the desired capacity, and
// its health is not checked.
func inStandby(i *instance) bool {
	return i.state() == stateStandby || i.state() == stateEnteringStandby
}

type activitiesXML struct {
	Activities []activityXML `xml:"Activities>member"`
}

type activityXML struct {
	AutoScalingGroupName string
	Description          string
	Cause                string `xml:",omitempty"`
	StartTime            string `xml:",omitempty"`
}

// enterStandby moves instances in service into Standby: all of them or none. Without a decrement of the desired
// capacity the group launches replacements. No lifecycle hook runs.
func (a instanceAPI) enterStandby(r *reader) (any, error) {
	r.must("ShouldDecrementDesiredCapacity")
	decrement := r.flag("ShouldDecrementDesiredCapacity", false)
	return a.moveStandby(r, "Moving EC2 instance to Standby: ", stateInService, func(g *group, all []*instance) error {
		if decrement {
			if g.desired-len(all) < g.min {
				return errorf("ValidationError", "AutoScalingGroup %s has min-size=%d, max-size=%d, and desired-size=%d. To "+
					"place into standby %d instance(s), please update the AutoScalingGroup sizes appropriately.",
					g.name, g.min, g.max, g.desired, len(all))
			}
			for _, inst := range all {
				g.desired--
				g.resized("Moving EC2 instance to Standby: "+inst.id, "instance %s was moved to standby in response to a user "+
					"request, shrinking the capacity from %d to %d", inst.id, g.desired+1, g.desired)
			}
		}
		for _, inst := range all {
			inst.setState(stateEnteringStandby)
			a.fleet.changeLater(inst, a.delays.Standby, stateEnteringStandby, func() { inst.setState(stateStandby) })
		}
		return nil
	})
}

// exitStandby returns instances into service, and adds them to the desired capacity, one after the other as their
// activities say. That it is refused if that would exceed the maximum is an assumption: AWS documents neither.
func (a instanceAPI) exitStandby(r *reader) (any, error) {
	return a.moveStandby(r, "Moving EC2 instance out of Standby: ", stateStandby, func(g *group, all []*instance) error {
		if g.desired+len(all) > g.max {
			return errorf("ValidationError", "AutoScalingGroup %s has min-size=%d, max-size=%d, and desired-size=%d. To "+
				"take out of standby %d instance(s), please update the AutoScalingGroup sizes appropriately.",
				g.name, g.min, g.max, g.desired, len(all))
		}
		for _, inst := range all {
			g.desired++
			g.resized("Moving EC2 instance out of Standby: "+inst.id, "instance %s was moved out of standby in response to a "+
				"user request, increasing the capacity from %d to %d", inst.id, g.desired-1, g.desired)
			inst.setState(statePending)
			a.fleet.changeLater(inst, a.delays.Standby, statePending, func() {
				if inst.machine != "running" { // The health check finds it in service.
					inst.health = unhealthy
				}
				a.fleet.putInService(inst)
			})
		}
		return nil
	})
}

// moveStandby changes the instances of a call, which must all have the state.
func (a instanceAPI) moveStandby(
	r *reader, does, from string, change func(g *group, all []*instance) error,
) (any, error) {
	ids := r.members("InstanceIds")
	if len(ids) == 0 || len(ids) > maxStandbyIDs {
		r.fail(errorf("ValidationError", "The number of instance ids must be between 1 and %d", maxStandbyIDs))
	}
	var out activitiesXML
	return &out, r.changeGroup(a.engine, func(g *group) error {
		var all []*instance
		for _, id := range ids {
			inst := a.instances[id]
			switch {
			case inst == nil || inst.group != g:
				return errorf("ValidationError", "The instance %s is not part of Auto Scaling group %s.", id, g.name)
			case inst.state() != from:
				return errorf("ValidationError", "The instance %s is not in %s.", id, from)
			}
			all = append(all, inst)
			out.Activities = append(out.Activities, activityXML{AutoScalingGroupName: g.name, Description: does + id})
		}
		if err := change(g, all); err != nil {
			return err
		}
		a.capacity.reconcile(g)
		return nil
	})
}

// stopInstances stops machines. The group of one in service replaces it once it is stopped; one in Standby stays.
func (a ec2API) stopInstances(r *reader) (any, error) {
	return a.changeMachines(r, func(inst *instance) error {
		switch inst.machine {
		case "running":
			a.hardware.stopMachine(inst, a.delays.Terminate, func() { a.capacity.recordStop(inst) })
			return nil
		case "stopping", "stopped":
			return nil
		}
		return errorf("IncorrectInstanceState",
			"The instance '%s' is not in a state from which it can be stopped.", inst.id)
	})
}

// startInstances starts stopped machines.
func (a ec2API) startInstances(r *reader) (any, error) {
	return a.changeMachines(r, func(inst *instance) error {
		switch inst.machine {
		case "stopped":
			a.hardware.startMachine(inst, func() {})
			return nil
		case "running", "pending":
			return nil
		}
		return errorf("IncorrectInstanceState",
			"The instance '%s' is not in a state from which it can be started.", inst.id)
	})
}

// changeMachines changes the machines of a call.
func (a ec2API) changeMachines(r *reader, change func(inst *instance) error) (any, error) {
	ids := r.list("InstanceId")
	if len(ids) == 0 {
		return nil, errorf("MissingParameter", "The request must contain the parameter InstanceId")
	}
	var out struct {
		Changes []stateChangeXML `xml:"instancesSet>item"`
	}
	err := a.updateErr(func() error {
		found, err := a.machines(ids)
		if err != nil {
			return err
		}
		for _, inst := range found {
			before := inst.machine
			if err := change(inst); err != nil {
				return err
			}
			out.Changes = append(out.Changes, stateChangeXML{
				InstanceID: inst.id, Current: machineWire(inst.machine), Previous: machineWire(before),
			})
		}
		return nil
	})
	return out, err
}

// recordStop has the group replace an instance whose machine was stopped, unless it is in Standby. It needs mu.
func (a groupEngine) recordStop(inst *instance) {
	if inStandby(inst) {
		return
	}
	inst.health = unhealthy
	a.reconcile(inst.group)
}

// changeLater changes the instance when the delay is over, if it still has the state then. It needs mu.
func (a fleetEngine) changeLater(inst *instance, delay time.Duration, state string, change func()) {
	do := func() {
		a.update(func() {
			if inst.group != nil && inst.state() == state {
				change()
			}
		})
	}
	if delay == 0 {
		a.later(do)
		return
	}
	a.spawn(func() {
		if a.pause(delay) {
			do()
		}
	})
}
