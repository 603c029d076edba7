package drain

import (
	"cmp"
	"time"
)

// State is what a decision is made from: the pods of one node, and the budgets that protect them.
type State struct {
	Since       time.Time         // when the node was cordoned to be drained
	Started     time.Time         // when this process began the drain, which may be after the deadline
	Unreachable bool              // no kubelet may report the end of pods: the node is not Ready, or gone
	DeadSince   time.Time         // since when no kubelet counts grace periods; zero if one does
	Pods        []Pod             // every pod on the node
	Budgets     map[string]Budget // the PodDisruptionBudgets of these pods, by NAMESPACE/NAME
	EmptyAt     time.Time         // when the last pod was gone; zero if one is left
	// SchedulerWait is how long after Since the scheduler may still bind pods to the node; zero if it is not late.
	SchedulerWait time.Duration
	Attached      []string // volumes of pods that have left or must leave, still attached to the node
	// TierSince is when each tier has started for the first time; none if it has not.
	TierSince map[int]time.Time
	// GrantedUntil is when the last grace period ends that the drain has granted to a pod that is left, before its
	// deadline; zero if it has granted none.
	GrantedUntil time.Time
	HoldUntil    time.Time // no pod is evicted before, unless the deadline requires it; zero is no pause
	EndNow       bool      // the drain ends, whatever is left
	// TurnsTaken are the namespaces of which another pod is asked, or evicted after that. It may be on another node.
	TurnsTaken map[string]bool
}

// Pod is a pod as a decision sees it.
type Pod struct {
	Namespace    string
	Name         string
	UID          string
	StayReason   StayReason    // why the pod need not leave the node; empty if it must
	Tier         int           // lower tiers are evicted first
	Ready        bool          // pods that are not may be exempt from their budget (unhealthyPodEvictionPolicy)
	UnreadySince time.Time     // of a pod that is not Ready
	Grace        time.Duration // the pod's termination grace period
	GraceEndsAt  time.Time     // of a terminating pod: its deletionTimestamp
	DeletedAt    time.Time     // of a terminating pod: when its grace period began
	Returned     bool          // its controller has put it on the node after the cordon
	Brief        bool          // when its tier has started, what blocks it holds it for briefWait only
	EvictAt      time.Time     // the scheduler may have bound it late, once more: not before this; zero is at once
	Unmounts     bool          // the volumes of other pods cannot be unmounted without it
	WaitReason   WaitReason    // why the drain waits for its end instead of evicting it; empty if it does not
	WaitUntil    time.Time     // when that wait is over; zero is at the deadline
	Budgets      []string      // the PodDisruptionBudgets that protect it, as NAMESPACE/NAME
	Try          Try
	HandOver     HandOver
	Coordination Coordination
}

// StayReason is why a pod need not leave the node.
type StayReason string

// The reasons to leave a pod where it is.
const (
	DaemonSet StayReason = "daemonset" // its controller would create it again on the node
	Mirror    StayReason = "mirror"    // a static pod, which the kubelet runs from a file
	Finished  StayReason = "finished"  // none of its containers runs any more
	// PutBack is a pod that its controller has put on the node after it was asked to move another one.
	PutBack StayReason = "put-back"
)

// Try is the result of the attempts to evict or delete a pod.
type Try struct {
	Last     Outcome
	Next     time.Time // the earliest time of the next attempt
	Failures int       // consecutive failed attempts
	Message  string    // of the API server, about the last attempt
	Webhook  string    // that refused the last attempt, or failed; empty if none did
	Eviction bool      // the last attempt was an eviction, and failed
	EndsAt   time.Time // of an accepted deletion: when the grace period that it gave ends
}

// Outcome is the API server's answer to an attempt to evict or delete a pod.
type Outcome string

// The outcomes of an attempt.
const (
	None     Outcome = ""
	Sent     Outcome = "sent"     // not answered yet
	Accepted Outcome = "accepted" // the pod is terminating, or gone
	Blocked  Outcome = "blocked"  // a PodDisruptionBudget does not allow it now
	Deferred Outcome = "deferred" // the API server is busy, or did not answer
	Refused  Outcome = "refused"  // eviction would be refused at any time
	Forced   Outcome = "forced"   // deletion in spite of the budget was accepted
	Denied   Outcome = "denied"   // deletion in spite of the budget was refused
)

