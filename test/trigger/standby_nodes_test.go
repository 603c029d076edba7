package trigger

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/lead"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
)

// drainedNodes plays a cluster with a Node for each instance, and an agent that drains in a while those that it is asked
// to drain.
type drainedNodes struct {
	mu        sync.Mutex
	requested map[string]time.Time // by instance
}

// drainTakes is how long the agent needs.
const drainTakes = 50 * time.Second

func (d *drainedNodes) Node(instance string) (cluster.Node, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := cluster.Node{Name: instance, UID: instance, Ready: true}
	if at, ok := d.requested[instance]; ok {
		n.DrainRequested, n.Marked = true, true
		n.Drain = &cluster.Drain{Done: time.Since(at) > drainTakes}
	}
	return n, true
}

func (*drainedNodes) Loads(context.Context, []string) (map[string]cluster.Load, error) {
	return nil, nil
}

func (*drainedNodes) SinglePods(context.Context, map[string]cluster.Load) ([]string, error) {
	return nil, nil
}

// errLeases is why no agent is known.
var errLeases = errors.New("the Leases may not be listed")

func (*drainedNodes) Stale() error { return nil }

func (*drainedNodes) Agents(context.Context) ([]lead.Agent, error) { return nil, errLeases }

// drained reports whether the agent was asked to drain the node of the instance, and has done so.
func (d *drainedNodes) drained(instance string) bool {
	n, _ := d.Node(instance)
	return n.Drain != nil && n.Drain.Done
}

func (s *scaled) view() rollout.Cluster {
	if s.nodes == nil {
		return nil
	}
	return s.nodes
}

// Taint and Untaint change the node of an instance.
func (r requester) Taint(_ context.Context, n cluster.Node, _ cluster.Effect) error {
	if err := r.process.call(true); err != nil {
		return err
	}
	r.process.tainted.Store(n.Name, true)
	return nil
}

func (r requester) Untaint(_ context.Context, n cluster.Node) error {
	if err := r.process.call(true); err != nil {
		return err
	}
	r.process.tainted.Delete(n.Name)
	return nil
}

// DisableScaleDown disables the scale-down of the node of an instance.
func (r requester) DisableScaleDown(_ context.Context, n cluster.Node, group string) (changed bool, err error) {
	if err := r.process.call(true); err != nil {
		return false, err
	}
	r.process.scaleDown.Store(n.Name, group)
	return true, nil
}

// EnableScaleDown enables it again.
func (r requester) EnableScaleDown(_ context.Context, n cluster.Node) error {
	if err := r.process.call(true); err != nil {
		return err
	}
	r.process.scaleDown.Delete(n.Name)
	return nil
}

// requester changes the Nodes of a drainedNodes for a process.
type requester struct {
	*cluster.Tainter
	process *process
}

func (r requester) RequestDrain(_ context.Context, n cluster.Node) error {
	return r.change(func(requested map[string]time.Time) {
		if _, ok := requested[n.Name]; !ok {
			requested[n.Name] = time.Now()
		}
	})
}

func (r requester) WithdrawDrain(_ context.Context, n cluster.Node) error {
	return r.change(func(requested map[string]time.Time) { delete(requested, n.Name) })
}

func (r requester) change(do func(requested map[string]time.Time)) error {
	if err := r.process.call(true); err != nil {
		return err
	}
	nodes := r.process.nodes
	nodes.mu.Lock()
	defer nodes.mu.Unlock()
	do(nodes.requested)
	return nil
}

// rollBack is run for trigger rollback.
func (s *scaled) rollBack(name string, last int) report.Outcome {
	return s.command(name, last, func(t *rollout.Trigger, ctx context.Context) (report.Rollout, error) {
		return t.Act(ctx, rollout.ActRollback)
	})
}

func (s *scaled) command(
	name string, last int, do func(t *rollout.Trigger, ctx context.Context) (report.Rollout, error),
) report.Outcome {
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	end, err := do(s.trigger(&process{scaled: s, name: name, last: last, cancel: cancel}), ctx)
	if err != nil {
		return report.Error
	}
	return end.Groups[0].Outcome
}

// readyNodes are Ready nodes of all instances, which have their names. That of one has the label keep.
type readyNodes struct{ *scaled }

func (n readyNodes) Node(id string) (cluster.Node, bool) {
	node := cluster.Node{Name: id, Ready: true}
	if id == n.kept {
		node.Labels = map[string]string{"keep": "yes"}
	}
	_, node.Tainted = n.tainted.Load(id)
	if _, kept := n.scaleDown.Load(id); kept {
		node.ScaleDownGroup = group
	}
	return node, true
}

func (readyNodes) Loads(context.Context, []string) (map[string]cluster.Load, error) { return nil, nil }

func (readyNodes) SinglePods(context.Context, map[string]cluster.Load) ([]string, error) {
	return nil, nil
}

func (readyNodes) Stale() error { return nil }

func (readyNodes) Agents(context.Context) ([]lead.Agent, error) { return nil, errLeases }
