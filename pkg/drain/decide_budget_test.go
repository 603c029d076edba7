package drain

import (
	"testing"
)

func TestDecideBudgets(t *testing.T) {
	given{budgets: onlyBudget(budget(5))}.expect(t, "a budget that allows two disruptions: evictions are sent one after the other",
		0, "evict a; wait b blocked-by-budget x/b, c blocked-by-budget x/b; again 9m30s", guarded("a"), guarded("b"), guarded("c"))
	given{budgets: onlyBudget(budget(5, inFlight))}.expect(t,
		"no eviction is sent while another one of the budget is in flight", 0, "wait a blocked-by-budget x/b; again 9m30s", guarded("a"))
	given{budgets: onlyBudget(budget(5, inFlight))}.expect(t,
		"an eviction that needs no disruption is sent at the same time", 0, "evict a", guarded("a", unready))
	given{}.expect(t, "a budget does not block pods that it does not select",
		0, "evict b; wait a blocked-by-budget x/b; again 9m30s", guarded("a"), pod("b"))
	given{budgets: map[string]Budget{"x/b": budget(3), "y/b": budget(4)}}.expect(t,
		"budgets with the same name in two namespaces are different",
		0, "evict b; wait a blocked-by-budget x/b; again 9m30s", guarded("a"), pod("b", budgeted("y/b")))
	given{budgets: onlyBudget(budget(4))}.expect(t, "a blocked pod is evicted as soon as its budget allows it",
		5*s, "evict a", guarded("a", blocked))
	given{}.expect(t, "a pod blocked by a budget that the watch does not show waits for its pause",
		5*s, "wait a blocked-by-budget; again 20s", pod("a", tried(Blocked, 20*s)))
	given{}.expect(t, "a pod blocked by such a budget is evicted after the pause", 20*s, "evict a", pod("a", tried(Blocked, 20*s)))

	// What the watch may have missed.
	given{budgets: onlyBudget(budget(3, probeAt(20*s)))}.expect(t,
		"a budget that allows nothing is not probed before the probe is due", 5*s, "wait a blocked-by-budget x/b; again 9m30s", guarded("a"))
	given{budgets: onlyBudget(budget(3, probeAt(20*s)))}.expect(t, "a probe evicts one pod only",
		20*s, "evict a; wait b blocked-by-budget x/b, c blocked-by-budget x/b; again 9m30s", guarded("a"), guarded("b"), guarded("c"))

	// Pods that are not Ready, as the API server has it.
	given{}.expect(t, "an unready pod of a satisfied budget is evicted even if the budget allows nothing",
		0, "evict a; wait b blocked-by-budget x/b; again 9m30s", guarded("a", unready), guarded("b"))
	given{budgets: onlyBudget(budget(2))}.expect(t, "an unready pod of an unsatisfied budget waits, without a probe",
		0, "wait a blocked-by-budget x/b; again 9m30s", guarded("a", unready))
	given{budgets: onlyBudget(budget(2, alwaysAllow))}.expect(t, "AlwaysAllow: an unready pod of an unsatisfied budget is evicted",
		0, "evict a; wait b blocked-by-budget x/b; again 9m30s", guarded("a", unready), guarded("b"))
	given{budgets: onlyBudget(Budget{Expected: 1})}.expect(t,
		"a budget that requires no healthy pod treats unready pods like ready ones",
		0, "wait a blocked-by-budget x/b; again 9m30s", guarded("a", unready))

	operated := func(b *Budget) { b.Operated = true }
	given{budgets: onlyBudget(fullBudget(1, operated))}.expect(t, "a budget that an operator opens is not reported as misconfigured",
		0, "wait a blocked-by-budget x/b; again 9m30s", guarded("a"))
	webhook := func(last Outcome) func(*Pod) {
		return func(p *Pod) {
			p.Try = Try{Last: last, Next: at(20 * s), Webhook: "drain-cleaner.strimzi.io", Eviction: true}
		}
	}
	given{}.expect(t, "a webhook that refuses an eviction is named",
		0, "wait a refused-by-webhook; again 20s", pod("a", webhook(Refused)))
	given{}.expect(t, "a webhook that fails as well", 0, "wait a refused-by-webhook; again 20s", pod("a", webhook(Deferred)))
	given{}.expect(t, "also between two attempts that its budget must permit",
		30*s, "wait a refused-by-webhook; again 9m30s", guarded("a", webhook(Refused)))

	// Budgets that never allow anything.
	given{budgets: onlyBudget(fullBudget(2))}.expect(t,
		"a budget that requires all of its pods, which are healthy, is misconfigured", 0, "wait a misconfigured-budget x/b; again 9m30s", guarded("a"))
	given{budgets: onlyBudget(fullBudget(2, func(b *Budget) { b.Healthy = 1 }))}.expect(t,
		"while one of its pods is unhealthy it is not reported as misconfigured", 0, "wait a blocked-by-budget x/b; again 9m30s", guarded("a"))
	given{budgets: onlyBudget(fullBudget(0))}.expect(t,
		"a budget whose pods have not been counted yet is not reported as misconfigured", 0, "wait a blocked-by-budget x/b; again 9m30s", guarded("a"))
	given{budgets: map[string]Budget{"x/b": budget(5, alwaysAllow), "x/c": budget(3, probeAt(30*s))}}.expect(t,
		"an unready pod of two budgets is not evicted, and there is no probe",
		m, "wait a misconfigured-budget x/b and x/c; again 9m30s", pod("a", budgeted("x/b", "x/c"), unready))
	given{budgets: map[string]Budget{"x/b": budget(4), "x/c": budget(4)}}.expect(t,
		"a pod of two budgets uses no disruption of either", 0, "evict b, c; wait a misconfigured-budget x/b and x/c; again 9m30s",
		pod("a", budgeted("x/b", "x/c")), pod("b", budgeted("x/b")), pod("c", budgeted("x/c")))
	given{budgets: map[string]Budget{"x/b": budget(4), "x/c": budget(4)}}.expect(t,
		"a pod of two budgets is deleted at its latest deletion", 9*m+30*s, "delete a in 30s", pod("a", budgeted("x/b", "x/c")))
}

