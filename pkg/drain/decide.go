package drain

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// State is what a decision is made from: the pods of one node, and the budgets that protect them.
type State struct {
	Since   time.Time      // when the node was taken out of service
	Pods    []Pod          // every pod on the node
	Allowed map[string]int // by NAMESPACE/NAME of a PodDisruptionBudget: disruptions that it allows now
}

// Pod is a pod as a decision sees it.
type Pod struct {
	Namespace string
	Name      string
	UID       string
	Stays     Stays         // why the pod need not leave the node; empty if it must
	Critical  bool          // of a system priority class
	Ready     bool          // unready pods may leave past their budget, as its unhealthyPodEvictionPolicy says
	Grace     time.Duration // the pod's own termination grace period
	GoneBy    time.Time     // of a pod that is being deleted: when its grace ends
	Budgets   []string      // the PodDisruptionBudgets that select it, as NAMESPACE/NAME
	Try       Try
}

// Stays is why a pod need not leave a node before the node goes.
type Stays string

// The reasons to let a pod be.
const (
	DaemonSet Stays = "daemonset" // its controller would put it back
	Mirror    Stays = "mirror"    // the kubelet runs it from a file
	Finished  Stays = "finished"  // nothing of it runs any more
)

// Try is what has come of the attempts to move a pod.
type Try struct {
	Last Outcome
	Soon time.Time // not before this is it tried again when its budget allows it
	Next time.Time // not before this is it tried again whatever its budget
	N    int       // failed attempts in a row
	Why  string    // what stood in the way: a PodDisruptionBudget, an error
}

// Outcome is what the API server said to the last attempt.
type Outcome string

// The outcomes of an attempt to evict or delete a pod.
const (
	None     Outcome = ""
	Sent     Outcome = "sent"     // no answer yet
	Accepted Outcome = "accepted" // the pod is being deleted, or is gone
	Blocked  Outcome = "blocked"  // a PodDisruptionBudget does not allow it now
	Deferred Outcome = "deferred" // the API server is busy, or cannot be reached
	Refused  Outcome = "refused"  // the API server will not have it, whenever it is asked
	Forced   Outcome = "forced"   // deletion past the budget was accepted
	Denied   Outcome = "denied"   // deletion past the budget was refused
)

// Policy is how far a drain goes.
type Policy struct {
	Force bool // delete what is still on the node when its grace must begin to end by the deadline
}

// minGrace is the shortest grace that a pod is given. With none, the pod's object would go while its
// processes may still run, and a StatefulSet could then run it twice.
const minGrace = time.Second

// stopLag is how long the kubelet may take, after a pod's grace, to kill the pod and say that it is gone.
const stopLag = 2 * time.Second

// Step is one move: what to do now, what to wait for, and when to look again.
type Step struct {
	Evict  []Removal
	Delete []Removal
	Wait   []Waiting
	Left   []Pod     // every pod that must leave and is still on the node
	Again  time.Time // look again at the latest then; zero if only a change can bring news
	Done   bool      // nothing is left to do: no pod is left, or the deadline has come
}

// Removal is a pod to remove and the grace to give it; zero is the pod's own.
type Removal struct {
	Pod   Pod
	Grace time.Duration
}

// Waiting is a pod that nothing is done about now, and why.
type Waiting struct {
	Pod    Pod
	Reason WaitReason
	Budget string // of a pod that a PodDisruptionBudget holds: its NAMESPACE/NAME
}

// WaitReason is why nothing is done about a pod now.
type WaitReason string

// The reasons to wait.
const (
	Terminating WaitReason = "terminating" // it is on its way out
	Budgeted    WaitReason = "budgeted"    // its PodDisruptionBudget allows no disruption
	BackingOff  WaitReason = "backing-off" // the API server was busy or refused
	LaterTier   WaitReason = "later-tier"  // others go first
)

// Decide says what to do now to empty a node before deadline. It reads nothing but its arguments.
func Decide(s State, now, deadline time.Time, p Policy) Step {
	d := decision{now: now, deadline: deadline, policy: p, since: s.Since, allowed: map[string]int{}}
	maps.Copy(d.allowed, s.Allowed)
	for _, pod := range s.Pods {
		if pod.Stays == "" {
			d.step.Left = append(d.step.Left, pod)
			d.others = d.others || !pod.Critical
		}
	}
	// The longest grace goes first, since it ends last; names make the order, and so the tests, stable.
	slices.SortFunc(d.step.Left, func(a, b Pod) int {
		return cmp.Or(
			cmp.Compare(b.Grace, a.Grace), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
		)
	})
	d.step.Done = true
	for _, pod := range d.step.Left {
		d.consider(pod)
	}
	return d.step
}

// decision is a Step in the making.
type decision struct {
	now, deadline, since time.Time
	policy               Policy
	allowed              map[string]int // disruptions that each budget still allows, after this step's evictions
	others               bool           // there are pods that are not system-critical
	step                 Step
}

