package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/retry"
)

// groupStates reads what confirms messages from Auto Scaling: the lifecycle state of an instance, whether a hook
// holds it, the clusters that the tags of a group name, and whether a hook notifies others than this agent.
type groupStates interface {
	State(ctx context.Context, instanceID string) (autoscaling.State, error)
	// MemberInTurn is for instances of messages that are not confirmed, of which there may be any number.
	MemberInTurn(ctx context.Context, instanceID string) (autoscaling.Member, error)
	IsPending(ctx context.Context, a autoscaling.Action) (bool, error)
	Clusters(ctx context.Context, group string) ([]string, error)
	NotifiesOthers(ctx context.Context, group, hook string) (bool, error)
}

// nodeFinder finds the Node of an instance: in the cache, or at the API server. Find returns false, and an
// Unselected Node, if it is another agent's; then the error of Lookup is node.ErrUnselected.
type nodeFinder interface {
	Find(instanceID string) (node.Node, bool)
	Lookup(ctx context.Context, instanceID string) (node.Node, error)
}

var (
	// errOtherCluster: the instance belongs to another cluster.
	errOtherCluster = errors.New("instance of another cluster")
	// errOtherReader: the message is a copy of one that others read.
	errOtherReader = errors.New("the hook notifies another reader than this agent")
	// errContradicted: what AWS says contradicts the message.
	errContradicted = errors.New("AWS contradicts the message")
	// errTagsUnknown: Auto Scaling has not answered for a while.
	errTagsUnknown = errors.New("the tags of the group are not known")
	// errInNoGroup: Auto Scaling does not know the instance.
	errInNoGroup = fmt.Errorf("%w: the instance is in no Auto Scaling group", errContradicted)
)

const (
	// urgentPart is the part of the time until the deadline that an unreachable EC2 or API server may take:
	// after that an unconfirmed event is acted on, and a node that cannot be cordoned is drained, because EC2
	// reclaims the instance in any case. It is at least urgentMinimum.
	urgentPart    = 10
	urgentMinimum = 5 * time.Second
	// confirmationAge is for how long what AWS has confirmed is believed.
	confirmationAge = time.Minute
	// overdueAfter is how long after its deadline a running instance shows that EC2 did not reclaim it.
	overdueAfter = time.Minute
	// stateTimeout is how long Auto Scaling may take to describe an instance before a heartbeat that it accepts
	// confirms the lifecycle action as well. Without the permission to describe it there is never an answer.
	stateTimeout = 10 * time.Second
	// tagsTimeout is how long the tags of a group may take before its action is held unread. The shortest hook
	// ends 30 s after it began.
	tagsTimeout = 10 * time.Second
	// longestAction is for how long Auto Scaling lets an instance wait at most, whatever the heartbeats.
	longestAction = 48 * time.Hour
)

// isUrgent reports whether what started at start must not delay the drain any longer.
func isUrgent(deadline, start time.Time) bool {
	return !deadline.IsZero() && !time.Now().Before(urgentAt(deadline, start))
}

// urgentAt is from when on what started at start must not delay the drain.
func urgentAt(deadline, start time.Time) time.Time {
	return start.Add(max(deadline.Sub(start)/urgentPart, urgentMinimum))
}

// confirmer asks AWS whether events are true, and whether they concern this cluster.
type confirmer struct {
	cfg       Config
	groups    groupStates
	instances Instances
	alarms    Alarms
	nodes     nodeFinder
	actions   lifecycleActions
	retries   retrier
}

// checkOwner returns node.ErrUnselected, errOtherCluster or errOtherReader if the event is not for this agent. If
// the tags and hooks of the group cannot be read for a while, it holds the action, which is this agent's in all
// likelihood: else it would end by its default result. A termination is this agent's if they cannot be read for so long
// that the agent of another cluster, whose resync finds the instance, has drained the node.
func (c *confirmer) checkOwner(ctx context.Context, e event.Event) error {
	err := c.findOwner(ctx, e, tagsTimeout)
	if !errors.Is(err, errTagsUnknown) {
		return err
	}
	timeout := longestAction
	if e.Kind == event.LifecycleTerminating {
		timeout = c.cfg.RegistrationTimeout + c.cfg.DrainTimeout
	}
	return c.actions.HoldUnconfirmed(ctx, ctx, actionOf(e), func(ctx context.Context) error {
		err := c.findOwner(ctx, e, timeout)
		if errors.Is(err, errTagsUnknown) {
			return nil
		}
		return err
	})
}