// Budget is a PodDisruptionBudget as a decision sees it.
type Budget struct {
	Allowed          int       // disruptions that it allows to the pods of this node now
	Healthy          int       // healthy pods
	Desired          int       // healthy pods that it requires
	Expected         int       // all of its pods
	Operated         bool      // an operator maintains it, and may let its pods go
	SyncFailed       string    // why the disruption controller cannot calculate it; empty if it can
	AlwaysAllow      bool      // unhealthy pods may always be evicted (unhealthyPodEvictionPolicy AlwaysAllow)
	EvictionInFlight bool      // an eviction under it has been sent: they are sent one after the other
	ReservedForCall  int       // disruptions, not in Allowed, of evictions that follow calls in flight: 0 or 1
	StaleUntil       time.Time // until then the numbers may lag behind; zero if they are current
	ProbeAt          time.Time // from then on one eviction may be tried although Allowed is 0; zero is never
	PodsOnLaterNodes int       // pods that wait on nodes that are drained after this one
}

// budgetState is what decides about more than the next disruption that a budget allows.
type budgetState struct{ misconfigured, satisfied, requiresHealthy, alwaysAllow bool }

func (b Budget) state() budgetState {
	return budgetState{b.misconfigured(), b.Healthy >= b.Desired, b.Desired > 0, b.AlwaysAllow}
}

// misconfigured reports whether the budget allows no disruption although all its pods are healthy. Then it
// never allows one until the budget or the number of pods is changed. An operator does that itself: it moves the
// primary of a database, and the budget with it. Nor does one allow any that cannot be calculated.
func (b Budget) misconfigured() bool {
	if b.SyncFailed != "" && b.Expected == 0 { // it has never been calculated
		return true
	}
	return !b.Operated && b.Expected > 0 && b.Desired >= b.Expected && b.Healthy >= b.Expected
}

// satisfied reports whether the budget has the healthy pods that it requires, by numbers that are current.
func (b Budget) satisfied(now time.Time) bool {
	return b.Healthy >= b.Desired && !now.Before(b.StaleUntil)
}

// admits reports whether the budget permits an eviction of the pod, and whether that uses up a disruption.
// The API server writes each disruption to the budget's status. Of concurrent evictions all but one conflict
// and are retried after half a second, so they are sent one after the other
// (k8s.io/kubernetes/pkg/registry/core/pod/storage: EvictionsRetry).
func (b Budget) admits(pod Pod, now time.Time) (ok, disrupts bool) {
	if !pod.Ready && (b.AlwaysAllow || (b.Desired > 0 && b.Healthy >= b.Desired)) {
		return true, false
	}
	return !b.EvictionInFlight && (b.Allowed > 0 || (!b.ProbeAt.IsZero() && !now.Before(b.ProbeAt))), true
}

// Policy is what decisions follow: a valid configuration, and its tiers.
type Policy struct {
	Config
	TierList []Tier
}

// of returns the policy for the target, which may have values of its own.
func (p Policy) of(t Target) Policy {
	p.AtDeadline = cmp.Or(t.AtDeadline, p.AtDeadline)
	if t.EvictionDelay != nil {
		p.EvictionDelay = *t.EvictionDelay
	}
	return p
}

// Step is a decision: what to do now, what to wait for, and when to decide again.
type Step struct {
	Release  []Release // to ask first
	Evict    []Removal
	Delete   []Removal
	Wait     []Waiting
	Left     []Pod     // every pod that must leave and is still on the node
	Returned []string  // NAMESPACE/NAME of the pods that stay because their controllers have put them back, sorted
	Lost     bool      // no kubelet reports the end of the pods that are left, and their grace periods are over
	Attached []string  // volumes that are still attached
	Empty    bool      // no pod is left that the drain waits for
	Tier     int       // the last tier that has started
	Again    time.Time // decide again by then; zero if only a change can lead to another step
	Done     bool      // the drain is over: the node is empty, or the deadline has passed
}

