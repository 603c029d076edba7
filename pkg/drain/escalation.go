package drain

import "time"

// As the deadline approaches, pods are evicted for the last time, and deleted if that is refused. This file holds
// when.

// minGrace is the shortest grace period that a pod is given. With zero the API server removes the pod's
// object while its processes may still run, and a StatefulSet could then run the same pod twice.
const minGrace = time.Second

// terminationLag is how long the kubelet may take, after the grace period, to kill the pod and report its
// end.
const terminationLag = 2 * time.Second

// endMargin is how long after the deadline a drain ends, whatever is left: the time for the last requests, and for the
// kubelet to report the end of the last pods. It is shorter than the default of HOOK_MARGIN, so that the agent
// completes the lifecycle action before its global timeout does.
const endMargin = 25 * time.Second

// briefWait is how long a budget, or a webhook, may hold a pod that would return, or that serves nobody any more, when
// all others have left.
const briefWait = 30 * time.Second

// deadWait is how long a drain waits for a terminating pod of a dead kubelet: nothing counts its grace period.
const deadWait = 30 * time.Second

// urgent is how long before the deadline no eviction is delayed any more. A Spot interruption warning leaves two
// minutes (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html).
const urgent = 3 * time.Minute

// schedule computes the instants that matter to a pod. A zero instant is never.
type schedule struct {
	now, since, deadline, started, grantedUntil time.Time
	holdUntil                                   time.Time
	unreachable                                 bool
	deadSince                                   time.Time
	tierSince                                   map[int]time.Time
	policy                                      Policy
}

// end is when the drain is over, whatever is left: after the deadline, and after the grace periods that it has granted
// before that. A drain that begins after its deadline has endMargin as well.
func (t *schedule) end() time.Time {
	return laterOf(laterOf(t.deadline, t.started), t.grantedUntil).Add(endMargin)
}

func (t *schedule) isOver() bool { return !t.now.Before(t.end()) }

// givenUp reports whether the drain no longer waits for the pod. At the deadline: the policy says to leave
// it, its last grace period has passed, or the API server has refused even its deletion. Before: it is stuck.
func (t *schedule) givenUp(pod Pod) bool {
	if t.isStuck(pod) || t.hasHeldLong(pod) {
		return true
	}
	if t.now.Before(t.deadline) {
		return false
	}
	switch {
	case t.policy.AtDeadline != Delete, pod.Try.Last == Denied:
		return true
	case !pod.GraceEndsAt.IsZero():
		return !t.now.Before(lastEnd(pod).Add(terminationLag))
	}
	return false
}

// hasHeldLong reports whether a pod that would return has held the node for long enough: the policy says to leave it,
// the API server refuses even its deletion, or it should have ended.
func (t *schedule) hasHeldLong(pod Pod) bool {
	end := t.briefEnd(pod)
	switch {
	case end.IsZero(), t.now.Before(end):
		return false
	case !t.now.Before(end.Add(pod.Grace + endMargin)):
		return true
	}
	return pod.GraceEndsAt.IsZero() && (t.policy.AtDeadline != Delete || pod.Try.Last == Denied)
}

// holdsUntil are the instants at which hasHeldLong may become true.
func (t *schedule) holdsUntil(pod Pod) []time.Time {
	end := t.briefEnd(pod)
	if end.IsZero() {
		return nil
	}
	return []time.Time{end, end.Add(pod.Grace + endMargin)}
}

// briefEnd is when a pod that would return is removed whatever blocks it; zero while its tier has not started, and for
// other pods. One that unmounts the volumes of others has the time for these before.
func (t *schedule) briefEnd(pod Pod) time.Time {
	start, started := t.tierSince[pod.Tier]
	if !pod.Brief || !started {
		return time.Time{}
	}
	if pod.Unmounts {
		start = start.Add(t.policy.VolumeTimeout)
	}
	return laterOf(laterOf(start, t.firstEviction()), t.holdUntil).Add(briefWait)
}

func (t *schedule) isStuck(pod Pod) bool {
	at := t.stuckAt(pod)
	return !at.IsZero() && !t.now.Before(at)
}