// findOwner is checkOwner without a hold. It returns errTagsUnknown after the timeout.
func (c *confirmer) findOwner(ctx context.Context, e event.Event, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errTagsUnknown)
	defer cancel()
	return c.retries.do(ctx, e, "read the tags and hooks of the group", func() error {
		n, ok := c.nodes.Find(e.InstanceID)
		if n.Unselected {
			return fmt.Errorf("node %s: %w", n.Name, node.ErrUnselected)
		}
		if !ok {
			if err := c.checkCluster(ctx, e.Hook.Group); err != nil {
				return err
			}
		}
		others, err := c.groups.NotifiesOthers(ctx, e.Hook.Group, e.Hook.Name)
		if others {
			return errOtherReader
		}
		return err
	})
}

// checkCluster returns errOtherCluster if the tags of the group name only other clusters. A group without such
// tags may belong to this one.
func (c *confirmer) checkCluster(ctx context.Context, group string) error {
	clusters, err := c.groups.Clusters(ctx, group)
	if err != nil || len(clusters) == 0 || slices.Contains(clusters, c.cfg.ClusterName) {
		return err
	}
	return fmt.Errorf("%w: group %s belongs to cluster %q, this is %q",
		errOtherCluster, group, clusters, c.cfg.ClusterName)
}

// confirm returns nil when AWS confirms that the instance terminates, or still launches, and autoscaling.ErrGone if it
// has terminated, or its hooks have been completed. The error is errContradicted if AWS contradicts the event for the
// whole timeout. While AWS does not answer, confirm returns nil once the drain is urgent, unless AWS has contradicted
// the event before or the node has outlived it, or Auto Scaling accepts a heartbeat for the action,
// autoscaling.ErrGone once the Node of an event without a hook is deleted, if the group still has no such hook after
// the timeout, or once a drain would be over if the hook does not hold the instance, and errContradicted once both AWS
// has contradicted the event and the node has outlived it. It calls answered at the first answer of AWS, and before it
// returns.
func (c *confirmer) confirm(ctx context.Context, e event.Event, answered func()) error {
	defer answered()
	start := time.Now()
	n, registered := c.nodes.Find(e.InstanceID)
	contradicted := false
	err := c.poll(ctx, e, "confirm the termination", func() error {
		err := c.check(ctx, e)
		if errors.Is(err, errContradicted) {
			contradicted = true
			answered()
		}
		return err
	}, func(error) (bool, error) { return c.decideWithoutAnswer(ctx, e, start, contradicted) })
	if errors.Is(err, errInNoGroup) && (!registered || !n.Mark.Deadline.IsZero()) {
		return autoscaling.ErrGone // a mark with a deadline shows that the termination was confirmed before
	}
	return err
}

// decideWithoutAnswer decides whether confirm returns while AWS does not answer, and what. A contradicted event is over
// when the node has outlived it: else its message would return for as long as AWS does not answer.
func (c *confirmer) decideWithoutAnswer(
	ctx context.Context, e event.Event, start time.Time, contradicted bool,
) (done bool, err error) {
	outlived := c.isOutlived(e)
	if !contradicted && isUrgent(e.Deadline, start) && !outlived {
		return true, nil
	}
	if held, err := c.isHeld(ctx, e, start); held || err != nil {
		return true, err
	}
	switch {
	case c.isNodeDeleted(ctx, e):
		return true, autoscaling.ErrGone
	case contradicted && outlived:
		return true, errContradicted
	}
	return false, nil
}

