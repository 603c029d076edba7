package drain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Decide says what to do now to empty a node before deadline. It reads nothing but its arguments.
func Decide(s State, now, deadline time.Time, p Policy) Step {
	d := decision{State: s, now: now, deadline: deadline, policy: p, budgets: maps.Clone(s.Budgets)}
	d.held = map[string]int{}
	d.step = Step{Left: leaving(s.Pods), Empty: true}
	d.tier = d.openTier()
	d.queueUp()
	for _, pod := range d.step.Left {
		d.consider(pod)
	}
	d.finish()
	return d.step
}

// leaving returns the pods that must leave. The longest grace goes first, since it ends last; names make the
// order, and so the tests, stable. What is sorted is pointers: a pod is large.
func leaving(pods []Pod) []Pod {
	order := make([]*Pod, 0, len(pods))
	for i := range pods {
		if pods[i].StayReason == "" {
			order = append(order, &pods[i])
		}
	}
	slices.SortFunc(order, func(a, b *Pod) int {
		return cmp.Or(
			cmp.Compare(b.Grace, a.Grace), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
		)
	})
	left := make([]Pod, 0, len(order))
	for _, pod := range order {
		left = append(left, *pod)
	}
	return left
}

// decision is a Step in the making.
type decision struct {
	State
	now, deadline time.Time
	policy        Policy
	budgets       map[string]Budget // as they will be after this step
	held          map[string]int    // by budget: the pods that it holds and that are yet to be considered
	tier          int               // the last tier that has begun
	step          Step
}

func (d *decision) consider(pod Pod) {
	over := d.over(pod)
	d.step.Empty = d.step.Empty && over
	switch {
	case over:
		d.wait(pod, d.reason(pod))
	case d.pending(pod):
		d.wait(pod, d.reason(pod), pod.Try.Next, d.stuckAt(pod))
	case d.mustForce(pod):
		early := d.now.Before(d.lastCall(pod))
		d.force(pod, Removal{Pod: pod, Grace: d.remaining(pod), Reason: AtDeadline, Early: early})
	case !pod.GraceEndsAt.IsZero():
		d.wait(pod, Terminating, d.lastCall(pod), d.stuckAt(pod))
	case pod.Tier > d.tier:
		d.wait(pod, LaterTier, d.begins(pod.Tier), d.lastCall(pod))
	case d.waits(pod):
		d.wait(pod, pod.WaitReason, pod.WaitUntil, d.lastCall(pod))
	case d.now.Before(pod.Try.Next):
		d.wait(pod, d.reason(pod), pod.Try.Next, d.forceAt(pod), d.lastCall(pod))
	default:
		d.evict(pod)
	}
}

// pending tells whether the last attempt is to be given its time, whatever the deadline: no answer has come,
// the API server put a deletion off, or the watch has yet to show what was accepted.
func (d *decision) pending(pod Pod) bool {
	switch pod.Try.Last {
	case Sent:
		return true
	case Deferred:
		return !pod.Try.Eviction && d.now.Before(pod.Try.Next)
	case Accepted, Forced:
		return pod.GraceEndsAt.IsZero() && d.now.Before(pod.Try.Next)
	}
	return false
}

// waits tells whether the pod is to be waited for, still.
func (d *decision) waits(pod Pod) bool {
	return pod.WaitReason != "" && (pod.WaitUntil.IsZero() || d.now.Before(pod.WaitUntil))
}

// openTier is the last tier that has begun: the lowest that has pods left, or, later, one whose predecessors
// have had their time.
func (d *decision) openTier() int {
	lowest, found := 0, false
	for _, pod := range d.step.Left {
		if (!found || pod.Tier < lowest) && !d.over(pod) {
			lowest, found = pod.Tier, true
		}
	}
	open := 0
	for next := d.begins(1); !next.IsZero() && !d.now.Before(next); next = d.begins(open + 1) {
		open++
	}
	return max(open, lowest)
}

// begins is when the tier begins although tiers before it have pods left; zero is never.
func (d *decision) begins(tier int) time.Time {
	begins := d.Since
	for i := range tier {
		if i >= len(d.policy.Tiers) || d.policy.Tiers[i] == 0 {
			return time.Time{}
		}
		begins = begins.Add(d.policy.Tiers[i])
	}
	return begins
}

