package drain

import (
	"testing"
)

func TestDecideBudgets(t *testing.T) {
	runRows(t, []row{
		{
			name: "a budget that allows one of three", pods: []Pod{
				pod("a", budgeted("x/b")), pod("b", budgeted("x/b")), pod("c", budgeted("x/b")),
			},
			budgets: onlyBudget(budget(4)), want: "evict a; wait b blocked-by-budget x/b, c blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a budget that allows two of three: one eviction is sent after the other", pods: []Pod{
				pod("a", budgeted("x/b")), pod("b", budgeted("x/b")), pod("c", budgeted("x/b")),
			},
			budgets: onlyBudget(budget(5)), want: "evict a; wait b blocked-by-budget x/b, c blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a budget under which an eviction is under way is not asked, whatever it allows",
			pods: []Pod{pod("a", budgeted("x/b"))}, budgets: onlyBudget(budget(5, func(b *Budget) { b.EvictionInFlight = true })),
			want: "wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "unless the pod takes nothing of it", pods: []Pod{pod("a", budgeted("x/b"), unready)},
			budgets: onlyBudget(budget(5, func(b *Budget) { b.EvictionInFlight = true })), want: "evict a",
		},
		{
			name: "one budget does not hold the pods of another", pods: []Pod{pod("a", budgeted("x/b")), pod("b")},
			budgets: onlyBudget(budget(3)), want: "evict b; wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "budgets of one name in two namespaces are two", pods: []Pod{pod("a", budgeted("x/b")), pod("b", budgeted("y/b"))},
			budgets: map[string]Budget{"x/b": budget(3), "y/b": budget(4)}, want: "evict b; wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a budget of which others claim more than it allows gives none", pods: []Pod{pod("a", budgeted("x/b"))},
			budgets: onlyBudget(budget(4, allowing(-1))), want: "wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a blocked pod is evicted as soon as its budget allows it",
			pods: []Pod{pod("a", budgeted("x/b"), blocked)}, budgets: onlyBudget(budget(4)), now: 5 * s, want: "evict a",
		},
		{
			name:    "of two blocked pods one is evicted when their budget allows one",
			pods:    []Pod{pod("a", budgeted("x/b"), blocked), pod("b", budgeted("x/b"), blocked)},
			budgets: onlyBudget(budget(4)), now: 5 * s, want: "evict a; wait b blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a pod that was blocked by a budget that nobody saw is asked about again after a pause",
			pods: []Pod{pod("a", tried(Blocked, 20*s))}, now: 5 * s, want: "wait a blocked-by-budget; again 20s",
		},
		{name: "which is then over", pods: []Pod{pod("a", tried(Blocked, 20*s))}, now: 20 * s, want: "evict a"},

		// What the watch may have missed.
		{
			name: "a budget that allows nothing is asked when its time has come, whatever the watch says",
			pods: []Pod{pod("a", budgeted("x/b"))}, budgets: onlyBudget(budget(3, probeAt(20*s))), now: 20 * s, want: "evict a",
		},
		{
			name: "and not before", pods: []Pod{pod("a", budgeted("x/b"))}, budgets: onlyBudget(budget(3, probeAt(20*s))),
			now: 5 * s, want: "wait a blocked-by-budget x/b; again 20s",
		},
		{
			name:    "it is asked about one pod only",
			pods:    []Pod{pod("a", budgeted("x/b")), pod("b", budgeted("x/b")), pod("c", budgeted("x/b"))},
			budgets: onlyBudget(budget(3, probeAt(20*s))), now: 20 * s,
			want: "evict a; wait b blocked-by-budget x/b, c blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a disruption that the watch should have shown by then is looked for at that time",
			pods: []Pod{pod("a", budgeted("x/b"))}, budgets: onlyBudget(budget(4, allowing(0), staleUntil(7*s))), now: 5 * s,
			want: "wait a blocked-by-budget x/b; again 7s",
		},

		// Pods that are not Ready, as the API server has it.
		{
			name:    "an unready pod of a budget that has all it asks for goes, and takes nothing of it",
			pods:    []Pod{pod("a", budgeted("x/b"), unready), pod("b", budgeted("x/b"))},
			budgets: onlyBudget(budget(4)), want: "evict a, b",
		},
		{
			name: "it goes even if the budget allows nothing",
			pods: []Pod{pod("a", budgeted("x/b"), unready), pod("b", budgeted("x/b"))}, budgets: onlyBudget(budget(3)),
			want: "evict a; wait b blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "an unready pod of a budget that has less than it asks for waits, and is not asked about",
			pods: []Pod{pod("a", budgeted("x/b"), unready)}, budgets: onlyBudget(budget(2)),
			want: "wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "unless the budget always allows unhealthy pods (AlwaysAllow)",
			pods: []Pod{pod("a", budgeted("x/b"), unready), pod("b", budgeted("x/b"))}, budgets: onlyBudget(budget(2, alwaysAllow)),
			want: "evict a; wait b blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a budget that asks for nothing lets an unready pod go as it lets any pod go",
			pods: []Pod{pod("a", budgeted("x/b"), unready)}, budgets: onlyBudget(Budget{Expected: 1}),
			want: "wait a blocked-by-budget x/b; again 9m30s",
		},

		// Budgets that never allow anything.
		{
			name: "a budget that asks for all of its pods, which are healthy, never allows a disruption",
			pods: []Pod{pod("a", budgeted("x/b"))}, budgets: onlyBudget(fullBudget(2)),
			want: "wait a misconfigured-budget x/b; again 9m30s",
		},
		{
			name: "while one of its pods is not healthy it is no more than held", budgets: onlyBudget(fullBudget(2, func(b *Budget) { b.Healthy = 1 })),
			pods: []Pod{pod("a", budgeted("x/b"))}, want: "wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a budget whose pods have not been counted yet is no more than held", budgets: onlyBudget(fullBudget(0)),
			pods: []Pod{pod("a", budgeted("x/b"))}, want: "wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "the eviction API serves no pod of two budgets, whatever they allow, so it is not asked",
			pods: []Pod{pod("a", budgeted("x/b", "x/c"))}, budgets: map[string]Budget{"x/b": budget(4), "x/c": budget(5)},
			want: "wait a misconfigured-budget x/b and x/c; again 9m30s",
		},
		{
			name: "nor about an unready one, nor when a budget is to be asked nevertheless", now: m,
			pods:    []Pod{pod("a", budgeted("x/b", "x/c"), unready)},
			budgets: map[string]Budget{"x/b": budget(5, alwaysAllow), "x/c": budget(3, probeAt(30*s))},
			want:    "wait a misconfigured-budget x/b and x/c; again 9m30s",
		},
		{
			name: "it takes nothing of either", budgets: map[string]Budget{"x/b": budget(4), "x/c": budget(4)},
			pods: []Pod{pod("a", budgeted("x/b", "x/c")), pod("b", budgeted("x/b")), pod("c", budgeted("x/c"))},
			want: "evict b, c; wait a misconfigured-budget x/b and x/c; again 9m30s",
		},
		{
			name: "and is deleted when its grace must begin", now: 9*m + 30*s,
			pods: []Pod{pod("a", budgeted("x/b", "x/c"))}, budgets: map[string]Budget{"x/b": budget(4), "x/c": budget(4)},
			want: "delete a in 30s",
		},
	})
}