// poll calls check until it returns nil, autoscaling.ErrGone, or errContradicted for the whole contradictionTimeout:
// answers of AWS are eventually consistent. After any other error, which is no answer, giveUp decides whether
// poll returns, and what.
func (c *confirmer) poll(
	ctx context.Context, e event.Event, operation string, check func() error, giveUp func(error) (bool, error),
) error {
	var contradictedUntil time.Time
	pauses := retry.Backoff(firstPause, longestPause)
	for {
		err := check()
		pause := pauses.Step()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil || errors.Is(err, autoscaling.ErrGone):
			return err
		case errors.Is(err, errContradicted):
			if contradictedUntil.IsZero() {
				contradictedUntil = time.Now().Add(contradictionTimeout(e, c.cfg.ConfirmTimeout))
			}
			left := time.Until(contradictedUntil)
			if left <= 0 {
				return err
			}
			pause = min(pause, left)
		default:
			c.retries.observer.Retrying(e, operation, err)
			if done, err := giveUp(err); done {
				return err
			}
		}
		if !retry.Sleep(ctx, pause) {
			return context.Cause(ctx)
		}
	}
}

// isOutlived reports whether the node is Ready although EC2 was to terminate its instance some time ago. Then the event
// is most likely not true, and there is no reason to hurry.
func (c *confirmer) isOutlived(e event.Event) bool {
	n, ok := c.nodes.Find(e.InstanceID)
	return ok && n.Ready && isLongOver(e)
}

// isHeld reports whether a hook holds the instance of an event that has been unconfirmed since start. It asks by
// a heartbeat, which delays the end of the action, and so only after stateTimeout. For a launch into the warm pool it
// names the action by its token alone: Auto Scaling would accept the instance also for its later launch into service.
// The error is autoscaling.ErrGone if the group still has no such hook after the timeout, or the hook does not hold the
// instance and a drain would be over.
func (c *confirmer) isHeld(ctx context.Context, e event.Event, start time.Time) (bool, error) {
	if e.Hook.Name == "" || time.Since(start) < stateTimeout {
		return false, nil
	}
	action := actionOf(e)
	if isIntoPool(e) {
		if action.InstanceID = ""; action.Token == "" {
			return false, nil
		}
	}
	pending, err := c.groups.IsPending(ctx, action)
	if err != nil {
		c.retries.observer.Retrying(e, "confirm the lifecycle action by a heartbeat", err)
	}
	asked := time.Since(start)
	unknown := errors.Is(err, autoscaling.ErrGone) && asked >= c.cfg.ConfirmTimeout
	if unknown || err == nil && !pending && asked >= c.cfg.DrainTimeout {
		return false, autoscaling.ErrGone
	}
	return pending, nil
}

// isIntoPool reports whether the event is of a new instance that enters the warm pool.
func isIntoPool(e event.Event) bool {
	return e.Kind == event.LifecycleLaunching && e.Destination == event.PlaceWarmPool
}

// isNodeDeleted reports whether the event has no hook and the API server has no Node for its instance. The
// API server is asked only if the watch does not show the Node.
func (c *confirmer) isNodeDeleted(ctx context.Context, e event.Event) bool {
	if _, ok := c.nodes.Find(e.InstanceID); ok || e.Hook.Name != "" {
		return false
	}
	_, err := c.nodes.Lookup(ctx, e.InstanceID)
	return errors.Is(err, node.ErrGone)
}

// check asks AWS once. It returns nil if AWS confirms the event, autoscaling.ErrGone if the termination is
// over, and errContradicted if AWS contradicts it. After any other error the answer is not known.
func (c *confirmer) check(ctx context.Context, e event.Event) error {
	switch e.Kind {
	case event.LifecycleTerminating, event.LifecycleLaunching:
		state, err := c.askState(ctx, e)
		if err != nil {
			return err
		}
		return checkState(e, state)
	case event.ScheduledChange:
		return c.checkSchedule(ctx, e)
	case event.DrainRequested:
		return c.checkRequest(e)
	case event.Alarm:
		if err := c.checkAlarm(ctx, e); err != nil {
			return err
		}
	}
	i, err := c.instances.Describe(ctx, e.InstanceID)
	if err != nil {
		return err
	}
	if n, ok := c.nodes.Find(e.InstanceID); ok && isForeign(n, i) {
		return fmt.Errorf("%w: EC2 does not know the instance, and its node is Ready", errContradicted)
	}
	return checkInstance(e, i, time.Now())
}

