package drain

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	policyv1 "k8s.io/api/policy/v1"
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
)

// waiter is a drain as the pdbTracker knows it.
type waiter struct {
	name     string        // of the node
	deadline time.Time     // only the goroutine of the drain changes it, under the tracker's lock
	changed  chan struct{} // receives when the drain may have something to do
}

// compare is negative if this drain is served before the other by a budget that both wait for.
func (w *waiter) compare(other *waiter) int {
	return cmp.Or(w.deadline.Compare(other.deadline), cmp.Compare(w.name, other.name))
}

func (w *waiter) wakeUp() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// demands are the pods of a drain that need each budget. A budget in waiting with zero pods is one whose
// changes the drain wants to know.
type demands struct {
	waiting map[string]int // pods that could be evicted now
	blocked map[string]int // all pods that it blocks, or that wait for something else (see takesTurns)
}

func (d demands) add(w Waiting) {
	if w.Reason != LaterTier && !isReported(w.Reason) {
		return
	}
	for _, name := range w.Pod.Budgets {
		d.blocked[name]++
		d.waiting[name] += 0
		isReady := w.Pod.Try.Last != Sent && !time.Now().Before(w.Pod.Try.Next)
		if isReady && (w.Reason == BlockedByBudget || w.Reason == RefusedByWebhook) {
			d.waiting[name]++
		}
	}
}

// demand is what one drain wants of one budget.
type demand struct {
	pods    int  // that wait for it
	reading bool // the drain is deciding by what it has read, and will say how many pods wait
}

// trackedPDB is one PodDisruptionBudget. The tracker's lock guards it.
type trackedPDB struct {
	selects  labels.Selector
	budget   Budget               // as the watch shows it; StaleUntil and ProbeAt are set by pdbTracker.budget
	reserved map[string]time.Time // by pod: disruptions that the watch does not show, and until when they count
	demands  map[*waiter]demand   // of the drains that are woken by changes
	blocked  map[*waiter]int      // pods of each drain that take turns, even if it never allows a disruption
	probeAt  time.Time
	refusals int    // since the last change in the watch, of what the watch had allowed
	inflight string // the pod whose eviction has been sent
	asked    string // the pod whose eviction follows a call
}

// update takes over what the watch shows, and reports whether the budget may select other pods than before.
func (t *trackedPDB) update(pdb *policyv1.PodDisruptionBudget) (selectsOthers bool) {
	selects, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
	if err != nil {
		selects = labels.Nothing() // the API server admits no such selector
	}
	selectsOthers = t.selects == nil || t.selects.String() != selects.String()
	t.selects = selects
	policy := pdb.Spec.UnhealthyPodEvictionPolicy
	t.budget = Budget{
		Allowed: int(pdb.Status.DisruptionsAllowed), Healthy: int(pdb.Status.CurrentHealthy),
		Desired: int(pdb.Status.DesiredHealthy), Expected: int(pdb.Status.ExpectedPods),
		AlwaysAllow: policy != nil && *policy == policyv1.AlwaysAllow,
		Operated:    isOperated(pdb),
	}
	for _, c := range pdb.Status.Conditions {
		if c.Type == policyv1.DisruptionAllowedCondition && c.Reason == policyv1.SyncFailedReason {
			t.budget.SyncFailed = cmp.Or(c.Message, c.Reason)
		}
	}
	for pod := range pdb.Status.DisruptedPods {
		delete(t.reserved, pod)
	}
	t.refusals, t.probeAt = 0, time.Now().Add(jittered(lastProbe))
	if t.budget.Operated && t.budget.Allowed <= 0 {
		t.probeAt = time.Now().Add(jittered(firstProbe)) // the eviction may be what its operator acts on, in a webhook
	}
	return selectsOthers
}

// isOperated reports whether an operator maintains the budget: an object owns it, or, since Zalando's operator for
// PostgreSQL sets no owner, it selects by the role that this operator gives to pods
// (https://postgres-operator.readthedocs.io/en/latest/administrator/#administrator-guide).
func isOperated(pdb *policyv1.PodDisruptionBudget) bool {
	if len(pdb.OwnerReferences) > 0 {
		return true
	}
	if pdb.Spec.Selector == nil {
		return false
	}
	_, byRole := pdb.Spec.Selector.MatchLabels["spilo-role"]
	return byRole
}

// wakeAll wakes every drain that wants something of the budget.
func (t *trackedPDB) wakeAll() {
	for w := range t.demands {
		w.wakeUp()
	}
}

// wakeNext wakes the drain that may use the next disruption, if the budget allows one, and the drains that
// have read the budget and not decided yet. If each change woke all drains, the cost would be quadratic in
// their number.
func (t *trackedPDB) wakeNext() {
	var queue []*waiter
	for w, d := range t.demands {
		switch {
		case d.reading:
			w.wakeUp()
		case d.pods > 0:
			queue = append(queue, w)
		}
	}
	if len(queue) > 0 && t.inflight == "" && t.budget.Allowed > t.reservations(time.Now()) {
		slices.MinFunc(queue, (*waiter).compare).wakeUp()
	}
}

// reservations counts the disruptions that the watch does not show yet, without those that it should have
// shown by now.
func (t *trackedPDB) reservations(now time.Time) int {
	maps.DeleteFunc(t.reserved, func(_ string, until time.Time) bool { return !now.Before(until) })
	return len(t.reserved)
}

// reservedForCall is the number of reservations, 0 or 1, for an eviction that follows a call.
func (t *trackedPDB) reservedForCall() int {
	if _, ok := t.reserved[t.asked]; ok {
		return 1
	}
	return 0
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

// setDemand sets how many pods of the drain wait. If there are fewer than before, another drain may be
// served.
func (t *trackedPDB) setDemand(w *waiter, pods int, wanted bool) {
	before := t.demands[w].pods
	if delete(t.demands, w); wanted {
		t.demands[w] = demand{pods: pods}
	}
	if pods < before && t.budget.Allowed > len(t.reserved) {
		t.wakeNext()
	}
}

// setBlocked sets how many pods of the drain are blocked. Drains with an earlier deadline delete their pods
// before these (see earliestDeletion), so they must decide again if there are more.
func (t *trackedPDB) setBlocked(w *waiter, pods int) {
	more := pods > t.blocked[w]
	if t.blocked[w] = pods; pods == 0 {
		delete(t.blocked, w)
	}
	for other := range t.demands {
		if more && other.compare(w) < 0 {
			other.wakeUp()
		}
	}
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
