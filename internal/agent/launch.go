package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/launch"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// Launches knows whether a new Node is ready.
type Launches interface {
	// Wait returns nil when the node is ready. It passes changes of what the node lacks to report.
	Wait(ctx context.Context, nodeName string, report func(missing []string)) error
	// Missing returns what the node lacks, as the API server knows it, and which of it no other node has either.
	Missing(ctx context.Context, nodeName string) (missing, readyNowhere []string, err error)
}

// launchingNodes are the Nodes of launching instances.
type launchingNodes interface {
	nodeFinder
	Await(ctx context.Context, instanceID string, accept func(node.Node) bool) (node.Node, error)
	Uncordon(ctx context.Context, n node.Node, keep func() bool) (uncordoned bool, err error)
}

// launchObserver records launches.
type launchObserver interface {
	LaunchStarted(e event.Event)
	LaunchWaiting(e event.Event, nodeName string, missing []string)
	LaunchUncordoned(e event.Event, n node.Node)
	LaunchOverdue(e event.Event, n node.Node, missing []string, outcome launch.Outcome)
	LaunchEnded(e event.Event, outcome launch.Outcome, took time.Duration)
}

// LaunchConfig configures how launches are handled.
type LaunchConfig struct {
	Timeout  time.Duration // from the time of the event until the node must be ready
	Continue bool          // complete a launch that timed out with CONTINUE instead of ABANDON
}

// errNotReady: the node was not ready in time.
var errNotReady = errors.New("the node was not ready in time")

// launcher holds launching instances until their nodes are ready.
type launcher struct {
	cfg       LaunchConfig
	actions   lifecycleActions
	groups    groupStates
	nodes     launchingNodes
	instances Instances
	launches  Launches
	observer  launchObserver
	retries   retrier
	confirmer *confirmer
	protector *protector
	inflight  *inflight
	completed *completedActions
	drainNode func(ctx context.Context, e event.Event, n node.Node, cordoned func()) (Outcome, error)
	starts    launchStarts
}

// handle handles the lifecycle action of a launching instance, once for all copies of its message.
func (l *launcher) handle(ctx context.Context, e event.Event) error {
	l.starts.send(e)
	return l.inflight.do(ctx, e, func(ctx context.Context) error {
		times, done := l.starts.register(e)
		defer done()
		start := time.Now()
		l.observer.LaunchStarted(e)
		outcome, err := l.launch(ctx, e, times)
		l.observer.LaunchEnded(e, outcome, time.Since(start))
		return err
	})
}

// launch confirms the launch, waits for the node while the lifecycle action is held, and then completes the action.
func (l *launcher) launch(
	ctx context.Context, e event.Event, times <-chan time.Time,
) (launch.Outcome, error) {
	toPool := false
	err := l.confirmer.confirmHook(ctx, e, func(ctx context.Context, answered func()) (err error) {
		toPool, err = l.confirm(ctx, e, answered)
		return err
	})
	if err == nil {
		err = l.confirmer.checkOwner(ctx, e)
	}
	if err != nil {
		return l.abort(ctx, err)
	}
	outcome := launch.Interrupted
	err = l.actions.Hold(ctx, actionOf(e), func(ctx context.Context) (err error) {
		outcome, err = l.awaitReadiness(ctx, e, toPool, times)
		return err
	})
	if err != nil {
		return l.abort(ctx, err)
	}
	result := autoscaling.Continue
	if outcome == launch.Abandoned {
		result = autoscaling.Abandon
	}
	err = l.actions.Complete(ctx, actionOf(e), result)
	if errors.Is(err, autoscaling.ErrUnknownToken) {
		e.Hook.Token = ""
		err = l.actions.Complete(ctx, actionOf(e), result)
	}
	if err != nil {
		return launch.Interrupted, err
	}
	l.completed.add(e)
	return outcome, nil
}

