package agent

import (
	"context"
	"errors"

	"github.com/node-drainer/node-drainer/internal/node"
)

// rollouts knows in which groups instances are being replaced, by an instance refresh or a trigger.
type rollouts interface {
	RolloutActive(ctx context.Context, group string) (bool, error)
}

// protectedNodes are Nodes that the Cluster Autoscaler must not scale down during a rollout.
type protectedNodes interface {
	Protect(ctx context.Context, n node.Node, group string) (protected bool, err error)
	Unprotect(ctx context.Context, n node.Node) (unprotected bool, err error)
	Protected() []node.ProtectedNode
}

// protectionObserver records which nodes are protected.
type protectionObserver interface {
	NodeProtected(n node.Node, group string)
	NodeUnprotected(n node.Node, group string)
	ProtectionFailed(nodeName, group string, err error)
}

// protector keeps the Cluster Autoscaler from scaling down new nodes during a rollout.
type protector struct {
	groups   rollouts
	nodes    protectedNodes
	observer protectionObserver
}

// protect protects the node if instances of its group are being replaced. It tries once, and records a failure.
func (p *protector) protect(ctx context.Context, n node.Node, group string) error {
	active, err := p.groups.RolloutActive(ctx, group)
	changed := false
	if err == nil && active {
		changed, err = p.nodes.Protect(ctx, n, group)
	}
	switch {
	case err != nil && ctx.Err() == nil:
		p.observer.ProtectionFailed(n.Name, group, err)
	case changed:
		p.observer.NodeProtected(n, group)
	}
	return err
}

// unprotectFinished removes the protection of all nodes whose group has no rollout anymore. It
// records failures; the next resync tries again.
func (p *protector) unprotectFinished(ctx context.Context) {
	for _, protected := range p.nodes.Protected() {
		active, err := p.groups.RolloutActive(ctx, protected.Group)
		if err == nil && active {
			continue
		}
		changed := false
		if err == nil {
			changed, err = p.nodes.Unprotect(ctx, protected.Node)
		}
		switch {
		case errors.Is(err, node.ErrGone) || ctx.Err() != nil:
		case err != nil:
			p.observer.ProtectionFailed(protected.Node.Name, protected.Group, err)
		case changed:
			p.observer.NodeUnprotected(protected.Node, protected.Group)
		}
	}
}
