package drain

import (
	"testing"
	"time"
)

func TestDecideAtTheDeadline(t *testing.T) {
	given{}.expect(t, "a grace period that would end after the deadline is shortened", 2*m, "evict a in 8m0s", pod("a", grace(10*m)))
	given{}.expect(t, "a blocked pod is deleted at its latest deletion", 9*m+30*s, "delete a in 30s", guarded("a", blocked))
	given{}.expect(t, "a blocked pod is not deleted before its latest deletion",
		9*m+30*s-1, "wait a blocked-by-budget x/b; again 9m30s", guarded("a", blocked))
	given{}.expect(t, "a pod without a grace period is deleted a second before the deadline, with that second",
		10*m-s, "delete a in 1s", guarded("a", grace(0), blocked))
	given{}.expect(t, "a grace period longer than half of the drain leaves the other half to the budget",
		5*m-1, "wait a blocked-by-budget x/b; again 5m0s", guarded("a", grace(time.Hour)))
	given{}.expect(t, "a grace period longer than half of the drain is cut to that half",
		5*m, "delete a in 5m0s", guarded("a", grace(time.Hour)))
	given{}.expect(t, "the remaining grace period is in whole seconds", 9*m+45*s+600*time.Millisecond, "evict a in 14s", pod("a"))
	given{}.expect(t, "the remaining grace period is never below a second", 10*m-200*time.Millisecond, "evict a in 1s", pod("a"))
	// The API server counts a shorter grace from the first deletion, and kills at once what is past it then.
	given{}.expect(t, "a terminating pod whose grace period ends after the deadline keeps it until a second before",
		2*m, "wait a terminating; again 9m59s", pod("a", grace(time.Hour), terminating(30*m)))
	given{}.expect(t, "the grace period of such a pod is shortened a second before the deadline",
		10*m-s, "delete a in 1s", pod("a", grace(time.Hour), terminating(30*m)))
	given{}.expect(t, "a grace period that ends within a second after the deadline is not shortened",
		10*m-s, "wait a terminating; again 10m0s", pod("a", terminating(10*m+s)))
	given{}.expect(t, "a forced deletion is not repeated while the watch may be behind",
		9*m+31*s, "wait a terminating; again 9m45s", pod("a", tried(Forced, 9*m+45*s)))
	given{}.expect(t, "a forced deletion that shows no effect is repeated", 9*m+45*s, "delete a in 15s", pod("a", tried(Forced, 9*m+45*s)))
	given{}.expect(t, "an earlier deadline shortens the grace period of a deleted pod, a second before the deadline",
		10*m-s, "delete a in 1s", pod("a", grace(25*m), terminating(30*m), forcedUntil(30*m)))
	given{}.expect(t, "until then the deleted pod keeps its grace period",
		5*m, "wait a terminating; again 9m59s", pod("a", grace(25*m), terminating(30*m), forcedUntil(30*m)))
	given{}.expect(t, "a shortened grace period is not shortened again while the watch may be behind",
		10*m-s, "wait a terminating; again 10m0s", pod("a", grace(25*m), terminating(30*m), forcedUntil(10*m)))
	given{policy: func(p *Policy) { p.StuckAfter = m }}.expect(t, "a shortened grace period counts from the last deletion, not from the first",
		10*m-s, "wait a terminating; again 10m0s", pod("a", grace(25*m), terminating(5*m+s), forcedUntil(10*m)))
	given{}.expect(t, "at the deadline the drain waits for the end of a shortened grace period",
		10*m, "wait a terminating; again 10m2s", pod("a", grace(25*m), terminating(5*m+s), forcedUntil(10*m)))
	given{}.expect(t, "a pod whose eviction was just accepted is not deleted",
		9*m+30*s, "wait a terminating; again 9m44s", pod("a", tried(Accepted, 9*m+44*s)))
	given{}.expect(t, "a deferred deletion waits for its pause, in a later tier too",
		9*m+31*s, "wait a terminating, dns backing-off; again 9m35s", pod("a", terminating(9*m)), pod("dns", tier(1), tried(Deferred, 9*m+35*s)))
	given{}.expect(t, "a deferred deletion of a terminating pod waits for its pause",
		10*m, "wait a terminating; again 10m5s", pod("a", terminating(30*m), tried(Deferred, 10*m+5*s)))
	given{}.expect(t, "after a denied deletion the pod is evicted", 9*m+40*s, "evict a in 20s", pod("a", tried(Denied, 9*m+40*s)))
	given{}.expect(t, "after a denied deletion the pod waits for its pause",
		9*m+35*s, "wait a backing-off; again 9m40s", pod("a", tried(Denied, 9*m+40*s)))
	given{}.expect(t, "a denied deletion of a pod that its budget blocks is repeated: the API server may have recovered",
		9*m+40*s, "delete a in 20s", guarded("a", tried(Denied, 9*m+40*s)))
	denied := tried(Denied, 9*m+40*s)
	given{}.expect(t, "a denied deletion of a pod that cannot be evicted waits for its pause", 9*m+35*s,
		"wait a terminating, b backing-off; again 9m40s", pod("a", terminating(30*m), denied),
		pod("b", waiting(OptedOut), denied))
	given{}.expect(t, "a denied deletion of a pod that cannot be evicted is repeated", 10*m-s,
		"delete a in 1s, b in 1s", pod("a", terminating(30*m), denied), pod("b", waiting(OptedOut), denied))
	given{}.expect(t, "after a denied deletion the pod is given up at the deadline",
		10*m, "wait a backing-off; done", pod("a", tried(Denied, 9*m+40*s)))

	given{}.expect(t, "a pod whose last eviction was refused is deleted",
		9*m+31*s, "delete a in 29s, b in 29s", pod("a", tried(Refused, 9*m+40*s)), pod("b", func(p *Pod) {
			p.Try = Try{Last: Deferred, Next: at(9*m + 40*s), Eviction: true}
		}))
	given{}.expect(t, "a pod whose eviction was refused long ago, and that was waited for since, is evicted once more",
		9*m+30*s, "evict a in 30s", pod("a", waiting(WaitedFor), func(p *Pod) {
			p.Try = Try{Last: Deferred, Next: at(m), Eviction: true}
		}))
	given{}.expect(t, "a pod whose eviction could not be sent is deleted", 9*m+30*s, "delete a in 30s", pod("a", func(p *Pod) {
		p.Try = Try{Last: Deferred, Eviction: true}
	}))

	lagging := given{budgets: onlyBudget(budget(5, alwaysAllow))}
	lagging.expect(t, "a pod whose last eviction a budget has just refused, although the watch says otherwise, is deleted",
		9*m+31*s, "delete a in 29s", guarded("a", unready, tried(Blocked, 9*m+32*s)))
	lagging.expect(t, "one that was refused some time ago is evicted once more",
		9*m+31*s, "evict a in 29s", guarded("a", unready, tried(Blocked, 9*m)))

	// After the deadline: the API server was away.
	given{}.expect(t, "a pod whose deletion failed is deleted after the deadline", 20*m, "delete a in 1s; again 20m25s", pod("a", tried(Deferred, 19*m)))
	given{}.expect(t, "a deferred deletion waits for its pause after the deadline",
		20*m, "wait a backing-off; again 20m5s", pod("a", tried(Deferred, 20*m+5*s)))
	given{}.expect(t, "after the deadline the drain waits for the last grace period",
		20*m, "wait a terminating; again 20m3s", pod("a", terminating(20*m+s), tried(Forced, 20*m+15*s)))
	given{}.expect(t, "after the deadline the drain waits for the kubelet's report",
		20*m+3*s, "wait a terminating; done", pod("a", terminating(20*m+s), tried(Forced, 20*m+15*s)))
	given{}.expect(t, "the drain is over when the last grace period of all pods is",
		10*m, "wait a terminating, b terminating; again 10m3s", pod("a", terminating(10*m+s)), pod("b", terminating(9*m)))
	given{}.expect(t, "a grace period that a deletion has shortened already is not shortened again after the deadline",
		20*m, "wait a terminating; again 20m5s", pod("a", terminating(20*m+3*s), forcedUntil(20*m+s)))
	given{state: func(s *State) { s.Since = at(11 * m) }}.expect(t, "a deadline before the taint is honored",
		11*m, "delete a in 1s; again 11m25s", guarded("a"))
}

