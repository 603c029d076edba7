package drain

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// newTracker returns a pdbTracker whose watch is the test.
func newTracker(t testing.TB, pdbs ...*policyv1.PodDisruptionBudget) *pdbTracker {
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

func drainUntil(name string, deadline time.Duration) *waiter {
	return newWaiter(Target{Name: name, Deadline: at(deadline)})
}

// woken reports whether the drain was woken since the last call.
func (w *waiter) woken() bool {
	select {
	case <-w.changed:
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

// queue is the budget x/b, which drains wait for, and the pods that it has started.
type queue struct {
	*trackedPDB
	t       *testing.T
	tracker *pdbTracker
	started []string
}

func newQueue(t *testing.T, pdb *policyv1.PodDisruptionBudget) *queue {
	t.Helper()
	l := newTracker(t, pdb)
	return &queue{trackedPDB: l.find("x/b"), t: t, tracker: l}
}

// pod is one that leaves when the budget allows it.
func (q *queue) pod(name string) queuedPod {
	return queuedPod{name: name, start: func() (time.Time, bool) {
		q.started = append(q.started, name)
		return time.Time{}, true
	}}
}

// asked is a pod that is asked for a minute before it leaves.
func (q *queue) asked(name string) queuedPod {
	return queuedPod{name: name, start: func() (time.Time, bool) {
		q.started = append(q.started, name)
		return time.Now().Add(time.Minute), true
	}}
}

// wait hands over the pods of a drain.
func (q *queue) wait(w *waiter, names ...string) {
	c := &claim{drain: w, deadline: w.deadline(), blocked: len(names)}
	for _, name := range names {
		c.pods = append(c.pods, q.pod(name))
	}
	q.claim(w, c)
}

// expect compares what was started since the last call.
func (q *queue) expect(when string, want ...string) {
	q.t.Helper()
	synctest.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	if !slices.Equal(q.started, want) {
		q.t.Errorf("%s: started %q, want %q", when, q.started, want)
	}
	q.started = nil
}

// last evicts a pod for the last time, and reports whether it was started.
func (q *queue) last(name string) (started bool) {
	q.startLast(name, func() bool {
		q.started, started = append(q.started, name), true
		return true
	})
	return started
}

// hand hands over the pods of a drain, none of which takes turns.
func (q *queue) hand(w *waiter, pods ...queuedPod) {
	q.claim(w, &claim{drain: w, deadline: w.deadline(), pods: pods})
}

func (q *queue) expectAllowed(w *waiter, want int, when string) {
	q.t.Helper()
	if got := q.view(w).Allowed; got != want {
		q.t.Errorf("%s: allows %d, want %d", when, got, want)
	}
}

func TestReservationsCountUntilTheWatchShowsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, w := newQueue(t, newPDB(3)), drainUntil("n", 0)
		q.expectAllowed(w, 3, "at first")
		q.wait(w, "a", "b", "c", "d")
		q.expect("one at a time", "a")
		if b := q.view(w); !b.EvictionInFlight {
			t.Error("no eviction is in flight")
		}
		q.release("a", Accepted)
		q.expect("when the first is answered", "b")
		q.expectAllowed(w, 1, "with one accepted and one in flight")
		q.tracker.update(disrupting(2, "a"))
		q.expectAllowed(w, 1, "when the watch shows it")
		q.tracker.update(disrupting(1, "a", "b"))
		q.expectAllowed(w, 1, "when the watch is ahead of the answer")
		q.release("b", Accepted)
		q.expect("an answer after the watch", "c")
		q.release("c", Accepted)
		q.expect("no more than the budget allows")
	})
}

// TestLastEvictionTakesWhatIsReservedForACall, once: the pod that is asked may not leave for a minute.
func TestLastEvictionTakesWhatIsReservedForACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, w := newQueue(t, newPDB(1)), drainUntil("n", 0)
		q.hand(w, q.asked("asked"), q.pod("other"))
		q.expect("the disruption is reserved for the call", "asked")
		if b := q.view(w); b.Allowed != 0 || b.ReservedForCall != 1 || b.EvictionInFlight {
			t.Errorf("got %+v", b)
		}
		if !q.last("due") || q.last("due too") {
			t.Error("want that one last eviction takes it")
		}
		q.expect("the last eviction", "due")
		q.release("asked", None)
		q.expect("when the call has ended")
	})
}

