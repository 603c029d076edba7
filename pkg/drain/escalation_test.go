package drain

import (
	"testing"
	"time"
)

func TestDecideAtTheDeadline(t *testing.T) {
	held := onlyBudget(budget(3))
	runRows(t, []row{
		{name: "a grace period that would end after the deadline is shortened", pods: []Pod{pod("a", grace(10*m))}, now: 2 * m, want: "evict a in 8m0s"},
		{
			name: "a blocked pod is deleted at its latest deletion", now: 9*m + 30*s, budgets: held,
			pods: []Pod{pod("a", budgeted("x/b"), blocked)}, want: "delete a in 30s",
		},
		{
			name: "a blocked pod is not deleted before its latest deletion", now: 9*m + 30*s - 1, budgets: held,
			pods: []Pod{pod("a", budgeted("x/b"), blocked)}, want: "wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a pod without a grace period is deleted a second before the deadline, with that second", budgets: held,
			pods: []Pod{pod("a", grace(0), budgeted("x/b"), blocked)}, now: 10*m - s, want: "delete a in 1s",
		},
		{
			name: "a grace period longer than half of the drain leaves the other half to the budget", now: 5*m - 1, budgets: held,
			pods: []Pod{pod("a", grace(time.Hour), budgeted("x/b"))}, want: "wait a blocked-by-budget x/b; again 5m0s",
		},
		{
			name: "a grace period longer than half of the drain is cut to that half", now: 5 * m, budgets: held,
			pods: []Pod{pod("a", grace(time.Hour), budgeted("x/b"))}, want: "delete a in 5m0s",
		},
		{
			name: "the remaining grace period is in whole seconds", now: 9*m + 45*s + 600*time.Millisecond,
			pods: []Pod{pod("a")}, want: "delete a in 14s",
		},
		{name: "the remaining grace period is never below a second", now: 10*m - 200*time.Millisecond, pods: []Pod{pod("a")}, want: "delete a in 1s"},
		{
			// The API server counts a shorter grace from the first deletion, and kills at once what is past it then.
			name: "a terminating pod whose grace period ends after the deadline keeps it until a second before",
			pods: []Pod{pod("a", grace(time.Hour), terminating(30*m))}, now: 2 * m, want: "wait a terminating; again 9m59s",
		},
		{
			name: "the grace period of such a pod is shortened a second before the deadline", now: 10*m - s,
			pods: []Pod{pod("a", grace(time.Hour), terminating(30*m))}, want: "delete a in 1s",
		},
		{
			name: "a grace period that ends within a second after the deadline is not shortened", now: 10*m - s,
			pods: []Pod{pod("a", terminating(10*m+s))}, want: "wait a terminating; again 10m0s",
		},
		{
			name: "a forced deletion is not repeated while the watch may be behind",
			pods: []Pod{pod("a", tried(Forced, 9*m+45*s))}, now: 9*m + 31*s, want: "wait a terminating; again 9m45s",
		},
		{
			name: "a forced deletion that shows no effect is repeated",
			pods: []Pod{pod("a", tried(Forced, 9*m+45*s))}, now: 9*m + 45*s, want: "delete a in 15s",
		},
		{
			name: "a pod whose eviction was just accepted is not deleted",
			pods: []Pod{pod("a", tried(Accepted, 9*m+44*s))}, now: 9*m + 30*s, want: "wait a terminating; again 9m44s",
		},
		{
			name: "a deferred deletion waits for its pause, in a later tier too",
			pods: []Pod{pod("a", terminating(9*m)), pod("dns", tier(1), tried(Deferred, 9*m+35*s))}, now: 9*m + 31*s,
			want: "wait a terminating, dns backing-off; again 9m35s",
		},
		{
			name: "a deferred deletion of a terminating pod waits for its pause", now: 10 * m,
			pods: []Pod{pod("a", terminating(30*m), tried(Deferred, 10*m+5*s))}, want: "wait a terminating; again 10m5s",
		},
		{name: "after a denied deletion the pod is evicted", pods: []Pod{pod("a", tried(Denied, 9*m+40*s))}, now: 9*m + 40*s, want: "evict a in 20s"},
		{
			name: "after a denied deletion the pod waits for its pause", pods: []Pod{pod("a", tried(Denied, 9*m+40*s))}, now: 9*m + 35*s,
			want: "wait a backing-off; again 9m40s",
		},
		{name: "after a denied deletion the pod is given up at the deadline", pods: []Pod{pod("a", tried(Denied, 9*m+40*s))}, now: 10 * m, want: "wait a backing-off; done"},

		// After the deadline: the API server was away.
		{
			name: "a pod whose deletion failed is deleted after the deadline", now: 20 * m,
			pods: []Pod{pod("a", tried(Deferred, 19*m))}, want: "delete a in 1s",
		},
		{
			name: "a deferred deletion waits for its pause after the deadline", now: 20 * m,
			pods: []Pod{pod("a", tried(Deferred, 20*m+5*s))}, want: "wait a backing-off; again 20m5s",
		},
		{
			name: "after the deadline the drain waits for the last grace period", now: 20 * m,
			pods: []Pod{pod("a", terminating(20*m+s), tried(Forced, 20*m+15*s))}, want: "wait a terminating; again 20m3s",
		},
		{
			name: "after the deadline the drain waits for the kubelet's report", now: 20*m + 3*s,
			pods: []Pod{pod("a", terminating(20*m+s), tried(Forced, 20*m+15*s))}, want: "wait a terminating; done",
		},
		{
			name: "the drain is over when the last grace period of all pods is", now: 10 * m,
			pods: []Pod{pod("a", terminating(10*m+s)), pod("b", terminating(9*m))},
			want: "wait a terminating, b terminating; again 10m3s",
		},
		{
			name: "a deadline before the taint is honored", pods: []Pod{pod("a", budgeted("x/b"))}, budgets: held,
			state: func(s *State) { s.Since = at(11 * m) }, now: 11 * m, want: "delete a in 1s",
		},
	})
}

