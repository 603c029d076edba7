package drain

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

// newTracker is a ledger whose watch is the test.
func newTracker(t *testing.T, pdbs ...*policyv1.PodDisruptionBudget) *pdbTracker {
	t.Helper()
	l, err := newPDBTracker(fake.NewClientset())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pdbs {
		l.update(p)
	}
	return l
}

func newWaiter(name string, deadline time.Duration) *waiter {
	return &waiter{name: name, deadline: at(deadline), changed: make(chan struct{}, 1)}
}

// woken tells whether the drain was woken since this was last asked.
func (r *waiter) woken() bool {
	select {
	case <-r.changed:
		return true
	default:
		return false
	}
}

// disrupting is the budget of pdb after evictions of these pods, as the API server writes it.
func disrupting(allowed int32, pods ...string) *policyv1.PodDisruptionBudget {
	p := pdb(allowed)
	p.Status.DisruptedPods = map[string]metav1.Time{}
	for _, name := range pods {
		p.Status.DisruptedPods[name] = metav1.Now()
	}
	return p
}

// allows is what the budget x/b allows to the drain, and nothing more.
func (l *pdbTracker) allows(t *testing.T, r *waiter) int {
	t.Helper()
	b, ok := l.budget("x/b", r)
	if !ok {
		t.Fatal("the ledger does not know the budget")
	}
	return b.Allowed
}

// waitFor says that so many pods of the drain wait for x/b; below zero is that none does, and that the drain
// does not want to know of it.
func (l *pdbTracker) waitFor(r *waiter, pods int) {
	wants := map[string]int{}
	if pods >= 0 {
		wants["x/b"] = pods
	}
	l.setDemand(r, map[string]struct{}{"x/b": {}}, demands{waiting: wants})
}

func (l *pdbTracker) mustReserve(t *testing.T, pods ...string) {
	t.Helper()
	for _, pod := range pods {
		if !l.reserve("x/b", pod) {
			t.Fatalf("nothing is left for %s", pod)
		}
	}
}

func expectAllowed(t *testing.T, got, want int, when string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: allows %d, want %d", when, got, want)
	}
}

func TestWhatABudgetAllowsIsWhatTheWatchShowsLessWhatWasTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := newTracker(t, pdb(3)), newWaiter("n", 0)
		expectAllowed(t, l.allows(t, r), 3, "at first")
		l.mustReserve(t, "a")
		expectAllowed(t, l.allows(t, r), 2, "with one under way")
		if b, _ := l.budget("x/b", r); !b.EvictionInFlight || l.reserve("x/b", "b") {
			t.Error("a second one is sent before the first is answered")
		}
		l.release("x/b", "a", Accepted)
		l.mustReserve(t, "b")
		expectAllowed(t, l.allows(t, r), 1, "with one accepted and one under way")
		l.update(disrupting(2, "a"))
		expectAllowed(t, l.allows(t, r), 1, "when the watch shows it")
		l.update(disrupting(1, "a", "b"))
		expectAllowed(t, l.allows(t, r), 1, "when the watch is ahead of the answer")
		l.release("x/b", "b", Accepted)
		expectAllowed(t, l.allows(t, r), 1, "when the answer has come")
		l.mustReserve(t, "c")
		if l.reserve("x/b", "d") {
			t.Error("more was taken than there is")
		}
	})
}

func TestADisruptionThatCameToNothingIsGivenBack(t *testing.T) {
	for _, outcome := range []Outcome{Deferred, Refused, None} {
		synctest.Test(t, func(t *testing.T) {
			l, r := newTracker(t, pdb(1)), newWaiter("n", 0)
			l.mustReserve(t, "a")
			expectAllowed(t, l.allows(t, r), 0, "with one under way")
			r.woken()
			l.release("x/b", "a", outcome)
			expectAllowed(t, l.allows(t, r), 1, string(outcome))
			if !r.woken() {
				t.Errorf("%s: nobody is woken", outcome)
			}
		})
	}
}

func TestADisruptionThatTheWatchNeverShowsIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := newTracker(t, pdb(1)), newWaiter("n", 0)
		l.mustReserve(t, "a")
		l.release("x/b", "a", Accepted)
		if b, _ := l.budget("x/b", r); !b.StaleUntil.Equal(time.Now().Add(pdbUpdateTimeout)) {
			t.Errorf("settles in %v, want %v", time.Until(b.StaleUntil), pdbUpdateTimeout)
		}
		elapse(pdbUpdateTimeout - 1)
		expectAllowed(t, l.allows(t, r), 0, "just before")
		elapse(1)
		expectAllowed(t, l.allows(t, r), 1, "then")
		if b, _ := l.budget("x/b", r); !b.StaleUntil.IsZero() {
			t.Errorf("settles in %v still", time.Until(b.StaleUntil))
		}
	})
}

