package agent

import (
	"context"
	"time"

	"github.com/node-drainer/node-drainer/pkg/autoscaling"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/node"
)

// dryHooks, dryNodes and dryDrainer stand before Auto Scaling, the Nodes and the Drainer in a dry run:
// questions pass, and what would change something does not.
type dryHooks struct{ Hooks }

// Hold runs work, without heartbeats.
func (dryHooks) Hold(ctx context.Context, _ autoscaling.Action, work func(context.Context) error) error {
	return work(ctx)
}

// Complete does nothing.
func (dryHooks) Complete(context.Context, autoscaling.Action, autoscaling.Result) error { return nil }

// IsPending does not ask, because a heartbeat is what it asks by.
func (dryHooks) IsPending(context.Context, autoscaling.Action) (bool, error) { return false, nil }

// MarkUnhealthy does nothing.
func (dryHooks) MarkUnhealthy(context.Context, string) error { return nil }

type dryNodes struct{ Nodes }

// Cordon returns the mark that the Node would have.
func (dryNodes) Cordon(_ context.Context, n node.Node, r node.Reason) (node.Mark, bool, error) {
	return node.Mark{
		InstanceID: n.InstanceID, Reason: r.Kind, Hook: r.Hook, Token: r.Token,
		Since: time.Now(), Deadline: r.Deadline, TerminatesAt: r.TerminatesAt,
	}, true, nil
}

// Uncordon does nothing.
func (dryNodes) Uncordon(context.Context, node.Node) (bool, error) { return false, nil }

// Exclude does nothing.
func (dryNodes) Exclude(context.Context, node.Node) error { return nil }

// Protect does nothing.
func (dryNodes) Protect(context.Context, node.Node, string) (bool, error) { return false, nil }

// Unprotect does nothing.
func (dryNodes) Unprotect(context.Context, node.Node) (bool, error) { return false, nil }

type dryDrainer struct{ Drainer }

// Drain tells what a drain would begin with.
func (d dryDrainer) Drain(ctx context.Context, t drain.Target) (drain.Report, error) {
	t.DryRun = true
	return d.Drainer.Drain(ctx, t)
}
