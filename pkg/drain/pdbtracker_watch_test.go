package drain

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// TestWhoIsWokenByNews: those whose turn it is, and nobody for nothing.
func TestWhoIsWokenByNews(t *testing.T) {
	rigidly := func(healthy int32) *policyv1.PodDisruptionBudget {
		p := pdb(0)
		p.Status.CurrentHealthy, p.Status.DesiredHealthy = healthy, 3
		return p
	}
	lenient := pdb(0)
	lenient.Spec.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow)
	reselecting := pdb(0)
	reselecting.Spec.Selector = &metav1.LabelSelector{}
	for _, tt := range []struct {
		name string
		from *policyv1.PodDisruptionBudget
		news *policyv1.PodDisruptionBudget
		want string
	}{
		{"nothing is new", pdb(0), pdb(0), ""},
		{"others take of it", pdb(0), disrupting(0, "c"), ""},
		{"one disruption is for the drain that must be over first", pdb(0), pdb(1), "a"},
		{"so are two: it has two pods", pdb(0), pdb(2), "a"},
		{"however many there are: the next is woken when the first has taken", pdb(0), pdb(9), "a"},
		{"fewer are healthy than it asks for: pods that are not Ready are held now", pdb(0), pdb(-1), "abc"},
		{"as many are healthy as it asks for", pdb(-1), pdb(0), "abc"},
		{"it allows pods that are not Ready to go", pdb(0), lenient, "abc"},
		{"it will never allow anything", rigidly(2), rigidly(3), "abc"},
		{"it may select other pods", pdb(0), reselecting, "abc"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newTracker(t, tt.from)
				drains := []*waiter{newWaiter("c", 3*time.Minute), newWaiter("b", 2*time.Minute), newWaiter("a", time.Minute)}
				for i, r := range drains { // c waits with none of its pods, yet wants to know
					l.allows(t, r)
					l.waitFor(r, i)
				}
				for _, r := range drains {
					r.woken()
				}
				l.update(tt.news)
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
		})
	}
}

func TestABudgetThatHasGoneHoldsNothing(t *testing.T) {
	for _, gone := range []any{pdb(0), cache.DeletedFinalStateUnknown{Key: "x/b", Obj: pdb(0)}} {
		synctest.Test(t, func(t *testing.T) {
			l, r := newTracker(t, pdb(0)), newWaiter("n", 0)
			l.allows(t, r)
			l.waitFor(r, 1)
			r.woken()
			before := l.generation.Load()
			l.delete(gone)
			if !r.woken() {
				t.Error("nobody is woken")
			}
			if l.generation.Load() == before {
				t.Error("those who know which budgets protect a pod are not told")
			}
			if _, ok := l.budget("x/b", r); ok || !l.reserve("x/b", "a") || len(l.budgetsOf("x", map[string]string{"app": "web"})) > 0 {
				t.Error("it still holds pods")
			}
			l.release("x/b", "a", Accepted) // of which nobody knows any more
			l.waitFor(r, 1)
			if len(l.pdbs) > 0 {
				t.Errorf("accounts are left: %v", l.pdbs)
			}
		})
	}
}

func TestWhatIsNoBudgetIsNoMatter(t *testing.T) {
	l := newTracker(t)
	l.update("no budget")
	l.delete("no budget")
	l.delete(cache.DeletedFinalStateUnknown{})
	l.delete(pdb(0))
	if len(l.pdbs) > 0 {
		t.Errorf("got %v", l.pdbs)
	}
}

func TestWhichBudgetsProtectAPod(t *testing.T) {
	named := func(namespace, name string, selector *metav1.LabelSelector) *policyv1.PodDisruptionBudget {
		p := pdb(0)
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
		t.Error("the same selector makes another edition")
	}
	l.update(named("x", "web", &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}))
	if l.generation.Load() == before {
		t.Error("another selector makes no other edition")
	}
}

func TestStripBudgetKeepsWhatIsRead(t *testing.T) {
	full := pdb(3)
	full.Annotations = map[string]string{"long": "text"}
	got, err := trimBudget(full)
	if err != nil {
		t.Fatal(err)
	}
	want := pdb(3)
	want.Spec.MaxUnavailable = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if other, err := trimBudget("no budget"); err != nil || other != "no budget" {
		t.Errorf("got %v, %v", other, err)
	}
}
