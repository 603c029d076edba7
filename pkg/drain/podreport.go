package drain

import (
	"cmp"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

// PodReport is what became of a pod that had to leave the node.
type PodReport struct {
	Name    string      // NAMESPACE/NAME
	How     PodEnd      // how it left; empty if it was not removed
	At      time.Time   // when the API server accepted that, or the drain noticed that the pod had ended
	Reason  ForceReason // why it was removed in spite of its budget or annotations; empty if it was not
	Budgets []string    // the PodDisruptionBudgets that protected it, as NAMESPACE/NAME
	Left    WaitReason  // why it was on the node when the drain ended; empty if it was not
}

// BudgetsKept reports whether the API server let the pod go by its budgets, if it had any. It checks none when a pod is
// deleted.
func (p PodReport) BudgetsKept() bool { return p.How != Deleted }

// PodEnd is how a pod has left a node.
type PodEnd string

// How pods leave a node.
const (
	Evicted   PodEnd = "evicted"
	Deleted   PodEnd = "deleted"   // in spite of its budget or annotations
	Restarted PodEnd = "restarted" // a rolling restart of its Deployment has replaced it
	Ended     PodEnd = "ended"     // by itself, or somebody else has removed it
)

// history is what a drain remembers of a pod that had to leave.
type history struct {
	PodReport
	restarts bool // a rolling restart is to replace it
}

// note remembers the pods that have to leave, and those that have left although nothing was asked of them. It must be
// called with mu.
func (a *removals) note(pods []Pod, leaving map[string]struct{}) {
	for i := range pods {
		if pods[i].StayReason != "" {
			continue
		}
		known := a.seen[pods[i].UID]
		if known == nil {
			known = &history{PodReport: PodReport{Name: pods[i].Namespace + "/" + pods[i].Name}}
			a.seen[pods[i].UID] = known
		}
		known.restarts = pods[i].HandOver.Kind == handover.Restart
		if pods[i].GraceEndsAt.IsZero() { // no budget protects one that is terminating
			known.Budgets = pods[i].Budgets
		}
		if known.How == Ended || known.How == Restarted { // the watch was wrong
			known.How, known.At = "", time.Time{}
		}
	}
	for uid, known := range a.seen {
		if _, ok := leaving[uid]; ok || known.How != "" {
			continue
		}
		known.How, known.At = Ended, time.Now()
		if known.restarts {
			known.How = Restarted
		}
	}
}

// noteRemoved remembers that the API server has accepted a removal.
func (a *removals) noteRemoved(removal Removal, how PodEnd) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.seen[removal.Pod.UID]; known != nil {
		known.How, known.At, known.Reason = how, time.Now(), removal.Reason
	}
}

// podReports returns what became of the pods that have left, and of those that are left by the last step, in order of
// time. It must be called with mu.
func (a *removals) podReports(last Step) (reports []PodReport) {
	why := map[string]WaitReason{}
	for _, w := range last.Wait {
		why[w.Pod.UID] = w.Reason
	}
	left := map[string]WaitReason{}
	for _, pod := range last.Left {
		left[pod.UID] = cmp.Or(why[pod.UID], Requested)
	}
	for uid, known := range a.seen {
		one := known.PodReport
		if one.Left = left[uid]; one.How == "" && one.Left == "" {
			continue // it is on the node, and the drain goes on
		}
		if slices.Contains(last.Returned, one.Name) && one.How == Ended {
			one.How, one.At, one.Left = "", time.Time{}, WaitReason(PutBack)
		}
		reports = append(reports, one)
	}
	slices.SortFunc(reports, func(a, b PodReport) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Name, b.Name))
	})
	return reports
}
