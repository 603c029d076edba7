package rollouts

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/lead"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// drainTakes is how long the agent needs to drain a node that it is asked to drain.
const drainTakes = 50 * time.Second

// nodes are the nodes of the instances. They have the ids of these as their names.
type nodes struct {
	w  *world
	mu sync.Mutex

	since     map[string]time.Time // when an instance was first seen in service
	keep      map[string]bool      // The node has the label keep.
	tainted   map[string]bool
	scaleDown map[string]string // the group for whose rollout the scale-down is disabled
	requested map[string]time.Time
	began     time.Time // Nodes of instances that were launched before are Ready.
	broken    time.Time // Other nodes are not Ready before.
}

func newNodes() *nodes {
	return &nodes{
		since: map[string]time.Time{}, keep: map[string]bool{}, tainted: map[string]bool{}, scaleDown: map[string]string{},
		requested: map[string]time.Time{},
	}
}

// begin notes when the world began: EKS has asked for nodes since before.
func (n *nodes) begin(at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.began = at
}

// view is what a trigger sees of the nodes.
type view struct{ *nodes }

func (n *nodes) of(id string) (cluster.Node, bool) {
	_, i, _ := n.w.aws.Member(id)
	if i.ID == "" || strings.HasPrefix(i.State, "Pending") || strings.HasPrefix(i.State, "Warmed") {
		return cluster.Node{}, false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, seen := n.since[id]; !seen {
		n.since[id] = time.Now()
	}
	ready := !time.Now().Before(n.broken) && time.Since(n.since[id]) >= n.w.spec.NodeAfter
	node := cluster.Node{
		Name: id, UID: id, Ready: ready || i.Launched.Before(n.began), Tainted: n.tainted[id],
		ScaleDownGroup: n.scaleDown[id], Marked: strings.HasPrefix(i.State, "Terminating"),
	}
	if n.keep[id] {
		node.Labels = map[string]string{"keep": "yes"}
	}
	if at, ok := n.requested[id]; ok {
		node.DrainRequested, node.Marked = true, true
		node.Drain = &cluster.Drain{Done: time.Since(at) > drainTakes}
	}
	return node, true
}

func (v view) Node(id string) (cluster.Node, bool) { return v.of(id) }

func (view) Loads(context.Context, []string) (map[string]cluster.Load, error) { return nil, nil }

func (view) SinglePods(context.Context, map[string]cluster.Load) ([]string, error) { return nil, nil }

// errLeases is why no agent is known.
var errLeases = errors.New("the Leases may not be listed")

func (view) Stale() error { return nil }

func (view) Agents(context.Context) ([]lead.Agent, error) { return nil, errLeases }

// nodeWriter is how a process changes nodes.
type nodeWriter struct{ p *process }

func (c nodeWriter) Taint(_ context.Context, n cluster.Node, _ cluster.Effect) error {
	return c.p.change(func() { c.p.nodes.tainted[n.Name] = true })
}

func (c nodeWriter) Untaint(_ context.Context, n cluster.Node) error {
	return c.p.change(func() { delete(c.p.nodes.tainted, n.Name) })
}

func (c nodeWriter) DisableScaleDown(_ context.Context, n cluster.Node, group string) (changed bool, err error) {
	err = c.p.change(func() { changed, c.p.nodes.scaleDown[n.Name] = c.p.nodes.scaleDown[n.Name] == "", group })
	return changed, err
}

func (c nodeWriter) EnableScaleDown(_ context.Context, n cluster.Node) error {
	return c.p.change(func() { delete(c.p.nodes.scaleDown, n.Name) })
}

func (c nodeWriter) RequestDrain(_ context.Context, n cluster.Node) error {
	return c.p.change(func() {
		if _, ok := c.p.nodes.requested[n.Name]; !ok {
			c.p.nodes.requested[n.Name] = time.Now()
		}
	})
}

func (c nodeWriter) WithdrawDrain(_ context.Context, n cluster.Node) error {
	return c.p.change(func() { delete(c.p.nodes.requested, n.Name) })
}

// Node and the methods below are how EKS updates nodes without pods.
func (n *nodes) Node(_ context.Context, id string) (awsim.ManagedNode, error) {
	node, ok := n.of(id)
	if !ok {
		return awsim.ManagedNode{}, nil
	}
	return awsim.ManagedNode{Name: id, Ready: node.Ready, Labels: n.w.aws.NodeLabels(id)}, nil
}

// Label labels nothing: no label matters here.
func (*nodes) Label(context.Context, string, map[string]string) error { return nil }

// Cordon cordons nothing: no pod is scheduled here.
func (*nodes) Cordon(context.Context, string) error { return nil }

// Pods returns none.
func (*nodes) Pods(context.Context, string) ([]awsim.ManagedPod, error) { return nil, nil }

// Evict is not called.
func (*nodes) Evict(context.Context, awsim.ManagedPod) error { return nil }

// Delete is not called.
func (*nodes) Delete(context.Context, awsim.ManagedPod) error { return nil }