// Removal is a pod to evict or delete.
type Removal struct {
	Pod    Pod
	Kind   RemovalKind
	Grace  time.Duration // zero is the pod's own grace period
	Budget string        // of an eviction: the PodDisruptionBudget that it disrupts; may be empty
	Until  time.Time     // of an eviction: it is decided again if it cannot be sent by then; zero is never
	Reason ForceReason   // of a deletion, and of an eviction in spite of the pod's annotations
}

// RemovalKind is how a pod is removed.
type RemovalKind int

// The kinds of removals.
const (
	Eviction      RemovalKind = iota // it is repeated if it is refused
	LastEviction                     // the pod is deleted if it is refused
	Deletion                         // in spite of the pod's budget
	EarlyDeletion                    // one that can be postponed
)

func (k RemovalKind) evicts() bool { return k == Eviction || k == LastEviction }

// disrupts returns the budgets that the removal disrupts.
func (r Removal) disrupts() []string {
	switch {
	case r.Budget != "":
		return []string{r.Budget}
	case !r.Kind.evicts() && r.Pod.Ready && r.Pod.GraceEndsAt.IsZero():
		return r.Pod.Budgets
	}
	return nil
}

// CutsGrace reports whether the pod is given less than its own grace period.
func (r Removal) CutsGrace() bool { return r.Grace > 0 && r.Grace < r.Pod.Grace }

// ForceReason is why a pod is removed in spite of its budget or its annotations.
type ForceReason string

// The reasons to remove a pod in spite of its budget or its annotations.
const (
	AtDeadline ForceReason = "deadline"    // its grace period must start now to end by the deadline
	Unhealthy  ForceReason = "unhealthy"   // it has not been Ready for the configured time
	OthersLeft ForceReason = "others-left" // nothing but this pod holds the node, and it would return
)

// ForceReasons lists every reason.
func ForceReasons() []string {
	return []string{string(AtDeadline), string(Unhealthy), string(OthersLeft)}
}

// Waiting is a pod about which nothing is done now, and why.
type Waiting struct {
	Pod     Pod // empty if the node as a whole has to wait
	Reason  WaitReason
	Budget  string    // that blocks the pod: NAMESPACE/NAME; two are joined by "and"
	Webhook string    // that refuses the eviction
	Message string    // the reason in words, with the budget's numbers
	Then    *Release  // of a pod that its budget blocks: what follows when it allows that; nil if not that alone
	Since   time.Time // when the pod began to wait for this
}

// WaitReason is why nothing is done now.
type WaitReason string

// The reasons to wait.
const (
	Requested        WaitReason = "requested"            // the API server has not answered yet
	Terminating      WaitReason = "terminating"          // its grace period runs
	BlockedByBudget  WaitReason = "blocked-by-budget"    // its PodDisruptionBudget allows no disruption now
	Misconfigured    WaitReason = "misconfigured-budget" // its PodDisruptionBudgets never allow a disruption
	OptedOut         WaitReason = "opted-out"            // an annotation asks not to evict it
	WaitedFor        WaitReason = "waited-for"           // the configuration says to wait for its end
	BackingOff       WaitReason = "backing-off"          // the API server was busy or refused
	RefusedByWebhook WaitReason = "refused-by-webhook"   // an admission webhook refuses the eviction, or fails
	EvictionDelayed  WaitReason = "eviction-delayed"     // the configured time since the taint has not passed
	Held             WaitReason = "held"                 // a person has paused the drain
	LaterTier        WaitReason = "later-tier"           // pods of an earlier tier are left
	HandingOver      WaitReason = "handing-over"         // its annotation says to ask it first, and it may not go yet
	Restarting       WaitReason = "restarting"           // a rolling restart of its Deployment has not replaced it yet
	GroupBehind      WaitReason = "group-behind"         // it is asked after others of its namespace
	VolumesAttached  WaitReason = "volumes-attached"     // of the node: volumes of its pods are still attached
	SchedulerBehind  WaitReason = "scheduler-behind"     // the scheduler may still bind pods to the node
	Deregistering    WaitReason = "deregistering"        // of the node: load balancers may still send to it
)
