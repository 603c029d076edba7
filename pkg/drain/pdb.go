package drain

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	// pdbUpdateTimeout is how long a disruption that the API server has accepted is counted if the watch does
	// not show it.
	pdbUpdateTimeout = 5 * time.Second
	// firstProbe and lastProbe bound the pause before an eviction is tried although the budget allows none. The
	// pause is lastProbe if the watch says that nothing is allowed. It starts at firstProbe and doubles with
	// each refusal if the watch said otherwise. It starts again when the watch shows a change.
	firstProbe, lastProbe = 100 * time.Millisecond, 2 * time.Minute
	// wakePause is the shortest pause between two instants at which a budget wakes all of its drains, so that many
	// drains that start at the same time do not all wake each other.
	wakePause = time.Second
)

// waiter is a drain as budgets and volumes know it.
type waiter struct {
	name    string                    // of the node
	end     atomic.Pointer[time.Time] // the deadline of the drain
	changed chan struct{}             // receives when the drain may have something to do

	// Of the goroutine of the drain:
	given, latest time.Time // the deadline that it has without controls, and the latest that it can have
	asked         time.Time // in place of the given one; zero if none is
}

func newWaiter(t Target) *waiter {
	w := &waiter{
		name: t.Name, changed: make(chan struct{}, 1), given: t.Deadline, latest: laterOf(t.Latest, t.Deadline),
	}
	w.end.Store(&t.Deadline)
	return w
}

func (w *waiter) deadline() time.Time { return *w.end.Load() }

// tighten brings the deadline forward, and the latest that it can have. Only the goroutine of the drain calls it.
func (w *waiter) tighten(deadline time.Time) {
	if !deadline.IsZero() && deadline.Before(w.latest) {
		w.given, w.latest = earliest(w.given, deadline), deadline
		w.set()
	}
}

// control has the drain end by the deadline that is asked for; zero is the given one. It reports whether that has
// changed the deadline. Only the goroutine of the drain calls it.
func (w *waiter) control(asked time.Time) (changed bool) {
	before := w.deadline()
	w.asked = asked
	w.set()
	return !w.deadline().Equal(before)
}

func (w *waiter) set() {
	deadline := w.given
	if !w.asked.IsZero() {
		deadline = earliest(w.asked, w.latest)
	}
	w.end.Store(&deadline)
}

func (w *waiter) wakeUp() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// claim is what one drain wants of one budget.
type claim struct {
	drain    *waiter
	deadline time.Time   // of the drain when it has decided last
	pods     []queuedPod // its pods that wait, in the order in which they leave
	blocked  int         // all of its pods that take turns, even if the budget never allows a disruption
}

// compare is negative if the budget serves this claim before the other.
func (c *claim) compare(other *claim) int {
	return cmp.Or(c.deadline.Compare(other.deadline), cmp.Compare(c.drain.name, other.drain.name))
}

func (c *claim) add(release *Release, start func() (callEnd time.Time, ok bool)) {
	c.pods = append(c.pods, queuedPod{release.Removal.Pod.Name, start})
}

// queuedPod is a pod that leaves as soon as its budget allows that.
type queuedPod struct {
	name string
	// start starts the eviction, or a call that the eviction follows, which ends by callEnd. It returns false if the
	// drain is to decide about the pod again. It does not block, and uses no budget.
	start func() (callEnd time.Time, ok bool)
}

// trackedPDB is one PodDisruptionBudget, and the pods that wait for it.
type trackedPDB struct {
	selects labels.Selector // the pdbTracker's lock guards it

	mu       sync.Mutex // guards what follows
	deleted  bool
	budget   Budget               // as the watch shows it
	reserved map[string]time.Time // by pod: disruptions that the watch does not show, and until when they count
	queue    []*claim             // of the drains that changes matter to, in the order in which they are served
	probeAt  time.Time
	refusals int         // since the last change in the watch, of what the watch had allowed
	inflight string      // the pod whose eviction has been sent
	asked    string      // the pod whose eviction follows a call
	timer    *time.Timer // calls grant when time alone allows the next eviction
	wokenAt  time.Time   // when all drains were woken, or will be
}

