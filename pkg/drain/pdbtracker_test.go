package drain

import (
	"testing"
	"testing/synctest"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// newTracker returns a pdbTracker whose watch is the test.
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

// woken reports whether the drain was woken since the last call.
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
	p := newPDB(allowed)
	p.Status.DisruptedPods = map[string]metav1.Time{}
	for _, name := range pods {
		p.Status.DisruptedPods[name] = metav1.Now()
	}
	return p
}

// allows is what the budget x/b allows to the drain, and nothing more.
func (p *pdbTracker) allows(t *testing.T, r *waiter) int {
	t.Helper()
	b, ok := p.budget("x/b", r)
	if !ok {
		t.Fatal("the tracker does not know the budget")
	}
	return b.Allowed
}

// waitFor sets how many pods of the drain wait for x/b; with a negative number the drain has no demand.
func (p *pdbTracker) waitFor(r *waiter, pods int) {
	wants := map[string]int{}
	if pods >= 0 {
		wants["x/b"] = pods
	}
	p.setDemand(r, map[string]struct{}{"x/b": {}}, demands{waiting: wants})
}

func (p *pdbTracker) mustReserve(t *testing.T, pods ...string) {
	t.Helper()
	for _, pod := range pods {
		if !p.reserve("x/b", pod, false) {
			t.Fatalf("no reservation for %s", pod)
		}
	}
}

func expectAllowed(t *testing.T, got, want int, when string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: allows %d, want %d", when, got, want)
	}
}

func TestReservationsCountUntilTheWatchShowsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := newTracker(t, newPDB(3)), newWaiter("n", 0)
		expectAllowed(t, l.allows(t, r), 3, "at first")
		l.mustReserve(t, "a")
		expectAllowed(t, l.allows(t, r), 2, "with one in flight")
		if b, _ := l.budget("x/b", r); !b.EvictionInFlight || l.reserve("x/b", "b", false) {
			t.Error("a second eviction is sent before the first is answered")
		}
		l.release("x/b", "a", Accepted)
		l.mustReserve(t, "b")
		expectAllowed(t, l.allows(t, r), 1, "with one accepted and one in flight")
		l.update(disrupting(2, "a"))
		expectAllowed(t, l.allows(t, r), 1, "when the watch shows it")
		l.update(disrupting(1, "a", "b"))
		expectAllowed(t, l.allows(t, r), 1, "when the watch is ahead of the answer")
		l.release("x/b", "b", Accepted)
		expectAllowed(t, l.allows(t, r), 1, "when the answer has come")
		l.mustReserve(t, "c")
		if l.reserve("x/b", "d", false) {
			t.Error("reserved more than the budget allows")
		}
	})
}

// TestLastEvictionTakesWhatIsReservedForACall, once: the pod that is asked may not leave for a minute.
func TestLastEvictionTakesWhatIsReservedForACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := newTracker(t, newPDB(1)), newWaiter("n", 0)
		if !l.reserveForCall("x/b", "asked", at(time.Minute)) || l.reserve("x/b", "other", false) {
			t.Fatal("the disruption is not reserved for the call")
		}
		if b, _ := l.budget("x/b", r); b.Allowed != 0 || b.ReservedForCall != 1 {
			t.Errorf("got %+v", b)
		}
		if !l.reserve("x/b", "due", true) || l.reserve("x/b", "due too", true) {
			t.Error("want that one last eviction takes it")
		}
		l.release("x/b", "asked", None)
		expectAllowed(t, l.allows(t, r), 0, "when the call has ended")
	})
}

// TestCallHoldsUpNoOtherPod of its budget, but keeps its disruption for as long as it may take, and no longer.
func TestCallHoldsUpNoOtherPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := newTracker(t, newPDB(2)), newWaiter("n", 0)
		l.waitFor(r, 1)
		if !l.reserveForCall("x/b", "asked", time.Now().Add(time.Minute)) || !r.woken() {
			t.Fatal("the disruption is not reserved, or the next drain is not woken")
		}
		if b, _ := l.budget("x/b", r); b.Allowed != 1 || b.EvictionInFlight || !b.StaleUntil.IsZero() {
			t.Errorf("during the call: %+v", b)
		}
		l.mustReserve(t, "b")
		l.startAfterCall("x/b", "asked")
		l.release("x/b", "b", None)
		l.startAfterCall("x/b", "asked")
		if b, _ := l.budget("x/b", r); b.Allowed != 1 || !b.EvictionInFlight {
			t.Errorf("during its eviction: %+v", b)
		}
		l.release("x/b", "asked", None)
		expectAllowed(t, l.allows(t, r), 2, "after it")
		if !l.reserveForCall("x/b", "asked", time.Now().Add(time.Minute)) {
			t.Fatal("the disruption is not reserved")
		}
		time.Sleep(time.Minute)
		expectAllowed(t, l.allows(t, r), 1, "while the call may have an answer")
		time.Sleep(writeTimeout)
		expectAllowed(t, l.allows(t, r), 2, "long after the call, which no eviction has followed")
	})
}

