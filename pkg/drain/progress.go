package drain

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Observer is notified of the events of drains. Its methods are called from several goroutines and must not
// block.
type Observer interface {
	DrainProgressed(p Progress)
	DrainEnded(t Target, result Result)
	PodEvicted(t Target, r Removal, waited time.Duration) // since the start of the drain
	PodBlocked(t Target, w Waiting)                       // once for each reason and budget that the pod waits for
	PodForced(t Target, r Removal)                        // removed in spite of its budget or its annotations
	HandOverPutOff(t Target, h HandOverResult)            // once for each pod that may not go when it is asked
	HandOverEnded(t Target, h HandOverResult)             // once for each such pod, when it is removed
	EvictionRefused(t Target, p Pod, o Outcome)           // of each failed attempt
	VolumesStillAttached(t Target, volumes []string)      // when the time to wait for them was over
	DrainControlled(t Target, c Controls)                 // a person has changed how the node is drained
	KubernetesFailed(operation string, err error)         // the call is retried
}

// Target is a node to drain.
type Target struct {
	Name, UID       string
	Since, Deadline time.Time // when the node was cordoned to be drained; by when it must be empty
	// Latest is the latest deadline that a person may ask for; the Deadline if it is zero.
	Latest time.Time
	// Tighter delivers new deadlines during the drain. Those that are not earlier are ignored. It may be nil.
	Tighter <-chan time.Time
	// Earlier is what an earlier drain of the node knew, since it was cordoned last; nil if there was none.
	Earlier *Owners
	// Untainted is set if the node could not be tainted before the drain.
	Untainted bool
	// AtDeadline and EvictionDelay are in place of the Config's; empty and nil are these.
	AtDeadline    string
	EvictionDelay *time.Duration
	// DryRun makes Drain decide once, report what it would do, and change nothing.
	DryRun bool
}

// progressInterval is the least time between two reports of a drain's progress, unless no pod is left. Between reports
// of nothing but what pods wait for it doubles, up to waitsInterval, until nothing has changed for twice as long: some
// pods wait for two things by turns.
const progressInterval, waitsInterval = time.Second, time.Minute

// Progress is how far a drain is. It is reported when it has changed, once a second at most.
type Progress struct {
	Target
	Total   int         // pods that had, or have, to leave
	Left    int         // of those, still on the node
	Waiting []WaitCount // what these wait for, except their own end; most pods first
	// ForcedAt is when the first of the pods is forced that wait for a budget or a webhook, or is left; zero if none
	// waits.
	ForcedAt time.Time
	// Expected is when the drain ends, by a forecast made when it began; zero if there is none.
	Expected time.Time
	// Responders and Grouped are how many of the pods that are left have eviction responders, or are members of a
	// PodGroup.
	Responders, Grouped int
}

// WaitCount is what some pods of a node wait for, or the node itself.
type WaitCount struct {
	Reason  WaitReason
	Budget  string // NAMESPACE/NAME of the PodDisruptionBudget, if it is one
	Webhook string // the name of the admission webhook, if it is one
	Pods    int    // of the node itself: volumes that are attached
}

// WaitReasons lists the reasons that a WaitCount can have: all but Terminating and Requested.
func WaitReasons() []WaitReason {
	return []WaitReason{
		BlockedByBudget, Misconfigured, RefusedByWebhook, OptedOut, WaitedFor, BackingOff, EvictionDelayed, Held, LaterTier,
		HandingOver, GroupBehind, Restarting, VolumesAttached, SchedulerBehind, Deregistering,
	}
}

// String returns how many pods wait, and for what.
func (w WaitCount) String() string {
	switch w.Reason {
	case BlockedByBudget:
		return fmt.Sprintf("%d wait for PodDisruptionBudget %s", w.Pods, w.Budget)
	case Misconfigured:
		return fmt.Sprintf("%d wait for PodDisruptionBudget %s, which never allows a disruption", w.Pods, w.Budget)
	case RefusedByWebhook:
		return fmt.Sprintf("%d wait for admission webhook %s", w.Pods, w.Webhook)
	case SchedulerBehind:
		return "waiting for the scheduler, which bound pods to cordoned nodes"
	case Deregistering:
		return "waiting for load balancers to deregister the node"
	}
	return fmt.Sprintf("%d ", w.Pods) + map[WaitReason]string{
		OptedOut:        "have an annotation against eviction",
		WaitedFor:       "may run until they finish",
		EvictionDelayed: "are evicted when DRAIN_EVICTION_DELAY has passed",
		Held:            "are held until the time that an annotation of the Node names",
		LaterTier:       "are in a later tier",
		HandingOver:     "hand over their leadership first",
		GroupBehind:     "wait for other members of their group",
		Restarting:      "wait for a rolling restart to replace them",
		BackingOff:      "wait for the API server",
		VolumesAttached: "volumes are still attached",
		Terminating:     "are still terminating",
		Requested:       "wait for an answer of the API server",
	}[w.Reason]
}

