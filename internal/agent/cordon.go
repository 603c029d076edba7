package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/retry"
)

// cordonedNodes are the Nodes that are cordoned and uncordoned.
type cordonedNodes interface {
	nodeFinder
	maintainedNodes
	Cordon(ctx context.Context, n node.Node, reason node.Reason) (mark node.Mark, changed bool, err error)
	Uncordon(ctx context.Context, n node.Node, keep func() bool) (uncordoned bool, err error)
	Exclude(ctx context.Context, n node.Node) error
	RemoveCondition(n node.Node)
}

// cordonObserver records what is done to nodes.
type cordonObserver interface {
	NodeCordoned(e event.Event, n node.Node, mark node.Mark)
	NodeUncordoned(n node.Node, why string)
	DrainCanceled(n node.Node, why string)
	retryObserver
}

// cordonUnconfirmedAfter is how long AWS may take to confirm an event before its node is cordoned all the
// same, so that no new pods are scheduled onto it. Pods are evicted only after the confirmation.
const cordonUnconfirmedAfter = 2 * time.Second

// errCordonLate: the node could not be cordoned, and its drain must start now.
var errCordonLate = errors.New("the node could not be cordoned before its drain had to start")

// cordoner cordons nodes whose instances terminate, and uncordons them if the instances do not terminate
// after all.
type cordoner struct {
	cfg       Config
	actions   lifecycleActions
	groups    groupStates
	instances Instances
	nodes     cordonedNodes
	observer  cordonObserver
	retries   retrier
	drains    *sharedDrains
	history   *drainHistory
}

// cordonWhileUnconfirmed cordons the node of the instance, without a deadline, unless AWS answers within
// cordonUnconfirmedAfter. The caller calls the returned function at the first answer: it prevents the cordon,
// or waits until one in progress has ended.
func (c *cordoner) cordonWhileUnconfirmed(ctx context.Context, e event.Event) (answered func()) {
	n, ok := c.nodes.Find(e.InstanceID)
	if !ok {
		return func() {}
	}
	return background(ctx, func(waiting context.Context) {
		if !retry.Sleep(waiting, cordonUnconfirmedAfter) {
			return
		}
		if _, _, err := c.nodes.Cordon(ctx, n, reasonOf(e, time.Time{})); err != nil {
			c.observer.Retrying(e, "cordon node "+n.Name, err) // by cordon, after the confirmation
		}
	})
}