func TestDecideWithLeave(t *testing.T) {
	given{leave: true}.expect(t, "a budget blocks until the deadline", 9*m+50*s, "wait a blocked-by-budget x/b; again 10m0s", guarded("a"))
	given{leave: true}.expect(t, "no grace period is shortened", 9*m+50*s, "evict a", pod("a"))
	given{leave: true}.expect(t, "a terminating pod keeps its grace period", 10*m-s, "wait a terminating; again 10m0s", pod("a", terminating(30*m)))
	given{leave: true}.expect(t, "at the deadline the drain is over",
		10*m, "wait a blocked-by-budget x/b, b backing-off, c backing-off, d opted-out; done",
		guarded("a", blocked), pod("b"), pod("c", tier(1)), pod("d", waiting(OptedOut)))
	given{policy: func(p *Policy) { p.ForceSpacing = m }, leave: true}.expect(t, "spacing does not apply",
		9*m, "wait a blocked-by-budget x/b, b blocked-by-budget x/b; again 10m0s", guarded("a"), guarded("b"))
}

// TestDecideSpacesDeletions of pods that one budget blocks. With a grace period of 30 s their latest deletion is at
// 9m30s; three of them are deleted at 7m30s, 8m30s and 9m30s.
func TestDecideSpacesDeletions(t *testing.T) {
	spaced := func(p *Policy) { p.ForceSpacing = m }
	three := []Pod{guarded("a"), guarded("b"), guarded("c")}
	two := []Pod{guarded("a", terminating(8*m), tried(Forced, 8*m)), guarded("b"), guarded("c")}
	given{policy: spaced}.expect(t, "the first of three is deleted two spacings before its latest deletion, not earlier",
		7*m+30*s-1, "wait a blocked-by-budget x/b, b blocked-by-budget x/b, c blocked-by-budget x/b; again 7m30s", three...)
	given{policy: spaced}.expect(t, "the first of three is deleted alone, with its own grace period",
		7*m+30*s, "delete a in 30s; wait b blocked-by-budget x/b, c blocked-by-budget x/b; again 8m30s", three...)
	given{policy: spaced}.expect(t, "the second waits for its turn, one spacing before its latest deletion",
		8*m+29*s, "wait a terminating, b blocked-by-budget x/b, c blocked-by-budget x/b; again 8m30s", two...)
	given{policy: spaced}.expect(t, "the second is deleted in its turn if the budget is satisfied",
		8*m+30*s, "delete b in 30s; wait a terminating, c blocked-by-budget x/b; again 9m30s", two...)
	given{policy: spaced, budgets: onlyBudget(budget(2))}.expect(t, "the second waits while the first has no replacement",
		8*m+30*s, "wait a terminating, b blocked-by-budget x/b, c blocked-by-budget x/b; again 9m30s", two...)
	given{policy: spaced, budgets: onlyBudget(budget(3, staleUntil(8*m+32*s)))}.expect(t,
		"the second waits while the numbers of the budget may lag behind",
		8*m+30*s, "wait a terminating, b blocked-by-budget x/b, c blocked-by-budget x/b; again 8m32s", two...)
	given{policy: spaced}.expect(t, "a pod whose request is in flight does not count as blocked",
		8*m, "wait a requested, b blocked-by-budget x/b, c blocked-by-budget x/b; again 8m30s", guarded("a", sent), three[1], three[2])
	given{policy: spaced}.expect(t, "a pod whose deletion was deferred counts as blocked",
		8*m, "delete b in 30s; wait a backing-off, c blocked-by-budget x/b; again 8m5s", guarded("a", tried(Deferred, 8*m+5*s)), three[1], three[2])
	given{policy: spaced, budgets: onlyBudget(budget(0))}.expect(t, "at its latest deletion every pod is deleted",
		9*m+30*s, "delete a in 30s, b in 30s, c in 30s", three...)
	given{policy: func(p *Policy) { p.ForceSpacing = time.Hour }}.expect(t, "turns that would be earlier are at half of the drain",
		5*m, "delete a in 30s; wait b blocked-by-budget x/b, c blocked-by-budget x/b; again 9m30s", three...)
	given{policy: spaced, budgets: map[string]Budget{"x/b": budget(3), "x/c": budget(3)}}.expect(t,
		"pods of different budgets do not wait for each other",
		8*m+30*s, "delete a in 30s, c in 30s; wait b blocked-by-budget x/b, d blocked-by-budget x/c; again 9m30s",
		guarded("a"), guarded("b"), pod("c", budgeted("x/c")), pod("d", budgeted("x/c")))
	given{policy: spaced, budgets: onlyBudget(fullBudget(2))}.expect(t, "pods of a misconfigured budget are spaced",
		8*m+30*s, "delete a in 30s; wait b blocked-by-budget x/b; again 9m30s", three[:2]...)
	given{policy: spaced, budgets: map[string]Budget{"x/b": budget(3), "x/c": budget(3)}}.expect(t,
		"pods of two budgets are spaced, and both budgets must be satisfied",
		8*m+30*s, "delete a in 30s; wait b misconfigured-budget x/b and x/c; again 9m30s",
		pod("a", budgeted("x/b", "x/c")), pod("b", budgeted("x/b", "x/c")))
	optedOut := []Pod{guarded("a", waiting(OptedOut)), guarded("b", waiting(OptedOut))}
	given{policy: spaced}.expect(t, "pods that have opted out are spaced",
		8*m+30*s, "delete a in 30s; wait b opted-out; again 9m30s", optedOut...)
	given{policy: spaced, budgets: onlyBudget(budget(4))}.expect(t, "in its turn a pod that has opted out is evicted if the budget permits it",
		8*m+30*s, "evict a in 30s; wait b opted-out; again 9m30s", optedOut...)
	given{policy: spaced, budgets: onlyBudget(budget(5))}.expect(t, "pods that the budget allows to leave together need no turns",
		8*m+30*s, "wait a opted-out, b opted-out; again 9m30s", optedOut...)
	given{policy: spaced, budgets: onlyBudget(budget(5))}.expect(t, "at their latest deletion they are evicted together",
		9*m+30*s, "evict a in 30s, b in 30s", optedOut...)
	given{policy: spaced, budgets: onlyBudget(budget(4))}.expect(t, "at its latest deletion a pod is deleted if the budget permits only another one",
		9*m+30*s, "evict a in 30s; delete b in 30s", optedOut...)
	given{policy: spaced, budgets: onlyBudget(budget(4, inFlight))}.expect(t, "the last eviction does not wait for one in flight",
		9*m+30*s, "evict a in 30s", optedOut[:1]...)
	given{policy: spaced, budgets: onlyBudget(budget(3, inFlight, probeAt(0)))}.expect(t, "but it is no probe then",
		9*m+30*s, "delete a in 30s", optedOut[:1]...)
	given{policy: spaced}.expect(t, "pods that have opted out leave after the others",
		8*m+30*s, "delete b in 30s; wait a opted-out; again 9m30s", guarded("a", waiting(OptedOut)), guarded("b"))
	given{policy: spaced}.expect(t, "pods of a later tier are spaced",
		8*m+30*s, "delete b in 30s; wait c later-tier, a opted-out; again 9m30s",
		pod("a", waiting(OptedOut)), guarded("b", tier(3)), guarded("c", tier(3)))
	given{policy: spaced, budgets: onlyBudget(budget(4))}.expect(t, "a pod that the budget allows is evicted, and the others wait",
		9*m, "evict a; wait b blocked-by-budget x/b, c blocked-by-budget x/b; again 9m30s", three...)
}