// TestCallHoldsUpNoOtherPod of its budget, but keeps its disruption for as long as it may take, and no longer.
func TestCallHoldsUpNoOtherPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, w := newQueue(t, newPDB(2)), drainUntil("n", 0)
		q.hand(w, q.asked("asked"), q.pod("b"), q.pod("c"))
		q.expect("during the call", "asked", "b")
		q.startAfterCall("asked")
		q.release("b", None)
		q.expect("when the first eviction is answered", "c")
		q.release("c", None)
		q.startAfterCall("asked")
		if b := q.view(w); b.Allowed != 1 || !b.EvictionInFlight || b.StaleUntil.IsZero() {
			t.Errorf("during the eviction after the call: %+v", b)
		}
		q.release("asked", None)
		q.expectAllowed(w, 2, "after it")
		q.hand(w, q.asked("asked"))
		if b := q.view(w); !b.StaleUntil.IsZero() {
			t.Errorf("a call counts as a disruption: %+v", b)
		}
		time.Sleep(time.Minute)
		q.expectAllowed(w, 1, "while the call may have an answer")
		time.Sleep(writeTimeout)
		q.expectAllowed(w, 2, "long after the call, which no eviction has followed")
	})
}

func TestFailedRemovalsReleaseTheirReservation(t *testing.T) {
	for _, outcome := range []Outcome{Deferred, Refused, None} {
		synctest.Test(t, func(t *testing.T) {
			q, w := newQueue(t, newPDB(1)), drainUntil("n", 0)
			q.wait(w, "a", "b")
			q.expect("at first", "a")
			q.release("a", outcome)
			q.expect(string(outcome), "b")
		})
	}
}

func TestReservationsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, w := newQueue(t, newPDB(1)), drainUntil("n", 0)
		q.wait(w, "a", "b")
		q.release("a", Accepted)
		q.expect("at first", "a")
		if b := q.view(w); !b.StaleUntil.Equal(time.Now().Add(pdbUpdateTimeout)) {
			t.Errorf("settles in %v, want %v", time.Until(b.StaleUntil), pdbUpdateTimeout)
		}
		elapse(pdbUpdateTimeout - 1)
		q.expect("just before the reservation expires")
		elapse(1)
		q.expect("then", "b")
	})
}

func TestForcedDisruptionsCountForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, w := newQueue(t, newPDB(1)), drainUntil("n", 0)
		q.force("a", true, true)
		q.view(w)
		if q.release("a", Forced); !w.woken() {
			t.Error("a drain that has read the longer reservation is not woken")
		}
		q.wait(w, "b")
		q.expect("at first")
		if q.view(w).satisfied(time.Now()) {
			t.Error("the budget is satisfied while its numbers lag behind")
		}
		elapse(terminationLag)
		q.expect("then the watch is right", "b")
	})
}

func TestAFailedDeletionLetsTheNextPodLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, w := newQueue(t, newPDB(1)), drainUntil("n", 0)
		q.force("a", true, true)
		q.wait(w, "b")
		q.expect("with a deletion in flight")
		q.release("a", Denied)
		q.expect("when it has failed", "b")
	})
}

// force deletes a pod that x/b and a budget which is gone select.
func (q *queue) force(pod string, early, want bool) {
	q.t.Helper()
	removal := Removal{Pod: Pod{Name: pod, Ready: true, Budgets: []string{"x/b", "x/gone"}}, Kind: Deletion}
	if early {
		removal.Kind = EarlyDeletion
	}
	started := false
	q.tracker.startForced(&removal, func() bool { started = true; return true })
	if started != want {
		q.t.Errorf("%s, early %v: started %v", pod, early, started)
	}
}

func TestEarlyDeletionsAreStartedOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, w := newQueue(t, newPDB(0)), drainUntil("n", 0)
		q.force("a", true, true)
		q.force("b", true, false)
		q.force("c", false, true) // its latest deletion
		if q.view(w).satisfied(time.Now()) {
			t.Error("the budget is satisfied while requests are in flight")
		}
		q.release("a", Forced)
		q.release("c", Denied)
		q.force("b", true, false) // the watch has yet to show that there is one less
		elapse(terminationLag)
		q.force("b", true, true)
		q.release("b", Deferred)
		q.force("d", true, true)
	})
}

func TestTheEarliestDeadlineIsServedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, newPDB(0))
		first, second, third := drainUntil("c", 10*time.Minute), drainUntil("a", 20*time.Minute), drainUntil("b", 20*time.Minute)
		for _, w := range []*waiter{third, second, first} {
			q.wait(w, w.name+"1", w.name+"2")
		}
		q.tracker.update(newPDB(9))
		var got []string
		for range 6 {
			pod := q.started[len(q.started)-1]
			got = append(got, pod)
			q.release(pod, Accepted)
		}
		if want := "c1 c2 a1 a2 b1 b2"; strings.Join(got, " ") != want {
			t.Errorf("got %v, want %s", got, want)
		}
	})
}

