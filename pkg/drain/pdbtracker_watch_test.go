package drain

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// TestWhichDrainsAChangeWakes: those that may act on it, and no others.
func TestWhichDrainsAChangeWakes(t *testing.T) {
	rigidly := func(healthy int32) *policyv1.PodDisruptionBudget {
		p := newPDB(0)
		p.Status.CurrentHealthy, p.Status.DesiredHealthy = healthy, 3
		return p
	}
	lenient := newPDB(0)
	lenient.Spec.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow)
	reselecting := newPDB(0)
	reselecting.Spec.Selector = &metav1.LabelSelector{}
	for _, tt := range []struct {
		name string
		from *policyv1.PodDisruptionBudget
		news *policyv1.PodDisruptionBudget
		want string
	}{
		{"nothing has changed", newPDB(0), newPDB(0), ""},
		{"another client evicts a pod", newPDB(0), disrupting(0, "c"), ""},
		{"the budget itself starts what it allows", newPDB(0), newPDB(9), ""},
		{"the budget is no longer satisfied: pods that are not Ready are blocked now", newPDB(0), newPDB(-1), "abc"},
		{"the budget is satisfied again", newPDB(-1), newPDB(0), "abc"},
		{"unhealthyPodEvictionPolicy changes to AlwaysAllow", newPDB(0), lenient, "abc"},
		{"the budget is misconfigured now", rigidly(2), rigidly(3), "abc"},
		{"the selector changes", newPDB(0), reselecting, "abc"},
	} {
		virtual(t, tt.name, func(t *testing.T) {
			q := newQueue(t, tt.from)
			drains := []*waiter{drainUntil("c", 3*time.Minute), drainUntil("b", 2*time.Minute), drainUntil("a", time.Minute)}
			for i, r := range drains { // c waits with none of its pods, yet wants to know
				q.wait(r, []string{"1", "2"}[:i]...)
			}
			elapse(2 * wakePause)
			for _, r := range drains {
				r.woken()
			}
			q.tracker.update(tt.news)
			got := ""
			for _, r := range slices.Backward(drains) {
				if r.woken() {
					got += r.name
				}
			}
			if got != tt.want {
				t.Errorf("woken: %q, want %q", got, tt.want)
			}
		})
	}
}

func TestADeletedBudgetBlocksNothing(t *testing.T) {
	for _, gone := range []any{newPDB(0), cache.DeletedFinalStateUnknown{Key: "x/b", Obj: newPDB(0)}} {
		synctest.Test(t, func(t *testing.T) {
			q, r := newQueue(t, newPDB(0)), drainUntil("n", 0)
			l := q.tracker
			q.wait(r, "a")
			r.woken()
			before := l.generation.Load()
			l.delete(gone)
			if !r.woken() {
				t.Error("no drain is woken")
			}
			if l.generation.Load() == before {
				t.Error("the generation is the same")
			}
			if l.find("x/b") != nil || !q.last("a") || len(l.budgetsOf("x", map[string]string{"app": "web"})) > 0 {
				t.Error("it still blocks pods")
			}
			if len(l.pdbs) > 0 {
				t.Errorf("budgets are left: %v", l.pdbs)
			}
		})
	}
}

// TestManyDrainsThatStartWakeEachOtherRarely: each makes those before it decide again.
func TestManyDrainsThatStartWakeEachOtherRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, first, woken := newQueue(t, newPDB(0)), drainUntil("first", time.Minute), 0
		q.wait(first, "a")
		for i := range 100 {
			q.wait(drainUntil(fmt.Sprint(i), time.Hour), "b")
			if elapse(10 * time.Millisecond); first.woken() {
				woken++
			}
		}
		if elapse(wakePause); first.woken() {
			woken++
		}
		if b := q.view(first); woken < 2 || woken > 3 || b.PodsOnLaterNodes != 100 {
			t.Errorf("woken %d times, and sees %d pods", woken, b.PodsOnLaterNodes)
		}
	})
}

func TestOtherObjectsAreIgnored(t *testing.T) {
	l := newTracker(t)
	l.update("no budget")
	l.delete("no budget")
	l.delete(cache.DeletedFinalStateUnknown{})
	l.delete(newPDB(0))
	if len(l.pdbs) > 0 {
		t.Errorf("got %v", l.pdbs)
	}
}

func TestBudgetsOfAPod(t *testing.T) {
	named := func(namespace, name string, selector *metav1.LabelSelector) *policyv1.PodDisruptionBudget {
		p := newPDB(0)
		p.Namespace, p.Name, p.Spec.Selector = namespace, name, selector
		return p
	}
	l := newTracker(t,
		named("x", "web", &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}),
		named("x", "db", &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}),
		named("x", "none", nil),
		named("x", "broken", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}}),
		named("y", "all", &metav1.LabelSelector{}),
	)
	for _, tt := range []struct {
		namespace, app string
		want           []string
	}{
		{"x", "web", []string{"x/web"}},
		{"x", "db", []string{"x/db"}},
		{"x", "other", nil},
		{"y", "web", []string{"y/all"}},
		{"z", "web", nil},
	} {
		if diff := cmp.Diff(tt.want, l.budgetsOf(tt.namespace, map[string]string{"app": tt.app})); diff != "" {
			t.Errorf("%s of %s:\n%s", tt.app, tt.namespace, diff)
		}
	}
	before := l.generation.Load()
	l.update(named("x", "web", &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}))
	if l.generation.Load() != before {
		t.Error("the same selector changes the generation")
	}
	l.update(named("x", "web", &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}))
	if l.generation.Load() == before {
		t.Error("another selector does not change the generation")
	}
}

func TestTrimBudget(t *testing.T) {
	full := newPDB(3)
	full.Annotations = map[string]string{"long": "text"}
	got, err := trimBudget(full)
	if err != nil {
		t.Fatal(err)
	}
	want := newPDB(3)
	want.Spec.MaxUnavailable = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if other, err := trimBudget("no budget"); err != nil || other != "no budget" {
		t.Errorf("got %v, %v", other, err)
	}
}

// TestBudgetThatCannotBeCalculated: it never allows a disruption, and says why, at once.
func TestBudgetThatCannotBeCalculated(t *testing.T) {
	p := newPDB(0)
	p.Status = policyv1.PodDisruptionBudgetStatus{Conditions: []metav1.Condition{
		{Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason, Message: "no scale"},
	}}
	trimmed, err := trimBudget(p)
	if err != nil {
		t.Fatal(err)
	}
	l := newTracker(t, trimmed.(*policyv1.PodDisruptionBudget))
	b := l.find("x/b").view(drainUntil("n", time.Hour))
	const want = "wait a misconfigured-budget x/b; again 9m30s"
	given{budgets: onlyBudget(b)}.expect(t, "never", 0, want, guarded("a"))
	budgets := budgetSet{byName: onlyBudget(b)}
	if got := budgets.explain(guarded("a")); got != "it allows no disruption, because it cannot be calculated: no scale" {
		t.Errorf("got %q", got)
	}
}
