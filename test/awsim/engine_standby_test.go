package awsim

import (
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

func (f fleet) desired() int {
	f.s.asg.mu.Lock()
	defer f.s.asg.mu.Unlock()
	return f.s.asg.groups["g"].desired
}

func (f fleet) enterStandby(id string) {
	f.t.Helper()
	f.call("EnterStandby", "InstanceIds.member.1", id, "ShouldDecrementDesiredCapacity", "false")
	synctest.Wait()
}

func (f fleet) refused(want, action string, pairs ...string) {
	f.t.Helper()
	if _, err := f.try(action, pairs...); err == nil || err.Error() != want {
		f.t.Errorf("%s: %v, want %s", action, err, want)
	}
}

func TestStandby(t *testing.T) {
	hook := Hook{Name: "drain", HeartbeatTimeout: time.Minute, DefaultResult: resume}
	for name, do := range map[string]func(f fleet, id string){
		"is replaced, and passes no hook": func(f fleet, id string) {
			f.s.SetDelays(Delays{Standby: time.Minute})
			f.enterStandby(id)
			f.holds(stateEnteringStandby, 1)
			elapse(time.Minute)
			f.holds(stateStandby, 1)
			f.holds(stateInService, 3)
			if n := len(f.s.asg.actions); n != 0 || f.desired() != 3 {
				f.t.Errorf("%d lifecycle actions, the desired capacity is %d", n, f.desired())
			}
		},
		"is not replaced if the desired capacity is lowered": func(f fleet, id string) {
			pairs := []string{"InstanceIds.member.1", id, "ShouldDecrementDesiredCapacity", "true"}
			f.call("EnterStandby", pairs...)
			synctest.Wait()
			f.holds(stateInService, 2)
			pairs[1] = f.ids(stateInService)[0]
			f.refused("ValidationError: AutoScalingGroup g has min-size=2, max-size=4, and desired-size=2. To place into "+
				"standby 1 instance(s), please update the AutoScalingGroup sizes appropriately.", "EnterStandby", pairs...)
		},
		"all or none": func(f fleet, id string) {
			f.enterStandby(id)
			f.refused("ValidationError: The instance "+id+" is not in InService.", "EnterStandby", "InstanceIds.member.1",
				f.ids(stateInService)[0], "InstanceIds.member.2", id, "ShouldDecrementDesiredCapacity", "false")
			f.holds(stateStandby, 1)
			f.refused("ValidationError: The instance "+f.ids(stateInService)[0]+" is not in Standby.", "ExitStandby",
				"InstanceIds.member.1", f.ids(stateInService)[0])
			f.refused("ValidationError: The instance i-1 is not part of Auto Scaling group g.", "ExitStandby",
				"InstanceIds.member.1", "i-1")
		},
		"at most 20": func(f fleet, _ string) {
			var pairs []string
			for n := range 21 {
				pairs = append(pairs, "InstanceIds.member."+strconv.Itoa(n+1), "i-1")
			}
			f.refused("ValidationError: The number of instance ids must be between 1 and 20", "ExitStandby", pairs...)
		},
		"passes the hook when it is terminated, and is not replaced again": func(f fleet, id string) {
			f.enterStandby(id)
			f.call("TerminateInstanceInAutoScalingGroup", "InstanceId", id, "ShouldDecrementDesiredCapacity", "false")
			synctest.Wait()
			f.holds(stateTerminatingWait, 1)
			f.holds(stateInService, 3)
			elapse(time.Minute)
			f.must(f.s.WaitState(f.t.Context(), id, stateTerminated))
			f.holds(stateInService, 3)
		},
		"returns, and raises the desired capacity": func(f fleet, id string) {
			f.enterStandby(id)
			f.call("ExitStandby", "InstanceIds.member.1", id)
			synctest.Wait()
			f.holds(stateInService, 4)
			if f.desired() != 4 {
				f.t.Errorf("the desired capacity is %d", f.desired())
			}
			other := f.ids(stateInService)[1]
			f.enterStandby(other)
			f.refused("ValidationError: AutoScalingGroup g has min-size=2, max-size=4, and desired-size=4. To take out of "+
				"standby 1 instance(s), please update the AutoScalingGroup sizes appropriately.", "ExitStandby",
				"InstanceIds.member.1", other)
		},
		"stopped and started": func(f fleet, id string) {
			f.enterStandby(id)
			f.call("StopInstances", "InstanceId.1", id)
			synctest.Wait()
			gone := f.terminated()
			f.refused("IncorrectInstanceState: The instance '"+gone+
				"' is not in a state from which it can be stopped.", "StopInstances", "InstanceId.1", gone)
			elapse(time.Hour)
			f.holds(stateStandby, 1)
			f.call("StartInstances", "InstanceId.1", id)
			synctest.Wait()
			f.call("ExitStandby", "InstanceIds.member.1", id)
			elapse(time.Hour)
			if !slices.Contains(f.ids(stateInService), id) {
				f.t.Errorf("in service are %v, want %s", f.ids(stateInService), id)
			}
		},
		"stopped, and replaced when it returns": func(f fleet, id string) {
			f.enterStandby(id)
			f.call("StopInstances", "InstanceId.1", id)
			synctest.Wait()
			f.call("ExitStandby", "InstanceIds.member.1", id)
			f.must(f.s.WaitState(f.t.Context(), id, stateTerminated))
			synctest.Wait()
			f.holds(stateInService, 4)
		},
		"terminated by another client, and not replaced": func(f fleet, id string) {
			f.enterStandby(id)
			f.call("TerminateInstances", "InstanceId.1", id)
			elapse(time.Hour)
			f.holds(stateStandby, 1)
		},
		"ignored by a refresh": func(f fleet, id string) {
			f.enterStandby(id)
			f.refresh("StandbyInstances", "Ignore", "MinHealthyPercentage", "0")
			f.ends(refreshSuccessful)
			f.holds(stateStandby, 1)
		},
		"terminated by a refresh": func(f fleet, id string) {
			f.enterStandby(id)
			f.refresh("StandbyInstances", "Terminate", "MinHealthyPercentage", "0")
			f.ends(refreshSuccessful)
			f.must(f.s.WaitState(f.t.Context(), id, stateTerminated))
		},
	} {
		bubble(t, name, func(t *testing.T) {
			f := newFleet(t, Group{Min: 2, Desired: 3, Max: 4}, hook)
			do(f, f.ids(stateInService)[0])
		})
	}
}

func (f fleet) holds(state string, n int) {
	f.t.Helper()
	if ids := f.ids(state); len(ids) != n {
		f.t.Errorf("%d instances are %s, want %d: %+v", len(ids), state, n, f.s.Instances("g"))
	}
}

// terminated terminates the machine of an instance in service, and returns its id.
func (f fleet) terminated() string {
	id := f.ids(stateInService)[0]
	f.call("TerminateInstances", "InstanceId.1", id)
	return id
}
