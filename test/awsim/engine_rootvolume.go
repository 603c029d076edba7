package awsim

import (
	"context"
	"slices"
	"strings"
)

// Strategies of an Instance Refresh.
const (
	strategyRolling    = "Rolling"
	strategyRootVolume = "ReplaceRootVolume"
)

// States of an instance whose root volume is replaced. Pending follows, with the launch hooks.
const (
	stateReplacingVolume        = "ReplacingRootVolume"
	stateReplacingVolumeWait    = "ReplacingRootVolume:Wait"
	stateReplacingVolumeProceed = "ReplacingRootVolume:Proceed"
	stateVolumeReplaced         = "RootVolumeReplaced"
)

// Rebootable is an optional interface of Machines: an instance reboots from another root volume. Without it its
// node does not change.
type Rebootable interface {
	// Reboot ends what runs on the instance, and starts its kubelet again. It need not wait for that.
	Reboot(ctx context.Context, instanceID string) error
}

// rootVolumeEngine replaces the root volumes of instances for an Instance Refresh.
type rootVolumeEngine struct{ *engine }

// isReplacingVolume reports whether the instance is on the way to its new root volume. It still counts for the
// desired capacity.
func isReplacingVolume(i *instance) bool {
	return i.hasStatePrefix(stateReplacingVolume) || i.state() == stateVolumeReplaced
}

// checkStrategy is Auto Scaling's answer to a refresh that cannot replace root volumes: its desired
// configuration must be a mixed instances policy with an image in every override.
func checkStrategy(r *reader, desired *source) {
	if r.oneOf("Strategy", strategyRolling, strategyRolling, strategyRootVolume) != strategyRootVolume {
		return
	}
	if desired == nil || desired.policy == nil || slices.ContainsFunc(desired.overrides(), func(o override) bool {
		return o.image == ""
	}) {
		r.fail(errorf("ValidationError", "The ReplaceRootVolume strategy requires a desired configuration with a "+
			"mixed instances policy that has an ImageId in every override."))
	}
}

// replace begins with one target of the refresh. It needs mu.
func (a rootVolumeEngine) replace(f *refresh, inst *instance) {
	if !f.prefs.rootVolume {
		a.fleet.terminate(inst)
		return
	}
	delete(f.targets, inst)
	inst.newVolume = true
	inst.setState(stateReplacingVolume)
	a.lifecycle.beginHooks(inst, Terminating)
}

// proceed reboots an instance after its terminate hooks, whatever their result: what ABANDON does is not
// documented. Then the launch hooks begin. It needs mu.
func (a rootVolumeEngine) proceed(inst *instance) {
	inst.waiting = nil
	inst.setState(stateReplacingVolumeProceed)
	reboot := optional(a.server.opts.Machines, func(m Rebootable) error { return m.Reboot(a.ctx, inst.id) })
	a.hardware.callMachine(inst, "reboot", a.delays.Launch, reboot, func() {
		if inst.state() != stateReplacingVolumeProceed {
			return
		}
		inst.template, inst.override = a.rebuilt(inst)
		inst.setState(stateVolumeReplaced)
		inst.setState(statePending)
		a.lifecycle.beginHooks(inst, Launching)
	})
}

// rebuilt is what the instance is made of with its new root volume: the override of its type, else the first.
func (a rootVolumeEngine) rebuilt(inst *instance) (templateVersion, override) {
	want := inst.group.launchFrom()
	turn := slices.IndexFunc(want.overrides(), func(o override) bool {
		return strings.EqualFold(o.instanceType, inst.template.instanceType)
	})
	return a.catalog.nextLaunch(want, max(turn, 0))
}