func (d *decision) consider(pod Pod) {
	over := d.over(pod)
	d.step.Done = d.step.Done && over
	switch {
	case over:
		d.wait(pod, reasonOf(pod))
	case d.pending(pod):
		d.wait(pod, reasonOf(pod), pod.Try.Next)
	case d.mustForce(pod):
		d.step.Delete = append(d.step.Delete, Removal{pod, d.remaining(pod)})
	case !pod.GoneBy.IsZero():
		d.wait(pod, Terminating, d.forceAt(pod))
	case pod.Critical && d.others:
		d.wait(pod, LaterTier, d.forceAt(pod))
	case d.now.Before(d.retryAt(pod)):
		d.wait(pod, reasonOf(pod), d.retryAt(pod), d.forceAt(pod))
	default:
		d.evict(pod)
	}
}

// pending tells whether the last attempt is to be given its time, whatever the deadline: no answer has come,
// the API server asked for a pause, or the watch has yet to show what was accepted.
func (d *decision) pending(pod Pod) bool {
	switch pod.Try.Last {
	case Sent:
		return true
	case Deferred:
		return d.now.Before(pod.Try.Next)
	case Accepted, Forced:
		return pod.GoneBy.IsZero() && d.now.Before(pod.Try.Next)
	}
	return false
}

// over tells whether the deadline has come and nothing more can be done for the pod: it was to be left, it
// was given its last grace and that has passed, or the API server refused even its deletion.
func (d *decision) over(pod Pod) bool {
	if d.now.Before(d.deadline) {
		return false
	}
	switch {
	case !d.policy.Force, pod.Try.Last == Denied:
		return true
	case !pod.GoneBy.IsZero():
		return !d.now.Before(pod.GoneBy.Add(stopLag))
	}
	return false
}

// forceAt is when the pod must be deleted for its grace to end by the deadline; zero is never. A grace that
// is longer than half of the time since the node was taken out of service leaves the other half to the
// budget. A pod that is terminating keeps its grace to the last: the API server counts a shorter one from the
// first deletion, and has a pod that is past it killed at once.
func (d *decision) forceAt(pod Pod) time.Time {
	switch {
	case !d.policy.Force:
		return time.Time{}
	case pod.GoneBy.IsZero():
		return d.deadline.Add(-min(max(pod.Grace, minGrace), d.deadline.Sub(d.since)/2))
	case pod.GoneBy.After(d.deadline.Add(time.Second)): // GoneBy is in whole seconds
		return d.deadline.Add(-minGrace)
	}
	return time.Time{}
}

// mustForce tells whether the time to wait for a budget is over, or the pod's present grace ends too late.
func (d *decision) mustForce(pod Pod) bool {
	if pod.Try.Last == Denied || (pod.Try.Last == Forced && !pod.GoneBy.IsZero()) {
		return false
	}
	forceAt := d.forceAt(pod)
	return !forceAt.IsZero() && !d.now.Before(forceAt)
}

// remaining is the pod's own grace, cut to end by the deadline, and never less than minGrace.
func (d *decision) remaining(pod Pod) time.Duration {
	return max(min(pod.Grace, d.deadline.Sub(d.now).Truncate(time.Second)), minGrace)
}

// retryAt is when the pod may be tried again, as things are now: a pod that its only budget held back is
// tried before its time when the budget allows it, or is gone.
func (d *decision) retryAt(pod Pod) time.Time {
	if pod.Try.Last == Blocked && len(pod.Budgets) <= 1 && d.held(pod) == "" {
		return pod.Try.Soon
	}
	return pod.Try.Next
}

func (d *decision) evict(pod Pod) {
	if pod.Ready && pod.Try.Last == None && d.held(pod) != "" {
		d.wait(pod, Budgeted, d.forceAt(pod))
		return
	}
	for _, name := range pod.Budgets {
		if pod.Ready {
			d.allowed[name]--
		}
	}
	r := Removal{Pod: pod}
	if d.policy.Force && d.now.Add(pod.Grace).After(d.deadline) {
		r.Grace = d.remaining(pod)
	}
	d.step.Evict = append(d.step.Evict, r)
}

// held returns the first of the pod's budgets that allows no disruption now; empty if all do.
func (d *decision) held(pod Pod) string {
	for _, name := range pod.Budgets {
		if n, known := d.allowed[name]; known && n <= 0 {
			return name
		}
	}
	return ""
}

func (d *decision) wait(pod Pod, reason WaitReason, until ...time.Time) {
	w := Waiting{Pod: pod, Reason: reason}
	if reason == Budgeted {
		w.Budget = d.held(pod)
		if w.Budget == "" && len(pod.Budgets) > 0 {
			w.Budget = pod.Budgets[0]
		}
	}
	d.step.Wait = append(d.step.Wait, w)
	d.again(until...)
	d.again(d.deadline)
	if !d.now.Before(d.deadline) {
		d.again(pod.GoneBy.Add(stopLag))
	}
}

// again brings the next look forward to the earliest of the instants that are still to come.
func (d *decision) again(instants ...time.Time) {
	for _, t := range instants {
		if t.After(d.now) && (d.step.Again.IsZero() || t.Before(d.step.Again)) {
			d.step.Again = t
		}
	}
}

func reasonOf(pod Pod) WaitReason {
	switch last := pod.Try.Last; {
	case last == Blocked:
		return Budgeted
	case last == Sent, last == Deferred:
		return BackingOff
	case last == Accepted, last == Forced, !pod.GoneBy.IsZero():
		return Terminating
	}
	return BackingOff
}