func newTrackedPDB(b Budget) *trackedPDB {
	t := &trackedPDB{reserved: map[string]time.Time{}, budget: b}
	t.timer = time.AfterFunc(time.Hour, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.grant()
	})
	t.timer.Stop()
	return t
}

// show takes over what the watch shows.
func (t *trackedPDB) show(b Budget, disrupted map[string]metav1.Time, selectsOthers bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.budget.state()
	t.budget = b
	for pod := range disrupted {
		delete(t.reserved, pod)
	}
	pause := lastProbe
	if b.Operated && b.Allowed <= 0 {
		pause = firstProbe // the eviction may be what its operator acts on, in a webhook
	}
	t.refusals, t.probeAt = 0, time.Now().Add(jittered(pause))
	if selectsOthers || b.state() != before {
		t.wakeAll()
	}
	t.grant()
}

// remove wakes the drains of a budget that was deleted. It protects nothing any more.
func (t *trackedPDB) remove() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deleted = true
	t.wake()
}

// view returns the budget as it is for one drain: less what the watch does not show yet, and less what drains with an
// earlier deadline wait for. From then on a change wakes the drain, unless it is only about the next disruption.
func (t *trackedPDB) view(w *waiter) Budget {
	t.mu.Lock()
	defer t.mu.Unlock()
	own, now := t.take(w), time.Now()
	own.deadline = w.deadline()
	t.put(own)
	b, later := t.budget, false
	b.Allowed -= t.reservations(now)
	for _, c := range t.queue {
		switch {
		case c == own:
			later = true
		case later:
			b.PodsOnLaterNodes += c.blocked
		default:
			b.Allowed -= len(c.pods)
		}
	}
	b.ProbeAt, b.EvictionInFlight, b.StaleUntil = t.probeAt, t.inflight != "", t.staleUntil()
	if _, ok := t.reserved[t.asked]; ok {
		b.ReservedForCall = 1
	}
	return b
}

// claim replaces what the drain wants of the budget; nil is nothing. It starts what is granted.
func (t *trackedPDB) claim(w *waiter, c *claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if before := t.take(w); c != nil {
		t.put(c)
		if c.blocked > before.blocked {
			t.wakeAll() // drains with an earlier deadline delete their pods before these (see earliestDeletion)
		}
	}
	t.grant()
}

// take removes the claim of the drain, and returns it, or an empty one. The lock is held, as in all methods below that
// do not take it.
func (t *trackedPDB) take(w *waiter) *claim {
	i := slices.IndexFunc(t.queue, func(c *claim) bool { return c.drain == w })
	if i < 0 {
		return &claim{drain: w}
	}
	c := t.queue[i]
	t.queue = slices.Delete(t.queue, i, i+1)
	return c
}

func (t *trackedPDB) put(c *claim) {
	i, _ := slices.BinarySearchFunc(t.queue, c, (*claim).compare)
	t.queue = slices.Insert(t.queue, i, c)
}

// grant starts what the budget allows now: one eviction at a time, except that calls hold up no other pod. The
// earliest deadline comes first.
func (t *trackedPDB) grant() {
	for t.inflight == "" && !t.deleted {
		i := slices.IndexFunc(t.queue, func(c *claim) bool { return len(c.pods) > 0 })
		if i < 0 {
			break
		}
		now, c := time.Now(), t.queue[i]
		if at := t.allowsAt(now); now.Before(at) {
			t.timer.Reset(at.Sub(now))
			return
		}
		next := c.pods[0]
		c.pods = c.pods[1:]
		if callEnd, ok := next.start(); ok {
			t.reserve(next.name, callEnd, now)
		}
	}
	t.timer.Stop()
}

// allowsAt returns when the budget allows the next eviction, or when one is tried, if nothing changes before.
func (t *trackedPDB) allowsAt(now time.Time) time.Time {
	if t.budget.Allowed > t.reservations(now) {
		return now
	}
	at := t.probeAt
	for _, until := range t.reserved {
		at = earliest(at, until)
	}
	return at
}

// reserve counts the disruption of an eviction that is sent now, or that follows a call which ends by then.
func (t *trackedPDB) reserve(pod string, callEnd, now time.Time) {
	if t.budget.Allowed <= t.reservations(now) {
		t.probeAt = now.Add(2 * writeTimeout)
	}
	if !callEnd.IsZero() {
		t.asked, t.reserved[pod] = pod, callEnd.Add(writeTimeout)
		return
	}
	if t.asked == pod {
		t.asked = ""
	}
	t.inflight, t.reserved[pod] = pod, now.Add(2*writeTimeout)
}