// stuckAt is when a terminating pod is considered stuck. On an unreachable node that is early: no kubelet
// may report its end. If the kubelet is dead, nothing counts the grace period either. A pod that has returned holds
// nothing up.
func (t *schedule) stuckAt(pod Pod) time.Time {
	switch {
	case pod.GraceEndsAt.IsZero():
		return time.Time{}
	case !t.deadSince.IsZero():
		return earliest(lastEnd(pod), laterOf(pod.DeletedAt, t.deadSince).Add(deadWait)).Add(terminationLag)
	case t.unreachable, pod.Returned:
		return lastEnd(pod).Add(terminationLag)
	case t.policy.StuckAfter > 0:
		return lastEnd(pod).Add(max(t.policy.StuckAfter, terminationLag))
	}
	return time.Time{}
}

// lastEnd is when the kubelet kills a terminating pod. It counts a shortened grace period from when it learns
// of it, so that GraceEndsAt, which the API server counts from the first deletion, may have passed.
func lastEnd(pod Pod) time.Time {
	if pod.Try.EndsAt.After(pod.GraceEndsAt) {
		return pod.Try.EndsAt
	}
	return pod.GraceEndsAt
}

// latestDeletion is when the pod must be deleted for its grace period to end by the deadline. A grace period
// longer than half of the drain is cut to that half, so that the budget has the other half. A terminating pod
// keeps its grace period until a second before the deadline: the API server would count a shorter one from
// the first deletion, and the kubelet kills a pod that is past it at once. That also holds for a pod that was
// deleted in time for a later deadline. A grace period of minGrace is not shortened again. A pod that would return is
// deleted earlier.
func (t *schedule) latestDeletion(pod Pod) time.Time {
	switch {
	case t.policy.AtDeadline != Delete:
		return time.Time{}
	case pod.GraceEndsAt.IsZero():
		return earliest(t.briefEnd(pod), t.deadline.Add(-min(max(pod.Grace, minGrace), t.half())))
	case pod.Try.Last == Forced && !pod.Try.EndsAt.After(t.now.Add(minGrace)):
	case pod.GraceEndsAt.After(t.deadline.Add(time.Second)): // GraceEndsAt is in whole seconds
		return t.deadline.Add(-minGrace)
	}
	return time.Time{}
}

func (t *schedule) half() time.Duration { return t.deadline.Sub(t.since) / 2 }

// laterOf returns the later of two instants.
func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// firstEviction is when the first pod may be evicted: after the configured delay, but in the first half of the drain,
// and at once when the drain is urgent, or nothing sends requests to the node any more since it is not Ready.
func (t *schedule) firstEviction() time.Time {
	if t.unreachable {
		return t.since
	}
	delayed := earliest(t.since.Add(t.policy.EvictionDelay), t.since.Add(t.half()))
	return earliest(delayed, t.deadline.Add(-urgent))
}

// awaitsResult reports whether the last attempt must not be repeated yet: it has no answer, the API server
// postponed or refused a deletion, or the watch does not show the accepted one yet.
func (t *schedule) awaitsResult(pod Pod) bool {
	switch pod.Try.Last {
	case Sent:
		return true
	case Deferred, Denied:
		return !pod.Try.Eviction && t.now.Before(pod.Try.Next)
	case Accepted, Forced:
		return pod.GraceEndsAt.IsZero() && t.now.Before(pod.Try.Next)
	}
	return false
}

// optedOut reports whether the drain waits for the end of the pod instead of evicting it.
func (t *schedule) optedOut(pod Pod) bool {
	until := t.waitEnd(pod)
	return pod.WaitReason != "" && (until.IsZero() || t.now.Before(until))
}

// waitEnd is until when the drain waits for the end of a pod; zero is the deadline.
func (t *schedule) waitEnd(pod Pod) time.Time {
	if pod.WaitReason == OptedOut {
		return earliest(pod.WaitUntil, t.annotationEnd())
	}
	return pod.WaitUntil
}

// annotationEnd is until when annotations of pods may delay their eviction.
func (t *schedule) annotationEnd() time.Time { return t.since.Add(t.policy.AnnotationTimeout) }

// tierStart is when the tier starts even if earlier tiers have pods left: when their bounds have passed. The
// tiers of the configuration start at half of the drain at the latest, so that their pods have the other half to
// leave within their budgets. The pods of later ones serve pods that are left.
func (t *schedule) tierStart(tier int) time.Time {
	start, latest := t.since, t.since.Add(t.half())
	for i := range tier {
		switch {
		case tier < len(t.policy.TierList) && (t.policy.TierList[i].Bound == 0 || start.After(latest)):
			return latest
		case i >= len(t.policy.TierList), t.policy.TierList[i].Bound == 0:
			return time.Time{}
		}
		start = start.Add(t.policy.TierList[i].Bound)
	}
	return start
}