func TestDecideWithLeave(t *testing.T) {
	held := onlyBudget(budget(3))
	runRows(t, []row{
		{
			name: "a budget blocks until the deadline", leave: true, now: 9*m + 50*s, budgets: held,
			pods: []Pod{pod("a", budgeted("x/b"))}, want: "wait a blocked-by-budget x/b; again 10m0s",
		},
		{name: "no grace period is shortened", leave: true, now: 9*m + 50*s, pods: []Pod{pod("a")}, want: "evict a"},
		{
			name: "a terminating pod keeps its grace period", leave: true, now: 10*m - s,
			pods: []Pod{pod("a", terminating(30*m))}, want: "wait a terminating; again 10m0s",
		},
		{
			name: "at the deadline the drain is over", leave: true, now: 10 * m, budgets: held,
			pods: []Pod{pod("a", budgeted("x/b"), blocked), pod("b"), pod("c", tier(1)), pod("d", waiting(OptedOut))},
			want: "wait a blocked-by-budget x/b, b backing-off, c backing-off, d opted-out; done",
		},
		{
			name: "spacing does not apply", leave: true, now: 9 * m, budgets: held,
			policy: func(p *Policy) { p.ForceSpacing = m },
			pods:   []Pod{pod("a", budgeted("x/b")), pod("b", budgeted("x/b"))},
			want:   "wait a blocked-by-budget x/b, b blocked-by-budget x/b; again 10m0s",
		},
	})
}

