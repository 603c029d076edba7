package awsim

import (
	"strings"
	"testing"
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
		dont  bool // Retain no instance.
		hooks []Hook
		ends  func(f fleet)
		want  string
	}{
		"abandoned": {hooks: []Hook{hook("drain", resume)}, ends: answers(abandon), want: "Terminating:Retained"},
		"timed out, which means abandoned": {
			hooks: []Hook{hook("drain", abandon)}, want: "Terminating:Retained", ends: func(fleet) { elapse(time.Minute) },
		},
		"timed out for all its heartbeats": {
			hooks: []Hook{hook("drain", abandon)}, want: "Terminating:Retained",
			ends: func(f fleet) {
				for range 2 {
					elapse(50 * time.Second)
					f.call("RecordLifecycleActionHeartbeat", "LifecycleHookName", "drain", "InstanceId", f.ids("Terminating:Wait")[0])
				}
				elapse(20 * time.Second)
			},
		},
		"one of two hooks abandoned": {
			hooks: []Hook{hook("drain", resume), hook("other", resume)}, ends: answers(abandon), want: "Terminating:Retained",
		},
		"continued":                          {hooks: []Hook{hook("drain", abandon)}, ends: answers(resume), want: "Terminated"},
		"timed out, which means continue":    {hooks: []Hook{hook("drain", resume)}, ends: func(fleet) { elapse(time.Minute) }, want: "Terminated"},
		"no hook at all":                     {ends: func(fleet) {}, want: "Terminated"},
		"abandoned, with the policy not set": {dont: true, hooks: []Hook{hook("drain", resume)}, ends: answers(abandon), want: "Terminated"},
	} {
		bubble(t, name, func(t *testing.T) {
			f := newFleet(t, Group{Desired: 2, RetainOnAbandon: !row.dont}, row.hooks...)
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
			if got := f.path(id); !strings.HasSuffix(got, " Terminating:Proceed Terminating:Retained") {
				t.Errorf("went %s", got)
			}
		})
	}
}

// Terminating a retained instance begins a new action, which may retain it again.
func TestRetainedInstanceIsTerminated(t *testing.T) {
	for name, phase := range map[string]string{"of the group": "Terminating", "of the warm pool": "Warmed:Pending"} {
		bubble(t, name, func(t *testing.T) {
			f := newFleet(t, Group{Desired: 2, Max: 2, RetainOnAbandon: true}, drainHook)
			if phase != "Terminating" {
				f.pool("InstanceReusePolicy.ReuseOnScaleIn", "true")
			}
			f.call("SetDesiredCapacity", "DesiredCapacity", "1")
			id := f.ids(phase + ":Wait")[0]
			f.answer(phase+":Wait", "drain", abandon)
			phase = strings.ReplaceAll(phase, "Pending", "Terminating")
			if _, err := f.try("TerminateInstanceInAutoScalingGroup", "InstanceId", id, "ShouldDecrementDesiredCapacity", "true"); err == nil {
				t.Error("a retained instance was terminated with a decrement")
			}
			for runs, result := range []string{abandon, resume} {
				f.call("TerminateInstanceInAutoScalingGroup", "InstanceId", id, "ShouldDecrementDesiredCapacity", "false")
				all := f.s.Ledger()
				if len(all) != runs+2 || all[runs].Token == all[runs+1].Token {
					t.Fatalf("the actions are %+v", all)
				}
				f.answer(phase+":Wait", "drain", result)
			}
			if got := f.path(id); !strings.HasSuffix(got, phase+":Retained "+phase+" "+phase+":Wait "+phase+":Proceed "+
				strings.ReplaceAll(phase, "Terminating", "Terminated")) {
				t.Errorf("went %s", got)
			}
		})
	}
}
