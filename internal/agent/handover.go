package agent

import (
	"context"

	"github.com/node-drainer/node-drainer/pkg/node"
)

// handOver lets another replica lead before the node that this process runs on is drained, which would move
// the process amid its work. The node has been marked, with its deadline: the next leader goes on from there.
// It returns an error when this process is to stop what it does, and nil when it is to drain the node itself.
func (a *Agent) handOver(ctx context.Context, n node.Node) error {
	if a.cfg.NodeName == "" || n.Name != a.cfg.NodeName || a.cfg.HandOver == nil || !a.cfg.HandOver(n.UID) {
		return nil
	}
	<-ctx.Done()
	return context.Cause(ctx)
}