// Result is how a drain ended.
type Result string

// The results of a drain.
const (
	Drained     Result = "drained"     // all pods that had to leave were evicted
	ByForce     Result = "by-force"    // no pod is left, and some were removed in spite of their budget or annotations
	LeftBehind  Result = "left-behind" // pods are left
	NodeLost    Result = "node-lost"   // pods are left, and no kubelet reports their end
	Interrupted Result = "interrupted" // the drain was canceled
)

// Results lists every result.
func Results() []string {
	return []string{string(Drained), string(ByForce), string(LeftBehind), string(NodeLost), string(Interrupted)}
}

// Report is the result of a drain, with the numbers.
type Report struct {
	Total  int      // pods that had to leave
	Forced int      // of those, removed in spite of their budget or annotations
	Left   []string // NAMESPACE/NAME of the pods that were left at the deadline, or that were stuck
	Lost   bool     // the node is not Ready, or gone, and the grace periods of all pods that are left are over
	Took   time.Duration
	// Expected is how long it was expected to take, by a forecast made when it began; 0 if there was none.
	Expected time.Duration
	Why      []WaitCount // what the pods that are left wait for; most pods first
	// Returned are the NAMESPACE/NAME of pods that their controllers have put back on the node, and that stay.
	Returned []string
	// Unverified is set if no list has shown which pods are left, since the API server did not answer.
	Unverified bool
	Pods       []PodReport // what became of the pods that have left, or are left, in order of time
	Controls   Controls    // what a person asked of the drain at last
	Owners     *Owners     // for a drain that repeats this one
}

// Result is how the drain ended, given that it was not canceled.
func (r Report) Result() Result { return r.result(nil) }

func (r Report) result(err error) Result {
	switch {
	case err != nil:
		return Interrupted
	case r.Lost:
		return NodeLost
	case len(r.Left) > 0, r.Unverified:
		return LeftBehind
	case r.Forced > 0:
		return ByForce
	}
	return Drained
}

// progressReporter notifies the Observer of the progress of one drain.
type progressReporter struct {
	observer Observer
	target   func() Target
	policy   Policy
	waits    map[string]*podWait  // by UID
	before   map[string]WaitCount // what each pod waited for last, besides the answer to a request, by UID
	last     Progress             // as reported
	lastAt   time.Time
	interval time.Duration // until the next report of nothing but what pods wait for
}

// podWait is what a pod waits for, and since when.
type podWait struct {
	reason   WaitReason
	budget   string
	since    time.Time
	reported bool
}

// report reports what the step changes. It returns when it must be called again to report the rest; zero if
// there is none.
func (p *progressReporter) report(step Step, total int, expected time.Time) (again time.Time) {
	left := make(map[string]struct{}, len(step.Left))
	for _, pod := range step.Left {
		left[pod.UID] = struct{}{}
	}
	deleteMissing(p.waits, left)
	deleteMissing(p.before, left)
	for _, w := range step.Wait {
		if isReported(w.Reason) {
			again = earliest(again, p.reportWait(w))
		}
	}
	step.Wait = p.lasting(step)
	now := Progress{
		Target: p.target(), Total: total, Left: len(step.Left), Waiting: countWaits(step), Expected: expected,
	}
	now.ForcedAt = forcedAt(step.Wait, schedule{since: now.Since, deadline: now.Deadline, policy: p.policy})
	for _, pod := range step.Left {
		if pod.Coordination.Responders {
			now.Responders++
		}
		if pod.Coordination.PodGroup != "" {
			now.Grouped++
		}
	}
	return earliest(again, p.reportChange(now))
}

// reportChange reports the progress if it has changed, and enough time has passed. It returns when it must be called
// again; zero if it need not.
func (p *progressReporter) reportChange(now Progress) (again time.Time) {
	onlyWaits := now.Left == p.last.Left && now.Total == p.last.Total && now.Deadline.Equal(p.last.Deadline)
	next := p.lastAt.Add(progressInterval)
	if onlyWaits {
		next = p.lastAt.Add(p.interval)
	}
	switch {
	case now.equal(p.last):
	case now.Left > 0 && time.Now().Before(next):
		return next
	default:
		p.interval = min(2*p.interval, waitsInterval)
		if !onlyWaits || time.Since(p.lastAt) >= 2*waitsInterval {
			p.interval = progressInterval
		}
		p.last, p.lastAt = now, time.Now()
		p.observer.DrainProgressed(now)
	}
	return time.Time{}
}

