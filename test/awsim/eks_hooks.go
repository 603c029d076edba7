package awsim

import "time"

// EKS's own lifecycle hooks. Their names, timeouts and results are those of real groups, as users show them; EKS does
// not document them. EKS completes its terminating hook when its time to drain the node has passed, also with pods on
// it.
const (
	EKSTerminateHook = "Terminate-LC-Hook"
	eksLaunchHook    = "Launch-LC-Hook"
	eksHookTimeout   = 30 * time.Minute
)

// eksHooks returns the lifecycle hooks that EKS gives the Auto Scaling group of a node group.
func eksHooks() []Hook {
	hook := func(name, transition string) Hook {
		h := Hook{Name: name, Transition: transition, HeartbeatTimeout: eksHookTimeout, DefaultResult: resume}
		return h.withDefaults()
	}
	return []Hook{hook(eksLaunchHook, Launching), hook(EKSTerminateHook, Terminating)}
}

// answerHook has EKS complete an action of one of its own hooks: a launch at once, a termination when the node is
// drained or the time for that has passed. It needs mu.
func (a eksEngine) answerHook(act *action) {
	ng := act.inst.group.nodegroup
	if ng == nil || act.hook.Name != eksLaunchHook && act.hook.Name != EKSTerminateHook {
		return
	}
	connected := ng.cluster.kubernetes != nil
	a.spawn(func() {
		if connected && act.Transition == Terminating {
			a.work(ng, act.inst).drain(ng.cluster.times.Drain)
		}
		_ = a.lifecycle.complete(actionName{group: act.Group, hook: act.Hook, token: act.Token}, resume)
		if connected && act.Transition == Launching {
			a.work(ng, act.inst).register(ng)
		}
	})
}
