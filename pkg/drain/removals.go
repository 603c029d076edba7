package drain

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// removals are the evictions and deletions of one drain, and their results.
type removals struct {
	drainer *Drainer
	target  func() Target
	wakeUp  func()
	pods    *podWatch
	started time.Time
	workers sync.WaitGroup

	handOvers *handOvers

	mu     sync.Mutex
	tries  map[string]Try                // by UID
	seen   map[string]*history           // the pods that had to leave, by UID
	queued map[string]context.CancelFunc // by UID: end the wait for a slot
	forced map[string]struct{}           // those that were removed in spite of their budget or annotations, by UID
	// granted is when the grace periods end that were granted before the deadline, by UID.
	granted map[string]time.Time
}

// fillTries adds to the pods what has been tried, and forgets what was tried with pods that are not leaving
// any more.
func (a *removals) fillTries(pods []Pod, leaving map[string]struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range pods {
		if pods[i].StayReason == "" {
			pods[i].Try = a.tries[pods[i].UID]
		}
	}
	a.note(pods, leaving)
	for uid, try := range a.tries {
		// A pod that the watch does not show yet keeps the request that is in flight.
		if _, ok := leaving[uid]; !ok && try.Last != Sent && !time.Now().Before(try.Next) {
			delete(a.tries, uid)
		}
	}
}

// report returns how many pods had to leave, how many of them by force, and, by the last step, what became of them.
func (a *removals) report(last Step) Report {
	a.mu.Lock()
	defer a.mu.Unlock()
	return Report{Total: len(a.seen), Forced: len(a.forced), Pods: a.podReports(last)}
}

// total returns how many pods had to leave.
func (a *removals) total() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.seen)
}

// start calls remove in a goroutine as soon as the Drainer has a free slot, unless the pod is not as it was when the
// removal was decided. The goroutine ends with the request; a pod that waits for anything else has none. A member of a
// group that is removed so does not wait for its turn. Removals are passed as pointers: they are large, and thousands
// of goroutines may wait for a slot, each with its stack.
func (a *removals) start(ctx context.Context, removal *Removal, remove func(context.Context, *Removal)) (ok bool) {
	queueing, ok := a.enqueue(ctx, removal)
	if ok {
		a.workers.Go(func() {
			a.run(ctx, queueing, removal, func(ctx context.Context, removal *Removal) {
				if removal.Pod.HandOver.Kind != "" {
					defer a.drainer.turns.remove(removal.Pod.Namespace)()
				}
				remove(ctx, removal)
			})
		})
	}
	return ok
}

// enqueue records that a removal is started. It returns a context that ends when the removal is to be decided again,
// and false if another one was started since the removal was decided.
func (a *removals) enqueue(ctx context.Context, removal *Removal) (queueing context.Context, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	try := a.tries[removal.Pod.UID]
	if try.Last == Sent || try != removal.Pod.Try {
		return nil, false
	}
	try.Last, try.Next = Sent, time.Time{}
	a.tries[removal.Pod.UID] = try
	queueing, a.queued[removal.Pod.UID] = until(ctx, removal.Until)
	return queueing, true
}

// hasChanged reports whether the removal of the pod was tried since it was decided about.
func (a *removals) hasChanged(pod Pod) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tries[pod.UID] != pod.Try
}

// run calls remove when the Drainer has a free slot.
func (a *removals) run(
	ctx, queueing context.Context, removal *Removal, remove func(context.Context, *Removal),
) {
	a.handOvers.report(&removal.Pod)
	slots := a.drainer.slots.of(removal)
	granted := slots.acquire(queueing, a.target().Deadline)
	a.mu.Lock()
	a.queued[removal.Pod.UID]()
	delete(a.queued, removal.Pod.UID)
	a.mu.Unlock()
	if !granted {
		a.giveUp(ctx, removal)
		return
	}
	defer slots.release()
	remove(ctx, removal)
}

func until(ctx context.Context, t time.Time) (context.Context, context.CancelFunc) {
	if t.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, t)
}

// requeue has everything that waits for a slot decided again.
func (a *removals) requeue() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, cancel := range a.queued {
		cancel()
	}
}