func TestADisruptionByForceCountsUntilItShowsInHowManyAreHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := newTracker(t, pdb(1)), newWaiter("n", 0)
		l.release("x/b", "a", Forced)
		expectAllowed(t, l.allows(t, r), 0, "at first")
		if b, _ := l.budget("x/b", r); b.satisfied(time.Now()) {
			t.Error("the budget is calm while the figures miss what was done")
		}
		elapse(terminationLag)
		expectAllowed(t, l.allows(t, r), 1, "then the watch is right")
		if b, _ := l.budget("x/b", r); !b.satisfied(time.Now()) {
			t.Error("the budget is not calm")
		}
	})
}

func TestOneIsForcedAtATimeAsLongAsItCanWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := newTracker(t, pdb(0)), newWaiter("n", 0)
		force := func(pod string, early, want bool) {
			t.Helper()
			if got := l.reserveForced([]string{"x/b", "x/gone"}, pod, early); got != want {
				t.Errorf("%s, early %v: got %v", pod, early, got)
			}
		}
		force("a", true, true)
		force("b", true, false)
		force("c", false, true) // its last call
		if b, _ := l.budget("x/b", r); b.satisfied(time.Now()) {
			t.Error("the budget is calm while requests are under way")
		}
		l.release("x/b", "a", Forced)
		l.release("x/b", "c", Denied)
		force("b", true, false) // the watch has yet to show that there is one less
		elapse(terminationLag)
		force("b", true, true)
		l.release("x/b", "b", Deferred)
		force("d", true, true)
	})
}

func TestTheDrainWithTheEarliestDeadlineIsServedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTracker(t, pdb(2))
		first, second, third := newWaiter("c", 10*time.Minute), newWaiter("a", 20*time.Minute), newWaiter("b", 20*time.Minute)
		for _, r := range []*waiter{third, second, first} {
			expectAllowed(t, l.allows(t, r), 2, r.name+" before anybody waits")
			l.waitFor(r, 1)
		}
		expectAllowed(t, l.allows(t, first), 2, "the first")
		expectAllowed(t, l.allows(t, second), 1, "the second, whose name comes first")
		expectAllowed(t, l.allows(t, third), 0, "the third")
		l.waitFor(first, 3)
		expectAllowed(t, l.allows(t, second), -1, "the second, when the first wants more")
		for _, r := range []*waiter{first, second, third} {
			r.woken()
		}
		l.waitFor(first, -1)
		expectAllowed(t, l.allows(t, second), 2, "the second, when the first has ended")
		expectAllowed(t, l.allows(t, third), 1, "the third then")
		if !second.woken() || !third.woken() {
			t.Error("those who get what the first gave up are not woken")
		}
	})
}

func TestADrainThatIsLookingIsWokenByWhateverHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := newTracker(t, pdb(0)), newWaiter("n", 0)
		l.update(pdb(0))
		if r.woken() {
			t.Error("woken before it has looked")
		}
		l.allows(t, r)
		l.update(pdb(0))
		if !r.woken() {
			t.Error("not woken between looking and saying what it waits for")
		}
		l.waitFor(r, -1)
		l.update(pdb(1))
		if r.woken() {
			t.Error("woken though it does not want to know")
		}
	})
}

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

func TestADrainWhoseWaitingIsDoneWakesNobodyIfNothingIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, first, second := newTracker(t, pdb(1)), newWaiter("a", 0), newWaiter("b", 0)
		l.allows(t, first)
		l.waitFor(first, 1)
		l.allows(t, second)
		l.waitFor(second, 1)
		second.woken()
		l.allows(t, first)
		l.mustReserve(t, "a")
		l.waitFor(first, -1)
		if second.woken() {
			t.Error("woken for nothing")
		}
	})
}

func TestARefusalIsNewerThanTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := newTracker(t, pdb(2)), newWaiter("n", 0)
		pause := firstProbe
		l.mustReserve(t, "a")
		for range 12 {
			l.release("x/b", "a", Blocked)
			b, _ := l.budget("x/b", r)
			if b.Allowed > 0 {
				t.Fatalf("allows %d after a refusal", b.Allowed)
			}
			until := time.Until(b.ProbeAt)
			if until < pause || until > pause+pause/4 {
				t.Fatalf("is asked again after %v, want %v and up to a quarter more", until, pause)
			}
			if l.reserve("x/b", "a") {
				t.Fatal("was taken at once")
			}
			elapse(until)
			l.mustReserve(t, "a")
			if l.reserve("x/b", "b") {
				t.Fatal("is asked about two pods at once")
			}
			pause = min(2*pause, lastProbe)
		}
		l.update(pdb(1))
		expectAllowed(t, l.allows(t, r), 0, "with one still under way, after news")
		l.release("x/b", "a", Deferred)
		expectAllowed(t, l.allows(t, r), 1, "after news")
		l.mustReserve(t, "a")
		l.release("x/b", "a", Blocked)
		if b, _ := l.budget("x/b", r); time.Until(b.ProbeAt) > firstProbe+firstProbe/4 {
			t.Errorf("after news it is asked only after %v", time.Until(b.ProbeAt))
		}
	})
}

// TestABudgetThatNothingIsHeardOfIsAskedNowAndThen is about a refusal that the watch foretold: it is no reason
// to ask again soon.
func TestABudgetThatNothingIsHeardOfIsAskedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := newTracker(t, pdb(0)), newWaiter("n", 0)
		for range 5 {
			b, _ := l.budget("x/b", r)
			until := time.Until(b.ProbeAt)
			if until < lastProbe || until > lastProbe+lastProbe/4 {
				t.Fatalf("is asked after %v, want %v and up to a quarter more", until, lastProbe)
			}
			elapse(until - 1)
			if l.reserve("x/b", "a") {
				t.Fatal("was taken before that")
			}
			elapse(1)
			l.mustReserve(t, "a")
			l.release("x/b", "a", Blocked)
		}
	})
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

// simulation is the ledger between drains and a model of the API server, of which the watch and the answers come
// late, each in its order.
type simulation struct {
	t       *testing.T
	r       *rand.Rand
	l       *pdbTracker
	drains  []*simulatedDrain
	allowed int32           // as the API server has it
	status  map[string]bool // its DisruptedPods
	watch   []*policyv1.PodDisruptionBudget
	asked   []simulatedRequest
	answers []func()
	refused int // requests for what the ledger had said was there
	granted int
}

// simulatedDrain is a drain with pods that wait for x/b.
type simulatedDrain struct {
	*waiter
	waiting []string
	looked  bool // and has nothing to do until it is woken
	again   time.Time
}

type simulatedRequest struct {
	by    *simulatedDrain
	pod   string
	probe bool // the budget seemed to allow nothing
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	mk := &simulation{t: t, r: rand.New(rand.NewPCG(seed, 4)), l: newTracker(t), status: map[string]bool{}}
	mk.allowed = int32(mk.r.IntN(3))
	mk.publish()
	mk.l.update(mk.watch[0])
	mk.watch = nil
	for i := range 1 + mk.r.IntN(4) {
		s := &simulatedDrain{waiter: newWaiter(fmt.Sprint("n", i), time.Duration(mk.r.IntN(3))*time.Minute)}
		for j := range 1 + mk.r.IntN(4) {
			s.waiting = append(s.waiting, fmt.Sprintf("pod-%d-%d", i, j))
		}
		mk.drains = append(mk.drains, s)
	}
	return mk
}

// publish has the API server tell what it has, sooner or later.
func (mk *simulation) publish() {
	p := pdb(mk.allowed)
	p.Status.DisruptedPods = map[string]metav1.Time{}
	for pod := range mk.status {
		p.Status.DisruptedPods[pod] = metav1.Now()
	}
	mk.watch = append(mk.watch, p)
}

// look is a pass of a drain, as run.decide and run.act make it.
func (mk *simulation) look(s *simulatedDrain) {
	s.woken()
	s.looked = true
	b, ok := mk.l.budget("x/b", s.waiter)
	if !ok {
		mk.t.Fatal("the budget has gone")
	}
	bet := !b.ProbeAt.IsZero() && !time.Now().Before(b.ProbeAt)
	s.again = earliest(b.ProbeAt, b.StaleUntil)
	var still []string
	for _, pod := range s.waiting {
		if sure := b.Allowed > 0; (sure || bet) && mk.l.reserve("x/b", pod) {
			mk.asked = append(mk.asked, simulatedRequest{s, pod, !sure})
			b.Allowed--
			bet = false
			continue
		}
		still = append(still, pod)
	}
	s.waiting = still
	if len(still) == 0 {
		mk.l.waitFor(s.waiter, -1)
		return
	}
	mk.l.waitFor(s.waiter, len(still))
}

