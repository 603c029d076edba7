package drain

import (
	"strings"
	"time"
)

// The ladder: as the deadline comes near, a pod is no longer asked to leave, but made to.

// minGrace is the shortest grace that a pod is given. With none, the pod's object would go while its
// processes may still run, and a StatefulSet could then run it twice.
const minGrace = time.Second

// terminationLag is how long the kubelet may take, after a pod's grace, to kill the pod and say that it is gone.
const terminationLag = 2 * time.Second

// over tells whether nothing more can be done for the pod, and nothing is to be waited for. At the deadline:
// it was to be left, it was given its last grace and that has passed, or the API server refused even its
// deletion. Before: it is stuck.
func (d *decision) over(pod Pod) bool {
	if at := d.stuckAt(pod); !at.IsZero() && !d.now.Before(at) {
		return true
	}
	if d.now.Before(d.deadline) {
		return false
	}
	switch {
	case !d.policy.Force, pod.Try.Last == Denied:
		return true
	case !pod.GraceEndsAt.IsZero():
		return !d.now.Before(pod.GraceEndsAt.Add(terminationLag))
	}
	return false
}

// stuckAt is when a pod that is terminating no longer holds up the drain; zero is never. On a node that does
// not answer, nobody will say that its processes have ended.
func (d *decision) stuckAt(pod Pod) time.Time {
	switch {
	case pod.GraceEndsAt.IsZero():
		return time.Time{}
	case d.Unreachable:
		return pod.GraceEndsAt.Add(terminationLag)
	case d.policy.StuckAfter > 0:
		return pod.GraceEndsAt.Add(max(d.policy.StuckAfter, terminationLag))
	}
	return time.Time{}
}

// lastCall is when the pod must be deleted for its grace to end by the deadline; zero is never. A grace that
// is longer than half of the time since the node was taken out of service leaves the other half to the
// budget. A pod that is terminating keeps its grace to the last: the API server counts a shorter one from the
// first deletion, and has a pod that is past it killed at once.
func (d *decision) lastCall(pod Pod) time.Time {
	switch {
	case !d.policy.Force:
		return time.Time{}
	case pod.GraceEndsAt.IsZero():
		return d.deadline.Add(-min(max(pod.Grace, minGrace), d.half()))
	case pod.GraceEndsAt.After(d.deadline.Add(time.Second)): // GraceEndsAt is in whole seconds
		return d.deadline.Add(-minGrace)
	}
	return time.Time{}
}

// forceAt is when the pod may first be forced. The pods that one budget holds, on this node and on those that
// are drained after it, have turns before their last call, ForceSpacing apart, so that not all of them go at
// once.
func (d *decision) forceAt(pod Pod) time.Time {
	last := d.lastCall(pod)
	if last.IsZero() || !d.isHeld(pod) {
		return last
	}
	behind := d.held[group(pod)] - 1
	for _, name := range pod.Budgets {
		behind = max(behind, d.held[group(pod)]-1+d.budgets[name].PodsOnLaterNodes)
	}
	turn := last.Add(-time.Duration(behind) * d.policy.ForceSpacing)
	if earliest := d.deadline.Add(-d.half()); turn.Before(earliest) {
		turn = earliest
	}
	if turn.After(last) {
		return last
	}
	return turn
}

func (d *decision) half() time.Duration { return d.deadline.Sub(d.Since) / 2 }

// mustForce tells whether the time to wait is over: the pod's last call has come, or its turn, and the pods
// that were forced before it have been replaced.
func (d *decision) mustForce(pod Pod) bool {
	if pod.Try.Last == Denied || (pod.Try.Last == Forced && !pod.GraceEndsAt.IsZero()) {
		return false
	}
	last := d.lastCall(pod)
	switch {
	case last.IsZero():
		return false
	case !d.now.Before(last):
		return true
	}
	turn := d.forceAt(pod)
	return turn.Before(last) && !d.now.Before(turn) && d.calm(pod)
}

// calm tells whether none of the pod's budgets waits for a pod to become healthy.
func (d *decision) calm(pod Pod) bool {
	for _, name := range pod.Budgets {
		if !d.budgets[name].calm(d.now) {
			d.again(d.budgets[name].StaleUntil)
			return false
		}
	}
	return true
}

// force deletes the pod, and lets the next one of its budgets wait for its replacement.
func (d *decision) force(pod Pod, r Removal) {
	d.step.Delete = append(d.step.Delete, r)
	for _, name := range pod.Budgets {
		b := d.budgets[name]
		if pod.Ready {
			b.Healthy--
		}
		d.budgets[name] = b
	}
	if d.isHeld(pod) {
		d.held[group(pod)]--
	}
}

// queueUp counts the pods that nothing but their budget holds, by budget. Those about which a request is
// under way, or was accepted, are held no more.
func (d *decision) queueUp() {
	for _, pod := range d.step.Left {
		if d.isHeld(pod) {
			d.held[group(pod)]++
		}
	}
}

func (d *decision) isHeld(pod Pod) bool {
	if !pod.GraceEndsAt.IsZero() || len(pod.Budgets) == 0 || pod.Tier > d.tier || d.waits(pod) {
		return false
	}
	if pod.Try.Last != Deferred && d.pending(pod) {
		return false
	}
	reason, _ := d.holds(pod)
	return reason != ""
}

func group(pod Pod) string { return strings.Join(pod.Budgets, " and ") }

// remaining is the pod's own grace, cut to end by the deadline, and never less than minGrace.
func (d *decision) remaining(pod Pod) time.Duration {
	return max(min(pod.Grace, d.deadline.Sub(d.now).Truncate(time.Second)), minGrace)
}

// cut is the grace of a pod whose own would end after the deadline; zero leaves it the pod's own.
func (d *decision) cut(pod Pod) time.Duration {
	if d.policy.Force && d.now.Add(pod.Grace).After(d.deadline) {
		return d.remaining(pod)
	}
	return 0
}

// unhealthyAt is from when on the pod may be deleted because it serves nobody; zero is never.
func (d *decision) unhealthyAt(pod Pod) time.Time {
	if pod.Ready || d.policy.ForceUnhealthy == 0 {
		return time.Time{}
	}
	return pod.UnreadySince.Add(d.policy.ForceUnhealthy)
}

// servesNobody tells whether the pod has not been Ready for so long that its budget protects nothing.
func (d *decision) servesNobody(pod Pod) bool {
	at := d.unhealthyAt(pod)
	return !at.IsZero() && !d.now.Before(at)
}
