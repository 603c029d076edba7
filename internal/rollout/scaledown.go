package rollout

import (
	"context"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// scaleDownWriter keeps the Cluster Autoscaler from removing Nodes.
type scaleDownWriter interface {
	DisableScaleDown(ctx context.Context, n cluster.Node, group string) (changed bool, err error)
	EnableScaleDown(ctx context.Context, n cluster.Node) error
}

// scaleDown keeps the Cluster Autoscaler from removing the new nodes of a rollout, which are empty at first. In a group
// with a launch hook the agent does that. If this run is killed, the agent enables the scale-down again after the
// rollout, as for its own.
type scaleDown struct {
	group    *group
	nodes    scaleDownWriter
	known    map[string]bool // Instances from before, and those whose nodes were handled; nil before begin.
	ours     map[string]bool // Those whose nodes this run has changed.
	failures int
}

// begin handles the nodes of instances that are launched from now on.
func (s *scaleDown) begin() {
	state := s.group.state
	if state.policy.nodes.cluster == nil || !state.noLaunchHook {
		return
	}
	s.known, s.ours = map[string]bool{}, map[string]bool{}
	for _, i := range state.group.Instances {
		s.known[i.ID] = true
	}
}

// disable disables the scale-down of the nodes that have appeared. The rollout continues if that fails.
func (s *scaleDown) disable(ctx context.Context) {
	if s == nil || s.known == nil || s.failures >= maxFailures {
		return
	}
	n := 0
	for id, node := range s.appeared() {
		changed, err := s.nodes.DisableScaleDown(ctx, node, s.group.name)
		if err != nil {
			s.fail(err)
			break
		}
		if s.known[id], s.ours[id] = true, changed; changed {
			n++
		}
	}
	if n > 0 {
		s.group.progress.note(refresh.OK, "%s: scale-down disabled for the rollout", text.Count(n, "new node"))
	}
}

// appeared are the nodes of new instances that were not handled yet, by the instances.
func (s *scaleDown) appeared() map[string]cluster.Node {
	nodes := map[string]cluster.Node{}
	for _, i := range s.group.state.group.Instances {
		if node := s.group.state.policy.nodes.of(i.ID); node != nil && !s.known[i.ID] && !i.Terminating() {
			nodes[i.ID] = *node
		}
	}
	return nodes
}

func (s *scaleDown) fail(err error) {
	if s.failures++; s.failures == 1 {
		s.group.progress.note(refresh.Warn, "the Cluster Autoscaler may remove new nodes, because their scale-down could "+
			"not be disabled: permit the trigger to get and patch nodes, or add a launch hook: %v", err)
	}
}

// enable enables the scale-down of the nodes of the group again, unless AWS continues the rollout.
func (s *scaleDown) enable(ctx context.Context, continues bool) {
	if s.known == nil || continues {
		return
	}
	ctx, cancel := uncancelled(ctx)
	defer cancel()
	for _, i := range s.group.state.group.Instances {
		node := s.group.state.policy.nodes.of(i.ID)
		if node == nil || node.ScaleDownGroup != s.group.name && !s.ours[i.ID] {
			continue
		}
		if err := s.nodes.EnableScaleDown(ctx, *node); err != nil {
			s.group.progress.note(refresh.Warn, "the agent enables the scale-down of new nodes within minutes, because: %v", err)
			return
		}
	}
}
