package drain

import (
	"testing"
	"time"
)

func TestDecideAtTheDeadline(t *testing.T) {
	held := onlyBudget(budget(3))
	runRows(t, []row{
		{name: "a grace that would end after the deadline is cut", pods: []Pod{pod("a", grace(10*m))}, now: 2 * m, want: "evict a in 8m0s"},
		{
			name: "a blocked pod is deleted when its grace must begin", now: 9*m + 30*s, budgets: held,
			pods: []Pod{pod("a", budgeted("x/b"), blocked)}, want: "delete a in 30s",
		},
		{
			name: "and not before", now: 9*m + 30*s - 1, budgets: held,
			pods: []Pod{pod("a", budgeted("x/b"), blocked)}, want: "wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a pod without grace is deleted a second before the deadline, with that second", budgets: held,
			pods: []Pod{pod("a", grace(0), budgeted("x/b"), blocked)}, now: 10*m - s, want: "delete a in 1s",
		},
		{
			name: "a grace longer than half of the window leaves the other half to the budget", now: 5*m - 1, budgets: held,
			pods: []Pod{pod("a", grace(time.Hour), budgeted("x/b"))}, want: "wait a blocked-by-budget x/b; again 5m0s",
		},
		{
			name: "and is cut to the half that is left", now: 5 * m, budgets: held,
			pods: []Pod{pod("a", grace(time.Hour), budgeted("x/b"))}, want: "delete a in 5m0s",
		},
		{
			name: "what is left of a grace is told in whole seconds", now: 9*m + 45*s + 600*time.Millisecond,
			pods: []Pod{pod("a")}, want: "delete a in 14s",
		},
		{name: "what is left of a grace is never below a second", now: 10*m - 200*time.Millisecond, pods: []Pod{pod("a")}, want: "delete a in 1s"},
		{
			// The API server counts a shorter grace from the first deletion, and kills at once what is past it then.
			name: "a terminating pod whose grace ends after the deadline keeps it for as long as there is time",
			pods: []Pod{pod("a", grace(time.Hour), terminating(30*m))}, now: 2 * m, want: "wait a terminating; again 9m59s",
		},
		{
			name: "and is shortened when there is none", now: 10*m - s,
			pods: []Pod{pod("a", grace(time.Hour), terminating(30*m))}, want: "delete a in 1s",
		},
		{
			name: "a grace that ends within the second after the deadline is not shortened", now: 10*m - s,
			pods: []Pod{pod("a", terminating(10*m+s))}, want: "wait a terminating; again 10m0s",
		},
		{
			name: "a forced deletion is not repeated while the watch is behind",
			pods: []Pod{pod("a", tried(Forced, 9*m+45*s))}, now: 9*m + 31*s, want: "wait a terminating; again 9m45s",
		},
		{
			name: "a forced deletion that shows no effect is repeated",
			pods: []Pod{pod("a", tried(Forced, 9*m+45*s))}, now: 9*m + 45*s, want: "delete a in 15s",
		},
		{
			name: "an eviction that was just accepted is no reason for force",
			pods: []Pod{pod("a", tried(Accepted, 9*m+44*s))}, now: 9*m + 30*s, want: "wait a terminating; again 9m44s",
		},
		{
			name: "a forced deletion that a busy API server put off is asked for again, of a later tier too",
			pods: []Pod{pod("a", terminating(9*m)), pod("dns", tier(1), tried(Deferred, 9*m+35*s))}, now: 9*m + 31*s,
			want: "wait a terminating, dns backing-off; again 9m35s",
		},
		{
			name: "a shortening that a busy API server put off is asked for again", now: 10 * m,
			pods: []Pod{pod("a", terminating(30*m), tried(Deferred, 10*m+5*s))}, want: "wait a terminating; again 10m5s",
		},
		{name: "denied force is followed by evictions", pods: []Pod{pod("a", tried(Denied, 9*m+40*s))}, now: 9*m + 40*s, want: "evict a in 20s"},
		{
			name: "denied force waits its pause", pods: []Pod{pod("a", tried(Denied, 9*m+40*s))}, now: 9*m + 35*s,
			want: "wait a backing-off; again 9m40s",
		},
		{name: "denied force is over at the deadline", pods: []Pod{pod("a", tried(Denied, 9*m+40*s))}, now: 10 * m, want: "wait a backing-off; done"},

		// After the deadline: the API server was away.
		{
			name: "after the deadline there is still one forced deletion", now: 20 * m,
			pods: []Pod{pod("a", tried(Deferred, 19*m))}, want: "delete a in 1s",
		},
		{
			name: "for which a busy API server is given its time", now: 20 * m,
			pods: []Pod{pod("a", tried(Deferred, 20*m+5*s))}, want: "wait a backing-off; again 20m5s",
		},
		{
			name: "and which is done only when its grace is over", now: 20 * m,
			pods: []Pod{pod("a", terminating(20*m+s), tried(Forced, 20*m+15*s))}, want: "wait a terminating; again 20m3s",
		},
		{
			name: "and the kubelet has had time to tell", now: 20*m + 3*s,
			pods: []Pod{pod("a", terminating(20*m+s), tried(Forced, 20*m+15*s))}, want: "wait a terminating; done",
		},
		{
			name: "one pod's last grace holds the end up for all", now: 10 * m,
			pods: []Pod{pod("a", terminating(10*m+s)), pod("b", terminating(9*m))},
			want: "wait a terminating, b terminating; again 10m3s",
		},
		{
			name: "a deadline that had passed before the taint is a deadline", pods: []Pod{pod("a", budgeted("x/b"))}, budgets: held,
			state: func(s *State) { s.Since = at(11 * m) }, now: 11 * m, want: "delete a in 1s",
		},
	})
}

