package rollout_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/lead"
)

// nodes are those of the instances: that of i-1 is node-i-1. All maps are by the names of instances.
type nodes struct {
	w  *world
	mu sync.Mutex

	empty     bool // The cluster is not the group's.
	unready   map[string]bool
	labels    map[string]map[string]string
	drains    map[string]cluster.Drain
	stale     error // why the watch does not show what is so now
	loads     map[string]cluster.Load
	loadsFail error
	loadsTake time.Duration
	agents    []lead.Agent             // nil is forbidden
	listed    int                      // how often they were
	requested map[string]cluster.Drain // how drains end that the trigger requests
	asked     map[string]bool          // It has.

	taints    map[string]cluster.Effect
	hidden    bool     // The watch does not show taints yet.
	fails     error    // of each change
	added     []string // The nodes that were tainted, in their order.
	tries     int      // of Untaint
	busy      int
	most      int               // changes at a time
	scaleDown map[string]string // the group for whose rollout it is disabled
	ever      map[string]bool   // It was disabled.
}

func newNodes(w *world) *nodes {
	return &nodes{
		w: w, unready: map[string]bool{}, taints: map[string]cluster.Effect{}, scaleDown: map[string]string{},
		ever: map[string]bool{}, requested: map[string]cluster.Drain{}, drains: map[string]cluster.Drain{},
		asked: map[string]bool{},
	}
}

func (n *nodes) Node(id string) (cluster.Node, bool) {
	name := n.w.name(id)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.empty {
		return cluster.Node{}, false
	}
	node := cluster.Node{
		Name: "node-" + name, Ready: !n.unready[name], Labels: n.labels[name], Tainted: n.taints[name] != "" && !n.hidden,
		ScaleDownGroup: n.scaleDown[name],
	}
	if drain, drains := n.drains[name]; drains {
		node.Drain, node.DrainRequested, node.Marked = &drain, n.asked[name], n.asked[name]
	}
	return node, true
}

func (n *nodes) Loads(_ context.Context, names []string) (map[string]cluster.Load, error) {
	time.Sleep(n.loadsTake)
	n.mu.Lock()
	defer n.mu.Unlock()
	loads := map[string]cluster.Load{}
	for name, load := range n.loads {
		if slices.Contains(names, "node-"+name) {
			loads["node-"+name] = load
		}
	}
	return loads, n.loadsFail
}

func (*nodes) SinglePods(context.Context, map[string]cluster.Load) ([]string, error) { return nil, nil }

func (n *nodes) Stale() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stale
}

func (n *nodes) Agents(context.Context) ([]lead.Agent, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listed++; n.agents == nil {
		return nil, errors.New("forbidden")
	}
	return n.agents, nil
}

// set changes the nodes while the trigger runs.
func (n *nodes) set(do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	do()
}

// change changes a node, which takes 100 ms.
func (n *nodes) change(ctx context.Context, node cluster.Node, do func(name string)) error {
	n.set(func() { n.busy++; n.most = max(n.most, n.busy) })
	defer n.set(func() { n.busy-- })
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fails == nil {
		do(strings.TrimPrefix(node.Name, "node-"))
	}
	return n.fails
}

func (n *nodes) Taint(ctx context.Context, node cluster.Node, e cluster.Effect) error {
	return n.change(ctx, node, func(name string) { n.taints[name], n.added = e, append(n.added, name) })
}

func (n *nodes) Untaint(ctx context.Context, node cluster.Node) error {
	n.set(func() { n.tries++ })
	return n.change(ctx, node, func(name string) { delete(n.taints, name) })
}

func (n *nodes) DisableScaleDown(ctx context.Context, node cluster.Node, group string) (changed bool, err error) {
	return true, n.change(ctx, node, func(name string) { n.scaleDown[name], n.ever[name] = group, true })
}

func (n *nodes) EnableScaleDown(ctx context.Context, node cluster.Node) error {
	return n.change(ctx, node, func(name string) { delete(n.scaleDown, name) })
}

func (n *nodes) RequestDrain(ctx context.Context, node cluster.Node) error {
	return n.change(ctx, node, func(name string) { n.drains[name], n.asked[name] = n.requested[name], true })
}

func (n *nodes) WithdrawDrain(ctx context.Context, node cluster.Node) error {
	return n.change(ctx, node, func(name string) { delete(n.drains, name); delete(n.asked, name) })
}

// left are the names of the instances in a map that are in the group.
func left[V any](w *world, of map[string]V) (all []string) {
	for _, i := range w.Instances(w.group) {
		name := w.name(i.ID)
		if _, is := of[name]; is {
			all = append(all, name)
		}
	}
	return all
}