func TestDecideExplainsWhyAPodIsHeld(t *testing.T) {
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
			"a budget of which others have more than there is", pod("a", budgeted("x/b")), onlyBudget(budget(4, allowing(-2))),
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

// TestDecideSaysOfWhichBudgetAnEvictionTakes holds what the ledger goes by.
func TestDecideSaysOfWhichBudgetAnEvictionTakes(t *testing.T) {
	for _, tt := range []struct {
		name string
		pod  Pod
		b    Budget
		want string
	}{
		{"a Ready pod takes of its budget", pod("a", budgeted("x/b")), budget(4), "x/b"},
		{"an unready pod of a budget that has enough takes nothing", pod("a", budgeted("x/b"), unready), budget(3), ""},
		{"an unready pod of a lenient budget takes nothing", pod("a", budgeted("x/b"), unready), budget(2, alwaysAllow), ""},
		{
			"an unready pod of a budget that asks for nothing takes of it",
			pod("a", budgeted("x/b"), unready),
			Budget{Allowed: 1, Healthy: 1, Expected: 2},
			"x/b",
		},
		{"a pod without a budget takes nothing", pod("a"), budget(4), ""},
		{"asking what seems to allow nothing takes, too", pod("a", budgeted("x/b")), budget(3, probeAt(0)), "x/b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			step := Decide(State{Since: t0, Pods: []Pod{tt.pod}, Budgets: onlyBudget(tt.b)}, t0, at(window), defaultPolicy())
			if len(step.Evict) != 1 || step.Evict[0].Budget != tt.want {
				t.Errorf("got %+v, want %q", step.Evict, tt.want)
			}
		})
	}
}
