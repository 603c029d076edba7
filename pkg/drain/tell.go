package drain

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Observer is told what happens. Its methods are called from several goroutines and must not block.
type Observer interface {
	DrainProgressed(p Progress)
	DrainEnded(t Target, result Result)
	PodEvicted(t Target, p Pod, waited time.Duration) // after so long from the beginning of the drain
	PodBlocked(t Target, w Waiting)                   // once for each thing that the pod waits for
	PodForced(t Target, r Removal)                    // deleted past its budget or its own wish
	EvictionRefused(t Target, p Pod, o Outcome)       // of each attempt that came to nothing
	VolumesStillAttached(t Target, volumes []string)  // still attached when there was no more time for them
	KubernetesFailed(operation string, err error)     // the call is tried again
}

// Target is a node that is to be emptied.
type Target struct {
	Name, UID       string
	Since, Deadline time.Time // when it was taken out of service to be emptied; by when it must be empty
	// Tighter brings deadlines while the node is drained, of which the earlier ones count; nil brings none.
	Tighter <-chan time.Time
	// DryRun has the drain look once, tell what it would do, and change nothing.
	DryRun bool
}

// progressPause is the least time between two reports of a drain's progress, unless no pod is left.
const progressPause = time.Second

// Progress is how far a drain is. It is told when something of it has changed, once a second at most.
type Progress struct {
	Target
	Total   int         // pods that had, or have, to leave
	Left    int         // of those, still on the node
	Waiting []WaitCount // what those that are left wait for, save their own end; most pods first
}

// WaitCount is what some pods of a node wait for, or the node itself.
type WaitCount struct {
	Reason WaitReason
	Budget string // NAMESPACE/NAME of the PodDisruptionBudget, if it is one
	Pods   int    // of the node itself: volumes that are attached
}

// WaitReasons lists the reasons that a Hold can have, for those who count them. A pod's own end is none, nor
// is an answer that is on its way.
func WaitReasons() []WaitReason {
	return []WaitReason{
		BlockedByBudget, Misconfigured, OptedOut, WaitedFor, BackingOff, LaterTier, VolumesAttached, Deregistering,
	}
}

// String says how many pods wait, and for what.
func (h WaitCount) String() string {
	switch h.Reason {
	case BlockedByBudget:
		return fmt.Sprintf("%d wait for PodDisruptionBudget %s", h.Pods, h.Budget)
	case Misconfigured:
		return fmt.Sprintf("%d wait for PodDisruptionBudget %s, which never allows a disruption", h.Pods, h.Budget)
	case OptedOut:
		return fmt.Sprintf("%d ask by annotation not to be evicted", h.Pods)
	case WaitedFor:
		return fmt.Sprintf("%d are waited for until they end", h.Pods)
	case LaterTier:
		return fmt.Sprintf("%d are of a later tier", h.Pods)
	case BackingOff:
		return fmt.Sprintf("%d wait for the API server", h.Pods)
	case VolumesAttached:
		return fmt.Sprintf("%d volumes are still attached", h.Pods)
	}
	return "load balancers are given time to let the node go"
}

// Result is how a drain ended.
type Result string

// The results of a drain.
const (
	Drained     Result = "drained"     // no pod that had to leave is left, and each was evicted
	ByForce     Result = "by-force"    // none is left, and some were deleted past their budget
	LeftBehind  Result = "left-behind" // pods were left
	Interrupted Result = "interrupted" // the drain was called off
)

// Results lists every result, for those who count them.
func Results() []string {
	return []string{string(Drained), string(ByForce), string(LeftBehind), string(Interrupted)}
}

// Report is what a drain came to.
type Report struct {
	Total  int      // pods that had to leave
	Forced int      // of those, deleted past their budget
	Left   []string // NAMESPACE/NAME of the pods that were still there at the deadline, or that never ended
	Took   time.Duration
}

func (r Report) result(err error) Result {
	switch {
	case err != nil:
		return Interrupted
	case len(r.Left) > 0:
		return LeftBehind
	case r.Forced > 0:
		return ByForce
	}
	return Drained
}

// patience is what a pod waits for, and since when.
type patience struct {
	reason WaitReason
	budget string
	since  time.Time
	told   bool
}

// tell reports what has changed.
func (r *run) tell(step Step) {
	for _, w := range step.Wait {
		if slices.Contains([]WaitReason{BlockedByBudget, Misconfigured, OptedOut, WaitedFor}, w.Reason) {
			r.tellOf(w)
		}
	}
	p := Progress{Target: r.target(), Total: len(r.seen), Left: len(step.Left), Waiting: holds(step.Wait)}
	next := r.toldAt.Add(progressPause)
	switch {
	case p.same(r.told):
	case p.Left > 0 && time.Now().Before(next):
		r.lookBy(next)
	default:
		r.told, r.toldAt = p, time.Now()
		r.observer.DrainProgressed(p)
	}
}

func (p Progress) same(o Progress) bool {
	return p.Name == o.Name && p.Total == o.Total && p.Left == o.Left && slices.Equal(p.Waiting, o.Waiting)
}

// tellOf reports a pod that has waited for long enough for one thing, and one that would wait for ever at
// once.
func (r *run) tellOf(w Waiting) {
	p := r.waiting[w.Pod.UID]
	if p == nil || p.reason != w.Reason || p.budget != w.Budget {
		p = &patience{reason: w.Reason, budget: w.Budget, since: time.Now()}
		r.waiting[w.Pod.UID] = p
	}
	due := p.since.Add(r.cfg.BlockedAfter)
	switch {
	case p.told:
	case w.Reason != Misconfigured && time.Now().Before(due):
		r.lookBy(due)
	default:
		p.told = true
		w.Since = p.since
		r.observer.PodBlocked(r.target(), w)
	}
}

// holds counts what pods wait for, save for their own end and for answers.
func holds(waiting []Waiting) []WaitCount {
	n := map[WaitCount]int{}
	for _, w := range waiting {
		if slices.Contains(WaitReasons(), w.Reason) {
			n[WaitCount{Reason: w.Reason, Budget: w.Budget}]++
		}
	}
	out := make([]WaitCount, 0, len(n))
	for h, pods := range n {
		h.Pods = pods
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b WaitCount) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Budget, b.Budget))
	})
	return out
}
