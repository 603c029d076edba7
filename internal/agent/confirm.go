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
)

var (
	// errOtherCluster: the instance belongs to another cluster.
	errOtherCluster = errors.New("instance of another cluster")
	// errOtherReader: the message is a copy of one that others read.
	errOtherReader = errors.New("the hook notifies another reader than this agent")
	// errContradicted: what AWS says contradicts the message.
	errContradicted = errors.New("AWS contradicts the message")
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
	*systems
	turns *turns
}

// checkOwner returns node.ErrUnselected, errOtherCluster or errOtherReader if the event is not for this agent.
func (c *confirmer) checkOwner(ctx context.Context, e event.Event) error {
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
}

// isFindable reports whether a resync finds a termination without its message and without the Node of its instance.
func (c *confirmer) isFindable(ctx context.Context, e event.Event) bool {
	if e.Kind != event.LifecycleTerminating {
		return false
	}
	clusters, err := c.groups.Clusters(ctx, e.Hook.Group)
	if err != nil || !slices.Contains(clusters, c.cfg.ClusterName) {
		return false
	}
	own, err := c.groups.OwnHooks(ctx, e.Hook.Group, autoscaling.Terminating)
	return err == nil && slices.ContainsFunc(own, func(h autoscaling.OwnHook) bool {
		return h.Name == e.Hook.Name && (h.Direct || !c.cfg.SomeNodes)
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

// askOnce asks AWS once about the event of a reason. While AWS does not answer, withoutAnswer decides.
func (c *confirmer) askOnce(ctx context.Context, r *reason) answer {
	if r.Kind == event.ScheduledChangeCanceled {
		return c.askCancellation(ctx, r)
	}
	n, registered := c.nodes.Find(r.InstanceID)
	a, err := c.ask(ctx, r.Event)
	a.answered = err == nil
	if err != nil && ctx.Err() == nil {
		c.observer.Retrying(r.Event, "confirm the "+confirmedNoun(r), err)
		a = answer{finding: c.withoutAnswer(ctx, r)}
		if start := maintenanceStart(n); r.Kind == event.ScheduledChange && start.After(r.Deadline) && !r.Deadline.IsZero() {
			a.notBefore = start // only EC2's schedule brings it forward
		}
		if into := isIntoPool(r.Event); r.isLaunch() {
			a.intoPool = &into
		}
	}
	// A mark with a deadline shows that the termination was confirmed before.
	a.hasLeft = a.verdict == inNoGroup && (!registered || !r.isLaunch() && !n.Mark.Deadline.IsZero())
	return a
}

func confirmedNoun(r *reason) string {
	if r.isLaunch() {
		return "launch"
	}
	return "termination"
}

// withoutAnswer decides about an event while AWS does not answer:
//   - one that leaves little time is confirmed, unless AWS has contradicted it before, or the node has outlived it;
//   - a lifecycle action is what a heartbeat says;
//   - an event without a hook is over once the Node of its instance is deleted;
//   - one that AWS has contradicted before is contradicted when the node has outlived it: else its message would return
//     for as long as AWS does not answer.
func (c *confirmer) withoutAnswer(ctx context.Context, r *reason) finding {
	e := r.Event
	outlived := c.isOutlived(e)
	if !r.doubted && !c.isBroughtForward(e) && isUrgent(e.Deadline, r.began) && !outlived {
		return finding{verdict: confirmed}
	}
	if f := c.askByHeartbeat(ctx, e, r.began); f.verdict != undecided {
		return f
	}
	switch {
	case c.isNodeDeleted(ctx, e):
		return finding{verdict: ended}
	case r.doubted && outlived:
		return contradicts("the node has outlived it")
	}
	return finding{}
}

// isBroughtForward reports whether EC2 has confirmed maintenance of the instance that starts later than the event says.
// EC2 announces maintenance long before, and only its schedule can bring that forward.
func (c *confirmer) isBroughtForward(e event.Event) bool {
	n, _ := c.nodes.Find(e.InstanceID)
	return e.Kind == event.ScheduledChange && !e.Deadline.IsZero() && maintenanceStart(n).After(e.Deadline)
}

// askCancellation asks EC2 whether an event is still scheduled for the instance: that contradicts the cancellation.
func (c *confirmer) askCancellation(ctx context.Context, r *reason) answer {
	scheduled, err := c.instances.Scheduled(ctx, r.InstanceID)
	switch {
	case err != nil:
		if ctx.Err() == nil {
			c.observer.Retrying(r.Event, "confirm the cancellation", err)
		}
		if time.Since(r.began) >= c.cfg.ConfirmTimeout {
			return answer{noAnswer: fmt.Errorf("%w: %w", errNoAnswer, err)}
		}
		return answer{}
	case scheduled.Any:
		return answer{finding: contradicts("EC2 still has an event scheduled for the instance"), answered: true}
	}
	return answer{finding: finding{verdict: confirmed}, answered: true}
}

// isOutlived reports whether the node is Ready although EC2 was to terminate its instance some time ago. Then the event
// is most likely not true, and there is no reason to hurry.
func (c *confirmer) isOutlived(e event.Event) bool {
	n, ok := c.nodes.Find(e.InstanceID)
	return ok && n.Ready && isLongOver(e)
}

// askByHeartbeat asks whether a hook holds the instance of an event about which AWS has not answered since start. A
// heartbeat delays the end of the action, and so it asks only after stateTimeout. For a launch into the warm pool it
// names the action by its token alone: Auto Scaling would accept the instance also for its later launch into service.
// The event is over if the group still has no such hook after the timeout, or the hook does not hold the instance and a
// drain would be over.
func (c *confirmer) askByHeartbeat(ctx context.Context, e event.Event, start time.Time) finding {
	if e.Hook.Name == "" || time.Since(start) < stateTimeout {
		return finding{}
	}
	action := actionOf(e)
	if isIntoPool(e) {
		if action.InstanceID = ""; action.Token == "" {
			return finding{}
		}
	}
	pending, err := c.groups.IsPending(ctx, action)
	if err != nil {
		c.observer.Retrying(e, "confirm the lifecycle action by a heartbeat", err)
	}
	asked := time.Since(start)
	isUnknown := errors.Is(err, autoscaling.ErrGone) && asked >= c.cfg.ConfirmTimeout
	switch {
	case isUnknown, err == nil && !pending && asked >= c.cfg.DrainTimeout:
		return finding{verdict: ended}
	case pending:
		return finding{verdict: confirmed}
	}
	return finding{}
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

// ask asks AWS once. An error is no answer.
func (c *confirmer) ask(ctx context.Context, e event.Event) (answer, error) {
	switch e.Kind {
	case event.LifecycleTerminating, event.LifecycleLaunching:
		m, err := c.groups.MemberInTurn(ctx, e.InstanceID)
		warmed := m.State.Warmed()
		return answer{finding: judgeMember(e, m), intoPool: &warmed}, err
	case event.ScheduledChange:
		return c.askSchedule(ctx, e.InstanceID)
	case event.DrainRequested:
		return answer{finding: judgeRequest(c.nodes.Find(e.InstanceID))}, nil
	case event.Alarm:
		if f, err := c.askAlarm(ctx, e); err != nil || f.verdict != confirmed {
			return answer{finding: f}, err
		}
	}
	i, err := c.instances.Describe(ctx, e.InstanceID)
	if n, ok := c.nodes.Find(e.InstanceID); ok && isForeign(n, i) {
		return answer{finding: contradicts("EC2 does not know the instance, and its node is Ready")}, err
	}
	return answer{finding: judgeInstance(e, i, time.Now())}, err
}

// askSchedule asks EC2 whether an event is scheduled for the instance, and when that starts.
func (c *confirmer) askSchedule(ctx context.Context, instanceID string) (answer, error) {
	scheduled, err := c.instances.Scheduled(ctx, instanceID)
	if err == nil {
		c.turns.answered(instanceID, scheduled.Any)
	}
	if !scheduled.Any {
		return answer{finding: contradicts("EC2 has no event scheduled for the instance")}, err
	}
	return answer{finding: finding{verdict: confirmed}, notBefore: scheduled.NotBefore}, err
}

// judgeMark judges the event that a node was cordoned for: it is contradicted if the instance does not terminate, and
// has ended if its group or EC2 terminates the instance without this agent. m is what Auto Scaling has just said of the
// instance; nil if it must be asked. An error is no answer.
func (c *confirmer) judgeMark(
	ctx context.Context, n node.Node, m *autoscaling.Member, isDrained bool,
) (f finding, err error) {
	if m == nil {
		m = &autoscaling.Member{}
		if m.State, err = c.groups.State(ctx, n.InstanceID); err != nil {
			return f, err
		}
	}
	e := eventOfMark(n)
	ofHook := e.Kind == event.LifecycleTerminating || e.Kind == event.LifecycleLaunching
	inStandby := m.State == "Standby" && !ofHook // where EC2 terminates it as anywhere else
	switch inService := m.State == "InService"; {
	case !inService && !inStandby && !m.State.Unknown(): // or Undescribed
		return finding{verdict: ended}, nil
	case inService && ofHook, isWarningDecided(n, inService, isDrained):
		return judgeReturned(n), nil
	case ofHook:
		i, err := c.instances.Describe(ctx, n.InstanceID)
		return judgeLeaver(n, i), err
	}
	a, err := c.ask(ctx, e)
	return judgeMarked(n, a.finding, c.cfg.Events.RebalanceTimeout, inStandby), err
}

// askAlarm asks CloudWatch whether the alarm is in the state ALARM. The mark of a node does not name the alarm that it
// was set for: then there is nothing to ask.
func (c *confirmer) askAlarm(ctx context.Context, e event.Event) (finding, error) {
	if e.Alarm == "" {
		return finding{verdict: confirmed}, nil
	}
	on, err := c.alarms.IsInAlarm(ctx, e.Alarm, e.InstanceID)
	if !on {
		return contradicts("the alarm %s is not in the state ALARM for the instance", e.Alarm), err
	}
	return finding{verdict: confirmed}, err
}

// leastContradicted is for how long Auto Scaling must contradict a message at least, however old that is.
const leastContradicted = 5 * time.Second

// contradictionTimeout returns for how long AWS must contradict the event from now on. What a message says about a
// lifecycle action has been true since before it was sent, so that an old answer of Auto Scaling is as old as that, and
// a message that has waited in the queue among thousands of forged ones does not wait here, too. Its own time may be
// earlier than that by mostDelay.
func contradictionTimeout(e event.Event, timeout time.Duration) time.Duration {
	if e.Hook.Name == "" || e.Found {
		return timeout
	}
	age := max(time.Since(e.At)-mostDelay, 0)
	return max(timeout-age, min(leastContradicted, timeout))
}

// isStopped reports whether EC2 says, without delay, that nothing runs on the instance anymore.
func (c *confirmer) isStopped(ctx context.Context, instanceID string) bool {
	state, ok := c.instanceState(ctx, instanceID)
	return ok && state.Stopped()
}

// isFailed reports whether the machine of the node ended before its pods: the node is not Ready, and EC2 says,
// without delay, that the instance is shutting down or that nothing runs on it.
func (c *confirmer) isFailed(ctx context.Context, n node.Node) bool {
	if current, ok := c.nodes.Find(n.InstanceID); ok && current.Ready {
		return false
	}
	state, ok := c.instanceState(ctx, n.InstanceID)
	return ok && (state.Stopped() || state.ShuttingDown())
}

// instanceState returns the state of the instance if EC2 answers without delay.
func (c *confirmer) instanceState(ctx context.Context, instanceID string) (s ec2.State, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, cordonUnconfirmedAfter)
	defer cancel()
	i, err := c.instances.Describe(ctx, instanceID)
	return i.State, err == nil
}