// background starts work. The returned function cancels the context of the work and waits until it returns.
func background(ctx context.Context, work func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { work(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// cordon cordons the node and returns its mark, which has the deadline of the drain. If the Node was deleted
// and the instance has registered again, cordon cordons and returns the new Node; the error is
// errUnregistered if it has not. With errCordonLate the mark is the one that the node should have.
func (c *cordoner) cordon(ctx context.Context, e event.Event, n node.Node) (node.Node, node.Mark, error) {
	var mark node.Mark
	err := c.onNode(ctx, e, &n, func() (err error) {
		mark, err = c.cordonNode(ctx, e, n)
		return err
	})
	return n, mark, err
}

// onNode calls act, and again with the new Node in n for as long as its error is node.ErrGone: the Node was deleted,
// and the instance may have registered again. The error is errUnregistered if it has not.
func (c *cordoner) onNode(ctx context.Context, e event.Event, n *node.Node, act func() error) error {
	pauses := retry.Backoff(firstPause, longestPause)
	for {
		err := act()
		if !errors.Is(err, node.ErrGone) {
			return err
		}
		if *n, err = c.lookUp(ctx, e); err != nil {
			return err
		}
		if !retry.Sleep(ctx, pauses.Step()) {
			return context.Cause(ctx)
		}
	}
}

// cordonNode tries until the node is cordoned and its deadline is known. Until then the mark has no deadline. A hook
// whose timeouts cannot be read for as long as a message may take to confirm counts as the shortest possible: a drain
// that does not begin ends with all of its pods.
func (c *cordoner) cordonNode(ctx context.Context, e event.Event, n node.Node) (mark node.Mark, err error) {
	start, changed := time.Now(), false
	err = c.retries.do(ctx, e, "cordon node "+n.Name, func() error {
		e := c.scheduled(ctx, e)
		deadline, unknown := c.deadline(ctx, e, n, start)
		if errors.Is(unknown, autoscaling.ErrGone) {
			return unknown
		}
		cordoning, cancel := ctx, func() {}
		if !deadline.IsZero() && !isUrgent(deadline, start) {
			cordoning, cancel = context.WithDeadline(ctx, urgentAt(deadline, start))
		}
		defer cancel()
		var err error
		mark, changed, err = c.nodes.Cordon(cordoning, n, reasonOf(e, deadline))
		if err != nil && !errors.Is(err, node.ErrGone) && isUrgent(deadline, start) {
			mark = node.Mark{Since: time.Now(), Deadline: deadline}
			return fmt.Errorf("%w: %w", errCordonLate, err)
		}
		return errors.Join(unknown, err)
	})
	if err == nil && changed {
		c.observer.NodeCordoned(e, n, mark)
	}
	return mark, err
}

// cordonDuringDrain continues to try to cordon the node, until the returned function is called.
func (c *cordoner) cordonDuringDrain(
	ctx context.Context, e event.Event, n node.Node, deadline time.Time,
) (stop func()) {
	return background(ctx, func(ctx context.Context) {
		_ = c.retries.do(ctx, e, "cordon node "+n.Name, func() error {
			mark, changed, err := c.nodes.Cordon(ctx, n, reasonOf(e, deadline))
			if err == nil && changed {
				c.observer.NodeCordoned(e, n, mark)
			}
			return err
		})
	})
}

// lookUp reads the Node of the instance from the API server, until that answers: a watch may have missed it.
// The error is errUnregistered if there is none, and node.ErrUnselected if it is another agent's.
func (c *cordoner) lookUp(ctx context.Context, e event.Event) (n node.Node, err error) {
	err = c.retries.do(ctx, e, "look up the node of the instance", func() (err error) {
		n, err = c.nodes.Lookup(ctx, e.InstanceID)
		return err
	})
	if errors.Is(err, node.ErrGone) {
		return n, errUnregistered
	}
	return n, err
}

// deadline returns when the drain must end: the earliest of the hook's, the event's and the configured deadline, and
// never before now. It is zero if the node keeps its pods. The configured one does not bound a drain for maintenance
// that is ahead: its budgets are not overridden before it must be.
func (c *cordoner) deadline(ctx context.Context, e event.Event, n node.Node, start time.Time) (time.Time, error) {
	if e.Hook.Name == "" && c.cfg.Events.Action(e.Kind) == event.Cordon {
		return time.Time{}, nil
	}
	deadline := time.Now().Add(c.cfg.DrainTimeout)
	if e.Hook.Name != "" {
		hook, err := actionDeadline(ctx, c.actions, seenBefore(e, n), time.Since(start) >= c.cfg.ConfirmTimeout)
		if err != nil {
			return time.Time{}, err
		}
		deadline = earlier(deadline, hook)
	}
	switch end := e.Deadline.Add(-c.cfg.Events.Margin); {
	case e.Deadline.IsZero():
	case e.Kind == event.ScheduledChange:
		deadline = end
	default:
		deadline = earlier(deadline, end)
	}
	if !e.DrainBy.IsZero() {
		deadline = earlier(deadline, e.DrainBy)
	}
	if !n.Ready && c.isStopped(ctx, n.InstanceID) {
		deadline = earlier(deadline, time.Now()) // no kubelet is left to report the end of its pods
	}
	return laterOf(deadline, time.Now()), nil
}

// seenBefore returns the event as one that the agent has seen when it cordoned the node for the same lifecycle action.
func seenBefore(e event.Event, n node.Node) event.Event {
	r := reasonOf(e, time.Time{})
	isSame := n.Mark.Hook == r.Hook && (n.Mark.Token == r.Token || n.Mark.Token == "" || r.Token == "")
	if isSame && !n.Mark.Since.IsZero() && !e.Seen.IsZero() {
		e.Seen = earlier(e.Seen, n.Mark.Since)
	}
	return e
}

// actionDeadline returns when the action of the event ends. If that cannot be read, and the time for that is over, it
// counts as one of the shortest hook that there can be.
func actionDeadline(
	ctx context.Context, actions lifecycleActions, e event.Event, isOver bool,
) (time.Time, error) {
	deadline, err := actions.Deadline(ctx, actionOf(e), e.At)
	if err == nil || errors.Is(err, autoscaling.ErrGone) || !isOver {
		return deadline, err
	}
	return actions.ShortestDeadline(actionOf(e), e.At), nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// isStopped reports whether EC2 says, without delay, that nothing runs on the instance anymore.
func (c *cordoner) isStopped(ctx context.Context, instanceID string) bool {
	state, ok := c.instanceState(ctx, instanceID)
	return ok && state.Stopped()
}

// isFailed reports whether the machine of the node ended before its pods: the node is not Ready, and EC2 says,
// without delay, that the instance is shutting down or that nothing runs on it.
func (c *cordoner) isFailed(ctx context.Context, n node.Node) bool {
	if current, ok := c.nodes.Find(n.InstanceID); ok && current.Ready {
		return false
	}
	state, ok := c.instanceState(ctx, n.InstanceID)
	return ok && (state.Stopped() || state.ShuttingDown())
}

// instanceState returns the state of the instance if EC2 answers without delay.
func (c *cordoner) instanceState(ctx context.Context, instanceID string) (s ec2.State, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, cordonUnconfirmedAfter)
	defer cancel()
	i, err := c.instances.Describe(ctx, instanceID)
	return i.State, err == nil
}

func reasonOf(e event.Event, deadline time.Time) node.Reason {
	r := node.Reason{
		Kind: string(e.Kind), Deadline: deadline, TerminatesAt: e.Deadline, Reboots: e.Action == event.ReplaceRootVolume,
	}
	if e.Hook.Name != "" {
		r.Hook, r.Token = e.Hook.Group+"/"+e.Hook.Name, e.Hook.Token
	}
	return r
}

// excludeFromLoadBalancers labels the node if NODE_EXCLUDE_FROM_LOAD_BALANCERS is late. It tries until the
// deadline, and at least once. A node that is gone needs no label.
func (c *cordoner) excludeFromLoadBalancers(
	ctx context.Context, e event.Event, n node.Node, deadline time.Time,
) error {
	trying, cancel := context.WithDeadlineCause(ctx, deadline, errDeadlinePassed)
	defer cancel()
	err := c.retries.do(trying, e, "exclude node "+n.Name+" from load balancers", func() error {
		return c.nodes.Exclude(ctx, n)
	})
	if errors.Is(err, node.ErrGone) || errors.Is(err, errDeadlinePassed) {
		return nil
	}
	return err
}

// uncordon removes the mark of the event from the node of its instance, until that succeeds, and the
// announcement of maintenance. It leaves the mark of another event, and a node that is being drained. It must
// not run under Hold, which ends for an instance that is in no group.
func (c *cordoner) uncordon(ctx context.Context, e event.Event, why string) error {
	n, ok := c.nodes.Find(e.InstanceID)
	if ok && e.Kind == event.ScheduledChange {
		if err := c.endMaintenance(ctx, e, n, why); err != nil {
			return err
		}
	}
	if !ok || c.drains.needs(n) || n.Mark.Reason != "" && n.Mark.Reason != string(e.Kind) {
		return nil
	}
	return c.retries.do(ctx, e, "uncordon node "+n.Name, func() error { return c.tryUncordon(ctx, n, why) })
}

// tryUncordon removes the mark of the node, if the node exists and its instance does not terminate.
func (c *cordoner) tryUncordon(ctx context.Context, n node.Node, why string) error {
	removed, err := c.removeMark(ctx, n)
	if errors.Is(err, node.ErrGone) {
		return nil
	}
	if removed && err == nil {
		c.observer.NodeUncordoned(n, why)
	}
	return err
}

// removeMark removes the mark of a node. All marks are removed here, except at a launch, which Auto Scaling has
// confirmed. It asks Auto Scaling first, and keeps the mark of an instance that is terminating: all events of
// an instance share one mark, so that one of them is over does not mean that no hook waits. It also keeps the mark of a
// node whose annotation asks for its drain, and of one that another event has begun to drain meanwhile.
func (c *cordoner) removeMark(ctx context.Context, n node.Node) (removed bool, err error) {
	if n.DrainRequested {
		return false, nil
	}
	state, err := c.groups.State(ctx, n.InstanceID)
	if err != nil || state.Terminating() || state.Gone() {
		return false, err
	}
	removed, err = c.nodes.Uncordon(ctx, n, func() bool { return c.drains.needs(n) })
	if removed && err == nil {
		c.history.remove(n.UID)
	}
	return removed, err
}

// endMaintenance removes the announcement of maintenance that is not ahead any more, until that succeeds. The cache
// may not show an announcement that was written a moment ago.
func (c *cordoner) endMaintenance(ctx context.Context, e event.Event, n node.Node, why string) error {
	err := c.retries.do(ctx, e, "remove the announced maintenance of node "+n.Name, func() error {
		return c.nodes.EndMaintenance(ctx, n)
	})
	if errors.Is(err, node.ErrGone) {
		return nil
	}
	if err == nil && !n.Maintenance.IsZero() && n.Mark.Since.IsZero() {
		c.observer.DrainCanceled(n, why)
	}
	return err
}