// TestDecideSpacesDeletions of pods that one budget blocks. With a grace period of 30 s their latest deletion is at
// 9m30s; three of them are deleted at 7m30s, 8m30s and 9m30s.
func TestDecideSpacesDeletions(t *testing.T) {
	spaced := func(p *Policy) { p.ForceSpacing = m }
	three := []Pod{pod("a", budgeted("x/b")), pod("b", budgeted("x/b")), pod("c", budgeted("x/b"))}
	two := []Pod{pod("a", budgeted("x/b"), terminating(8*m), tried(Forced, 8*m)), pod("b", budgeted("x/b")), pod("c", budgeted("x/b"))}
	runRows(t, []row{
		{
			name: "the first of three is deleted two spacings before its latest deletion, not earlier", policy: spaced, pods: three,
			budgets: onlyBudget(budget(3)), now: 7*m + 30*s - 1,
			want: "wait a blocked-by-budget x/b, b blocked-by-budget x/b, c blocked-by-budget x/b; again 7m30s",
		},
		{
			name: "the first of three is deleted alone, with its own grace period", policy: spaced, pods: three, budgets: onlyBudget(budget(3)),
			now: 7*m + 30*s, want: "delete a in 30s; wait b blocked-by-budget x/b, c blocked-by-budget x/b; again 8m30s",
		},
		{
			name: "the second waits for its turn, one spacing before its latest deletion", policy: spaced, pods: two, budgets: onlyBudget(budget(3)), now: 8*m + 29*s,
			want: "wait a terminating, b blocked-by-budget x/b, c blocked-by-budget x/b; again 8m30s",
		},
		{
			name: "the second is deleted in its turn if the budget is satisfied", policy: spaced, pods: two,
			budgets: onlyBudget(budget(3)), now: 8*m + 30*s, want: "delete b in 30s; wait a terminating, c blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "the second waits while the first has no replacement", policy: spaced, pods: two, budgets: onlyBudget(budget(2)),
			now: 8*m + 30*s, want: "wait a terminating, b blocked-by-budget x/b, c blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "the second waits while the numbers of the budget may lag behind", policy: spaced, pods: two, now: 8*m + 30*s,
			budgets: onlyBudget(budget(3, staleUntil(8*m+32*s))),
			want:    "wait a terminating, b blocked-by-budget x/b, c blocked-by-budget x/b; again 8m32s",
		},
		{
			name: "a pod whose request is in flight does not count as blocked", policy: spaced, now: 8 * m,
			budgets: onlyBudget(budget(3)), pods: []Pod{pod("a", budgeted("x/b"), sent), three[1], three[2]},
			want: "wait a requested, b blocked-by-budget x/b, c blocked-by-budget x/b; again 8m30s",
		},
		{
			name: "a pod whose deletion was deferred counts as blocked", policy: spaced, now: 8 * m, budgets: onlyBudget(budget(3)),
			pods: []Pod{pod("a", budgeted("x/b"), tried(Deferred, 8*m+5*s)), three[1], three[2]},
			want: "delete b in 30s; wait a backing-off, c blocked-by-budget x/b; again 8m5s",
		},
		{
			name: "at its latest deletion every pod is deleted", policy: spaced, pods: three, budgets: onlyBudget(budget(0)),
			now: 9*m + 30*s, want: "delete a in 30s, b in 30s, c in 30s",
		},
		{
			name: "no turn is in the first half of the drain", policy: func(p *Policy) { p.ForceSpacing = time.Hour }, pods: three,
			budgets: onlyBudget(budget(3)), now: 5*m - 1, want: "wait a blocked-by-budget x/b, b blocked-by-budget x/b, c blocked-by-budget x/b; again 5m0s",
		},
		{
			name: "turns that would be earlier are at half of the drain", policy: func(p *Policy) { p.ForceSpacing = time.Hour }, pods: three,
			budgets: onlyBudget(budget(3)), now: 5 * m, want: "delete a in 30s; wait b blocked-by-budget x/b, c blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a single pod is deleted at its latest deletion only", policy: spaced, pods: three[:1], budgets: onlyBudget(budget(3)),
			now: 9*m + 30*s - 1, want: "wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "pods of different budgets do not wait for each other", policy: spaced, now: 8*m + 30*s,
			budgets: map[string]Budget{"x/b": budget(3), "x/c": budget(3)},
			pods:    []Pod{pod("a", budgeted("x/b")), pod("b", budgeted("x/b")), pod("c", budgeted("x/c")), pod("d", budgeted("x/c"))},
			want:    "delete a in 30s, c in 30s; wait b blocked-by-budget x/b, d blocked-by-budget x/c; again 9m30s",
		},
		{
			name: "pods of a misconfigured budget are spaced", policy: spaced, pods: three[:2], budgets: onlyBudget(fullBudget(2)),
			now: 8*m + 30*s, want: "delete a in 30s; wait b blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "pods of two budgets are spaced, and both budgets must be satisfied", policy: spaced, now: 8*m + 30*s,
			budgets: map[string]Budget{"x/b": budget(3), "x/c": budget(3)},
			pods:    []Pod{pod("a", budgeted("x/b", "x/c")), pod("b", budgeted("x/b", "x/c"))},
			want:    "delete a in 30s; wait b misconfigured-budget x/b and x/c; again 9m30s",
		},
		{
			name: "pods that have opted out are not spaced", policy: spaced, now: 8*m + 30*s, budgets: onlyBudget(budget(3)),
			pods: []Pod{pod("a", waiting(OptedOut), budgeted("x/b")), pod("b", waiting(OptedOut), budgeted("x/b"))},
			want: "wait a opted-out, b opted-out; again 9m30s",
		},
		{
			name: "pods of a later tier are not spaced", policy: spaced, now: 8*m + 30*s, budgets: onlyBudget(budget(3)),
			pods: []Pod{pod("a", waiting(OptedOut)), pod("b", tier(1), budgeted("x/b")), pod("c", tier(1), budgeted("x/b"))},
			want: "wait a opted-out, b later-tier, c later-tier; again 9m30s",
		},
		{
			name: "a pod that the budget allows is evicted, and the others wait", policy: spaced, pods: three, budgets: onlyBudget(budget(4)),
			now: 9 * m, want: "evict a; wait b blocked-by-budget x/b, c blocked-by-budget x/b; again 9m30s",
		},
	})
}

