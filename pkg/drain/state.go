package drain

import "time"

// State is what a decision is made from: the pods of one node, and the budgets that protect them.
type State struct {
	Since       time.Time         // when the node was taken out of service to be emptied
	Unreachable bool              // the node does not answer: nobody is there to tell of a pod's end
	Pods        []Pod             // every pod on the node
	Budgets     map[string]Budget // the PodDisruptionBudgets of these pods, by NAMESPACE/NAME
	EmptyAt     time.Time         // when the last pod had gone; zero if it has not
	Attached    []string          // volumes of pods that have left, or must, still attached to the node
}

// Pod is a pod as a decision sees it.
type Pod struct {
	Namespace    string
	Name         string
	UID          string
	StayReason   StayReason    // why the pod need not leave the node; empty if it must
	Tier         int           // lower tiers go first
	Ready        bool          // pods that are not may leave past their budget (unhealthyPodEvictionPolicy)
	UnreadySince time.Time     // of a pod that is not Ready
	Grace        time.Duration // the pod's own termination grace period
	GraceEndsAt  time.Time     // of a pod that is being deleted: when its grace ends
	WaitReason   WaitReason    // why it is to be waited for, instead of evicted; empty if it is not
	WaitUntil    time.Time     // when that ends; zero is at the deadline
	Budgets      []string      // the PodDisruptionBudgets that protect it, as NAMESPACE/NAME
	Try          Try
}

// StayReason is why a pod need not leave a node before the node goes.
type StayReason string

// The reasons to let a pod be.
const (
	DaemonSet StayReason = "daemonset" // its controller would put it back
	Mirror    StayReason = "mirror"    // the kubelet runs it from a file
	Finished  StayReason = "finished"  // nothing of it runs any more
)

// Try is what has come of the attempts to move a pod.
type Try struct {
	Last     Outcome
	Next     time.Time // not before this is it tried again
	Failures int       // failed attempts in a row
	Message  string    // what the API server said of the last one

	Eviction bool // the last one was an eviction, and came to nothing
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

// Budget is a PodDisruptionBudget as a decision sees it.
type Budget struct {
	Allowed          int       // disruptions that it allows to the pods of this node now
	Healthy          int       // of its pods
	Desired          int       // how many of them must be healthy
	Expected         int       // all of its pods
	AlwaysAllow      bool      // unhealthy pods may always be evicted (unhealthyPodEvictionPolicy AlwaysAllow)
	EvictionInFlight bool      // an eviction under it is under way: they are sent one after the other
	StaleUntil       time.Time // until then the figures may miss what was done; zero if they miss nothing
	ProbeAt          time.Time // from then on it may be asked although it seems to allow nothing; zero is never
	PodsOnLaterNodes int       // pods on nodes that are drained after this one, which it holds too
}

// misconfigured tells whether the budget allows no disruption although all its pods are healthy: as long as
// neither it nor the number of pods is changed, it never will.
func (b Budget) misconfigured() bool {
	return b.Expected > 0 && b.Desired >= b.Expected && b.Healthy >= b.Expected
}

// calm tells whether as many of the budget's pods are healthy as it asks for, as far as can be known.
func (b Budget) calm(now time.Time) bool { return b.Healthy >= b.Desired && !now.Before(b.StaleUntil) }

// mood is what a budget says beside how many disruptions it allows.
func (b Budget) mood() [4]bool {
	return [...]bool{b.misconfigured(), b.Healthy >= b.Desired, b.Desired > 0, b.AlwaysAllow}
}

// admits tells whether the pod is to be evicted as far as the budget goes, and whether that takes of what it
// allows. The API server notes each disruption in the budget's status, and of evictions that come together
// all but one try again after half a second: so one is sent after the other
// (k8s.io/kubernetes/pkg/registry/core/pod/storage: EvictionsRetry).
func (b Budget) admits(pod Pod, now time.Time) (ok, takes bool) {
	if !pod.Ready && (b.AlwaysAllow || (b.Desired > 0 && b.Healthy >= b.Desired)) {
		return true, false
	}
	return !b.EvictionInFlight && (b.Allowed > 0 || (!b.ProbeAt.IsZero() && !now.Before(b.ProbeAt))), true
}

// Policy is how far a drain goes.
type Policy struct {
	Force            bool            // delete what is left when its grace must begin to end by the deadline
	Tiers            []time.Duration // how long each tier may hold up the next one; zero is without a bound
	ForceSpacing     time.Duration
	ForceUnhealthy   time.Duration // zero is never
	StuckAfter       time.Duration // zero is never
	Settle           time.Duration
	LoadBalancerWait time.Duration
	VolumeTimeout    time.Duration
}

// Step is one move: what to do now, what to wait for, and when to look again.
type Step struct {
	Evict  []Removal
	Delete []Removal
	Wait   []Waiting
	Left   []Pod     // every pod that must leave and is still on the node
	Empty  bool      // no pod is left that is worth waiting for
	Again  time.Time // look again at the latest then; zero if only a change can bring news
	Done   bool      // nothing is left to do: the node is empty, or the deadline has come

	Attached []string // volumes that are still attached
}

// Removal is a pod to remove and the grace to give it; zero is the pod's own.
type Removal struct {
	Pod    Pod
	Grace  time.Duration
	Budget string      // of an eviction: the PodDisruptionBudget of whose allowance it takes; may be empty
	Reason ForceReason // of a deletion
	Early  bool        // of a deletion: it can wait
}

// disrupts names the budgets to which the removal is a disruption.
func (r Removal) disrupts() []string {
	switch {
	case r.Budget != "":
		return []string{r.Budget}
	case r.Reason != "" && r.Pod.Ready && r.Pod.GraceEndsAt.IsZero():
		return r.Pod.Budgets
	}
	return nil
}

// ForceReason is why a pod is deleted instead of evicted.
type ForceReason string

// The reasons to delete a pod past its budget, or past its own wish to stay.
const (
	AtDeadline ForceReason = "deadline"  // its grace must begin now to end by the deadline
	Unhealthy  ForceReason = "unhealthy" // it has not been Ready for so long that its budget protects nothing
)

// ForceReasons lists every reason, for those who count them.
func ForceReasons() []string { return []string{string(AtDeadline), string(Unhealthy)} }

// Waiting is a pod that nothing is done about now, and why.
type Waiting struct {
	Pod     Pod // empty if the node as a whole has to wait
	Reason  WaitReason
	Budget  string    // of a pod that a PodDisruptionBudget holds: its NAMESPACE/NAME; or two, with "and"
	Message string    // the same in words, with the figures
	Since   time.Time // since when it has waited for this
}

// WaitReason is why nothing is done now.
type WaitReason string

// The reasons to wait.
const (
	Requested       WaitReason = "requested"            // the API server has yet to answer
	Terminating     WaitReason = "terminating"          // it is on its way out
	BlockedByBudget WaitReason = "blocked-by-budget"    // its PodDisruptionBudget allows no disruption
	Misconfigured   WaitReason = "misconfigured-budget" // its PodDisruptionBudgets will never allow a disruption
	OptedOut        WaitReason = "opted-out"            // an annotation asks not to evict it
	WaitedFor       WaitReason = "waited-for"           // the agent is configured to wait for its end
	BackingOff      WaitReason = "backing-off"          // the API server was busy or refused
	LaterTier       WaitReason = "later-tier"           // others go first
	VolumesAttached WaitReason = "volumes-attached"     // of the node: volumes of its pods are still attached
	Deregistering   WaitReason = "deregistering"        // of the node: load balancers may still send to it
)
