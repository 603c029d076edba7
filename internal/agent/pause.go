package agent

import (
	"context"

	"github.com/node-drainer/node-drainer/internal/autoscaler"
)

// Autoscaler is the Deployment of the Cluster Autoscaler, which a trigger may have paused for a rollout.
type Autoscaler interface {
	String() string
	ResumeExpired(ctx context.Context) (*autoscaler.Pause, error)
}

// autoscalerObserver records that the Cluster Autoscaler was resumed.
type autoscalerObserver interface {
	AutoscalerResumed(deployment, owner string, replicas int)
	AutoscalerFailed(deployment string, err error)
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