func TestDecideWithLeave(t *testing.T) {
	held := onlyBudget(budget(3))
	runRows(t, []row{
		{
			name: "a budget holds to the deadline", leave: true, now: 9*m + 50*s, budgets: held,
			pods: []Pod{pod("a", budgeted("x/b"))}, want: "wait a blocked-by-budget x/b; again 10m0s",
		},
		{name: "no grace is cut", leave: true, now: 9*m + 50*s, pods: []Pod{pod("a")}, want: "evict a"},
		{
			name: "a terminating pod keeps its grace", leave: true, now: 10*m - s,
			pods: []Pod{pod("a", terminating(30*m))}, want: "wait a terminating; again 10m0s",
		},
		{
			name: "the deadline ends it all", leave: true, now: 10 * m, budgets: held,
			pods: []Pod{pod("a", budgeted("x/b"), blocked), pod("b"), pod("c", tier(1)), pod("d", waiting(OptedOut))},
			want: "wait a blocked-by-budget x/b, b backing-off, c backing-off, d opted-out; done",
		},
		{
			name: "spacing is nothing to it", leave: true, now: 9 * m, budgets: held,
			policy: func(p *Policy) { p.ForceSpacing = m },
			pods:   []Pod{pod("a", budgeted("x/b")), pod("b", budgeted("x/b"))},
			want:   "wait a blocked-by-budget x/b, b blocked-by-budget x/b; again 10m0s",
		},
	})
}