func TestDecideExplainsWhyAPodIsBlocked(t *testing.T) {
	check := func(name string, pod Pod, budgets map[string]Budget, want string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			step := Decide(State{Since: t0, Pods: []Pod{pod}, Budgets: budgets}, t0, at(window), defaultPolicy())
			if len(step.Wait) != 1 || step.Wait[0].Message != want {
				t.Errorf("got %+v, want %q", step.Wait, want)
			}
		})
	}
	check("a budget that allows nothing now", guarded("a"), onlyBudget(budget(3)),
		"it allows 0 disruptions now: 3 of its 5 pods are healthy, and it requires 3")
	check("a budget that other drains need more than it allows", guarded("a"), onlyBudget(budget(4, allowing(-2))),
		"it allows 0 disruptions now: 4 of its 5 pods are healthy, and it requires 3")
	check("a budget that never allows anything", guarded("a"), onlyBudget(fullBudget(2)),
		"it never allows a disruption: 2 of its 2 pods are healthy, and it requires 2")
	check("two budgets", pod("a", budgeted("x/b", "x/c")), map[string]Budget{"x/b": budget(5), "x/c": budget(5)},
		"2 PodDisruptionBudgets select the pod, and the eviction API refuses such a pod")
	check("a budget that only the API server has seen", pod("a", tried(Blocked, m)), nil, "the API server says so")
}

// TestDecideNamesTheDisruptedBudget tests what reservations are made by.
func TestDecideNamesTheDisruptedBudget(t *testing.T) {
	check := func(name string, pod Pod, b Budget, want string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			step := Decide(State{Since: t0, Pods: []Pod{pod}, Budgets: onlyBudget(b)}, t0, at(window), defaultPolicy())
			if len(step.Evict) != 1 || step.Evict[0].Budget != want {
				t.Errorf("got %+v, want %q", step.Evict, want)
			}
		})
	}
	check("a Ready pod disrupts its budget", guarded("a"), budget(4), "x/b")
	check("an unready pod of a satisfied budget does not", guarded("a", unready), budget(3), "")
	check("an unready pod of an AlwaysAllow budget does not", guarded("a", unready), budget(2, alwaysAllow), "")
	check("an unready pod of a budget that requires no healthy pod does", guarded("a", unready), Budget{Allowed: 1, Healthy: 1, Expected: 2},
		"x/b")
	check("a pod without a budget does not", pod("a"), budget(4), "")
	check("a probe does", guarded("a"), budget(3, probeAt(0)), "x/b")
}