// abort returns how a launch ends whose work failed with err. The message of an action that is over, or that
// AWS contradicts, is done: then err is nil. The message of one that others have to handle is released.
func (l *launcher) abort(ctx context.Context, err error) (launch.Outcome, error) {
	switch {
	case ctx.Err() != nil:
		return launch.Interrupted, context.Cause(ctx)
	case errors.Is(err, errOtherCluster):
		return launch.OtherCluster, queue.Release(err)
	case errors.Is(err, node.ErrUnselected):
		return launch.OtherAgent, queue.Release(err)
	case errors.Is(err, errOtherReader):
		return launch.OtherAgent, nil
	case errors.Is(err, errContradicted):
		return launch.Unconfirmed, nil
	case errors.Is(err, autoscaling.ErrGone):
		return launch.Gone, nil
	}
	return launch.Interrupted, err
}

// awaitReadiness waits until the node is ready or its time is over. An instance that goes to the warm pool is not
// waited for: it may be stopped before it registers as a Node.
func (l *launcher) awaitReadiness(
	ctx context.Context, e event.Event, toPool bool, times <-chan time.Time,
) (launch.Outcome, error) {
	if toPool {
		return launch.Pooled, nil
	}
	w := readinessWait{launcher: l, event: e, began: time.Now(), times: times}
	err := w.setDeadlines(ctx)
	if err == nil {
		err = w.run(ctx)
	}
	if !errors.Is(err, errNotReady) {
		return launch.Ready, err
	}
	err = nil
	outcome := launch.Abandoned
	if l.cfg.Continue || w.excused {
		outcome = launch.Continued
	}
	l.observer.LaunchOverdue(e, w.node, w.missing, outcome)
	if outcome == launch.Abandoned && w.node.Name != "" {
		err = l.drainOverdue(ctx, e, w)
	}
	return outcome, err
}

// drainOverdue drains the node of a launch that is about to be abandoned, as long as its hook can be held. Pods
// may run there, and the group may have no terminating hook.
func (l *launcher) drainOverdue(ctx context.Context, e event.Event, w readinessWait) error {
	ctx, cancel := context.WithDeadlineCause(ctx, w.holdEnds.Add(lastCheck), errDeadlinePassed)
	defer cancel()
	_, err := l.drainNode(ctx, e, w.node, func() {})
	if errors.Is(err, errDeadlinePassed) {
		return nil
	}
	return err
}

// confirm returns nil when Auto Scaling confirms that the instance is launching, and whether into the warm
// pool. The error is autoscaling.ErrGone if the action is over, or neither Auto Scaling nor the cluster knows
// the instance, and errContradicted if Auto Scaling contradicts the message for the whole timeout. While Auto
// Scaling does not say the state, a heartbeat confirms the launch, and a hook that is missing ends it. It calls
// answered when Auto Scaling contradicts the message.
func (l *launcher) confirm(ctx context.Context, e event.Event, answered func()) (toPool bool, err error) {
	start := time.Now()
	err = l.confirmer.poll(ctx, e, "confirm the launch", func() (err error) {
		state, err := l.confirmer.askState(ctx, e)
		if err == nil {
			toPool, err = checkLaunch(state, e.Destination)
		}
		if errors.Is(err, errContradicted) {
			answered()
		}
		return err
	}, func(error) (bool, error) {
		toPool = isIntoPool(e)
		held, err := l.confirmer.isHeld(ctx, e, start)
		return held || err != nil, err
	})
	if _, ok := l.nodes.Find(e.InstanceID); errors.Is(err, errInNoGroup) && !ok {
		return false, autoscaling.ErrGone
	}
	return toPool, err
}

// checkLaunch compares the lifecycle state of an instance with the destination in the message of its launch,
// which may be empty in messages from before warm pools. With errContradicted the state may be an old answer.
// An instance is held by a launch hook twice, into the warm pool and out of it, so a late copy of the first
// message must not pass for the second.
func checkLaunch(s autoscaling.State, destination event.Place) (toPool bool, err error) {
	agree := destination == "" || s.Warmed() == (destination == event.PlaceWarmPool)
	switch {
	case s.Launching() && agree:
		return s.Warmed(), nil
	case s.Unknown():
		return false, errInNoGroup
	case s.Launching(), s.ReplacingRootVolume(), s.Warmed() && destination != event.PlaceWarmPool:
		return false, fmt.Errorf("%w: the instance is %s", errContradicted, s)
	}
	return false, autoscaling.ErrGone
}