// startLast starts the last eviction of a pod, which waits for no other one that is in flight, and takes the disruption
// that is reserved for a call, unless the budget allows none.
func (t *trackedPDB) startLast(pod string, start func() bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.budget.Allowed <= t.reservations(now) {
		delete(t.reserved, t.asked)
	}
	isProbe := t.budget.Allowed <= t.reservations(now)
	if isProbe && !t.deleted && (t.inflight != "" || now.Before(t.probeAt)) {
		return
	}
	if start() {
		t.reserve(pod, time.Time{}, now)
	}
}

// startAfterCall records that the eviction is sent which follows a call. It does not wait for another one in flight: no
// answer is used later than it was given.
func (t *trackedPDB) startAfterCall(pod string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inflight != "" {
		return
	}
	t.inflight = pod
	if _, ok := t.reserved[pod]; ok { // else a last eviction has taken it
		t.reserved[pod] = time.Now().Add(2 * writeTimeout)
	}
}

// release ends a reservation by the outcome of the removal. That of an accepted one is kept until the watch
// shows the disruption.
func (t *trackedPDB) release(pod string, outcome Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.inflight == pod {
		t.inflight = ""
	}
	_, reserved := t.reserved[pod]
	delete(t.reserved, pod)
	switch outcome {
	case Accepted:
		if reserved {
			t.reserved[pod] = now.Add(pdbUpdateTimeout)
		}
	case Forced:
		// A deletion is never listed in disruptedPods. It shows in the number of healthy pods only. Drains that
		// have read the longer reservation decide again: they may delete the next pod earlier.
		t.reserved[pod] = now.Add(terminationLag)
		t.wakeAll()
	case Blocked:
		t.refused(now)
	}
	t.grant()
}

// refused records that the API server allows nothing now. If the watch said otherwise, it is behind, and the
// next probe comes soon, or later after each refusal. If both agree, there is no reason to probe soon.
func (t *trackedPDB) refused(now time.Time) {
	pause := lastProbe
	if t.budget.Allowed > 0 || t.refusals > 0 {
		pause = backoff(firstProbe, lastProbe, t.refusals)
		t.refusals++
	}
	t.budget.Allowed = 0
	t.probeAt = now.Add(jittered(pause))
}

// wakeAll wakes every drain that wants something of the budget, unless it has just done so. Then it does so after
// wakePause.
func (t *trackedPDB) wakeAll() {
	now := time.Now()
	if len(t.queue) == 0 || now.Before(t.wokenAt) {
		return // there is none, or all will be woken
	}
	if pause := t.wokenAt.Add(wakePause).Sub(now); pause > 0 {
		t.wokenAt = now.Add(pause)
		time.AfterFunc(pause, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.wake()
		})
		return
	}
	t.wokenAt = now
	t.wake()
}

func (t *trackedPDB) wake() {
	for _, c := range t.queue {
		c.drain.wakeUp()
	}
}

// reservations counts the disruptions that the watch does not show yet, without those that it should have
// shown by now.
func (t *trackedPDB) reservations(now time.Time) int {
	maps.DeleteFunc(t.reserved, func(_ string, until time.Time) bool { return !now.Before(until) })
	return len(t.reserved)
}

// staleUntil returns until when the watch may not show a disruption; zero if it shows all of them. A pod that is being
// asked is none.
func (t *trackedPDB) staleUntil() (stale time.Time) {
	t.reservations(time.Now())
	for pod, until := range t.reserved {
		if pod != t.asked || pod == t.inflight {
			stale = laterOf(stale, until)
		}
	}
	return stale
}

// backoff is the pause after n failures: it starts at first and doubles up to longest.
func backoff(first, longest time.Duration, n int) time.Duration {
	return min(first<<min(n, 20), longest)
}

// jittered adds up to a quarter at random, so that simultaneous failures are not all retried at the same
// time.
func jittered(d time.Duration) time.Duration {
	return d + rand.N(d/4) //nolint:gosec // spreads requests, keeps no secret
}
