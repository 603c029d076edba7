package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// replacer has Auto Scaling groups replace instances.
type replacer interface {
	MarkUnhealthy(ctx context.Context, instanceID string) error
}

var (
	// errCanceled: AWS canceled the event.
	errCanceled = errors.New("the event was canceled")
	// errNoAnswer: EC2 has not answered for as long as a message may take to confirm. The message is delivered
	// again.
	errNoAnswer = errors.New("EC2 does not answer")
	// errNoGroup: no group replaces the instance. It is in none, or Auto Scaling does not let the agent mark it.
	errNoGroup = errors.New("no Auto Scaling group replaces the instance")
)

// shutdownNotice is the time that an instance is assumed to run on when it is stopped or terminated bypassing
// its group. EC2 does not document how long it gives an operating system to shut down.
const shutdownNotice = 30 * time.Second

// notOurNode is why an event of another cluster's or another agent's instance is ignored.
const notOurNode = "the instance is not a node that this agent manages"

// noticeHandler handles events that no lifecycle hook waits for.
type noticeHandler struct {
	cfg        Config
	groups     replacer
	instances  Instances
	nodes      nodeFinder
	observer   eventObserver
	retries    retrier
	terminator *terminator
	spot       *spotWarnings
	requests   *requestLimit
	awaited    awaitedNodes

	maintenance *maintenanceDrains
}

// handle does what is configured for the event. It calls no API for an instance that is not a Node of this
// cluster, but it waits until the instance can no longer become one.
func (h *noticeHandler) handle(ctx context.Context, e event.Event) error {
	if h.cfg.Events.Action(e.Kind) == event.Ignore {
		h.observer.EventIgnored(e, "events of this kind are configured to be ignored")
		return nil
	}
	switch {
	case e.InstanceID != "":
	case isLongOver(e): // else the message would return for as long as EC2 does not answer
		h.observer.EventIgnored(e, "the reservation has ended")
		return nil
	default:
		return h.expandCapacityBlock(ctx, e)
	}
	e, why := withDeadline(e)
	if why == "" {
		if err := h.awaitNode(ctx, e); err != nil {
			return err
		}
		why = h.reasonToIgnore(e)
	}
	if err := h.checkOwner(e); err != nil {
		return err
	}
	if why != "" {
		h.observer.EventIgnored(e, why)
		return nil
	}
	return h.run(ctx, e, func(ctx context.Context, e event.Event) (Outcome, error) {
		return h.requests.do(ctx, e, h.act)
	})
}

// awaitNode waits for the Node of an instance that has none: the instance may be launching, and get pods as soon as it
// has registered. The wait ends with the time that the instance has to register, or to run; overdueAfter then, because
// the clock of AWS may be behind. A warning may be late, and the instance younger than it: with a deadline, the time
// to register counts from now. The wait calls no API, because most instances without a Node are none of this cluster.
// An instance that stops does not register. Beside mostAwaited others none is waited for: whoever can write to the
// queue could otherwise take the place of all other messages.
func (h *noticeHandler) awaitNode(ctx context.Context, e event.Event) error {
	if e.Kind == event.StateChange {
		return nil
	}
	if !h.awaited.begin() {
		return nil
	}
	defer h.awaited.end()
	waiting, cancel := context.WithDeadlineCause(ctx, registrationEnds(e, h.cfg.RegistrationTimeout), errUnregistered)
	defer cancel()
	_, err := h.terminator.nodes.Await(waiting, e.InstanceID, nil)
	if errors.Is(err, errUnregistered) || errors.Is(err, node.ErrUnselected) {
		return nil
	}
	return err
}

// registrationEnds returns until when awaitNode waits.
func registrationEnds(e event.Event, timeout time.Duration) time.Time {
	if e.Deadline.IsZero() {
		return e.At.Add(timeout)
	}
	return earlier(time.Now().Add(timeout), e.Deadline.Add(overdueAfter))
}

// run runs act once for all copies of the event that arrive meanwhile.
func (h *noticeHandler) run(
	ctx context.Context, e event.Event, act func(context.Context, event.Event) (Outcome, error),
) error {
	return h.terminator.run(ctx, e, func(ctx context.Context) (Outcome, error) {
		outcome, err := h.spot.do(ctx, e, act)
		if err != nil {
			return h.terminator.abort(ctx, e, outcome, err)
		}
		return outcome, nil
	})
}

// checkOwner returns an error that releases the message of an event whose node is another agent's, which may
// read the same queue. If none has taken the message for as long as a message may take to confirm, no agent
// reads the queue but this one: it handles the message as one about no node of its own.
func (h *noticeHandler) checkOwner(e event.Event) error {
	if n, _ := h.nodes.Find(e.InstanceID); n.Unselected && time.Since(e.At) < h.cfg.ConfirmTimeout {
		return queue.Release(fmt.Errorf("node %s: %w", n.Name, node.ErrUnselected))
	}
	return nil
}