// TestDecideForcesOneAfterTheOther is about pods that one budget holds as the deadline comes near. With a
// grace of 30 s their last call is at 9m30s; three of them have their turns at 7m30s, 8m30s and 9m30s.
func TestDecideForcesOneAfterTheOther(t *testing.T) {
	spaced := func(p *Policy) { p.ForceSpacing = m }
	three := []Pod{pod("a", budgeted("x/b")), pod("b", budgeted("x/b")), pod("c", budgeted("x/b"))}
	two := []Pod{pod("a", budgeted("x/b"), terminating(8*m), tried(Forced, 8*m)), pod("b", budgeted("x/b")), pod("c", budgeted("x/b"))}
	runRows(t, []row{
		{
			name: "the first of three has its turn two spacings before its last call", policy: spaced, pods: three,
			budgets: onlyBudget(budget(3)), now: 7*m + 30*s - 1,
			want: "wait a blocked-by-budget x/b, b blocked-by-budget x/b, c blocked-by-budget x/b; again 7m30s",
		},
		{
			name: "it is deleted then, alone, with its own grace", policy: spaced, pods: three, budgets: onlyBudget(budget(3)),
			now: 7*m + 30*s, want: "delete a in 30s; wait b blocked-by-budget x/b, c blocked-by-budget x/b; again 8m30s",
		},
		{
			name: "the second waits for its turn", policy: spaced, pods: two, budgets: onlyBudget(budget(3)), now: 8*m + 29*s,
			want: "wait a terminating, b blocked-by-budget x/b, c blocked-by-budget x/b; again 8m30s",
		},
		{
			name: "which comes when the budget has as many healthy pods as it asks for", policy: spaced, pods: two,
			budgets: onlyBudget(budget(3)), now: 8*m + 30*s, want: "delete b in 30s; wait a terminating, c blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "and not while the first has no replacement", policy: spaced, pods: two, budgets: onlyBudget(budget(2)),
			now: 8*m + 30*s, want: "wait a terminating, b blocked-by-budget x/b, c blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "nor while the figures may miss what was done", policy: spaced, pods: two, now: 8*m + 30*s,
			budgets: onlyBudget(budget(3, staleUntil(8*m+32*s))),
			want:    "wait a terminating, b blocked-by-budget x/b, c blocked-by-budget x/b; again 8m32s",
		},
		{
			name: "a pod about which a request is under way does not lengthen the queue", policy: spaced, now: 8 * m,
			budgets: onlyBudget(budget(3)), pods: []Pod{pod("a", budgeted("x/b"), sent), three[1], three[2]},
			want: "wait a requested, b blocked-by-budget x/b, c blocked-by-budget x/b; again 8m30s",
		},
		{
			name: "one whose deletion the API server put off does", policy: spaced, now: 8 * m, budgets: onlyBudget(budget(3)),
			pods: []Pod{pod("a", budgeted("x/b"), tried(Deferred, 8*m+5*s)), three[1], three[2]},
			want: "delete b in 30s; wait a backing-off, c blocked-by-budget x/b; again 8m5s",
		},
		{
			name: "the last call comes before all of this", policy: spaced, pods: three, budgets: onlyBudget(budget(0)),
			now: 9*m + 30*s, want: "delete a in 30s, b in 30s, c in 30s",
		},
		{
			name: "no turn comes before half of the time", policy: func(p *Policy) { p.ForceSpacing = time.Hour }, pods: three,
			budgets: onlyBudget(budget(3)), now: 5*m - 1, want: "wait a blocked-by-budget x/b, b blocked-by-budget x/b, c blocked-by-budget x/b; again 5m0s",
		},
		{
			name: "but at half of the time", policy: func(p *Policy) { p.ForceSpacing = time.Hour }, pods: three,
			budgets: onlyBudget(budget(3)), now: 5 * m, want: "delete a in 30s; wait b blocked-by-budget x/b, c blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "one pod alone has no turn before its last call", policy: spaced, pods: three[:1], budgets: onlyBudget(budget(3)),
			now: 9*m + 30*s - 1, want: "wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "pods of different budgets do not wait for each other", policy: spaced, now: 8*m + 30*s,
			budgets: map[string]Budget{"x/b": budget(3), "x/c": budget(3)},
			pods:    []Pod{pod("a", budgeted("x/b")), pod("b", budgeted("x/b")), pod("c", budgeted("x/c")), pod("d", budgeted("x/c"))},
			want:    "delete a in 30s, c in 30s; wait b blocked-by-budget x/b, d blocked-by-budget x/c; again 9m30s",
		},
		{
			name: "pods of a budget that never allows anything have turns", policy: spaced, pods: three[:2], budgets: onlyBudget(fullBudget(2)),
			now: 8*m + 30*s, want: "delete a in 30s; wait b blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "so have pods of two budgets, of which both must be calm", policy: spaced, now: 8*m + 30*s,
			budgets: map[string]Budget{"x/b": budget(3), "x/c": budget(3)},
			pods:    []Pod{pod("a", budgeted("x/b", "x/c")), pod("b", budgeted("x/b", "x/c"))},
			want:    "delete a in 30s; wait b misconfigured-budget x/b and x/c; again 9m30s",
		},
		{
			name: "pods that are waited for have none", policy: spaced, now: 8*m + 30*s, budgets: onlyBudget(budget(3)),
			pods: []Pod{pod("a", waiting(OptedOut), budgeted("x/b")), pod("b", waiting(OptedOut), budgeted("x/b"))},
			want: "wait a opted-out, b opted-out; again 9m30s",
		},
		{
			name: "nor have pods of a later tier", policy: spaced, now: 8*m + 30*s, budgets: onlyBudget(budget(3)),
			pods: []Pod{pod("a", waiting(OptedOut)), pod("b", tier(1), budgeted("x/b")), pod("c", tier(1), budgeted("x/b"))},
			want: "wait a opted-out, b later-tier, c later-tier; again 9m30s",
		},
		{
			name: "what the budget allows is evicted, and the others wait for that to show", policy: spaced, pods: three, budgets: onlyBudget(budget(4)),
			now: 9 * m, want: "evict a; wait b blocked-by-budget x/b, c blocked-by-budget x/b; again 9m30s",
		},
	})
}