// evict evicts the pod if its budgets let it go.
func (d *decision) evict(pod Pod) {
	reason, budget := d.holds(pod)
	if reason != "" {
		if d.servesNobody(pod) {
			d.step.Delete = append(d.step.Delete, Removal{Pod: pod, Grace: d.cut(pod), Reason: Unhealthy})
			return
		}
		b := d.budgets[budget]
		d.wait(pod, reason, d.forceAt(pod), d.lastCall(pod), d.unhealthyAt(pod), b.StaleUntil, b.ProbeAt)
		return
	}
	r := Removal{Pod: pod, Grace: d.cut(pod)}
	if len(pod.Budgets) == 1 {
		b := d.budgets[pod.Budgets[0]]
		if _, takes := b.admits(pod, d.now); takes {
			r.Budget = pod.Budgets[0]
			b.Allowed--
			b.EvictionInFlight = true
			d.budgets[r.Budget] = b
		}
	}
	d.step.Evict = append(d.step.Evict, r)
}

// holds tells why the pod's budgets do not let it go, and which; no reason if they do. The eviction API
// serves no pod that two budgets select (k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go).
func (d *decision) holds(pod Pod) (WaitReason, string) {
	switch len(pod.Budgets) {
	case 0:
		return "", ""
	case 1:
	default:
		return Misconfigured, strings.Join(pod.Budgets, " and ")
	}
	name := pod.Budgets[0]
	b := d.budgets[name]
	if ok, _ := b.admits(pod, d.now); ok {
		return "", ""
	}
	if b.misconfigured() {
		return Misconfigured, name
	}
	return BlockedByBudget, name
}

// reason is why the pod waits, when its last attempt or its state decides that.
func (d *decision) reason(pod Pod) WaitReason {
	switch last := pod.Try.Last; {
	case last == Sent && pod.GraceEndsAt.IsZero():
		return Requested
	case last == Accepted, last == Forced, !pod.GraceEndsAt.IsZero():
		return Terminating
	case last == Blocked:
		return BlockedByBudget
	case last == None && d.waits(pod):
		return pod.WaitReason
	}
	if reason, _ := d.holds(pod); reason != "" && pod.Try.Last == None {
		return reason
	}
	return BackingOff
}

func (d *decision) wait(pod Pod, reason WaitReason, until ...time.Time) {
	w := Waiting{Pod: pod, Reason: reason}
	if reason == BlockedByBudget || reason == Misconfigured {
		_, w.Budget = d.holds(pod)
		if w.Budget == "" {
			w.Budget = strings.Join(pod.Budgets, " and ")
		}
		w.Message = d.explain(pod)
	}
	d.step.Wait = append(d.step.Wait, w)
	d.again(until...)
	d.again(d.deadline)
	if !d.now.Before(d.deadline) {
		d.again(pod.GraceEndsAt.Add(terminationLag))
	}
}

// explain says in words why the pod's budgets hold it.
func (d *decision) explain(pod Pod) string {
	switch len(pod.Budgets) {
	case 0: // none that is known here
		return pod.Try.Message
	case 1:
	default:
		return fmt.Sprintf("%d PodDisruptionBudgets select the pod, and the eviction API serves no such pod",
			len(pod.Budgets))
	}
	b := d.budgets[pod.Budgets[0]]
	figures := fmt.Sprintf("%d of its %d pods are healthy, and it asks for %d", b.Healthy, b.Expected, b.Desired)
	if b.misconfigured() {
		return "it never allows a disruption: " + figures
	}
	return fmt.Sprintf("it allows %d disruptions now: %s", max(b.Allowed, 0), figures)
}

// again brings the next look forward to the earliest of the instants that are still to come.
func (d *decision) again(instants ...time.Time) {
	for _, t := range instants {
		if t.After(d.now) && (d.step.Again.IsZero() || t.Before(d.step.Again)) {
			d.step.Again = t
		}
	}
}

// finish tells whether all is done, or what the node as a whole has to wait for when its pods have gone.
func (d *decision) finish() {
	d.step.Attached = d.Attached
	if !d.step.Empty {
		return
	}
	if !d.now.Before(d.deadline) {
		d.step.Done = true
		return
	}
	d.step.Done = d.passed(d.Since.Add(d.policy.Settle))
	if !d.passed(d.Since.Add(d.policy.LoadBalancerWait)) {
		d.step.Wait = append(d.step.Wait, Waiting{Reason: Deregistering})
		d.step.Done = false
	}
	if len(d.Attached) > 0 && !d.passed(d.emptyAt().Add(d.policy.VolumeTimeout)) {
		for _, volume := range d.Attached {
			d.step.Wait = append(d.step.Wait, Waiting{Reason: VolumesAttached, Message: volume})
		}
		d.step.Done = false
	}
	d.again(d.deadline)
}

func (d *decision) emptyAt() time.Time {
	if d.EmptyAt.IsZero() {
		return d.now
	}
	return d.EmptyAt
}

// passed tells whether the instant has come, and has the drain look again when it does.
func (d *decision) passed(t time.Time) bool {
	d.again(t)
	return !d.now.Before(t)
}
