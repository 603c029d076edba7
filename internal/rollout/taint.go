package rollout

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// tainter taints Nodes.
type tainter interface {
	Taint(ctx context.Context, n cluster.Node, e cluster.Effect) error
	Untaint(ctx context.Context, n cluster.Node) error
}

// taints keeps new pods off outdated nodes during a rollout, so that each pod moves once.
type taints struct {
	group   *group
	tainter tainter
	tainted map[string]bool // the instances whose nodes this run has tainted; nil before it could
}

// add taints the nodes of old instances, and untaints those that are not outdated any more. A failure
// becomes a note, and the rollout continues.
func (t *taints) add(ctx context.Context) {
	cfg := t.group.cfg
	wanted := cmp.Or(cfg.Taint, cluster.NoTaint) != cluster.NoTaint
	if !wanted || t.group.state.policy.nodes.cluster == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	old, current := t.nodes()
	if cfg.Taint == cluster.HardTaint && len(old) > 0 && t.leavesNoNode() {
		t.group.progress.note(refresh.Warn, "every node of the group is outdated, and there is no surge: new pods "+
			"that need this group stay pending until a new node is ready; see --surge, or --taint-outdated soft")
	}
	t.forEach(ctx, old, "tainted "+cluster.OutdatedTaint, func(ctx context.Context, n cluster.Node) error {
		return t.tainter.Taint(ctx, n, cfg.Taint)
	})
	t.forEach(ctx, current, "untainted", t.tainter.Untaint)
}

// nodes returns the nodes of old instances in service, and those of current ones that an earlier run has
// tainted.
func (t *taints) nodes() (old, current []cluster.Node) {
	s := t.group.state
	t.tainted = map[string]bool{}
	for _, i := range s.group.Instances {
		node := s.policy.nodes.of(i.ID)
		switch {
		case node == nil:
		case s.old[i.ID] && i.InService():
			t.tainted[i.ID] = true
			old = append(old, *node)
		case node.Tainted && !s.old[i.ID]:
			current = append(current, *node)
		}
	}
	return old, current
}

// leavesNoNode reports whether the group may have no node without the taint: all instances are old, and none
// is launched before an old one terminates.
func (t *taints) leavesNoNode() bool {
	s := t.group.state
	current := func(i refresh.Instance) bool { return i.InService() && !s.old[i.ID] }
	if slices.ContainsFunc(s.group.Instances, current) {
		return false
	}
	switch t.group.cfg.Mode {
	case refresh.ModeStandby, refresh.ModeNodegroup:
		return false
	case refresh.ModeRefresh:
	case refresh.ModeUnhealthy:
		return t.group.cfg.Pace.Surge == refresh.Amount{} && !s.group.Maintenance.LaunchesFirst()
	}
	low, high := s.group.Maintenance.Percentages(s.policy.preferences(s.group))
	return (low == nil || *low < 100) && (high == nil || *high <= 100)
}

// remove untaints all nodes that stay. Where AWS continues the rollout without the trigger they stay
// tainted.
func (t *taints) remove(ctx context.Context, continues bool) {
	if t.tainted == nil {
		return
	}
	var nodes []cluster.Node
	for _, i := range t.group.state.group.Instances {
		node := t.group.state.policy.nodes.of(i.ID)
		if node != nil && (node.Tainted || t.tainted[i.ID]) && !i.Terminating() {
			nodes = append(nodes, *node)
		}
	}
	if continues {
		if len(nodes) > 0 {
			t.group.progress.note(refresh.OK, "the taint %s stays on %s", cluster.OutdatedTaint,
				text.Count(len(nodes), "node"))
		}
		return
	}
	ctx, cancel := uncancelled(ctx)
	defer cancel()
	t.forEach(ctx, nodes, "untainted", t.tainter.Untaint)
}

// forEach changes the nodes, some at a time, and notes what was done and what failed.
func (t *taints) forEach(
	ctx context.Context, nodes []cluster.Node, done string, change func(context.Context, cluster.Node) error,
) {
	var work errgroup.Group
	work.SetLimit(concurrency)
	var mu sync.Mutex
	var failed []string
	for _, n := range nodes {
		work.Go(func() error {
			err := change(ctx, n)
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, n.Name)
			}
			return err
		})
	}
	if err := work.Wait(); err != nil {
		t.group.progress.note(refresh.Warn, "%s could not be %s: %s: %v", text.Count(len(failed), "node"), done,
			text.First(failed, mostNames), err)
	}
	if n := len(nodes) - len(failed); n > 0 {
		t.group.progress.note(refresh.OK, "%s: %s", text.Count(n, "node"), done)
	}
}