func TestFailedRemovalsReleaseTheirReservation(t *testing.T) {
	for _, outcome := range []Outcome{Deferred, Refused, None} {
		synctest.Test(t, func(t *testing.T) {
			l, r := newTracker(t, newPDB(1)), newWaiter("n", 0)
			l.mustReserve(t, "a")
			expectAllowed(t, l.allows(t, r), 0, "with one in flight")
			r.woken()
			l.release("x/b", "a", outcome)
			expectAllowed(t, l.allows(t, r), 1, string(outcome))
			if !r.woken() {
				t.Errorf("%s: no drain is woken", outcome)
			}
		})
	}
}

func TestAFailedDeletionWakesADrainThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := newTracker(t, newPDB(1)), newWaiter("n", 0)
		l.reserveForced([]string{"x/b"}, "a", true)
		expectAllowed(t, l.allows(t, r), 0, "with a deletion in flight")
		l.waitFor(r, 1)
		r.woken()
		if l.release("x/b", "a", Denied); !r.woken() {
			t.Error("the drain is not woken")
		}
	})
}

func TestReservationsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := newTracker(t, newPDB(1)), newWaiter("n", 0)
		l.mustReserve(t, "a")
		l.release("x/b", "a", Accepted)
		if b, _ := l.budget("x/b", r); !b.StaleUntil.Equal(time.Now().Add(pdbUpdateTimeout)) {
			t.Errorf("settles in %v, want %v", time.Until(b.StaleUntil), pdbUpdateTimeout)
		}
		l.waitFor(r, 1)
		elapse(pdbUpdateTimeout - 1)
		expectAllowed(t, l.allows(t, r), 0, "just before")
		l.waitFor(r, 1)
		if elapse(1); !r.woken() {
			t.Error("not woken when the reservation expires")
		}
		expectAllowed(t, l.allows(t, r), 1, "then")
		if b, _ := l.budget("x/b", r); !b.StaleUntil.IsZero() {
			t.Errorf("settles in %v still", time.Until(b.StaleUntil))
		}
	})
}

func TestForcedDisruptionsCountForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := newTracker(t, newPDB(1)), newWaiter("n", 0)
		l.reserveForced([]string{"x/b"}, "a", true)
		l.allows(t, r)
		l.waitFor(r, 0)
		if l.release("x/b", "a", Forced); !r.woken() {
			t.Error("a drain that has read the longer reservation is not woken")
		}
		expectAllowed(t, l.allows(t, r), 0, "at first")
		if b, _ := l.budget("x/b", r); b.satisfied(time.Now()) {
			t.Error("the budget is satisfied while its numbers lag behind")
		}
		elapse(terminationLag)
		expectAllowed(t, l.allows(t, r), 1, "then the watch is right")
		if b, _ := l.budget("x/b", r); !b.satisfied(time.Now()) {
			t.Error("the budget is not satisfied")
		}
	})
}

func TestEarlyDeletionsAreReservedOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := newTracker(t, newPDB(0)), newWaiter("n", 0)
		force := func(pod string, early, want bool) {
			t.Helper()
			if got := l.reserveForced([]string{"x/b", "x/gone"}, pod, early); got != want {
				t.Errorf("%s, early %v: got %v", pod, early, got)
			}
		}
		force("a", true, true)
		force("b", true, false)
		force("c", false, true) // its latest deletion
		if b, _ := l.budget("x/b", r); b.satisfied(time.Now()) {
			t.Error("the budget is satisfied while requests are in flight")
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

func TestTheEarliestDeadlineIsServedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTracker(t, newPDB(2))
		first, second, third := newWaiter("c", 10*time.Minute), newWaiter("a", 20*time.Minute), newWaiter("b", 20*time.Minute)
		for _, r := range []*waiter{third, second, first} {
			expectAllowed(t, l.allows(t, r), 2, r.name+" before any pod waits")
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
			t.Error("the drains that may use what the first gave up are not woken")
		}
	})
}