func TestALaterDrainDoesNotTakeWhatAnEarlierOneWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, first, second := newQueue(t, newPDB(0)), drainUntil("a", time.Minute), drainUntil("b", time.Hour)
		q.wait(first, "a1", "a2")
		q.expectAllowed(second, -2, "the second")
		q.wait(second, "b1")
		q.tracker.update(newPDB(1))
		q.expect("one disruption", "a1")
		q.claim(first, nil)
		q.release("a1", None)
		q.expect("when the first has ended", "b1")
	})
}

func TestATightenedDeadlineComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, first, second := newQueue(t, newPDB(0)), drainUntil("a", time.Minute), drainUntil("b", time.Hour)
		q.wait(first, "a1")
		q.wait(second, "b1")
		second.tighten(at(30 * time.Second))
		if b := q.view(second); b.PodsOnLaterNodes != 1 {
			t.Errorf("got %+v", b)
		}
		q.tracker.update(newPDB(1))
		q.expect("one disruption", "b1")
	})
}

// TestAPodThatIsNotStartedHoldsUpNoOther: it is not as it was when its drain decided.
func TestAPodThatIsNotStartedHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, first, second := newQueue(t, newPDB(0)), drainUntil("a", time.Minute), drainUntil("b", time.Hour)
		q.hand(first, queuedPod{name: "a", start: func() (time.Time, bool) { return time.Time{}, false }})
		q.wait(second, "b")
		q.tracker.update(newPDB(1))
		q.expect("one disruption", "b")
	})
}

func TestProbesAfterARefusalThatTheWatchDidNotShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, w := newQueue(t, newPDB(2)), drainUntil("n", 0)
		pause := firstProbe
		q.wait(w, "a")
		q.expect("at first", "a")
		for i := range 12 {
			q.release("a", Blocked)
			b := q.view(w)
			if b.Allowed > 0 {
				t.Fatalf("allows %d after a refusal", b.Allowed)
			}
			until := time.Until(b.ProbeAt)
			if until < pause || until > pause+pause/4 {
				t.Fatalf("probed after %v, want %v and up to a quarter more", until, pause)
			}
			q.wait(w, "a", "b")
			elapse(until - 1)
			q.expect(fmt.Sprint("before the probe ", i))
			elapse(1)
			q.expect(fmt.Sprint("one pod is tried: ", i), "a")
			pause = min(2*pause, lastProbe)
		}
		q.tracker.update(newPDB(1))
		q.expect("with one in flight, after a change")
		q.release("a", Deferred)
		q.expect("after a change", "b")
		q.release("b", Blocked)
		if b := q.view(w); time.Until(b.ProbeAt) > firstProbe+firstProbe/4 {
			t.Errorf("after a change the probe is only after %v", time.Until(b.ProbeAt))
		}
	})
}

// TestProbesOfABudgetThatAllowsNothing: a refusal that agrees with the watch is no reason to probe soon.
func TestProbesOfABudgetThatAllowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, w := newQueue(t, newPDB(0)), drainUntil("n", 0)
		for range 5 {
			until := time.Until(q.view(w).ProbeAt)
			if until < lastProbe || until > lastProbe+lastProbe/4 {
				t.Fatalf("probed after %v, want %v and up to a quarter more", until, lastProbe)
			}
			q.wait(w, "a")
			elapse(until - 1)
			q.expect("before that")
			elapse(1)
			q.expect("then", "a")
			q.release("a", Blocked)
		}
	})
}

// BenchmarkBudgetOfManyDrains evicts a pod of each of 1,000 drains that share a budget, which allows one at a time. Each
// drain decides again when it has started, when it is woken, and when its pod was evicted.
func BenchmarkBudgetOfManyDrains(b *testing.B) {
	for b.Loop() {
		l := newTracker(b, newPDB(0))
		budget := l.find("x/b")
		drains, left := make([]*waiter, 1000), make([]int, 1000)
		started := -1
		decide := func(i int) {
			budget.view(drains[i])
			c := &claim{drain: drains[i], deadline: drains[i].deadline(), blocked: left[i]}
			for range left[i] {
				c.pods = append(c.pods, queuedPod{name: "pod", start: func() (time.Time, bool) {
					started = i
					return time.Time{}, true
				}})
			}
			budget.claim(drains[i], c)
		}
		woken := func() {
			for i, w := range drains {
				if w != nil && w.woken() {
					decide(i)
				}
			}
		}
		for i := range drains {
			drains[i], left[i] = drainUntil(fmt.Sprint(i), time.Duration(len(drains)-i)*time.Second), 3
			decide(i)
			woken()
		}
		for range 3 * len(drains) {
			l.update(newPDB(1))
			left[started]--
			l.update(disrupting(0, "pod"))
			budget.release("pod", Accepted)
			decide(started)
			woken()
		}
	}
}
