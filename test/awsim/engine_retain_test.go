package awsim

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestInstancesAreRetained(t *testing.T) {
	hook := func(name, result string) Hook {
		return Hook{Name: name, HeartbeatTimeout: time.Minute, GlobalTimeout: 2 * time.Minute, DefaultResult: result}
	}
	answers := func(result string) func(f fleet) {
		return func(f fleet) { f.answer("Terminating:Wait", "drain", result) }
	}
	for name, row := range map[string]struct {
		policy string // What TerminateHookAbandon says.
		hooks  []Hook
		ends   func(f fleet)
		want   string
	}{
		"abandoned": {policy: "retain", hooks: []Hook{hook("drain", resume)}, ends: answers(abandon), want: "Terminating:Retained"},
		"timed out, which means abandoned": {
			policy: "retain", hooks: []Hook{hook("drain", abandon)}, want: "Terminating:Retained",
			ends: func(fleet) { elapse(time.Minute) },
		},
		"timed out for all its heartbeats": {
			policy: "retain", hooks: []Hook{hook("drain", abandon)}, want: "Terminating:Retained",
			ends: func(f fleet) {
				for range 2 {
					elapse(50 * time.Second)
					f.call("RecordLifecycleActionHeartbeat", "LifecycleHookName", "drain", "InstanceId", f.ids("Terminating:Wait")[0])
				}
				elapse(20 * time.Second)
			},
		},
		"one of two hooks abandoned": {
			policy: "retain", hooks: []Hook{hook("drain", resume), hook("other", resume)}, ends: answers(abandon),
			want: "Terminating:Retained",
		},
		"continued":                          {policy: "retain", hooks: []Hook{hook("drain", abandon)}, ends: answers(resume), want: "Terminated"},
		"timed out, which means continue":    {policy: "retain", hooks: []Hook{hook("drain", resume)}, ends: func(fleet) { elapse(time.Minute) }, want: "Terminated"},
		"no hook at all":                     {policy: "retain", ends: func(fleet) {}, want: "Terminated"},
		"abandoned, with the policy not set": {policy: "terminate", hooks: []Hook{hook("drain", resume)}, ends: answers(abandon), want: "Terminated"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, Group{Desired: 2}, row.hooks...)
				f.call("UpdateAutoScalingGroup", "InstanceLifecyclePolicy.RetentionTriggers.TerminateHookAbandon", row.policy)
				id := f.ids(stateInService)[0]
				f.must(f.s.Terminate(id, false))
				row.ends(f)
				f.must(f.s.WaitState(t.Context(), id, row.want))
				if serving := f.ids(stateInService); len(serving) != 2 {
					t.Errorf("in service: %v", serving)
				}
				if row.want == "Terminated" {
					return
				}
				elapse(240 * time.Hour)
				f.must(f.s.WaitState(t.Context(), id, row.want)) // It stays until it is terminated.
				before := len(f.s.asg.actions)
				f.call("TerminateInstanceInAutoScalingGroup", "InstanceId", id, "ShouldDecrementDesiredCapacity", "false")
				f.must(f.s.WaitState(t.Context(), id, "Terminated"))
				if len(f.s.asg.actions) != before {
					t.Error("its hooks ran again")
				}
				f.want("2 InService v1")
			})
		})
	}
}