// checkSchedule returns errContradicted unless EC2 has an event scheduled.
func (c *confirmer) checkSchedule(ctx context.Context, e event.Event) error {
	scheduled, err := c.instances.Scheduled(ctx, e.InstanceID)
	if err == nil && !scheduled.Any {
		err = fmt.Errorf("%w: EC2 has no event scheduled for the instance", errContradicted)
	}
	return err
}

// checkAlarm returns errContradicted unless the alarm is in the state ALARM. The mark of a node does not name the alarm
// that it was set for: then there is nothing to ask.
func (c *confirmer) checkAlarm(ctx context.Context, e event.Event) error {
	if e.Alarm == "" {
		return nil
	}
	on, err := c.alarms.IsInAlarm(ctx, e.Alarm, e.InstanceID)
	if err == nil && !on {
		err = fmt.Errorf("%w: the alarm %s is not in the state ALARM for the instance", errContradicted, e.Alarm)
	}
	return err
}

// isForeign reports whether the instance of the node is one of another account or Region: EC2 does not know
// it, and its node is Ready. EC2 forgets a terminated instance after about an hour; its node is not Ready.
func isForeign(n node.Node, i ec2.Instance) bool { return i.State.Unknown() && n.Ready }

// checkState compares a lifecycle action with the lifecycle state of its instance.
func checkState(e event.Event, state autoscaling.State) error {
	if e.Kind == event.LifecycleLaunching {
		_, err := checkLaunch(state, e.Destination)
		return err
	}
	switch {
	case state.Terminating():
		return nil
	case state.Gone() && !isOld(e, state),
		e.Action == event.ReplaceRootVolume && state.Launching(): // which follows the replacement
		return autoscaling.ErrGone
	case state.Unknown():
		return errInNoGroup
	}
	return fmt.Errorf("%w: the instance is %s", errContradicted, state)
}

// isOld reports whether the state is one that the instance had before the lifecycle action began: at rest in the
// warm pool, or past the replacement of its root volume.
func isOld(e event.Event, state autoscaling.State) bool {
	replaced := state.ReplacingRootVolume() && e.Action != "" && e.Action != event.ReplaceRootVolume
	return replaced || e.Origin == event.PlaceWarmPool && state.InPool()
}

// checkInstance compares an event of EC2 with EC2's description of the instance.
func checkInstance(e event.Event, i ec2.Instance, now time.Time) error {
	switch {
	case i.State.Stopped() && e.Kind != event.StateChange:
		return autoscaling.ErrGone
	case i.State.Stopped(), i.State.ShuttingDown():
		return nil
	case e.Kind == event.StateChange:
		return fmt.Errorf("%w: the instance is %s", errContradicted, i.State)
	case !isReclaimable(e.Kind, i):
		return fmt.Errorf("%w: EC2 sends no %s for an instance of this type", errContradicted, e.Kind)
	case !e.Deadline.IsZero() && now.After(e.Deadline.Add(overdueAfter)):
		return fmt.Errorf("%w: the instance is still running, long after %s, when EC2 was to terminate it",
			errContradicted, e.Deadline.Format(time.RFC3339))
	}
	return nil
}

// isReclaimable reports whether EC2 sends events of the kind for instances like this one. An alarm or a request may
// concern any.
func isReclaimable(k event.Kind, i ec2.Instance) bool {
	switch k { //nolint:exhaustive // The others are those of reservations.
	case event.SpotInterruption, event.RebalanceRecommendation:
		return i.Spot
	case event.Alarm, event.Request:
		return true
	}
	return i.Reserved
}
