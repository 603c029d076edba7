package drain

import (
	"context"
	"time"
)

// act starts the calls, evictions and deletions of the step, and hands over to each budget the pods that wait for it.
// Evictions come first: a deletion needs no disruption that a budget allows. The drain decides again if it has started
// something, or was to, and another drain was faster. Each answer of the API server wakes it as well.
func (r *run) act(ctx context.Context, step Step) {
	if len(step.Release)+len(step.Evict)+len(step.Delete) > 0 {
		r.waiter.wakeUp()
	}
	claims := map[string]*claim{} // by budget; one without pods is for a budget whose changes the drain wants to know
	of := func(budget string) *claim {
		if claims[budget] == nil {
			claims[budget] = &claim{drain: r.waiter, deadline: r.waiter.deadline()}
		}
		return claims[budget]
	}
	begin := func(release *Release) {
		if budget := release.Removal.Budget; budget == "" {
			r.start(ctx, release)
		} else {
			of(budget).add(release, func() (time.Time, bool) { return r.start(ctx, release) })
		}
	}
	for i := range step.Release {
		begin(&step.Release[i])
	}
	for _, removal := range step.Evict {
		if removal.Kind == Eviction {
			begin(&Release{Removal: removal, Evict: true})
		}
	}
	for _, w := range step.Wait {
		if w.Reason == LaterTier || isReported(w.Reason) {
			for _, name := range w.Pod.Budgets {
				of(name).blocked++
			}
		}
		if w.Then != nil {
			begin(w.Then)
		}
	}
	r.claim(claims)
	r.force(ctx, step)
}

// claim says to the budgets what the drain wants of them.
func (r *run) claim(claims map[string]*claim) {
	for name := range r.budgetsRead {
		c := claims[name]
		if c == nil {
			delete(r.budgetsRead, name)
		}
		if t := r.drainer.pdbs.find(name); t != nil {
			t.claim(r.waiter, c)
		}
	}
}

// start starts an eviction, or the call before it, which ends by callEnd. It returns false if the pod is not as it was
// when that was decided. Budgets call it while the drain may do something else. The drain decides again.
func (r *run) start(ctx context.Context, release *Release) (callEnd time.Time, ok bool) {
	defer r.waiter.wakeUp()
	removal := &release.Removal
	if removal.Kind == Eviction {
		t := schedule{now: time.Now(), deadline: r.waiter.deadline(), policy: r.policy}
		removal.Grace = t.shortenedGrace(removal.Pod)
	}
	switch {
	case ctx.Err() != nil:
	case release.Until.IsZero():
		ok = r.removals.start(ctx, removal, r.removals.evict)
	default:
		callEnd, ok = r.removals.handOvers.start(ctx, *release)
	}
	if ok && release.Evict {
		r.tell(removal.Pod.UID)
	}
	return callEnd, ok
}

// force starts the last evictions and the deletions of the step, unless budgets have changed so that they must wait.
func (r *run) force(ctx context.Context, step Step) {
	for _, removal := range step.Evict {
		if removal.Kind == LastEviction {
			r.drainer.pdbs.startLast(&removal, func() bool {
				_, ok := r.start(ctx, &Release{Removal: removal, Evict: true})
				return ok
			})
		}
	}
	for _, removal := range step.Delete {
		r.drainer.pdbs.startForced(&removal, func() bool {
			ok := r.removals.start(ctx, &removal, r.removals.forceDelete)
			if ok {
				r.tell(removal.Pod.UID)
			}
			return ok
		})
	}
}

// tell records that a pod is told to stop.
func (r *run) tell(uid string) {
	if owner := r.owners.tell(uid); owner != "" {
		r.drainer.moved.add(owner, time.Now())
	}
}