func TestDecideDeletesUnhealthyPods(t *testing.T) {
	after := func(p *Policy) { p.ForceUnhealthy = 3 * m }
	held := onlyBudget(budget(2))
	given{policy: after, budgets: held}.expect(t, "a pod that is not Ready is deleted after ForceUnhealthy",
		3*m, "delete a unhealthy", guarded("a", unready))
	given{policy: after, budgets: held}.expect(t, "a pod that is not Ready is not deleted before ForceUnhealthy",
		3*m-1, "wait a blocked-by-budget x/b; again 3m0s", guarded("a", unready))
	given{budgets: held}.expect(t, "a pod that is not Ready is not deleted if ForceUnhealthy is not set",
		9*m, "wait a blocked-by-budget x/b; again 9m30s", guarded("a", unready))
	given{policy: after, budgets: held}.expect(t, "a Ready pod is not deleted", 9*m, "wait a blocked-by-budget x/b; again 9m30s", guarded("a"))
	given{policy: after}.expect(t, "a pod that is not Ready is evicted if the budget allows it", 9*m, "evict a", guarded("a", unready))
	given{policy: after, budgets: map[string]Budget{"x/b": budget(5), "x/c": budget(5)}}.expect(t,
		"a pod of two budgets that is not Ready is deleted", 3*m, "delete a unhealthy", pod("a", budgeted("x/b", "x/c"), unready))
	given{policy: after, budgets: held}.expect(t, "a pod that is not Ready waits for its tier",
		3*m, "wait a later-tier, b terminating; again 5m0s", guarded("a", tier(1), unready), pod("b", terminating(4*m)))
	given{policy: after, budgets: held}.expect(t, "a grace period that would end after the deadline is shortened",
		3*m, "delete a unhealthy in 7m0s", guarded("a", grace(time.Hour), unready))
	given{policy: after, leave: true, budgets: held}.expect(t, "with leave the grace period is not shortened",
		3*m, "delete a unhealthy", guarded("a", grace(time.Hour), unready))
	given{policy: after, budgets: held}.expect(t, "a denied deletion is retried after a pause",
		4*m, "wait a backing-off; again 4m1s", guarded("a", unready, tried(Denied, 4*m+s)))
}

func TestDecideSpacesDeletionsAcrossNodes(t *testing.T) {
	behind := func(n int) func(*Budget) { return func(b *Budget) { b.PodsOnLaterNodes = n } }
	given{policy: func(p *Policy) { p.ForceSpacing = m }, budgets: onlyBudget(budget(3, behind(2)))}.expect(t,
		"blocked pods on nodes that are drained later count", 7*m+29*s, "wait a blocked-by-budget x/b; again 7m30s", guarded("a"))
	given{policy: func(p *Policy) { p.ForceSpacing = m }, budgets: map[string]Budget{"x/b": budget(3, behind(1)), "x/c": budget(3, behind(3))}}.expect(t,
		"of two budgets the one that blocks more pods counts", 6*m+30*s, "delete a in 30s", pod("a", budgeted("x/b", "x/c")))
}
