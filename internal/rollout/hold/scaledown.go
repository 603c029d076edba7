package hold

import (
	"context"
	"fmt"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// scaleDownWriter keeps the Cluster Autoscaler from removing Nodes.
type scaleDownWriter interface {
	DisableScaleDown(ctx context.Context, n cluster.Node, group string) (changed bool, err error)
	EnableScaleDown(ctx context.Context, n cluster.Node) error
}

// scaleDown keeps the Cluster Autoscaler from removing the new nodes of a rollout, which are empty at first. In a group
// with a launch hook the agent does that. If this run is killed, the next one enables the scale-down again, or the
// agent does after the rollout, as for its own, where it handles the group.
type scaleDown struct {
	group    *loop.Group
	nodes    scaleDownWriter
	known    map[string]bool // Instances from before, and those whose nodes were handled; nil before take.
	ours     map[string]bool // Those whose nodes this run has changed.
	failures int
}

func (*scaleDown) kind() refresh.HoldKind { return refresh.HoldScaleDown }

func (s *scaleDown) held(g refresh.Group) string {
	if nodes := s.disabled(g); len(nodes) > 0 {
		return "scale-down disabled: " + text.Count(len(nodes), "node")
	}
	return ""
}

// disabled are the nodes of which this run has disabled the scale-down, or one before it.
func (s *scaleDown) disabled(g refresh.Group) (nodes []cluster.Node) {
	for _, i := range g.Instances {
		n := s.group.State.Policy.Nodes.Of(i.ID)
		if n != nil && (n.ScaleDownGroup == s.group.Name || s.ours[i.ID]) {
			nodes = append(nodes, *n)
		}
	}
	return nodes
}

// take has the nodes handled of instances that are launched from now on.
func (s *scaleDown) take(context.Context) (done string, err error) {
	state := s.group.State
	if state.Policy.Nodes.Cluster == nil || !state.NoLaunchHook {
		return "", nil
	}
	s.known, s.ours = map[string]bool{}, map[string]bool{}
	for _, i := range state.Group.Instances {
		s.known[i.ID] = true
	}
	return "", nil
}

// disable disables the scale-down of the nodes that have appeared. The rollout continues if that fails.
func (s *scaleDown) disable(ctx context.Context, _ refresh.Group) {
	if s.known == nil || s.failures >= loop.MaxFailures {
		return
	}
	n := 0
	for id, node := range s.appeared() {
		changed, err := s.nodes.DisableScaleDown(ctx, node, s.group.Name)
		if err != nil {
			s.fail(err)
			break
		}
		if s.known[id], s.ours[id] = true, changed; changed {
			n++
		}
	}
	if n > 0 {
		s.group.Progress.Note(refresh.OK, "%s: scale-down disabled for the rollout", text.Count(n, "new node"))
	}
}

// appeared are the nodes of new instances that were not handled yet, by the instances.
func (s *scaleDown) appeared() map[string]cluster.Node {
	nodes := map[string]cluster.Node{}
	for _, i := range s.group.State.Group.Instances {
		if node := s.group.State.Policy.Nodes.Of(i.ID); node != nil && !s.known[i.ID] && !i.Terminating() {
			nodes[i.ID] = *node
		}
	}
	return nodes
}

func (s *scaleDown) fail(err error) {
	if s.failures++; s.failures == 1 {
		s.group.Progress.Note(refresh.Warn, "the Cluster Autoscaler may remove new nodes, because their scale-down could "+
			"not be disabled: permit the trigger to get and patch nodes, or add a launch hook: %v", err)
	}
}

// giveBack enables the scale-down of the nodes again. What fails is left to the agent.
func (s *scaleDown) giveBack(ctx context.Context) (done, left string, err error) {
	nodes := s.disabled(s.group.State.Group)
	if s.known == nil && len(nodes) > 0 { // They may be of a refresh that somebody else has started.
		if active, err := s.group.Planner.ActiveRefresh(ctx, s.group.Name); active != nil || err != nil {
			return "", "", err
		}
	}
	for _, node := range nodes {
		if err := s.nodes.EnableScaleDown(ctx, node); err != nil {
			return "", fmt.Sprintf("the agent enables the scale-down of new nodes within minutes, because: %v", err), nil
		}
	}
	return "", "", nil
}