// serve has the API server decide about one request; its answer comes later.
func (mk *simulation) serve(i int) {
	a := mk.asked[i]
	mk.asked = append(mk.asked[:i], mk.asked[i+1:]...)
	if mk.r.IntN(10) == 0 {
		mk.answer(a, Deferred)
		return
	}
	if mk.allowed <= 0 {
		if !a.probe {
			mk.refused++
		}
		mk.answer(a, Blocked)
		return
	}
	mk.allowed--
	mk.granted++
	mk.status[a.pod] = true
	mk.publish()
	mk.answer(a, Accepted)
}

func (mk *simulation) answer(a simulatedRequest, outcome Outcome) {
	mk.answers = append(mk.answers, func() {
		mk.l.release("x/b", a.pod, outcome)
		if outcome != Accepted {
			a.by.waiting = append(a.by.waiting, a.pod)
		}
		a.by.wakeUp()
	})
}

// step lets something happen, and returns false if nothing can but the change of the budget, or time.
func (mk *simulation) step() bool {
	var may []func()
	for _, s := range mk.drains {
		if len(s.changed) > 0 || !s.looked {
			may = append(may, func() { mk.look(s) })
		}
	}
	if n := len(mk.asked); n > 0 {
		may = append(may, func() { mk.serve(mk.r.IntN(n)) })
	}
	if n := len(mk.answers); n > 0 {
		i := mk.r.IntN(n)
		may = append(may, func() {
			answer := mk.answers[i]
			mk.answers = append(mk.answers[:i], mk.answers[i+1:]...)
			answer()
		})
	}
	if len(mk.watch) > 0 {
		may = append(may, func() { mk.l.update(mk.watch[0]); mk.watch = mk.watch[1:] })
	}
	if len(may) == 0 {
		return false
	}
	may[mk.r.IntN(len(may))]()
	return true
}

// rise has a replacement become healthy; the pods that were disrupted have gone from the status.
func (mk *simulation) rise() {
	mk.allowed++
	clear(mk.status)
	mk.publish()
}

func (mk *simulation) waiting() (n int) {
	for _, s := range mk.drains {
		n += len(s.waiting)
	}
	return n
}

// TestTheLedgerNeverAsksForMoreThanThereIs has drains in any order with answers and a watch that come late.
// As long as nobody else takes of the budget, the API server refuses nothing that the ledger gave; and nobody
// sleeps while there is something for him.
func TestTheLedgerNeverAsksForMoreThanThereIs(t *testing.T) {
	for seed := range uint64(1_200) {
		synctest.Test(t, func(t *testing.T) {
			mk := newSimulation(t, seed)
			for rises := 0; ; {
				if mk.r.IntN(15) == 0 && rises < 40 {
					mk.rise()
					rises++
				}
				if mk.step() {
					continue
				}
				if mk.waiting() == 0 {
					break
				}
				if mk.allowed > 0 {
					t.Fatalf("seed %d: everybody sleeps while %d wait, and %d are allowed", seed, mk.waiting(), mk.allowed)
				}
				mk.rise()
			}
			if mk.refused > 0 {
				t.Fatalf("seed %d: %d of %d requests were refused", seed, mk.refused, mk.refused+mk.granted)
			}
		})
	}
}

// TestTheLedgerRecoversFromWhatOthersTake has somebody else take of the budget, and the watch tell of it late.
// Then requests are refused, but at most one at a time, and still nobody sleeps for ever.
func TestTheLedgerRecoversFromWhatOthersTake(t *testing.T) {
	for seed := range uint64(1_000) {
		synctest.Test(t, func(t *testing.T) {
			mk := newSimulation(t, seed)
			for turns := 0; mk.waiting()+len(mk.asked)+len(mk.answers) > 0; turns++ {
				if turns > 5_000 {
					t.Fatalf("seed %d: %d wait for ever", seed, mk.waiting())
				}
				switch n := mk.r.IntN(20); {
				case n == 0:
					mk.rise()
				case n == 1 && mk.allowed > 0:
					mk.allowed--
					mk.publish()
				}
				if mk.step() {
					continue
				}
				if mk.r.IntN(2) == 0 {
					mk.rise()
					continue
				}
				for _, s := range mk.drains { // The loop looks again by itself.
					if len(s.waiting) > 0 && !s.again.IsZero() {
						elapse(max(time.Until(s.again), 0))
						s.wakeUp()
					}
				}
			}
		})
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
