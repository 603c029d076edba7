package mode

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// nodegroupUpdate replaces the nodes of an EKS managed node group by an update of that, which EKS does not end before
// its time.
type nodegroupUpdate struct {
	operation
	ready         *readiness // nil before the update is followed
	evictions     evictions
	most, desired int   // The sizes before the update; 0 if this run has not started it.
	failure       error // of an update that has ended
	rereads       int   // of a group that EKS does not describe as updated yet
}

// Step settles what is under way, or starts an update and follows it.
func (u *nodegroupUpdate) Step(ctx context.Context, phase refresh.Phase) (*loop.Wait, error) {
	if phase == refresh.PhaseReplace && u.id == "" && u.attempts == 0 {
		u.most, u.desired = u.group.State.Group.Max, u.group.State.Group.Desired
	}
	if w, follows, err := u.begin(ctx, phase); !follows {
		return w, err
	}
	return u.replace(ctx)
}

// replace follows the update until it has ended, and EKS describes the group as updated.
func (u *nodegroupUpdate) replace(ctx context.Context) (*loop.Wait, error) {
	g := u.group
	switch {
	case !g.Config.Wait:
		return nil, loop.EndWith(report.Detached, u.name()+" continues; trigger status shows its progress")
	case u.ended:
		return u.afterEnd()
	case u.ready == nil:
		u.ready, u.evictions = newReadiness(g), evictions{group: g, since: time.Now()}
	}
	f, w, err := u.hours.Follow(ctx, u.id)
	if err != nil {
		return nil, err
	}
	if w != nil {
		if problem := u.ready.endsUnready(f); problem != "" {
			return nil, loop.EndWith(report.Failed, problem+"; "+u.Remains())
		}
		u.evictions.note(ctx, f)
		return w, nil
	}
	u.ended, u.failure = true, u.failureOf(ctx, f)
	return u.afterEnd()
}

// failureOf is the error for an update that has ended without success, else nil.
func (u *nodegroupUpdate) failureOf(ctx context.Context, f refresh.Refresh) error {
	if f.Status == refresh.StatusSuccessful {
		return nil
	}
	message := DescribeStatus(f)
	if f.Evictions {
		message += u.evictions.describe(ctx, f.Resources) + "; let the pods be evicted, then run the same command again, " +
			"or add --force, with which EKS terminates the nodes with them"
	}
	return loop.EndWith(report.Failed, message+"; nodes that were replaced stay; run the same command again to continue")
}

// afterEnd waits until EKS describes the group as updated, which may be some time after the update has succeeded: its
// nodes would count as outdated until then. If that takes longer than a few reads, the verification says so. A group
// that is larger than before is read once more, too.
func (u *nodegroupUpdate) afterEnd() (*loop.Wait, error) {
	n, isLarger := u.group.State.Group.Nodegroup, u.most > 0 && u.group.State.Group.Max > u.most
	awaits := u.failure == nil && (!n.IsUpdated() || n.Updating)
	if awaits && u.rereads < loop.MaxFailures || isLarger && u.rereads == 0 {
		u.rereads++
		return &loop.Wait{}, nil
	}
	if isLarger {
		u.noteSizes()
	}
	return nil, u.failure
}

// noteSizes notes that the group is larger than before the update. If something else scales up while EKS takes back
// what it has added, EKS ends the update without the rest of that. Source: the scale down phase in "Understand each
// phase of node updates" in the EKS user guide. So it does when an update fails.
func (u *nodegroupUpdate) noteSizes() {
	g := u.group.State.Group
	u.group.Progress.Note(refresh.Warn, "the maximum size is %d and the desired capacity %d, before the update they were "+
		"%d and %d: EKS leaves what it has added if an update fails, or if something else scales up at its end; lower "+
		"them, unless somebody else has raised them", g.Max, g.Desired, u.most, u.desired)
}

// Undo describes what goes on, since EKS has no call that ends an update of a node group.
func (u *nodegroupUpdate) Undo(context.Context) string { return u.Remains() }

func (u *nodegroupUpdate) name() string { return refresh.ModeNodegroup.Operation() + " " + u.id }

// Remains describes the update.
func (u *nodegroupUpdate) Remains() string {
	switch {
	case u.id == "":
		return "no update of the node group was started"
	case !u.ended:
		return u.name() + " continues, and EKS does not cancel one; run the same command again to follow it"
	default:
		return u.name() + " has ended"
	}
}

// blockedAfter is how long nothing may change until it is looked up which pods keep EKS from going on.
const blockedAfter = time.Minute

// evictions finds out which pods EKS cannot evict: it names the nodes alone, and only when the update has failed.
type evictions struct {
	group       *loop.Group
	fingerprint string
	since       time.Time // when the fingerprint has changed last, or pods were looked up
	noted       string
}

// note notes which pods cannot be evicted, when nothing has changed for blockedAfter.
func (e *evictions) note(ctx context.Context, f refresh.Refresh) {
	if now := e.group.State.Fingerprint(&f); now != e.fingerprint {
		e.fingerprint, e.since = now, time.Now()
		return
	}
	if time.Since(e.since) < blockedAfter {
		return
	}
	e.since = time.Now()
	blocked := e.describe(ctx, e.oldNodes())
	if blocked != e.noted && blocked != "" {
		e.group.Progress.Note(refresh.Warn, "EKS waits for pods that cannot be evicted%s", blocked)
	}
	e.noted = blocked
}

// oldNodes are the nodes of old instances that EKS has not terminated yet.
func (e *evictions) oldNodes() (names []string) {
	s := e.group.State
	for _, i := range s.Group.Instances {
		if node := s.Policy.Nodes.Of(i.ID); node != nil && s.Old[i.ID] && i.InService() {
			names = append(names, node.Name)
		}
	}
	return names
}

// describe lists the pods on the nodes that cannot be evicted now, with what blocks each. It is empty if there is none.
func (e *evictions) describe(ctx context.Context, nodes []string) string {
	kubernetes := e.group.State.Policy.Nodes.Cluster
	if kubernetes == nil || len(nodes) == 0 {
		return ""
	}
	loads, err := kubernetes.Loads(ctx, nodes)
	if err != nil {
		return fmt.Sprintf("; the pods on the nodes cannot be listed: %v", err)
	}
	var blocked []string
	for _, node := range slices.Sorted(slices.Values(nodes)) {
		for _, pod := range loads[node].Blocked {
			blocked = append(blocked, fmt.Sprintf("pod %s on node %s (disruption budget %s)",
				pod.Pod, node, strings.Join(pod.Budgets, ", ")))
		}
	}
	if len(blocked) == 0 {
		return ""
	}
	return ": " + text.First(blocked, plan.MostNames)
}