// lasting returns what pods wait for, with what a pod waited for before in place of the answer to a request: a budget
// that allows nothing is asked again every two minutes, and a webhook more often, and they refuse again.
func (p *progressReporter) lasting(step Step) []Waiting {
	waits := slices.Clone(step.Wait)
	for _, r := range slices.Concat(step.Evict, step.Delete) {
		waits = append(waits, Waiting{Pod: r.Pod, Reason: Requested})
	}
	for i := range waits {
		w := &waits[i]
		before, known := p.before[w.Pod.UID]
		switch {
		case w.Pod.UID == "":
		case w.Reason != Requested:
			p.before[w.Pod.UID] = WaitCount{Reason: w.Reason, Budget: w.Budget, Webhook: w.Webhook}
		case known:
			w.Reason, w.Budget, w.Webhook = before.Reason, before.Budget, before.Webhook
		}
	}
	return waits
}

// isReported reports whether a pod that waits for this long enough is reported by itself.
func isReported(reason WaitReason) bool {
	switch reason {
	case BlockedByBudget, Misconfigured, RefusedByWebhook, OptedOut, WaitedFor:
		return true
	}
	return false
}

// forcedAt returns when the first of the pods is forced that wait for what somebody can change: a budget or a webhook.
func forcedAt(waits []Waiting, t schedule) (at time.Time) {
	for _, w := range waits {
		switch w.Reason {
		case BlockedByBudget, Misconfigured, RefusedByWebhook:
			at = earliest(at, earliest(t.latestDeletion(w.Pod), t.deadline))
		}
	}
	return at
}

// equal compares what is reported.
func (p Progress) equal(o Progress) bool {
	return p.Name == o.Name && p.Deadline.Equal(o.Deadline) && p.ForcedAt.Equal(o.ForcedAt) &&
		p.Expected.Equal(o.Expected) && p.Total == o.Total && p.Left == o.Left && p.Responders == o.Responders &&
		p.Grouped == o.Grouped && slices.Equal(p.Waiting, o.Waiting)
}

// reportWait reports a pod that has waited for DRAIN_BLOCKED_AFTER for the same thing, and one that a misconfigured
// budget blocks at once. It returns when it must be called again.
func (p *progressReporter) reportWait(w Waiting) (again time.Time) {
	wait := p.waits[w.Pod.UID]
	if wait == nil || wait.reason != w.Reason || wait.budget != w.Budget {
		wait = &podWait{reason: w.Reason, budget: w.Budget, since: time.Now()}
		p.waits[w.Pod.UID] = wait
	}
	due := wait.since.Add(p.policy.BlockedAfter)
	switch {
	case wait.reported:
	case w.Reason != Misconfigured && time.Now().Before(due):
		return due
	default:
		wait.reported = true
		w.Since = wait.since
		p.observer.PodBlocked(p.target(), w)
	}
	return time.Time{}
}

// LeftReasons lists the reasons for which a pod can be on a node when its drain has ended.
func LeftReasons() []WaitReason {
	return []WaitReason{
		BlockedByBudget, Misconfigured, RefusedByWebhook, OptedOut, WaitedFor, BackingOff, LaterTier, HandingOver,
		GroupBehind, Restarting, Terminating, Requested, WaitReason(PutBack),
	}
}

// countWaits counts what pods wait for, by the reasons that WaitReasons lists.
func countWaits(step Step) []WaitCount {
	n := map[WaitCount]int{}
	for _, asked := range step.Release {
		n[WaitCount{Reason: asked.Removal.Pod.HandOver.reason()}]++
	}
	for _, w := range step.Wait {
		if slices.Contains(WaitReasons(), w.Reason) {
			n[WaitCount{Reason: w.Reason, Budget: w.Budget, Webhook: w.Webhook}]++
		}
	}
	return sorted(n)
}

// countLeft counts what the pods wait for that a drain leaves behind.
func countLeft(last Step) []WaitCount {
	n := map[WaitCount]int{}
	for _, w := range last.Wait {
		if w.Pod.UID != "" {
			n[WaitCount{Reason: w.Reason, Budget: w.Budget, Webhook: w.Webhook}]++
		}
	}
	return sorted(n)
}

func sorted(n map[WaitCount]int) []WaitCount {
	var out []WaitCount
	for w, pods := range n {
		w.Pods = pods
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b WaitCount) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Budget, b.Budget),
			cmp.Compare(a.Webhook, b.Webhook))
	})
	return out
}

// earliest returns the earlier of two instants; a zero one is not set.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
