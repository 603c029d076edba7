package drain

import (
	"context"
	"time"
)

// missedPause is how long a drain that found a disruption taken waits at most before it looks again.
const missedPause = time.Second

// act starts what the step asks for, and tells the ledger which pods wait for which budget. The answers of
// the API server come later, and wake the drain up.
func (r *run) act(ctx context.Context, step Step) {
	d := demand{wants: map[string]int{}, held: map[string]int{}}
	for _, removal := range step.Delete {
		if !r.ledger.reserveForced(removal.disrupts(), removal.Pod.Name, removal.Early) {
			r.missed(removal, d)
			continue
		}
		r.start(ctx, removal, r.forcing)
	}
	for _, removal := range step.Evict {
		if removal.Budget != "" && !r.ledger.reserve(removal.Budget, removal.Pod.Name) {
			r.missed(removal, d)
			continue
		}
		r.start(ctx, removal, r.evicting)
	}
	for _, w := range step.Wait {
		d.waits(w)
	}
	r.ledger.setDemand(r, r.looked, d)
}

// demand is how many pods want something of each budget, and how many it holds. A budget that is named with
// none is one whose changes are of interest.
type demand struct{ wants, held map[string]int }

func (d demand) waits(w Waiting) {
	if w.Reason != BlockedByBudget && w.Reason != Misconfigured {
		return
	}
	for _, name := range w.Pod.Budgets {
		d.held[name]++
		if d.wants[name] += 0; w.Reason == BlockedByBudget && !time.Now().Before(w.Pod.Try.Next) {
			d.wants[name]++ // it could use what it claims
		}
	}
}

// missed has the drain look again soon: another one was faster, which the step does not know, and so does not
// say when to look again. Mostly its answer wakes this one before.
func (r *run) missed(removal Removal, d demand) {
	reason := Misconfigured
	if removal.Budget != "" {
		reason = BlockedByBudget
	}
	d.waits(Waiting{Pod: removal.Pod, Reason: reason})
	r.lookBy(time.Now().Add(missedPause))
}

// start runs remove as soon as one of the cluster's slots is free. A goroutine lives as long as its request,
// never as long as a pod waits.
func (r *run) start(ctx context.Context, removal Removal, remove func(context.Context, Removal)) {
	r.mu.Lock()
	try := r.tries[removal.Pod.UID]
	try.Last, try.Next = Sent, time.Time{}
	r.tries[removal.Pod.UID] = try
	r.mu.Unlock()
	r.workers.Go(func() {
		select {
		case r.slots <- struct{}{}:
			defer func() { <-r.slots }()
			remove(ctx, removal)
		case <-ctx.Done():
			r.settle(removal, None)
		}
	})
}

func (r *run) evicting(ctx context.Context, removal Removal) {
	err := r.remover.evict(ctx, removal)
	outcome, why := evictionOutcome(err)
	if outcome == Accepted {
		r.observer.PodEvicted(r.target(), removal.Pod, time.Since(r.began))
	}
	r.note(ctx, removal, outcome, why, err)
}

func (r *run) forcing(ctx context.Context, removal Removal) {
	err := r.remover.delete(ctx, removal)
	outcome, why := deletionOutcome(err)
	if outcome == Forced && r.noteForced(removal.Pod.UID) {
		r.observer.PodForced(r.target(), removal)
	}
	r.note(ctx, removal, outcome, why, err)
}

func (r *run) noteForced(uid string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, before := r.forced[uid]
	r.forced[uid] = struct{}{}
	return !before
}

// note keeps the outcome of an attempt, and wakes the drain up.
func (r *run) note(ctx context.Context, removal Removal, outcome Outcome, why string, err error) {
	if ctx.Err() != nil {
		r.settle(removal, Accepted) // it may have been
		return
	}
	r.settle(removal, outcome)
	pod := removal.Pod
	r.mu.Lock()
	r.tries[pod.UID] = removal.next(outcome, why, err, time.Now())
	r.doubt = r.doubt || err != nil && isGone(err)
	r.mu.Unlock()
	switch outcome {
	case Blocked:
		r.observer.EvictionRefused(r.target(), pod, outcome)
	case Deferred, Refused, Denied:
		r.observer.EvictionRefused(r.target(), pod, outcome)
		r.observer.KubernetesFailed("remove pod "+pod.Namespace+"/"+pod.Name, err)
	}
	r.wakeUp()
}

// settle tells the ledger what came of a removal that concerns budgets.
func (r *run) settle(removal Removal, outcome Outcome) {
	for _, name := range removal.disrupts() {
		r.ledger.release(name, removal.Pod.Name, outcome)
	}
}
