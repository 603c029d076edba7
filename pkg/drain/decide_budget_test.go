package drain

import (
	"testing"
)

func TestDecideBudgets(t *testing.T) {
	runRows(t, []row{
		{
			name: "a budget that allows one disruption", pods: []Pod{
				pod("a", budgeted("x/b")), pod("b", budgeted("x/b")), pod("c", budgeted("x/b")),
			},
			budgets: onlyBudget(budget(4)), want: "evict a; wait b blocked-by-budget x/b, c blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a budget that allows two disruptions: evictions are sent one after the other", pods: []Pod{
				pod("a", budgeted("x/b")), pod("b", budgeted("x/b")), pod("c", budgeted("x/b")),
			},
			budgets: onlyBudget(budget(5)), want: "evict a; wait b blocked-by-budget x/b, c blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "no eviction is sent while another one of the budget is in flight",
			pods: []Pod{pod("a", budgeted("x/b"))}, budgets: onlyBudget(budget(5, func(b *Budget) { b.EvictionInFlight = true })),
			want: "wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "an eviction that needs no disruption is sent at the same time", pods: []Pod{pod("a", budgeted("x/b"), unready)},
			budgets: onlyBudget(budget(5, func(b *Budget) { b.EvictionInFlight = true })), want: "evict a",
		},
		{
			name: "a budget does not block pods that it does not select", pods: []Pod{pod("a", budgeted("x/b")), pod("b")},
			budgets: onlyBudget(budget(3)), want: "evict b; wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "budgets with the same name in two namespaces are different", pods: []Pod{pod("a", budgeted("x/b")), pod("b", budgeted("y/b"))},
			budgets: map[string]Budget{"x/b": budget(3), "y/b": budget(4)}, want: "evict b; wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a budget that other drains need blocks the pod", pods: []Pod{pod("a", budgeted("x/b"))},
			budgets: onlyBudget(budget(4, allowing(-1))), want: "wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a blocked pod is evicted as soon as its budget allows it",
			pods: []Pod{pod("a", budgeted("x/b"), blocked)}, budgets: onlyBudget(budget(4)), now: 5 * s, want: "evict a",
		},
		{
			name:    "one of two blocked pods is evicted when their budget allows one disruption",
			pods:    []Pod{pod("a", budgeted("x/b"), blocked), pod("b", budgeted("x/b"), blocked)},
			budgets: onlyBudget(budget(4)), now: 5 * s, want: "evict a; wait b blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a pod blocked by a budget that the watch does not show waits for its pause",
			pods: []Pod{pod("a", tried(Blocked, 20*s))}, now: 5 * s, want: "wait a blocked-by-budget; again 20s",
		},
		{name: "a pod blocked by such a budget is evicted after the pause", pods: []Pod{pod("a", tried(Blocked, 20*s))}, now: 20 * s, want: "evict a"},

		// What the watch may have missed.
		{
			name: "a budget that allows nothing is probed when the probe is due",
			pods: []Pod{pod("a", budgeted("x/b"))}, budgets: onlyBudget(budget(3, probeAt(20*s))), now: 20 * s, want: "evict a",
		},
		{
			name: "a budget that allows nothing is not probed before the probe is due", pods: []Pod{pod("a", budgeted("x/b"))}, budgets: onlyBudget(budget(3, probeAt(20*s))),
			now: 5 * s, want: "wait a blocked-by-budget x/b; again 20s",
		},
		{
			name:    "a probe evicts one pod only",
			pods:    []Pod{pod("a", budgeted("x/b")), pod("b", budgeted("x/b")), pod("c", budgeted("x/b"))},
			budgets: onlyBudget(budget(3, probeAt(20*s))), now: 20 * s,
			want: "evict a; wait b blocked-by-budget x/b, c blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "the next decision is when a reservation that the watch does not show expires",
			pods: []Pod{pod("a", budgeted("x/b"))}, budgets: onlyBudget(budget(4, allowing(0), staleUntil(7*s))), now: 5 * s,
			want: "wait a blocked-by-budget x/b; again 7s",
		},

		// Pods that are not Ready, as the API server has it.
		{
			name:    "an unready pod of a satisfied budget is evicted without a disruption",
			pods:    []Pod{pod("a", budgeted("x/b"), unready), pod("b", budgeted("x/b"))},
			budgets: onlyBudget(budget(4)), want: "evict a, b",
		},
		{
			name: "an unready pod of a satisfied budget is evicted even if the budget allows nothing",
			pods: []Pod{pod("a", budgeted("x/b"), unready), pod("b", budgeted("x/b"))}, budgets: onlyBudget(budget(3)),
			want: "evict a; wait b blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "an unready pod of an unsatisfied budget waits, without a probe",
			pods: []Pod{pod("a", budgeted("x/b"), unready)}, budgets: onlyBudget(budget(2)),
			want: "wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "AlwaysAllow: an unready pod of an unsatisfied budget is evicted",
			pods: []Pod{pod("a", budgeted("x/b"), unready), pod("b", budgeted("x/b"))}, budgets: onlyBudget(budget(2, alwaysAllow)),
			want: "evict a; wait b blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a budget that requires no healthy pod treats unready pods like ready ones",
			pods: []Pod{pod("a", budgeted("x/b"), unready)}, budgets: onlyBudget(Budget{Expected: 1}),
			want: "wait a blocked-by-budget x/b; again 9m30s",
		},

		// Budgets that never allow anything.
		{
			name: "a budget that requires all of its pods, which are healthy, is misconfigured",
			pods: []Pod{pod("a", budgeted("x/b"))}, budgets: onlyBudget(fullBudget(2)),
			want: "wait a misconfigured-budget x/b; again 9m30s",
		},
		{
			name: "while one of its pods is unhealthy it is not reported as misconfigured", budgets: onlyBudget(fullBudget(2, func(b *Budget) { b.Healthy = 1 })),
			pods: []Pod{pod("a", budgeted("x/b"))}, want: "wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a budget whose pods have not been counted yet is not reported as misconfigured", budgets: onlyBudget(fullBudget(0)),
			pods: []Pod{pod("a", budgeted("x/b"))}, want: "wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a pod of two budgets is not evicted, whatever they allow",
			pods: []Pod{pod("a", budgeted("x/b", "x/c"))}, budgets: map[string]Budget{"x/b": budget(4), "x/c": budget(5)},
			want: "wait a misconfigured-budget x/b and x/c; again 9m30s",
		},
		{
			name: "nor is an unready pod of two budgets, and there is no probe", now: m,
			pods:    []Pod{pod("a", budgeted("x/b", "x/c"), unready)},
			budgets: map[string]Budget{"x/b": budget(5, alwaysAllow), "x/c": budget(3, probeAt(30*s))},
			want:    "wait a misconfigured-budget x/b and x/c; again 9m30s",
		},
		{
			name: "a pod of two budgets uses no disruption of either", budgets: map[string]Budget{"x/b": budget(4), "x/c": budget(4)},
			pods: []Pod{pod("a", budgeted("x/b", "x/c")), pod("b", budgeted("x/b")), pod("c", budgeted("x/c"))},
			want: "evict b, c; wait a misconfigured-budget x/b and x/c; again 9m30s",
		},
		{
			name: "a pod of two budgets is deleted at its latest deletion", now: 9*m + 30*s,
			pods: []Pod{pod("a", budgeted("x/b", "x/c"))}, budgets: map[string]Budget{"x/b": budget(4), "x/c": budget(4)},
			want: "delete a in 30s",
		},
	})
}

