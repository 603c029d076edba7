package awsim

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// mark sets an instance's health. A mark that is not forced respects the grace period.
func (f fleet) mark(id, health string, forced bool) {
	f.t.Helper()
	respect := map[bool]string{true: "false", false: "true"}[forced]
	f.call("SetInstanceHealth", "InstanceId", id, "HealthStatus", health, "ShouldRespectGracePeriod", respect)
}

func (f fleet) health(id string) string {
	f.s.asg.mu.Lock()
	defer f.s.asg.mu.Unlock()
	return f.s.asg.instances[id].health
}

func TestCapacityIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 6, Max: 9})
		before, perZone := f.s.Instances("g"), map[string]int{}
		for _, i := range before {
			perZone[i.Zone]++
		}
		if perZone["eu-central-1a"] != 2 || perZone["eu-central-1b"] != 2 || perZone["eu-central-1c"] != 2 {
			t.Errorf("got %v", before)
		}
		machines := &recorder{}
		f.s.opts.Machines = machines
		f.must(f.s.SetProtection(before[0].ID, true))
		f.call("SetDesiredCapacity", "DesiredCapacity", "5")
		f.want("5 InService v1")
		f.must(f.s.Terminate(before[2].ID, false))
		f.want("5 InService v1")
		after := f.ids(stateInService)
		if after[0] != before[0].ID || after[1] != before[3].ID {
			t.Errorf("of %v there are %v", before, after)
		}
		slices.Sort(machines.calls)
		if !slices.Equal(machines.calls, []string{"launch v1", "terminate", "terminate"}) {
			t.Errorf("got %v", machines.calls)
		}
	})
}

func TestUnhealthyInstancesWithoutPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 3}, drainHook)
		for _, id := range f.ids(stateInService) {
			f.mark(id, unhealthy, true)
		}
		f.want("3 InService v1, 3 Terminating:Wait v1")
	})
}

func TestUnhealthyInstancesWithPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 2, MinHealthy: 100, MaxHealthy: 110}, drainHook, launchHook)
		for _, id := range f.ids(stateInService) {
			f.mark(id, unhealthy, true)
		}
		f.want("2 InService v1, 1 Pending:Wait v1")
		f.answer("Pending:Wait", "ready", resume)
		f.want("2 InService v1, 1 Pending:Wait v1, 1 Terminating:Wait v1")
		f.answer("Pending:Wait", "ready", resume)
		f.want("2 InService v1, 2 Terminating:Wait v1")
	})
}

func TestUnhealthyInstancesThatStay(t *testing.T) {
	for name, row := range map[string]struct {
		grace   time.Duration
		suspend string
		health  string
	}{
		"within the grace period":    {grace: time.Hour, health: healthy},
		"ReplaceUnhealthy suspended": {suspend: "ReplaceUnhealthy", health: unhealthy},
		"Terminate suspended":        {suspend: "Terminate", health: unhealthy},
	} {
		bubble(t, name, func(t *testing.T) {
			f := newFleet(t, Group{Desired: 1, GracePeriod: row.grace}, drainHook)
			if row.suspend != "" {
				f.call("SuspendProcesses", "ScalingProcesses.member.1", row.suspend)
			}
			id := f.ids(stateInService)[0]
			f.mark(id, unhealthy, false)
			f.want("1 InService v1")
			if got := f.health(id); got != row.health {
				t.Errorf("it is %s", got)
			}
			if row.suspend != "" {
				f.call("ResumeProcesses")
				f.want("1 InService v1, 1 Terminating:Wait v1")
			}
		})
	}
}

// An instance that has not come into service yet is in its grace period too, however long it takes.
func TestUnhealthyPendingInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Max: 1, GracePeriod: time.Hour}, launchHook)
		f.call("SetDesiredCapacity", "DesiredCapacity", "1")
		id := f.ids("Pending:Wait")[0]
		elapse(2 * time.Hour)
		f.mark(id, unhealthy, false)
		if got := f.health(id); got != healthy {
			t.Errorf("a mark that respects the grace period made it %s", got)
		}
		f.mark(id, unhealthy, true)
		f.answer("Pending:Wait", "ready", resume)
		f.must(f.s.WaitState(t.Context(), id, stateTerminated))
	})
}

// An abandoned hook retains no instance of a group that is being deleted.
func TestForcedDeletionRunsHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 2, RetainOnAbandon: true}, drainHook)
		if _, err := f.try("DeleteAutoScalingGroup"); err == nil {
			t.Error("a group with an instance was deleted without force")
		}
		f.call("DeleteAutoScalingGroup", "ForceDelete", "true")
		f.want("2 Terminating:Wait v1")
		if got := (groupAPI{f.s.asg}).groupWire(f.s.asg.groups["g"]).Status; got != "Delete in progress" {
			t.Errorf("the group's status is %q", got)
		}
		f.must(f.complete("drain", f.ids(stateTerminatingWait)[0], resume))
		f.answer(stateTerminatingWait, "drain", abandon)
		f.want("")
		if len(f.s.asg.groups) != 0 {
			t.Error("the group is still there")
		}
	})
}

// Without health checks, a launch can be abandoned after its machine was terminated.
func TestAbandonedLaunchOfTerminatedMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Max: 1}, launchHook)
		f.call("SuspendProcesses", "ScalingProcesses.member.1", "HealthCheck")
		f.call("SetDesiredCapacity", "DesiredCapacity", "1")
		id := f.ids("Pending:Wait")[0]
		f.call("TerminateInstances", "InstanceId.1", id)
		f.want("1 Pending:Wait v1")
		f.answer("Pending:Wait", "ready", abandon)
		f.must(f.s.WaitState(t.Context(), id, stateTerminated))
	})
}
