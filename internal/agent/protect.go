package agent

import (
	"context"
	"errors"

	"github.com/node-drainer/node-drainer/internal/node"
)

// protector keeps the Cluster Autoscaler from scaling down new nodes during a rollout.
type protector struct{ *systems }

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

// resumeAutoscaler resumes the Cluster Autoscaler if the trigger that has paused it was killed. It records a failure;
// the next resync tries again. Without AUTOSCALER_DEPLOYMENT it makes no call.
func (r *resyncer) resumeAutoscaler(ctx context.Context) {
	if r.cfg.Autoscaler == nil || r.cfg.DryRun {
		return
	}
	switch p, err := r.cfg.Autoscaler.ResumeExpired(ctx); {
	case err != nil && ctx.Err() == nil:
		r.observer.AutoscalerFailed(r.cfg.Autoscaler.String(), err)
	case p != nil:
		r.observer.AutoscalerResumed(r.cfg.Autoscaler.String(), p.Owner, int(p.Replicas))
	}
}
