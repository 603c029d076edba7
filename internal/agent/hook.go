package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/node-drainer/node-drainer/pkg/autoscaling"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// notAnswered says why an event of somebody else's hook is ignored.
const notAnswered = "the hook is not in HOOK_NAMES"

// terminate serves the lifecycle action that the event tells of, once for all copies of the message.
func (a *Agent) terminate(ctx context.Context, e event.Event) error {
	if !a.hooks.HandlesHook(e.Hook.Name) {
		a.observer.EventIgnored(e, notAnswered)
		return nil
	}
	return a.hand.take(ctx, e, func(ctx context.Context) error {
		return a.tell(e, func() (Outcome, error) { return a.serve(ctx, e) })
	})
}

// serve is the way of a lifecycle action: whose it is, the hold, the drain under it, the completion.
func (a *Agent) serve(ctx context.Context, e event.Event) (Outcome, error) {
	if foreign, err := a.foreign(ctx, e); err != nil {
		return Interrupted, err
	} else if foreign != nil {
		return OtherCluster, queue.Release(foreign)
	}
	outcome := Interrupted
	err := a.hooks.Hold(ctx, action(e), func(ctx context.Context) error {
		var err error
		outcome, err = a.vacate(ctx, e)
		return err
	})
	if err != nil {
		return a.verdict(ctx, e, outcome, err)
	}
	if err := a.hooks.Complete(ctx, action(e), autoscaling.Continue); err != nil {
		return Interrupted, err
	}
	a.swept.complete(e)
	return outcome, nil
}

func action(e event.Event) autoscaling.Action {
	return autoscaling.Action{
		Group: e.Hook.Group, Hook: e.Hook.Name, InstanceID: e.InstanceID, Token: e.Hook.Token,
		Launch: e.Kind == event.LifecycleLaunching,
	}
}

// verdict is what an error under an event means: there may be nothing to do, or nothing more.
func (a *Agent) verdict(ctx context.Context, e event.Event, outcome Outcome, err error) (Outcome, error) {
	switch {
	case errors.Is(context.Cause(ctx), errCanceled):
		return Canceled, nil
	case ctx.Err() != nil:
		return Interrupted, context.Cause(ctx)
	case errors.Is(err, errForged):
		if err := a.restore(ctx, e, err.Error()); err != nil {
			return Interrupted, err
		}
		return Unconfirmed, nil
	case outcome == CutShort:
		return CutShort, nil
	case errors.Is(err, autoscaling.ErrGone), errors.Is(err, errUnknown):
		return Gone, nil
	}
	return outcome, err
}

// foreign returns an error that says so if the instance is no Node here and its group's tags name other
// clusters. A group without such tags may be ours.
func (a *Agent) foreign(ctx context.Context, e event.Event) (foreign, err error) {
	var clusters []string
	err = a.retry(ctx, e, "read the tags of the group", func() (err error) {
		if _, ok := a.nodes.Find(e.InstanceID); ok {
			return nil
		}
		clusters, err = a.hooks.Clusters(ctx, e.Hook.Group)
		return err
	})
	if err != nil || len(clusters) == 0 || slices.Contains(clusters, a.cfg.ClusterName) {
		return nil, err
	}
	return fmt.Errorf("group %s belongs to cluster %q, this is %q",
		e.Hook.Group, clusters, a.cfg.ClusterName), nil
}