// withDeadline returns a state change with a deadline, which EC2 does not send, or why it can be ignored. A
// change without a state was made from a node's mark and has its deadline. Maintenance whose start has passed
// loses its deadline: it may be late, and is no reason to delete pods.
func withDeadline(e event.Event) (dated event.Event, reasonToIgnore string) {
	switch state := ec2.State(e.State); {
	case e.Kind == event.ScheduledChange:
		if !e.Deadline.After(time.Now()) {
			e.Deadline = time.Time{}
		}
	case e.Kind != event.StateChange, e.State == "":
	case state.ShuttingDown():
		e.Deadline = e.At.Add(shutdownNotice)
	case state.Stopped():
		e.Deadline = e.At
	default:
		return e, "the instance is " + e.State
	}
	return e, ""
}

// reasonToIgnore returns why the node of the instance requires no action; "" if it does.
func (h *noticeHandler) reasonToIgnore(e event.Event) string {
	n, ok := h.nodes.Find(e.InstanceID)
	switch {
	case !ok:
		return notOurNode
	case n.Manager != "" && !isAskedFor(e.Kind):
		return fmt.Sprintf("the node is managed by %s, which handles such events", n.Manager)
	case !h.terminator.history.isDrained(n) || n.Mark.Deadline.IsZero():
	case e.Kind == event.StateChange, n.Mark.Reason == string(e.Kind):
		return "the node is already drained" // EC2 reports two state changes after a hook is completed
	}
	return "" // what the node is drained for may be over before this event
}

// isAskedFor reports whether a user asked for what the event announces. The other kinds are sent for each instance of
// an account: two programs must not drain a node for the same one.
func isAskedFor(k event.Kind) bool { return k == event.Request || k == event.Alarm }

func (h *noticeHandler) act(ctx context.Context, e event.Event) (Outcome, error) {
	if h.cfg.Events.Action(e.Kind) == event.Replace {
		err := h.replace(ctx, e)
		if err == nil {
			return Replaced, nil
		}
		if !errors.Is(err, errNoGroup) {
			return Interrupted, err
		}
	}
	if e.Kind == event.ScheduledChange {
		return h.actInTime(ctx, e)
	}
	return h.actNow(ctx, e)
}

func (h *noticeHandler) actNow(ctx context.Context, e event.Event) (Outcome, error) {
	if h.cfg.Events.Action(e.Kind) == event.Cordon {
		return h.terminator.cordonInstance(ctx, e)
	}
	return h.terminator.drainInstance(ctx, e)
}

// actAnnounced does what it postponed. AWS has confirmed the maintenance before, and contradicts it now only if
// it was canceled.
func (h *noticeHandler) actAnnounced(ctx context.Context, e event.Event) (Outcome, error) {
	outcome, err := h.actNow(ctx, e)
	if !errors.Is(err, errContradicted) {
		return outcome, err
	}
	if err := h.terminator.cordoner.uncordon(ctx, e, err.Error()); err != nil {
		return Interrupted, err
	}
	return Canceled, nil
}

// actInTime postpones what it does for scheduled maintenance, unless it has begun that already.
func (h *noticeHandler) actInTime(ctx context.Context, e event.Event) (Outcome, error) {
	e = h.terminator.cordoner.scheduled(ctx, e)
	window := e.Deadline
	if n, _ := h.nodes.Find(e.InstanceID); isDrainedForMaintenance(n) {
		window = time.Time{}
	}
	end, ok := h.maintenance.begin(e.InstanceID, window, h.maintenance.nodes.All())
	if !ok {
		return h.announce(ctx, e)
	}
	defer end()
	return h.actNow(ctx, e)
}

// announce records confirmed maintenance on the node, also if the instance registers again meanwhile. The message is
// done with that.
func (h *noticeHandler) announce(ctx context.Context, e event.Event) (Outcome, error) {
	n, err := h.terminator.confirm(ctx, e, func() {})
	if err == nil {
		err = h.terminator.cordoner.onNode(ctx, e, &n, func() error {
			return h.retries.do(ctx, e, "announce the maintenance on node "+n.Name, func() error {
				return h.maintenance.nodes.Announce(ctx, n, e.Deadline)
			})
		})
	}
	if err != nil {
		return notDrained(err)
	}
	h.maintenance.wakeUp()
	return Postponed, nil
}

// How often the agent looks whether a group replaces a marked instance, after how many looks it marks the instance
// again, and after how many it looks no more: after five minutes, and after an hour.
const (
	lookInterval = 15 * time.Second
	looksPerMark = 20
	mostLooks    = 12 * looksPerMark
)

