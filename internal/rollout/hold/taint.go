package hold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Tainter taints Nodes.
type Tainter interface {
	Taint(ctx context.Context, n cluster.Node, e cluster.Effect) error
	Untaint(ctx context.Context, n cluster.Node) error
}

// taints keeps new pods off outdated nodes during a rollout, so that each pod moves once.
type taints struct {
	group   *loop.Group
	tainter Tainter
	tainted map[string]bool // the instances whose nodes this run has tainted
}

func (*taints) kind() refresh.HoldKind { return refresh.HoldTaint }

func (t *taints) held(g refresh.Group) string {
	if nodes := t.on(g); len(nodes) > 0 {
		return "tainted " + cluster.OutdatedTaint + ": " + text.Count(len(nodes), "node")
	}
	return ""
}

// on are the nodes that stay and have the taint, or have had it from this run: the watch may not show it yet.
func (t *taints) on(g refresh.Group) (nodes []cluster.Node) {
	for _, i := range g.Instances {
		n := t.group.State.Policy.Nodes.Of(i.ID)
		if n != nil && (n.Tainted || t.tainted[i.ID]) && !i.Terminating() {
			nodes = append(nodes, *n)
		}
	}
	return nodes
}

// take taints the nodes of old instances, and untaints those that are not outdated any more.
func (t *taints) take(ctx context.Context) (done string, err error) {
	cfg := t.group.Config
	if !cfg.Taints() || t.group.State.Policy.Nodes.Cluster == nil {
		return "", nil
	}
	old, current := t.nodes()
	if cfg.Taint == cluster.HardTaint && len(old) > 0 && t.leavesNoNode() {
		t.group.Progress.Note(refresh.Warn, "every node of the group is outdated, and there is no surge: new pods "+
			"that need this group stay pending until a new node is ready; see --surge, or --taint-outdated soft")
	}
	tainted, err := t.forEach(ctx, old, "tainted "+cluster.OutdatedTaint, func(ctx context.Context, n cluster.Node) error {
		return t.tainter.Taint(ctx, n, cfg.Taint)
	})
	untainted, failed := t.forEach(ctx, current, "untainted", t.tainter.Untaint)
	return list("", slices.DeleteFunc([]string{tainted, untainted}, func(s string) bool { return s == "" })),
		errors.Join(err, failed)
}

// giveBack untaints all nodes that stay.
func (t *taints) giveBack(ctx context.Context) (done, left string, err error) {
	done, err = t.forEach(ctx, t.on(t.group.State.Group), "untainted", t.tainter.Untaint)
	if err == nil {
		t.tainted = nil
	}
	return done, "", err
}

// nodes returns the nodes of old instances in service, and those of current ones that an earlier run has
// tainted.
func (t *taints) nodes() (old, current []cluster.Node) {
	s := t.group.State
	t.tainted = map[string]bool{}
	for _, i := range s.Group.Instances {
		node := s.Policy.Nodes.Of(i.ID)
		switch {
		case node == nil:
		case s.Old[i.ID] && i.InService():
			t.tainted[i.ID] = true
			old = append(old, *node)
		case node.Tainted && !s.Old[i.ID]:
			current = append(current, *node)
		}
	}
	return old, current
}

// leavesNoNode reports whether the group may have no node without the taint: all instances are old, and none
// is launched before an old one terminates.
func (t *taints) leavesNoNode() bool {
	s := t.group.State
	current := func(i refresh.Instance) bool { return i.InService() && !s.Old[i.ID] }
	if slices.ContainsFunc(s.Group.Instances, current) {
		return false
	}
	switch t.group.Config.Mode {
	case refresh.ModeStandby, refresh.ModeNodegroup:
		return false
	case refresh.ModeRefresh:
	case refresh.ModeUnhealthy:
		return t.group.Config.Pace.Surge == refresh.Amount{} && !s.Group.Maintenance.LaunchesFirst()
	}
	low, high := s.Group.Maintenance.Percentages(s.Policy.Preferences(s.Group))
	return (low == nil || *low < 100) && (high == nil || *high <= 100)
}

// forEach changes the nodes, some at a time, and returns what was done. The error names what failed.
func (*taints) forEach(
	ctx context.Context, nodes []cluster.Node, done string, change func(context.Context, cluster.Node) error,
) (string, error) {
	var work errgroup.Group
	work.SetLimit(plan.Concurrency)
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
	err := work.Wait()
	if err != nil {
		err = fmt.Errorf("%s could not be %s: %s: %w", text.Count(len(failed), "node"), done,
			text.First(failed, plan.MostNames), err)
	}
	if n := len(nodes) - len(failed); n > 0 {
		return fmt.Sprintf("%s: %s", text.Count(n, "node"), done), err
	}
	return "", err
}