// TestADrainThatPausesHoldsUpNoOther: what it waited for is free for the next drain, which is woken.
func TestADrainThatPausesHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, first, second := newTracker(t, newPDB(1)), newWaiter("first", time.Minute), newWaiter("second", time.Hour)
		l.waitFor(first, 1)
		l.waitFor(second, 1)
		expectAllowed(t, l.allows(t, second), 0, "while an earlier drain waits")
		l.waitFor(second, 1)
		second.woken()
		l.pause(first, map[string]struct{}{"x/b": {}})
		if expectAllowed(t, l.allows(t, second), 1, "while it does something else"); !second.woken() {
			t.Error("the next drain is not woken")
		}
	})
}

func TestADrainThatReadsABudgetIsWokenByAnyChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := newTracker(t, newPDB(0)), newWaiter("n", 0)
		l.update(newPDB(0))
		if r.woken() {
			t.Error("woken before it has read the budget")
		}
		l.allows(t, r)
		l.update(newPDB(0))
		if !r.woken() {
			t.Error("not woken between reading the budget and setting its demand")
		}
		l.waitFor(r, -1)
		l.update(newPDB(1))
		if r.woken() {
			t.Error("woken without a demand")
		}
	})
}

// TestAnAnswerAfterTheWatch wakes the next drain, which the change in the watch did not wake: evictions are sent one
// after the other.
func TestAnAnswerAfterTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := newTracker(t, newPDB(2)), newWaiter("n", 0)
		l.mustReserve(t, "a")
		l.allows(t, r)
		l.waitFor(r, 1)
		if l.update(disrupting(1, "a")); r.woken() {
			t.Error("woken while an eviction is in flight")
		}
		if l.release("x/b", "a", Accepted); !r.woken() {
			t.Error("not woken by the answer")
		}
	})
}

func TestEndOfADemandWakesNoDrainIfNothingIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, first, second := newTracker(t, newPDB(1)), newWaiter("a", 0), newWaiter("b", 0)
		l.allows(t, first)
		l.waitFor(first, 1)
		l.allows(t, second)
		l.waitFor(second, 1)
		second.woken()
		l.allows(t, first)
		l.mustReserve(t, "a")
		l.waitFor(first, -1)
		if second.woken() {
			t.Error("woken although nothing is left")
		}
	})
}

func TestProbesAfterARefusalThatTheWatchDidNotShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := newTracker(t, newPDB(2)), newWaiter("n", 0)
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
				t.Fatalf("probed after %v, want %v and up to a quarter more", until, pause)
			}
			if l.reserve("x/b", "a", false) {
				t.Fatal("reserved without a pause")
			}
			elapse(until)
			l.mustReserve(t, "a")
			if l.reserve("x/b", "b", false) {
				t.Fatal("reserved for two pods at once")
			}
			pause = min(2*pause, lastProbe)
		}
		l.update(newPDB(1))
		expectAllowed(t, l.allows(t, r), 0, "with one in flight, after a change")
		l.release("x/b", "a", Deferred)
		expectAllowed(t, l.allows(t, r), 1, "after a change")
		l.mustReserve(t, "a")
		l.release("x/b", "a", Blocked)
		if b, _ := l.budget("x/b", r); time.Until(b.ProbeAt) > firstProbe+firstProbe/4 {
			t.Errorf("after a change the probe is only after %v", time.Until(b.ProbeAt))
		}
	})
}

// TestProbesOfABudgetThatAllowsNothing: a refusal that agrees with the watch is no reason to probe soon.
func TestProbesOfABudgetThatAllowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := newTracker(t, newPDB(0)), newWaiter("n", 0)
		for range 5 {
			b, _ := l.budget("x/b", r)
			until := time.Until(b.ProbeAt)
			if until < lastProbe || until > lastProbe+lastProbe/4 {
				t.Fatalf("probed after %v, want %v and up to a quarter more", until, lastProbe)
			}
			elapse(until - 1)
			if l.reserve("x/b", "a", false) {
				t.Fatal("reserved before that")
			}
			elapse(1)
			l.mustReserve(t, "a")
			l.release("x/b", "a", Blocked)
		}
	})
}