// unhealthyAt is when the pod may be deleted because it has not been Ready for the configured time.
func (t *schedule) unhealthyAt(pod Pod) time.Time {
	if pod.Ready || t.policy.ForceUnhealthy == 0 {
		return time.Time{}
	}
	return pod.UnreadySince.Add(t.policy.ForceUnhealthy)
}

// remainingGrace is the pod's grace period, cut to end by the deadline, and never less than minGrace.
func (t *schedule) remainingGrace(pod Pod) time.Duration {
	return max(min(pod.Grace, t.deadline.Sub(t.now).Truncate(time.Second)), minGrace)
}

// shortenedGrace is the grace period for a pod whose own would end after the deadline; zero keeps the pod's
// own.
func (t *schedule) shortenedGrace(pod Pod) time.Duration {
	if t.policy.AtDeadline == Delete && t.now.Add(pod.Grace).After(t.deadline) {
		return t.remainingGrace(pod)
	}
	return 0
}

// isDeletionDue reports whether the pod must be removed now: its latest deletion is due, or its earliest one
// is and the pods that were removed before it have been replaced. After a refused deletion the pod is evicted unless a
// budget blocks that, since a webhook or a role may permit the one and not the other.
func (d *decision) isDeletionDue(pod Pod) bool {
	if pod.Try.Last == Denied && pod.GraceEndsAt.IsZero() && !d.schedule.optedOut(pod) {
		if blocked, _ := d.budgets.blocking(pod); blocked == "" {
			return false
		}
	}
	now, latest := d.schedule.now, d.schedule.latestDeletion(pod)
	switch {
	case latest.IsZero():
		return false
	case !now.Before(latest):
		return true
	}
	earliest := d.earliestDeletion(pod)
	if !earliest.Before(latest) || now.Before(earliest) {
		return false
	}
	satisfied, staleUntil := d.budgets.satisfied(pod)
	d.decideAgain(staleUntil)
	return satisfied
}

// refusalMemory is how long after it would have been repeated a refused eviction counts. It is longer than any pause
// between two attempts: something else has kept the pod on the node meanwhile.
const refusalMemory = time.Minute

// mayEvictAtLast reports whether the pod is evicted when its deletion is due: it has not been tried, or long ago, or
// has been blocked by a budget that permits it now, but not just now: then the watch of the budget is behind. Unlike a
// deletion, an eviction leaves the last word to budgets and webhooks, and sets the condition DisruptionTarget, by which
// a Job's podFailurePolicy knows that the pod has not failed.
func (d *decision) mayEvictAtLast(pod Pod) bool {
	switch {
	case !pod.GraceEndsAt.IsZero():
		return false
	case pod.Try.Last == Blocked && d.schedule.now.Before(pod.Try.Next):
		return false
	case pod.Try.Last == None, pod.Try.Last == Blocked && len(pod.Budgets) > 0,
		pod.Try.Eviction && !pod.Try.Next.IsZero() && !d.schedule.now.Before(pod.Try.Next.Add(refusalMemory)):
		return d.budgets.permitsAtLast(pod)
	}
	return false
}

// earliestDeletion is when the pod may be removed although it waits. The pods of one budget that wait, on this
// node and on those that are drained after it, are removed ForceSpacing apart before their latest deletion, so
// that not all of them are removed at once.
func (d *decision) earliestDeletion(pod Pod) time.Time {
	latest := d.schedule.latestDeletion(pod)
	if latest.IsZero() || !d.takesTurns(pod) {
		return latest
	}
	at := latest.Add(-time.Duration(d.budgets.podsBehind(pod)) * d.schedule.policy.ForceSpacing)
	if secondHalf := d.schedule.deadline.Add(-d.schedule.half()); at.Before(secondHalf) {
		at = secondHalf
	}
	if at.After(latest) {
		return latest
	}
	return at
}

// takesTurns reports whether the pod leaves in turns with others of its budgets: nothing but these keeps it on
// the node, or the drain waits for its tier or for its end.
func (d *decision) takesTurns(pod Pod) bool {
	if !pod.GraceEndsAt.IsZero() || len(pod.Budgets) == 0 || pod.HandOver.Reserved {
		return false
	}
	if pod.Try.Last != Deferred && d.schedule.awaitsResult(pod) {
		return false
	}
	if pod.Tier > d.tier || d.schedule.optedOut(pod) {
		return true
	}
	reason, _ := d.budgets.blocking(pod)
	return reason != ""
}
