package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// nodegroupUpdate replaces the nodes of an EKS managed node group by an update of that: it starts one, or attaches to
// one that is under way, as to an Instance Refresh, and follows it. EKS ends no update before its time.
type nodegroupUpdate struct {
	*instanceRefresh
	most, desired int // The sizes before the update; 0 if this run has not started it.
}

// start starts an update.
func (u *nodegroupUpdate) start(ctx context.Context) error {
	u.most, u.desired = u.group.state.group.Max, u.group.state.group.Desired
	return u.instanceRefresh.start(ctx)
}

// follow returns when the update has succeeded, or at once if there is none.
func (u *nodegroupUpdate) follow(ctx context.Context) error {
	g := u.group
	switch {
	case u.id == "":
		return nil
	case !g.cfg.Wait:
		return &endError{report.Detached, u.name() + " continues; trigger status shows its progress"}
	}
	g.evictions = &evictions{group: g, since: time.Now()}
	ready := newReadiness(g)
	f, err := watchRefresh(ctx, g, u.id, ready, nil)
	switch {
	case err != nil:
		return err
	case f.Active():
		return &endError{report.Failed, ready.last + "; " + u.leftBehind()}
	}
	u.ended = true
	if f.Status == refresh.StatusSuccessful {
		err := u.awaitUpdated(ctx)
		u.noteSizes(ctx)
		return err
	}
	u.noteSizes(ctx)
	message := describeStatus(f)
	if f.Evictions {
		message += g.evictions.describe(ctx, f.Resources) + "; let the pods be evicted, then run the same command again, " +
			"or add --force, with which EKS terminates the nodes with them"
	}
	return &endError{report.Failed, message + "; nodes that were replaced stay; run the same command again to continue"}
}

// awaitUpdated returns when EKS describes the group as updated, which may be some time after the update has succeeded:
// its nodes would count as outdated until then. If that takes longer than a few reads, the verification says so.
func (u *nodegroupUpdate) awaitUpdated(ctx context.Context) error {
	for range maxFailures {
		if n := u.group.state.group.Nodegroup; n.IsUpdated() && !n.Updating {
			return nil
		}
		if err := u.group.describeAgain(ctx, 0); err != nil {
			return err
		}
	}
	return nil
}

// noteSizes notes that the group is larger than before the update. If something else scales up while EKS takes back
// what it has added, EKS ends the update without the rest of that. Source: the scale down phase in "Understand each
// phase of node updates" in the EKS user guide. So it does when an update fails.
func (u *nodegroupUpdate) noteSizes(ctx context.Context) {
	isLarger := func() bool { return u.most > 0 && u.group.state.group.Max > u.most }
	if !isLarger() || u.group.describeAgain(ctx, 0) != nil || !isLarger() {
		return
	}
	g := u.group.state.group
	u.group.progress.note(refresh.Warn, "the maximum size is %d and the desired capacity %d, before the update they were "+
		"%d and %d: EKS leaves what it has added if an update fails, or if something else scales up at its end; lower "+
		"them, unless somebody else has raised them", g.Max, g.Desired, u.most, u.desired)
}

// stop describes what goes on, since EKS has no call that ends an update of a node group.
func (u *nodegroupUpdate) stop(context.Context) string { return u.leftBehind() }

func (u *nodegroupUpdate) name() string { return refresh.ModeNodegroup.Operation() + " " + u.id }

func (u *nodegroupUpdate) leftBehind() string {
	switch {
	case u.id == "":
		return "no update of the node group was started"
	case !u.ended:
		return u.name() + " continues, and EKS does not cancel one; run the same command again to follow it"
	default:
		return u.name() + " has ended"
	}
}

func (u *nodegroupUpdate) afterError() string {
	if u.id == "" {
		return ""
	}
	return ": " + u.leftBehind()
}

// blockedAfter is how long nothing may change until it is looked up which pods keep EKS from going on.
const blockedAfter = time.Minute

// evictions finds out which pods EKS cannot evict: it names the nodes alone, and only when the update has failed.
type evictions struct {
	group       *group
	fingerprint string
	since       time.Time // when the fingerprint has changed last, or pods were looked up
	noted       string
}

// note notes which pods cannot be evicted, when nothing has changed for blockedAfter. Nil evictions do nothing.
func (e *evictions) note(ctx context.Context, f refresh.Refresh) {
	if e == nil || !f.Active() {
		return
	}
	if now := e.group.state.fingerprint(&f); now != e.fingerprint {
		e.fingerprint, e.since = now, time.Now()
		return
	}
	if time.Since(e.since) < blockedAfter {
		return
	}
	e.since = time.Now()
	blocked := e.describe(ctx, e.oldNodes())
	if blocked != e.noted && blocked != "" {
		e.group.progress.note(refresh.Warn, "EKS waits for pods that cannot be evicted%s", blocked)
	}
	e.noted = blocked
}

// oldNodes are the nodes of old instances that EKS has not terminated yet.
func (e *evictions) oldNodes() (names []string) {
	s := e.group.state
	for _, i := range s.group.Instances {
		if node := s.policy.nodes.of(i.ID); node != nil && s.old[i.ID] && i.InService() {
			names = append(names, node.Name)
		}
	}
	return names
}

// describe lists the pods on the nodes that cannot be evicted now, with what blocks each. It is empty if there is none.
func (e *evictions) describe(ctx context.Context, nodes []string) string {
	kubernetes := e.group.state.policy.nodes.cluster
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
	return ": " + text.First(blocked, mostNames)
}
