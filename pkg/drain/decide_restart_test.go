package drain

import (
	"testing"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

// restarts makes a pod one that a rolling restart replaces.
func restarts(changes ...func(*HandOver)) func(*Pod) {
	return func(p *Pod) {
		annotated(changes...)(p)
		p.HandOver.Kind = handover.Restart
	}
}

// TestDecideRollingRestarts: the Deployment of a pod is restarted when the pod would be evicted, whatever its budget
// says. At its latest deletion the pod goes as others do.
func TestDecideRollingRestarts(t *testing.T) {
	on := given{policy: handOverAfter(m)}
	waits := restarts(answered(handover.Restarting, m))
	on.expect(t, "all at once, although a budget allows no eviction", 0, "ask a until 1m5s, b until 1m5s; again 9m30s",
		guarded("a", restarts()), guarded("b", restarts()))
	on.expect(t, "not in a later tier, or if the pod has opted out", 0, "evict c; wait a later-tier, b opted-out; again 5m0s",
		pod("a", restarts(), tier(1)), pod("b", restarts(), waiting(OptedOut)), pod("c"))
	on.expect(t, "a call in flight is waited for", 0, "wait a restarting; again 9m30s", guarded("a", restarts(asking)))
	on.expect(t, "the rollout is waited for", 20*s, "wait a restarting; again 1m0s", guarded("a", waits))
	on.expect(t, "and looked at again", m, "ask a until 2m5s; again 9m30s", guarded("a", waits))
	on.expect(t, "until the latest deletion", 9*m+20*s, "wait a restarting; again 9m30s",
		pod("a", restarts(answered(handover.Restarting, 10*m))))
	on.expect(t, "then the pod is evicted", 9*m+30*s, "evict a in 30s", pod("a", waits))
	on.expect(t, "or deleted", 9*m+30*s, "delete a in 30s", guarded("a", waits, blocked))
	on.expect(t, "or evicted after a refused deletion", 9*m+40*s, "evict a in 20s", pod("a", waits, tried(Denied, 9*m+40*s)))
	on.expect(t, "the pod that the rollout ends is waited for", 20*s, "wait a terminating; again 10m0s",
		pod("a", waits, terminating(50*s)))
	unfit := restarts(answered(handover.Unfit, 0))
	on.expect(t, "a pod that no restart can replace is evicted", 20*s, "evict a; wait b blocked-by-budget x/b; again 9m30s",
		pod("a", unfit), guarded("b", unfit))
	failing := restarts(answered(noAnswer, 25*s), failingSince(0))
	on.expect(t, "a failing call is repeated", 25*s, "ask a until 1m30s; again 9m30s", pod("a", failing))
	on.expect(t, "for DRAIN_HAND_OVER_TIMEOUT", m, "evict a", pod("a", failing))
	given{policy: handOverAfter(0)}.expect(t, "which may be 0", 25*s, "evict a", pod("a", failing))
	given{leave: true}.expect(t, "with leave the rollout has until the deadline", 9*m+50*s,
		"wait a restarting; again 10m0s", guarded("a", restarts(answered(handover.Restarting, 11*m))))
}
