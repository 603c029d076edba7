package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

var (
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
	*systems

	records *records
	awaited awaitedNodes
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
	return h.records.handle(ctx, e)
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
	_, err := h.nodes.Await(waiting, e.InstanceID, nil)
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
	case n.Manager != "" && e.Kind != event.Alarm:
		return fmt.Sprintf("the node is managed by %s, which handles such events", n.Manager)
	case !h.records.isDrained(n) || n.Mark.Deadline.IsZero():
	case e.Kind == event.StateChange, n.Mark.Reason == string(e.Kind):
		return "the node is already drained" // EC2 reports two state changes after a hook is completed
	}
	return "" // what the node is drained for may be over before this event
}

// expandCapacityBlock handles the end of a Capacity Block as one event for each instance in it.
func (h *noticeHandler) expandCapacityBlock(ctx context.Context, e event.Event) error {
	var ids []string
	listing, cancel := context.WithTimeoutCause(ctx, h.cfg.ConfirmTimeout, errNoAnswer)
	defer cancel()
	list := func() (err error) {
		ids, err = h.instances.InReservation(listing, e.ReservationID)
		return err
	}
	failed := func(err error) { h.observer.Retrying(e, "list the instances of "+e.ReservationID, err) }
	err := retry.Do(listing, retry.Backoff(firstPause, longestPause), list, func(error) bool { return false }, failed)
	if err != nil {
		return err
	}
	return forEach(ids, func(id string) error {
		e := e
		e.InstanceID = id
		return h.handle(ctx, e)
	})
}

// cancel ends the drain for scheduled maintenance and uncordons the node, once EC2 confirms that no event is
// scheduled for the instance.
func (h *noticeHandler) cancel(ctx context.Context, e event.Event) error {
	if err := h.checkOwner(e); err != nil {
		return err
	}
	if _, ok := h.nodes.Find(e.InstanceID); !ok {
		h.observer.EventIgnored(e, notOurNode)
		return nil
	}
	return h.records.handle(ctx, e)
}