func TestDecideDeletesUnhealthyPods(t *testing.T) {
	after := func(p *Policy) { p.ForceUnhealthy = 3 * m }
	held := onlyBudget(budget(2))
	runRows(t, []row{
		{
			name: "a pod that is not Ready is deleted after ForceUnhealthy", policy: after, budgets: held, now: 3 * m,
			pods: []Pod{pod("a", budgeted("x/b"), unready)}, want: "delete a unhealthy",
		},
		{
			name: "a pod that is not Ready is not deleted before ForceUnhealthy", policy: after, budgets: held, now: 3*m - 1,
			pods: []Pod{pod("a", budgeted("x/b"), unready)}, want: "wait a blocked-by-budget x/b; again 3m0s",
		},
		{
			name: "a pod that is not Ready is not deleted if ForceUnhealthy is not set", budgets: held, now: 9 * m,
			pods: []Pod{pod("a", budgeted("x/b"), unready)}, want: "wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a Ready pod is not deleted", policy: after, budgets: held, now: 9 * m,
			pods: []Pod{pod("a", budgeted("x/b"))}, want: "wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a pod that is not Ready is evicted if the budget allows it", policy: after, budgets: onlyBudget(budget(3)), now: 9 * m,
			pods: []Pod{pod("a", budgeted("x/b"), unready)}, want: "evict a",
		},
		{
			name: "a pod of two budgets that is not Ready is deleted", policy: after, now: 3 * m,
			budgets: map[string]Budget{"x/b": budget(5), "x/c": budget(5)},
			pods:    []Pod{pod("a", budgeted("x/b", "x/c"), unready)}, want: "delete a unhealthy",
		},
		{
			name: "a pod that is not Ready waits for its tier", policy: after, budgets: held, now: 3 * m,
			pods: []Pod{pod("a", tier(1), budgeted("x/b"), unready), pod("b", terminating(4*m))},
			want: "wait a later-tier, b terminating; again 9m30s",
		},
		{
			name: "a grace period that would end after the deadline is shortened", policy: after, budgets: held, now: 3 * m,
			pods: []Pod{pod("a", grace(time.Hour), budgeted("x/b"), unready)}, want: "delete a unhealthy in 7m0s",
		},
		{
			name: "with leave the grace period is not shortened", policy: after, leave: true, budgets: held, now: 3 * m,
			pods: []Pod{pod("a", grace(time.Hour), budgeted("x/b"), unready)}, want: "delete a unhealthy",
		},
		{
			name: "a denied deletion is retried after a pause", policy: after, budgets: held, now: 4 * m,
			pods: []Pod{pod("a", budgeted("x/b"), unready, tried(Denied, 4*m+s))}, want: "wait a backing-off; again 4m1s",
		},
	})
}

func TestDecideSpacesDeletionsAcrossNodes(t *testing.T) {
	behind := func(n int) func(*Budget) { return func(b *Budget) { b.PodsOnLaterNodes = n } }
	runRows(t, []row{
		{
			name: "blocked pods on nodes that are drained later count", policy: func(p *Policy) { p.ForceSpacing = m },
			pods: []Pod{pod("a", budgeted("x/b"))}, budgets: onlyBudget(budget(3, behind(2))), now: 7*m + 29*s,
			want: "wait a blocked-by-budget x/b; again 7m30s",
		},
		{
			name: "of two budgets the one that blocks more pods counts", policy: func(p *Policy) { p.ForceSpacing = m },
			pods:    []Pod{pod("a", budgeted("x/b", "x/c"))},
			budgets: map[string]Budget{"x/b": budget(3, behind(1)), "x/c": budget(3, behind(3))}, now: 6*m + 30*s,
			want: "delete a in 30s",
		},
	})
}