func TestDecideExplainsWhyAPodIsBlocked(t *testing.T) {
	for _, tt := range []struct {
		name    string
		pod     Pod
		budgets map[string]Budget
		want    string
	}{
		{
			"a budget that allows nothing now", pod("a", budgeted("x/b")), onlyBudget(budget(3)),
			"it allows 0 disruptions now: 3 of its 5 pods are healthy, and it requires 3",
		},
		{
			"a budget that other drains need more than it allows", pod("a", budgeted("x/b")), onlyBudget(budget(4, allowing(-2))),
			"it allows 0 disruptions now: 4 of its 5 pods are healthy, and it requires 3",
		},
		{
			"a budget that never allows anything", pod("a", budgeted("x/b")), onlyBudget(fullBudget(2)),
			"it never allows a disruption: 2 of its 2 pods are healthy, and it requires 2",
		},
		{
			"two budgets", pod("a", budgeted("x/b", "x/c")),
			map[string]Budget{"x/b": budget(5), "x/c": budget(5)},
			"2 PodDisruptionBudgets select the pod, and the eviction API refuses such a pod",
		},
		{"a budget that only the API server has seen", pod("a", tried(Blocked, m)), nil, "the API server says so"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			step := Decide(State{Since: t0, Pods: []Pod{tt.pod}, Budgets: tt.budgets}, t0, at(window), defaultPolicy())
			if len(step.Wait) != 1 || step.Wait[0].Message != tt.want {
				t.Errorf("got %+v, want %q", step.Wait, tt.want)
			}
		})
	}
}

// TestDecideNamesTheDisruptedBudget tests what reservations are made by.
func TestDecideNamesTheDisruptedBudget(t *testing.T) {
	for _, tt := range []struct {
		name string
		pod  Pod
		b    Budget
		want string
	}{
		{"a Ready pod disrupts its budget", pod("a", budgeted("x/b")), budget(4), "x/b"},
		{"an unready pod of a satisfied budget does not", pod("a", budgeted("x/b"), unready), budget(3), ""},
		{"an unready pod of an AlwaysAllow budget does not", pod("a", budgeted("x/b"), unready), budget(2, alwaysAllow), ""},
		{
			"an unready pod of a budget that requires no healthy pod does",
			pod("a", budgeted("x/b"), unready),
			Budget{Allowed: 1, Healthy: 1, Expected: 2},
			"x/b",
		},
		{"a pod without a budget does not", pod("a"), budget(4), ""},
		{"a probe does", pod("a", budgeted("x/b")), budget(3, probeAt(0)), "x/b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			step := Decide(State{Since: t0, Pods: []Pod{tt.pod}, Budgets: onlyBudget(tt.b)}, t0, at(window), defaultPolicy())
			if len(step.Evict) != 1 || step.Evict[0].Budget != tt.want {
				t.Errorf("got %+v, want %q", step.Evict, tt.want)
			}
		})
	}
}