// replace has the instance's group replace it. Until the termination begins, a health check or another client may
// take the mark back, so that it looks again, and marks again. The error is errNoGroup if the instance is in none, or
// in Standby, where no health check has it replaced, if the first call fails for as long as a message may take to
// confirm (the permission may be missing), or if the group has not begun within an hour.
func (h *noticeHandler) replace(ctx context.Context, e event.Event) error {
	if err := h.markUnhealthy(ctx, e); err != nil || h.cfg.DryRun {
		return err
	}
	for look := range mostLooks {
		if !retry.Sleep(ctx, lookInterval) {
			return context.Cause(ctx)
		}
		state, err := h.terminator.confirmer.groups.State(ctx, e.InstanceID)
		switch {
		case err != nil, state == autoscaling.Undescribed:
		case h.isReplaced(ctx, e.InstanceID, state):
			return nil
		case state.Unknown(), state == "Standby":
			return errNoGroup
		case state == "InService" && (look+1)%looksPerMark == 0:
			// errNoGroup: it leaves just now, or Auto Scaling does not answer. The next looks show which.
			if err := h.markUnhealthy(ctx, e); err != nil && !errors.Is(err, errNoGroup) {
				return err
			}
		}
	}
	return errNoGroup
}

// isReplaced reports whether the group of the instance ends it, or has. It may do that so fast that no look has seen it
// terminate: then EC2 says, without delay, that it is shutting down, or that nothing runs on it.
func (h *noticeHandler) isReplaced(ctx context.Context, instanceID string, group autoscaling.State) bool {
	if !group.Unknown() {
		return group.Terminating() || group.Gone()
	}
	state, ok := h.terminator.cordoner.instanceState(ctx, instanceID)
	return ok && (state.ShuttingDown() || state.Stopped())
}

// markUnhealthy marks the instance if EC2 confirms the event.
func (h *noticeHandler) markUnhealthy(ctx context.Context, e event.Event) error {
	if err := h.terminator.confirmer.confirm(ctx, e, func() {}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, h.cfg.ConfirmTimeout, errNoGroup)
	defer cancel()
	err := h.retries.do(ctx, e, "mark the instance unhealthy", func() error {
		return h.groups.MarkUnhealthy(ctx, e.InstanceID)
	})
	if errors.Is(err, autoscaling.ErrGone) {
		return errNoGroup
	}
	return err
}

// expandCapacityBlock handles the end of a Capacity Block as one event for each instance in it.
func (h *noticeHandler) expandCapacityBlock(ctx context.Context, e event.Event) error {
	var ids []string
	listing, cancel := context.WithTimeoutCause(ctx, h.cfg.ConfirmTimeout, errNoAnswer)
	defer cancel()
	err := h.retries.do(listing, e, "list the instances of "+e.ReservationID, func() (err error) {
		ids, err = h.instances.InReservation(listing, e.ReservationID)
		return err
	})
	if err != nil {
		return err
	}
	return forEach(ids, func(id string) error {
		e := e
		e.InstanceID = id
		return h.handle(ctx, e)
	})
}

// cancel stops the drain for scheduled maintenance and uncordons the node, once EC2 confirms that no event is
// scheduled for the instance.
func (h *noticeHandler) cancel(ctx context.Context, e event.Event) error {
	if err := h.checkOwner(e); err != nil {
		return err
	}
	n, ok := h.nodes.Find(e.InstanceID)
	if !ok {
		h.observer.EventIgnored(e, notOurNode)
		return nil
	}
	err := h.confirmCancellation(ctx, e)
	if errors.Is(err, errContradicted) {
		h.observer.EventIgnored(e, "EC2 still has an event scheduled for the instance")
		return nil
	}
	if err != nil {
		return err
	}
	e.Kind = event.ScheduledChange
	h.terminator.inflight.cancel(e, errCanceled)
	why := fmt.Sprintf("the maintenance of instance %s was canceled, or is complete", n.InstanceID)
	return h.terminator.cordoner.uncordon(ctx, e, why)
}

// confirmCancellation returns errContradicted while EC2 has an event scheduled for the instance.
func (h *noticeHandler) confirmCancellation(ctx context.Context, e event.Event) error {
	start := time.Now()
	return h.terminator.confirmer.poll(ctx, e, "confirm the cancellation", func() error {
		scheduled, err := h.instances.Scheduled(ctx, e.InstanceID)
		if scheduled.Any {
			return errContradicted
		}
		return err
	}, func(err error) (bool, error) {
		return time.Since(start) >= h.cfg.ConfirmTimeout, fmt.Errorf("%w: %w", errNoAnswer, err)
	})
}
