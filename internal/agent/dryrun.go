package agent

import (
	"context"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/drain"
)

// dryAutoScaling, dryNodes and dryDrainer wrap what the agent calls in a dry run: they forward the calls that
// read, and replace those that change something.
type dryAutoScaling struct{ AutoScaling }

// Hold runs work without heartbeats.
func (dryAutoScaling) Hold(
	ctx context.Context, _ autoscaling.Action, work func(context.Context) error,
) error {
	return work(ctx)
}

// Complete does nothing.
func (dryAutoScaling) Complete(context.Context, autoscaling.Action, autoscaling.Result) error {
	return nil
}

// IsPending assumes that an instance terminates: the real one sends a heartbeat.
func (dryAutoScaling) IsPending(_ context.Context, a autoscaling.Action) (bool, error) {
	return !a.Launch, nil
}

// MarkUnhealthy does nothing.
func (dryAutoScaling) MarkUnhealthy(context.Context, string) error { return nil }

type dryNodes struct{ Nodes }

// Cordon returns the mark that the Node would get.
func (dryNodes) Cordon(_ context.Context, n node.Node, r node.Reason) (node.Mark, bool, error) {
	return node.Mark{
		InstanceID: n.InstanceID, Reason: r.Kind, Hook: r.Hook, Token: r.Token,
		Since: time.Now(), Deadline: r.Deadline, TerminatesAt: r.TerminatesAt,
	}, true, nil
}

// Uncordon does nothing.
func (dryNodes) Uncordon(context.Context, node.Node, func() bool) (bool, error) { return false, nil }

// RemoveCondition does nothing.
func (dryNodes) RemoveCondition(node.Node) {}

// Announce does nothing.
func (dryNodes) Announce(context.Context, node.Node, time.Time) error { return nil }

// EndMaintenance does nothing.
func (dryNodes) EndMaintenance(context.Context, node.Node) error { return nil }

// Exclude does nothing.
func (dryNodes) Exclude(context.Context, node.Node) error { return nil }

// Protect does nothing.
func (dryNodes) Protect(context.Context, node.Node, string) (bool, error) { return false, nil }

// Unprotect does nothing.
func (dryNodes) Unprotect(context.Context, node.Node) (bool, error) { return false, nil }

type dryDrainer struct{ Drainer }

// Drain reports what a drain would start with.
func (d dryDrainer) Drain(ctx context.Context, t drain.Target) (drain.Report, error) {
	t.DryRun = true
	return d.Drainer.Drain(ctx, t)
}
