package agent

import (
	"context"
	"errors"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// lifecycleActions holds and completes the lifecycle actions of Auto Scaling.
type lifecycleActions interface {
	Hold(ctx context.Context, a autoscaling.Action, work func(context.Context) error) error
	HoldUnconfirmed(
		ctx, unanswered context.Context, a autoscaling.Action, work func(context.Context) error,
	) error
	Complete(ctx context.Context, a autoscaling.Action, result autoscaling.Result) error
	Deadline(ctx context.Context, a autoscaling.Action, began time.Time) (time.Time, error)
	ShortestDeadline(a autoscaling.Action, began time.Time) time.Time
}

// terminatingNodes are the Nodes of terminating instances.
type terminatingNodes interface {
	nodeFinder
	Await(ctx context.Context, instanceID string, accept func(node.Node) bool) (node.Node, error)
}

// terminationObserver records terminations.
type terminationObserver interface {
	TerminationStarted(e event.Event)
	TerminationEnded(e event.Event, outcome string, took time.Duration)
	NodeAwaited(e event.Event)
	DrainStarted(e event.Event, n node.Node)
	DrainCutShort(e event.Event, n node.Node)
	NodeDrained(e event.Event, n node.Node, report drain.Report)
}

var (
	// errUnregistered: the API server has no Node for the instance.
	errUnregistered = errors.New("no Node has registered for the instance")
	// errDeadlinePassed: the node has no more time.
	errDeadlinePassed = errors.New("the deadline of the drain has passed")
)

// terminator drains the nodes of instances that terminate.
type terminator struct {
	cfg       Config
	actions   lifecycleActions
	nodes     terminatingNodes
	drainer   Drainer
	observer  terminationObserver
	retries   retrier
	confirmer *confirmer
	cordoner  *cordoner
	barrier   markBarrier
	inflight  *inflight
	drains    *sharedDrains
	history   *drainHistory
	completed *completedActions
}

// handle handles the lifecycle action of a terminating instance.
func (t *terminator) handle(ctx context.Context, e event.Event) error {
	defer t.bringForward(ctx, e)()
	return t.run(ctx, e, func(ctx context.Context) (Outcome, error) { return t.terminate(ctx, e) })
}

// bringForward has the drain end in time that a resync has started, which does not know when the lifecycle action
// began. The message of the action, which has arrived late, does: its event joins that drain with the earlier
// deadline, until the returned function is called.
func (t *terminator) bringForward(ctx context.Context, e event.Event) (stop func()) {
	if !t.inflight.beganLater(e) {
		return func() {}
	}
	e.Hook.Token = "" // another token would mark the node for a new action, whose drain begins again
	return background(ctx, func(ctx context.Context) {
		_, _ = t.drainInstance(ctx, e) // what fails here fails for the other event, too, which is tried again
	})
}

// run runs work once for all copies of the event that arrive meanwhile, and records its start and its
// outcome.
func (t *terminator) run(
	ctx context.Context, e event.Event, work func(context.Context) (Outcome, error),
) error {
	return t.inflight.do(ctx, e, func(ctx context.Context) error {
		start := time.Now()
		t.observer.TerminationStarted(e)
		outcome, err := work(ctx)
		t.observer.TerminationEnded(e, string(outcome), time.Since(start))
		if err == nil && outcome == Unconfirmed {
			return errUnconfirmed
		}
		return err
	})
}

// terminate confirms the event, drains the instance while the lifecycle action is held, and then completes the action.
// If Auto Scaling does not know the token, the action may have ended, and another one of the hook may hold the
// instance, whose node has got pods in between: that one is completed after a drain of its own.
func (t *terminator) terminate(ctx context.Context, e event.Event) (Outcome, error) {
	n, _ := t.nodes.Find(e.InstanceID)
	cordoned := t.barrier.announceNode(n)
	defer cordoned()
	err := t.confirmer.confirmHook(ctx, e, func(ctx context.Context, answered func()) error {
		stop := t.cordoner.cordonWhileUnconfirmed(ctx, e)
		return t.confirmer.confirm(ctx, e, func() { answered(); stop() })
	})
	if err == nil {
		err = t.confirmer.checkOwner(ctx, e)
	}
	if err != nil {
		return t.abort(ctx, e, Interrupted, err)
	}
	drain := func(ctx context.Context) (Outcome, error) { return t.drainConfirmed(ctx, e, n, cordoned) }
	for {
		outcome := Interrupted
		err := t.actions.Hold(ctx, actionOf(e), func(ctx context.Context) (err error) {
			outcome, err = drain(ctx)
			return err
		})
		if err != nil {
			return t.abort(ctx, e, outcome, err)
		}
		switch err := t.actions.Complete(ctx, actionOf(e), autoscaling.Continue); {
		case err == nil:
			t.completed.add(e)
			return outcome, nil
		case !errors.Is(err, autoscaling.ErrUnknownToken):
			return Interrupted, err
		}
		e.Hook.Token = ""
		e = foundNow(e)
		drain = func(ctx context.Context) (Outcome, error) { return t.drainInstance(ctx, e) }
	}
}

// drainInstance evicts the pods of a terminating instance. It evicts none before AWS has confirmed the event,
// and before all nodes that terminate at the same time are cordoned.
func (t *terminator) drainInstance(ctx context.Context, e event.Event) (Outcome, error) {
	n, _ := t.nodes.Find(e.InstanceID)
	cordoned := t.barrier.announceNode(n)
	defer cordoned()
	answered := t.cordoner.cordonWhileUnconfirmed(ctx, e)
	n, err := t.confirm(ctx, e, answered)
	if err != nil {
		return notDrained(err)
	}
	return t.drainNode(ctx, e, n, cordoned)
}

// drainConfirmed is drainInstance for an event that AWS has confirmed. n is the Node that the instance had before, if
// it had one.
func (t *terminator) drainConfirmed(
	ctx context.Context, e event.Event, n node.Node, cordoned func(),
) (Outcome, error) {
	if n.Name == "" {
		var err error
		if n, err = t.awaitNode(ctx, e); err != nil {
			return notDrained(err)
		}
	}
	return t.drainNode(ctx, e, n, cordoned)
}

// drainNode cordons and drains the node of an instance that terminates for certain. It calls cordoned in between. No
// other event of the instance, which is over, uncordons the node meanwhile.
func (t *terminator) drainNode(
	ctx context.Context, e event.Event, n node.Node, cordoned func(),
) (Outcome, error) {
	defer t.drains.expect(n.InstanceID)()
	confirmed, before := time.Now(), n.Mark
	n, mark, err := t.cordoner.cordon(ctx, e, n)
	if errors.Is(err, errCordonLate) {
		defer t.cordoner.cordonDuringDrain(ctx, e, n, mark.Deadline)()
	} else if err != nil {
		return notDrained(err)
	}
	n.Mark = mark
	cordoned()
	t.barrier.wait(ctx)
	if err := t.confirmAgain(ctx, e, confirmed); err != nil {
		return notDrained(err)
	}
	if err := t.handOverLeadership(ctx, n); err != nil {
		return Interrupted, err
	}
	report, err := t.drain(ctx, e, n, before)
	switch {
	case errors.Is(err, drain.ErrReplaced):
		return t.drainReplacement(ctx, e, n, report)
	case errors.Is(err, autoscaling.ErrGone):
		if !t.drains.has(n.UID) { // for another event
			t.observer.DrainCutShort(e, n)
		}
		return CutShort, err
	case err != nil:
		return Interrupted, err
	}
	if err := t.cordoner.excludeFromLoadBalancers(ctx, e, n, mark.Deadline); err != nil {
		return Interrupted, err
	}
	return outcomeOf(report), nil
}

// drainReplacement continues the drain of a Node in whose place another one has registered. If that is one of the same
// instance, it is drained by the same deadline. Pods of another instance are left alone.
func (t *terminator) drainReplacement(
	ctx context.Context, e event.Event, n node.Node, report drain.Report,
) (Outcome, error) {
	again, ok := t.nodes.Find(e.InstanceID)
	if !ok || again.UID == n.UID {
		t.observer.NodeDrained(e, n, report)
		return NodeLost, nil
	}
	e.DrainBy = n.Mark.Deadline
	return t.drainNode(ctx, e, again, func() {})
}

func outcomeOf(r drain.Report) Outcome {
	switch {
	case len(r.Left) == 0 && !r.Unverified:
		return Drained
	case r.Lost:
		return NodeLost
	}
	return LeftBehind
}

// cordonInstance cordons the node of an instance whose event is configured to leave the pods where they are.
func (t *terminator) cordonInstance(ctx context.Context, e event.Event) (Outcome, error) {
	n, _ := t.nodes.Find(e.InstanceID)
	defer t.barrier.announceNode(n)()
	answered := t.cordoner.cordonWhileUnconfirmed(ctx, e)
	n, err := t.confirm(ctx, e, answered)
	if err == nil {
		_, _, err = t.cordoner.cordon(ctx, e, n)
	}
	if err != nil {
		return notDrained(err)
	}
	return Cordoned, nil
}

// confirm returns the Node of the instance once AWS confirms the event, or errUnregistered if it has none. It
// calls answered at the first answer of AWS, and before it returns.
func (t *terminator) confirm(ctx context.Context, e event.Event, answered func()) (node.Node, error) {
	n, registered := t.nodes.Find(e.InstanceID)
	if err := t.confirmer.confirm(ctx, e, answered); err != nil || registered {
		return n, err
	}
	return t.awaitNode(ctx, e)
}

// confirmAgain confirms the event once more if that was long ago, because the API server did not answer: the
// instance may have returned to service since. A launch was confirmed when it began.
func (t *terminator) confirmAgain(ctx context.Context, e event.Event, confirmed time.Time) error {
	if e.Kind != event.LifecycleLaunching && time.Since(confirmed) < confirmationAge {
		return nil
	}
	return t.confirmer.confirm(ctx, e, func() {})
}

// awaitNode waits until the instance registers, because it would then get pods. Neither an instance that has
// stopped registers, nor one that had a Node when its event arrived.
func (t *terminator) awaitNode(ctx context.Context, e event.Event) (node.Node, error) {
	if e.Hook.Name == "" || t.cordoner.isStopped(ctx, e.InstanceID) {
		return t.cordoner.lookUp(ctx, e)
	}
	t.observer.NodeAwaited(e)
	waiting, cancel := context.WithDeadlineCause(ctx, e.At.Add(t.cfg.RegistrationTimeout), errUnregistered)
	defer cancel()
	n, err := t.nodes.Await(waiting, e.InstanceID, nil)
	if errors.Is(err, errUnregistered) {
		return t.cordoner.lookUp(ctx, e) // the watch may have missed it
	}
	return n, err
}

// handOverLeadership makes another replica the leader if n is the node of this process: its drain would evict
// this process in the middle of its work. The next leader continues from the mark on the node. The error says
// that this process must stop; nil, that it drains the node itself.
func (t *terminator) handOverLeadership(ctx context.Context, n node.Node) error {
	if t.cfg.NodeName == "" || n.Name != t.cfg.NodeName || t.cfg.HandOver == nil || !t.cfg.HandOver(n.UID) {
		return nil
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// drain drains the node, which had the mark before when the event arrived. All events of an instance share one drain,
// which has the earliest of their deadlines.
func (t *terminator) drain(
	ctx context.Context, e event.Event, n node.Node, before node.Mark,
) (drain.Report, error) {
	mark := n.Mark
	return t.drains.do(ctx, n.UID, mark.Deadline, func(
		ctx context.Context, deadline time.Time, tighter <-chan time.Time,
	) (drain.Report, error) {
		earlier, repeated := t.history.find(n.UID, mark.Since)
		if repeated && !t.history.mustRepeat(e, n) {
			return earlier, nil
		}
		if !repeated {
			t.observer.DrainStarted(e, n)
		}
		report, err := t.drainer.Drain(ctx, drain.Target{
			Name: n.Name, UID: n.UID, Since: mark.Since, Deadline: deadline, Tighter: tighter,
			Untainted: mark.InstanceID == "", // it is not on the Node (errCordonLate)
			Earlier:   t.history.owners(n.UID, mark.Since, before.Since),
		})
		if err != nil {
			return report, err
		}
		report.Lost = report.Lost || len(report.Left) > 0 && t.cordoner.isFailed(ctx, n)
		t.history.add(n.UID, mark.Since, report)
		if !repeated || isNews(earlier, report) {
			t.observer.NodeDrained(e, n, report)
		}
		return report, nil
	})
}

// isNews reports whether a repeated drain has found pods, or none where the earlier one had left some behind.
func isNews(earlier, report drain.Report) bool { return report.Total > 0 || len(earlier.Left) > 0 }

// abort returns how a termination ends whose work failed with err. The message of an event that is over, or
// that AWS contradicts, is done: then err is nil, and in the latter case the node is uncordoned. The message of
// an event that others have to handle is released.
func (t *terminator) abort(ctx context.Context, e event.Event, outcome Outcome, err error) (Outcome, error) {
	switch {
	case errors.Is(context.Cause(ctx), errCanceled):
		return Canceled, nil
	case ctx.Err() != nil:
		return Interrupted, context.Cause(ctx)
	case errors.Is(err, errOtherCluster):
		return OtherCluster, queue.Release(err)
	case errors.Is(err, node.ErrUnselected):
		return OtherAgent, queue.Release(err)
	case errors.Is(err, errOtherReader):
		return OtherAgent, nil
	case errors.Is(err, errContradicted):
		if err := t.cordoner.uncordon(ctx, e, err.Error()); err != nil {
			return Interrupted, err
		}
		return Unconfirmed, nil
	case outcome == CutShort:
		return CutShort, nil
	case errors.Is(err, autoscaling.ErrGone):
		return Gone, nil
	}
	return outcome, err
}

// notDrained is the outcome of a termination that failed before its drain.
func notDrained(err error) (Outcome, error) {
	if errors.Is(err, errUnregistered) {
		return Unregistered, nil
	}
	return Interrupted, err
}

func actionOf(e event.Event) autoscaling.Action {
	return autoscaling.Action{
		Group: e.Hook.Group, Hook: e.Hook.Name, InstanceID: e.InstanceID, Token: e.Hook.Token,
		Launch: e.Kind == event.LifecycleLaunching, Found: e.Found, Seen: e.Seen,
	}
}