func TestDecideForcesUnhealthyPods(t *testing.T) {
	after := func(p *Policy) { p.ForceUnhealthy = 3 * m }
	held := onlyBudget(budget(2))
	runRows(t, []row{
		{
			name: "a pod that is not Ready is deleted after so long", policy: after, budgets: held, now: 3 * m,
			pods: []Pod{pod("a", budgeted("x/b"), unready)}, want: "delete a unhealthy",
		},
		{
			name: "and not before", policy: after, budgets: held, now: 3*m - 1,
			pods: []Pod{pod("a", budgeted("x/b"), unready)}, want: "wait a blocked-by-budget x/b; again 3m0s",
		},
		{
			name: "never, if nobody asked for it", budgets: held, now: 9 * m,
			pods: []Pod{pod("a", budgeted("x/b"), unready)}, want: "wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a Ready pod is not", policy: after, budgets: held, now: 9 * m,
			pods: []Pod{pod("a", budgeted("x/b"))}, want: "wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "an eviction that the budget allows comes first", policy: after, budgets: onlyBudget(budget(3)), now: 9 * m,
			pods: []Pod{pod("a", budgeted("x/b"), unready)}, want: "evict a",
		},
		{
			name: "a pod of two budgets is deleted, too", policy: after, now: 3 * m,
			budgets: map[string]Budget{"x/b": budget(5), "x/c": budget(5)},
			pods:    []Pod{pod("a", budgeted("x/b", "x/c"), unready)}, want: "delete a unhealthy",
		},
		{
			name: "it waits for its tier", policy: after, budgets: held, now: 3 * m,
			pods: []Pod{pod("a", tier(1), budgeted("x/b"), unready), pod("b", terminating(4*m))},
			want: "wait a later-tier, b terminating; again 9m30s",
		},
		{
			name: "a grace that would end after the deadline is cut", policy: after, budgets: held, now: 3 * m,
			pods: []Pod{pod("a", grace(time.Hour), budgeted("x/b"), unready)}, want: "delete a unhealthy in 7m0s",
		},
		{
			name: "with leave it is not", policy: after, leave: true, budgets: held, now: 3 * m,
			pods: []Pod{pod("a", grace(time.Hour), budgeted("x/b"), unready)}, want: "delete a unhealthy",
		},
		{
			name: "a deletion that was denied is tried again after a pause", policy: after, budgets: held, now: 4 * m,
			pods: []Pod{pod("a", budgeted("x/b"), unready, tried(Denied, 4*m+s))}, want: "wait a backing-off; again 4m1s",
		},
	})
}

func TestTurnsBehindOnes(t *testing.T) {
	behind := func(n int) func(*Budget) { return func(b *Budget) { b.PodsOnLaterNodes = n } }
	runRows(t, []row{
		{
			name: "pods of later drains have their turns after it", policy: func(p *Policy) { p.ForceSpacing = m },
			pods: []Pod{pod("a", budgeted("x/b"))}, budgets: onlyBudget(budget(3, behind(2))), now: 7*m + 29*s,
			want: "wait a blocked-by-budget x/b; again 7m30s",
		},
		{
			name: "and of two budgets the one that holds more counts", policy: func(p *Policy) { p.ForceSpacing = m },
			pods:    []Pod{pod("a", budgeted("x/b", "x/c"))},
			budgets: map[string]Budget{"x/b": budget(3, behind(1)), "x/c": budget(3, behind(3))}, now: 6*m + 30*s,
			want: "delete a in 30s",
		},
	})
}
