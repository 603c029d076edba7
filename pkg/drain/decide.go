package drain

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Decide returns what to do now to empty a node by the deadline. It reads nothing but its arguments.
func Decide(s State, now, deadline time.Time, p Policy) Step {
	d := decision{
		State: s, schedule: schedule{
			now: now, since: s.Since, deadline: deadline, started: s.Started, grantedUntil: s.GrantedUntil,
			holdUntil:   s.HoldUntil,
			unreachable: s.Unreachable,
			deadSince:   s.DeadSince, tierSince: s.TierSince, policy: p,
		},
		budgets: budgetSet{now: now, byName: maps.Clone(s.Budgets), blocked: map[string]int{}},
		step:    Step{Left: leaving(s.Pods), Empty: true, Attached: s.Attached}, turnTaken: map[string]bool{},
	}
	for _, pod := range s.Pods {
		if pod.StayReason == PutBack {
			d.step.Returned = append(d.step.Returned, pod.Namespace+"/"+pod.Name)
		}
	}
	slices.Sort(d.step.Returned)
	d.tier = d.openTier()
	d.step.Tier = d.tier
	for _, pod := range d.step.Left {
		if d.takesTurns(pod) {
			d.budgets.blocked[budgetKey(pod)]++
		}
	}
	for _, pod := range d.step.Left {
		d.consider(pod)
	}
	switch {
	case d.EndNow:
		d.step.Done = true
	case d.step.Empty:
		d.considerNode()
	case d.schedule.isOver():
		d.step.Done = true
	case !now.Before(deadline):
		d.decideAgain(d.schedule.end())
	}
	d.step.Lost = d.Unreachable && len(d.step.Left) > 0 &&
		!slices.ContainsFunc(d.step.Left, func(pod Pod) bool { return !d.schedule.isStuck(pod) })
	return d.step
}

// leaving returns the pods that must leave. The longest grace period comes first, since it ends last, and of
// equal ones those that the drain waits for come last. Names make the order stable. It sorts pointers because a
// Pod is large.
func leaving(pods []Pod) []Pod {
	order := make([]*Pod, 0, len(pods))
	for i := range pods {
		if pods[i].StayReason == "" {
			order = append(order, &pods[i])
		}
	}
	slices.SortFunc(order, func(a, b *Pod) int {
		return cmp.Or(
			cmp.Compare(b.Grace, a.Grace), cmp.Compare(min(len(a.WaitReason), 1), min(len(b.WaitReason), 1)),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
		)
	})
	left := make([]Pod, 0, len(order))
	for _, pod := range order {
		left = append(left, *pod)
	}
	return left
}

// decision is a Step while it is being made.
type decision struct {
	State
	schedule schedule
	budgets  budgetSet
	tier     int // the last tier that has started
	step     Step

	turnTaken map[string]bool // by namespace: a pod is asked in this step
}

// consider adds the pod to one list of the step. The order of the cases is the order of precedence.
func (d *decision) consider(pod Pod) {
	t := &d.schedule
	givenUp, asking := t.givenUp(pod), pendingHandOver{d, pod}
	d.step.Empty = d.step.Empty && givenUp
	switch {
	case givenUp, t.isOver(), d.EndNow:
		d.wait(pod, d.reason(pod))
	case t.awaitsResult(pod):
		d.wait(pod, d.reason(pod), pod.Try.Next, t.stuckAt(pod))
	case asking.isAsked():
		d.wait(pod, pod.HandOver.reason(), t.latestRemoval(pod))
	case asking.isLastDue():
		asking.askAtLast()
	case d.isDeletionDue(pod):
		d.remove(pod)
	case !pod.GraceEndsAt.IsZero():
		d.wait(pod, Terminating, t.latestDeletion(pod), t.stuckAt(pod))
	case pod.Tier > d.tier:
		d.wait(pod, LaterTier, t.tierStart(pod.Tier), d.earliestDeletion(pod), t.latestDeletion(pod))
	case pod.Unmounts && len(d.Attached) > 0 && !d.passed(d.volumesEnd()):
		d.wait(pod, LaterTier, d.earliestDeletion(pod), t.latestDeletion(pod))
	case t.optedOut(pod):
		d.wait(pod, pod.WaitReason, t.waitEnd(pod), d.earliestDeletion(pod), t.latestDeletion(pod))
	default:
		d.evict(pod)
	}
}

