package awsim

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

const mixedPrefix = "DesiredConfiguration.MixedInstancesPolicy.LaunchTemplate."

// replaceVolumes starts a refresh that replaces root volumes by those of version 2.
func (f fleet) replaceVolumes(pairs ...string) {
	f.t.Helper()
	f.call("StartInstanceRefresh", append(pairs, "Strategy", strategyRootVolume,
		mixedPrefix+"LaunchTemplateSpecification.LaunchTemplateName", fleetTemplate,
		mixedPrefix+"LaunchTemplateSpecification.Version", "2",
		mixedPrefix+"Overrides.member.1.InstanceType", "m5.large", mixedPrefix+"Overrides.member.1.ImageId", "ami-2")...)
}

func (d *recorder) Reboot(context.Context, string) error { return d.record("reboot") }

// TestReplaceRootVolumes: the instances stay. Both hooks of each wait, one after the other, with messages that name the
// action.
func TestReplaceRootVolumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 2})
		machines := &recorder{}
		f.s.opts.Machines = machines
		f.must(f.s.PutHook("g", launchHook))
		f.must(f.s.PutHook("g", drainHook))
		f.s.SetDelays(Delays{Launch: time.Minute})
		before := f.ids(stateInService)
		f.replaceVolumes("Preferences.MinHealthyPercentage", "50")
		for _, left := range []string{"1 InService v1", "1 InService v2"} {
			f.want(left + ", 1 ReplacingRootVolume:Wait v1")
			f.answer(stateReplacingVolumeWait, "drain", resume)
			f.want(left + ", 1 ReplacingRootVolume:Proceed v1")
			elapse(time.Minute)
			f.want(left + ", 1 Pending:Wait v2")
			f.answer(statePendingWait, "ready", resume)
		}
		f.ends(refreshSuccessful)
		f.want("2 InService v2")
		if after := f.ids(stateInService); !slices.Equal(before, after) {
			t.Errorf("the instances were %v, and are %v", before, after)
		}
		if !slices.Equal(machines.calls, []string{"reboot", "reboot"}) {
			t.Errorf("the machines got %v", machines.calls)
		}
		for _, act := range f.s.asg.actions {
			var sent struct{ Origin, Destination, Action string }
			f.must(json.Unmarshal([]byte(DirectMessage(Envelope{}, act.notification())), &sent))
			if sent.Origin != placeGroup || sent.Destination != placeGroup || sent.Action != strategyRootVolume {
				t.Errorf("the message of hook %s has %+v", act.Hook, sent)
			}
		}
		passed := []string{}
		for _, s := range f.s.asg.instances[before[0]].states {
			passed = append(passed, s.state)
		}
		want := []string{
			statePending, stateInService, stateReplacingVolume, stateReplacingVolumeWait, stateReplacingVolumeProceed,
			stateVolumeReplaced, statePending, statePendingWait, statePendingProceed, stateInService,
		}
		if !slices.Equal(passed, want) {
			t.Errorf("the states were %v", passed)
		}
	})
}

// TestReplaceRootVolumesFails: an instance whose launch is abandoned is replaced, and a canceled refresh ends when the
// instance is back.
func TestReplaceRootVolumesFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 1})
		f.must(f.s.PutHook("g", launchHook))
		f.must(f.s.PutHook("g", drainHook))
		f.replaceVolumes()
		f.answer(stateReplacingVolumeWait, "drain", abandon)
		f.want("1 Pending:Wait v2")
		f.call("CancelInstanceRefresh")
		if got := f.now(); got.Status != refreshCancelling {
			t.Errorf("the refresh is %+v", got)
		}
		f.answer(statePendingWait, "ready", abandon)
		f.want("1 Pending:Wait v1, 1 Terminating:Wait v2")
		if act := f.s.asg.actions[len(f.s.asg.actions)-1]; act.notification().Action == strategyRootVolume {
			t.Errorf("the termination is %+v", act.notification())
		}
	})
}