// giveUp records that a request got no slot, and wakes the drain. After a last eviction the pod is deleted.
func (a *removals) giveUp(ctx context.Context, removal *Removal) {
	a.release(*removal, None)
	if ctx.Err() != nil {
		return
	}
	try := removal.Pod.Try
	if removal.Kind == LastEviction && !time.Now().Before(removal.Until) {
		try = Try{Last: Deferred, Eviction: true, Message: "too many evictions are in flight"}
	}
	a.mu.Lock()
	a.tries[removal.Pod.UID] = try
	a.mu.Unlock()
	a.wakeUp()
}

func (a *removals) evict(ctx context.Context, queued *Removal) {
	removal := *queued
	err := a.drainer.remover.evict(ctx, removal)
	outcome, message := evictionOutcome(err)
	outcome, message, err = a.verifyGone(ctx, removal.Pod, outcome, message, err)
	if outcome == Accepted {
		a.noteRemoved(removal, Evicted)
		a.drainer.observer.PodEvicted(a.target(), removal, time.Since(a.started))
		if removal.Reason != "" && a.markForced(removal.Pod.UID) {
			a.drainer.observer.PodForced(a.target(), removal)
		}
	}
	a.finish(ctx, removal, outcome, message, err)
}

func (a *removals) forceDelete(ctx context.Context, queued *Removal) {
	removal := *queued
	err := a.drainer.remover.delete(ctx, removal)
	outcome, message := deletionOutcome(err)
	outcome, message, err = a.verifyGone(ctx, removal.Pod, outcome, message, err)
	if outcome == Forced {
		a.noteRemoved(removal, Deleted)
		if a.markForced(removal.Pod.UID) {
			a.drainer.observer.PodForced(a.target(), removal)
		}
	}
	a.finish(ctx, removal, outcome, message, err)
}

// verifyGone returns the outcome of a request for which the answer says that the pod may be gone: accepted if a read
// shows that it is gone, or terminating, and deferred if the read fails. Any other outcome stays as it is.
func (a *removals) verifyGone(
	ctx context.Context, pod Pod, outcome Outcome, message string, answer error,
) (Outcome, string, error) {
	if answer == nil || !mayBeGone(answer, pod) {
		return outcome, message, answer
	}
	found, err := a.drainer.remover.find(ctx, pod)
	if err != nil {
		return Deferred, message, answer
	}
	a.pods.suspect.Store(true) // the watch may show it still
	if found == nil || found.DeletionTimestamp != nil {
		return Accepted, "", nil
	}
	return outcome, message, answer
}

// grant records until when a pod may run that has been told to stop. What is granted after the deadline does not count.
func (a *removals) grant(removal Removal, now time.Time) {
	deadline := a.target().Deadline
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Before(deadline) {
		a.granted[removal.Pod.UID] = now.Add(cmp.Or(removal.Grace, removal.Pod.Grace))
	}
}

// grantedUntil returns when the last grace period ends that was granted to the pods that are leaving, and forgets those
// of others; zero if none was granted.
func (a *removals) grantedUntil(leaving map[string]struct{}) (until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	deleteMissing(a.granted, leaving)
	for _, end := range a.granted {
		until = laterOf(until, end)
	}
	return until
}

// markForced records that the pod was removed in spite of its budget or annotations, and reports whether it is
// the first time.
func (a *removals) markForced(uid string) (first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := len(a.forced)
	a.forced[uid] = struct{}{}
	return len(a.forced) > before
}

// finish records the outcome of an attempt, and wakes the drain.
func (a *removals) finish(ctx context.Context, removal Removal, outcome Outcome, message string, err error) {
	if ctx.Err() != nil {
		a.release(removal, Accepted) // perhaps it was
		return
	}
	a.release(removal, outcome)
	pod := removal.Pod
	now := time.Now()
	a.mu.Lock()
	a.tries[pod.UID] = removal.next(outcome, message, err, now)
	a.mu.Unlock()
	if outcome == Accepted || outcome == Forced {
		a.grant(removal, now)
	}
	switch outcome {
	case Blocked:
		a.drainer.observer.EvictionRefused(a.target(), pod, outcome)
	case Deferred, Refused, Denied:
		a.drainer.observer.EvictionRefused(a.target(), pod, outcome)
		a.drainer.observer.KubernetesFailed("remove pod "+pod.Namespace+"/"+pod.Name, err)
	}
	a.wakeUp()
}

// release ends the reservations of a removal.
func (a *removals) release(removal Removal, outcome Outcome) {
	for _, name := range removal.disrupts() {
		if t := a.drainer.pdbs.find(name); t != nil {
			t.release(removal.Pod.Name, outcome)
		}
	}
}