// openTier returns the last tier that has started: the lowest one with pods left, or a later one if the
// bounds of all tiers before it have passed.
func (d *decision) openTier() int {
	lowest, found := 0, false
	for _, pod := range d.step.Left {
		if (!found || pod.Tier < lowest) && !d.schedule.givenUp(pod) {
			lowest, found = pod.Tier, true
		}
	}
	open := 0
	for {
		start := d.schedule.tierStart(open + 1)
		if start.IsZero() || d.schedule.now.Before(start) {
			return max(open, lowest)
		}
		open++
	}
}

// evict evicts the pod if its budgets permit that, after it has been asked if it must be, or deletes it if it has
// been unhealthy for too long. A pod that a rolling restart replaces is not evicted.
func (d *decision) evict(pod Pod) {
	t, pending := &d.schedule, pendingHandOver{d, pod}
	eviction := Removal{Pod: pod, Grace: t.shortenedGrace(pod), Until: t.latestDeletion(pod)}
	reason, budget := d.budgets.blocking(pod)
	unhealthyAt := t.unhealthyAt(pod)
	switch {
	case t.now.Before(d.HoldUntil):
		d.wait(pod, Held, d.HoldUntil, d.earliestDeletion(pod), t.latestDeletion(pod))
	case t.now.Before(t.firstEviction()):
		d.wait(pod, EvictionDelayed, t.firstEviction(), d.earliestDeletion(pod), t.latestDeletion(pod))
	case t.now.Before(pod.EvictAt):
		d.wait(pod, SchedulerBehind, pod.EvictAt, d.earliestDeletion(pod), t.latestDeletion(pod))
	case pending.mustRestart():
		pending.restart()
	case t.now.Before(pod.Try.Next):
		d.wait(pod, d.reason(pod), pod.Try.Next, d.earliestDeletion(pod), t.latestDeletion(pod))
	case reason == "" && pending.isNext():
		pending.ask(eviction)
	case reason == "":
		eviction.Budget = d.budgets.reserve(pod)
		d.step.Evict = append(d.step.Evict, eviction)
	case !unhealthyAt.IsZero() && !t.now.Before(unhealthyAt):
		d.step.Delete = append(d.step.Delete, Removal{
			Pod: pod, Kind: Deletion, Grace: eviction.Grace, Reason: Unhealthy,
		})
	default:
		if pod.Try.Webhook != "" {
			reason = RefusedByWebhook
		}
		d.wait(pod, reason, d.earliestDeletion(pod), t.latestDeletion(pod), unhealthyAt)
		if len(pod.Budgets) == 1 { // else no eviction is allowed
			eviction.Budget = budget
			d.step.Wait[len(d.step.Wait)-1].Then = pending.afterBudget(eviction)
		}
	}
}

// remove evicts the pod for the last time if nothing has refused that, and deletes it otherwise. It makes the
// next pod of its budgets wait until this one is replaced.
func (d *decision) remove(pod Pod) {
	t := &d.schedule
	r := Removal{Pod: pod, Grace: t.remainingGrace(pod)}
	if d.takesTurns(pod) {
		d.budgets.blocked[budgetKey(pod)]--
	}
	if d.mayEvictAtLast(pod) {
		if r.Kind, r.Until = LastEviction, t.now.Add(lastCallTimeout); t.optedOut(pod) {
			r.Reason = AtDeadline
		}
		r.Budget = d.budgets.reserve(pod)
		d.step.Evict = append(d.step.Evict, r)
		return
	}
	if r.Kind, r.Reason = Deletion, AtDeadline; t.now.Before(t.latestDeletion(pod)) {
		r.Kind = EarlyDeletion
	}
	if end := t.briefEnd(pod); !end.IsZero() && end.Before(t.deadline.Add(-pod.Grace)) {
		r.Reason = OthersLeft
	}
	d.step.Delete = append(d.step.Delete, r)
	d.budgets.disrupt(pod)
}

