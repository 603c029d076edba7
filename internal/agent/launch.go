package agent

import (
	"context"
	"errors"
	"time"

	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/autoscaling"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/launch"
	"github.com/node-drainer/node-drainer/pkg/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// Launches know when a Node can serve.
type Launches interface {
	Wait(ctx context.Context, nodeName string, told func(missing []string)) error
	Missing(ctx context.Context, nodeName string) ([]string, error)
}

// refreshes are the instance refreshes of Auto Scaling groups.
type refreshes interface {
	RefreshActive(ctx context.Context, group string) (bool, error)
}

// protections keep the cluster autoscaler off nodes.
type protections interface {
	Protect(ctx context.Context, n node.Node, group string) (protected bool, err error)
	Unprotect(ctx context.Context, n node.Node) (unprotected bool, err error)
	Protected() []node.ProtectedNode
}

// launchObserver is told what happens to launches.
type launchObserver interface {
	LaunchStarted(e event.Event)
	LaunchWaiting(e event.Event, nodeName string, missing []string)
	LaunchOverdue(e event.Event, n node.Node, missing []string, outcome launch.Outcome)
	LaunchUncordoned(e event.Event, n node.Node)
	LaunchEnded(e event.Event, outcome launch.Outcome, took time.Duration)
	NodeProtected(n node.Node, group string)
	NodeUnprotected(n node.Node, group string)
	ProtectionFailed(nodeName, group string, err error)
}

// LaunchConfig is what the agent can be told of launches.
type LaunchConfig struct {
	Timeout  time.Duration // from the hook's message until the node must serve
	Continue bool          // what becomes of a launch then: into service as it is, or abandoned
}

var (
	// errNoLaunch: Auto Scaling contradicts the message for as long as it may.
	errNoLaunch = errors.New("auto scaling knows of no such launch")
	// errOverdue: the node cannot serve, and its time is over.
	errOverdue = errors.New("the node could not serve in time")
)

// launch serves the lifecycle action of a launching instance, which began at e.At, once for all copies of the
// message.
func (a *Agent) launch(ctx context.Context, e event.Event) error {
	if !a.hooks.HandlesHook(e.Hook.Name) {
		a.observer.EventIgnored(e, notAnswered)
		return nil
	}
	return a.hand.take(ctx, e, func(ctx context.Context) error {
		start := time.Now()
		a.observer.LaunchStarted(e)
		outcome, err := a.serveLaunch(ctx, e)
		a.observer.LaunchEnded(e, outcome, time.Since(start))
		return err
	})
}

// serveLaunch is the way of a launch: whose it is, the hold, the wait under it, the completion.
func (a *Agent) serveLaunch(ctx context.Context, e event.Event) (launch.Outcome, error) {
	if foreign, err := a.foreign(ctx, e); err != nil {
		return launch.Interrupted, err
	} else if foreign != nil {
		return launch.OtherCluster, queue.Release(foreign)
	}
	outcome := launch.Interrupted
	err := a.hooks.Hold(ctx, action(e), func(ctx context.Context) error {
		var err error
		outcome, err = a.welcome(ctx, e)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return launch.Interrupted, context.Cause(ctx)
	case errors.Is(err, errNoLaunch):
		return launch.Unconfirmed, nil
	case errors.Is(err, autoscaling.ErrGone), errors.Is(err, errUnknown):
		return launch.Gone, nil
	case err != nil:
		return launch.Interrupted, err
	}
	result := autoscaling.Continue
	if outcome == launch.Abandoned {
		result = autoscaling.Abandon
	}
	if err := a.hooks.Complete(ctx, action(e), result); err != nil {
		return launch.Interrupted, err
	}
	a.swept.complete(e)
	return outcome, nil
}

// welcome confirms the launch, and waits until its node can serve, for as long as it may.
func (a *Agent) welcome(ctx context.Context, e event.Event) (launch.Outcome, error) {
	pooled, err := a.confirmLaunch(ctx, e)
	switch {
	case err != nil:
		return launch.Interrupted, err
	case pooled:
		return launch.Pooled, nil // it may be stopped before it becomes a Node
	}
	v := vigil{Agent: a, event: e}
	if err := v.limit(ctx); err != nil {
		return launch.Interrupted, err
	}
	err = v.keep(ctx)
	if !errors.Is(err, errOverdue) {
		return launch.Ready, err
	}
	outcome := launch.Abandoned
	if a.cfg.Launch.Continue {
		outcome = launch.Continued
	}
	a.observer.LaunchOverdue(e, v.node, v.missing, outcome)
	return outcome, nil
}

// standing is what Auto Scaling's word on an instance means for a message that tells of its launch.
type standing int

const (
	contradicted standing = iota // it may be an old answer, or a false message
	intoService                  // the hook may hold the instance on its way into the group
	intoPool                     // the same, on its way into the warm pool
	past                         // the hook holds nothing any more
)

// standingOf compares the state of an instance with where the message says that it goes, which old messages
// leave out. An instance comes by its launch hook twice, into the warm pool and out of it: a late copy of the
// first message must not be taken for the second.
func standingOf(s autoscaling.State, to event.Place) standing {
	agree := to == "" || s.Warmed() == (to == event.PlaceWarmPool)
	switch {
	case s.Launching() && agree && s.Warmed():
		return intoPool
	case s.Launching() && agree:
		return intoService
	case s.Unknown(), s.Launching(), s.Warmed() && to != event.PlaceWarmPool:
		return contradicted
	}
	return past
}

// confirmLaunch returns when Auto Scaling says that the instance is launching, and whether into the warm
// pool. The error is autoscaling.ErrGone when the instance is past its hook. Answers are eventually consistent:
// only if they contradict the message for long enough, the error is errNoLaunch, or errUnknown for an
// instance that neither a group nor this cluster knows.
func (a *Agent) confirmLaunch(ctx context.Context, e event.Event) (pooled bool, err error) {
	var doubt doubt
	for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
		state, err := a.hooks.State(ctx, e.InstanceID)
		switch s := standingOf(state, e.Destination); {
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case err != nil:
			a.observer.Retrying(e, "confirm the launch", err)
		case s != contradicted:
			return s == intoPool, over(s)
		default:
			left := doubt.left(a.cfg.ConfirmTimeout)
			if left <= 0 {
				return false, a.doubt(e, state)
			}
			delay = min(delay, left)
		}
		if !retry.Sleep(ctx, delay) {
			return false, context.Cause(ctx)
		}
	}
}

func over(s standing) error {
	if s == past {
		return autoscaling.ErrGone
	}
	return nil
}

// doubt is the verdict on a launch that is contradicted: an instance that nobody knows was terminated long
// ago.
func (a *Agent) doubt(e event.Event, s autoscaling.State) error {
	if _, ok := a.nodes.Find(e.InstanceID); s.Unknown() && !ok {
		return errUnknown
	}
	return errNoLaunch
}

// unprotect gives back to the cluster autoscaler the nodes of groups whose instance refresh has ended. What
// fails is told of, and left to the next time.
func (a *Agent) unprotect(ctx context.Context) {
	for _, p := range a.nodes.Protected() {
		active, err := a.hooks.RefreshActive(ctx, p.Group)
		if err == nil && active {
			continue
		}
		off := false
		if err == nil {
			off, err = a.nodes.Unprotect(ctx, p.Node)
		}
		switch {
		case errors.Is(err, node.ErrGone) || ctx.Err() != nil:
		case err != nil:
			a.observer.ProtectionFailed(p.Node.Name, p.Group, err)
		case off:
			a.observer.NodeUnprotected(p.Node, p.Group)
		}
	}
}