// reason is why the pod waits, according to its last attempt or its state.
func (d *decision) reason(pod Pod) WaitReason {
	switch last := pod.Try.Last; {
	case last == Sent && pod.GraceEndsAt.IsZero() && pod.Try.Webhook != "":
		return RefusedByWebhook // until the answer, it is what held the pod last
	case last == Sent && pod.GraceEndsAt.IsZero():
		return Requested
	case last == Accepted, last == Forced, !pod.GraceEndsAt.IsZero():
		return Terminating
	case last == Blocked:
		return BlockedByBudget
	case pod.Try.Webhook != "":
		return RefusedByWebhook
	case last == None && d.schedule.optedOut(pod):
		return pod.WaitReason
	}
	if reason, _ := d.budgets.blocking(pod); reason != "" && pod.Try.Last == None {
		return reason
	}
	return BackingOff
}

// wait adds the pod to those that wait. The next decision is due at the earliest of the instants.
func (d *decision) wait(pod Pod, reason WaitReason, until ...time.Time) {
	w := Waiting{Pod: pod, Reason: reason}
	if reason == BlockedByBudget || reason == Misconfigured {
		w.Budget, w.Message = budgetKey(pod), d.budgets.explain(pod)
	}
	if reason == RefusedByWebhook {
		w.Webhook, w.Message = pod.Try.Webhook, pod.Try.Message
	}
	d.step.Wait = append(d.step.Wait, w)
	d.decideAgain(append(until, pendingHandOver{d, pod}.lastStart(), d.schedule.deadline)...)
	d.decideAgain(d.schedule.holdsUntil(pod)...)
	if !d.schedule.now.Before(d.schedule.deadline) {
		d.decideAgain(lastEnd(pod).Add(terminationLag))
	}
}

// decideAgain brings the next decision forward to the earliest of the instants that are in the future.
func (d *decision) decideAgain(instants ...time.Time) {
	for _, t := range instants {
		if t.After(d.schedule.now) && (d.step.Again.IsZero() || t.Before(d.step.Again)) {
			d.step.Again = t
		}
	}
}

// considerNode decides whether the drain of an empty node is over, or what the node as a whole waits for.
func (d *decision) considerNode() {
	if !d.schedule.now.Before(d.schedule.deadline) {
		d.step.Done = true
		return
	}
	d.step.Done = d.passed(d.Since.Add(d.schedule.policy.Settle))
	if d.SchedulerWait > d.schedule.policy.Settle && !d.passed(d.Since.Add(d.SchedulerWait)) {
		d.step.Wait = append(d.step.Wait, Waiting{Reason: SchedulerBehind})
		d.step.Done = false
	}
	if !d.passed(d.Since.Add(d.schedule.policy.LoadBalancerWait)) {
		d.step.Wait = append(d.step.Wait, Waiting{Reason: Deregistering})
		d.step.Done = false
	}
	if len(d.Attached) > 0 && !d.passed(d.volumesEnd()) {
		for _, volume := range d.Attached {
			d.step.Wait = append(d.step.Wait, Waiting{Reason: VolumesAttached, Message: volume})
		}
		d.step.Done = false
	}
	d.decideAgain(d.schedule.deadline)
}

// volumesEnd is until when the drain waits for volumes: VolumeTimeout after the last pod has left that could use them.
func (d *decision) volumesEnd() time.Time {
	began := d.EmptyAt
	if start, ok := d.TierSince[d.schedule.policy.volumeTier()]; ok && (began.IsZero() || start.Before(began)) {
		began = start
	}
	if began.IsZero() {
		began = d.schedule.now
	}
	return began.Add(d.schedule.policy.VolumeTimeout)
}

// passed reports whether the instant has passed. If not, the next decision is due then.
func (d *decision) passed(t time.Time) bool {
	d.decideAgain(t)
	return !d.schedule.now.Before(t)
}
