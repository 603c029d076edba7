package agent

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/autoscaling"
	"github.com/node-drainer/node-drainer/pkg/ec2"
	"github.com/node-drainer/node-drainer/pkg/event"
)

var (
	// errCanceled: the event has been called off.
	errCanceled = errors.New("the event has been canceled")
	// errSilent: EC2 has said nothing for as long as a message is confirmed. The message comes again.
	errSilent = errors.New("EC2 does not answer")
)

// shutdownNotice is how long an instance that is being stopped or terminated past its group is taken to run
// on. EC2 does not say how long it gives an operating system to shut down.
const shutdownNotice = 30 * time.Second

// notice serves an event that no hook waits for. That of an instance which is no Node here, and so most
// likely of another cluster, costs no call.
func (a *Agent) notice(ctx context.Context, e event.Event) error {
	if why := a.idle(&e); why != "" {
		a.observer.EventIgnored(e, why)
		return nil
	}
	return a.hand.take(ctx, e, func(ctx context.Context) error {
		return a.tell(e, func() (Outcome, error) { return a.heed(ctx, e) })
	})
}

// idle returns why nothing is to be done about the event, which it dates; "" if something is.
func (a *Agent) idle(e *event.Event) string {
	if why := date(e); why != "" {
		return why
	}
	if a.cfg.Events.Action(e.Kind) == event.Ignore {
		return "events of this kind are ignored"
	}
	n, ok := a.nodes.Find(e.InstanceID)
	switch {
	case !ok:
		return "no node is of the instance"
	case a.swept.isDrained(n) && !n.Mark.Deadline.IsZero():
		return "the node has been drained" // an instance changes its state twice when its hook has let it go
	}
	return ""
}

// date gives a change of state the deadline that EC2 does not tell, or returns why it needs none. One without
// a state is that of a mark, which has the deadline. Maintenance that was to begin before now has no deadline
// any more: it may be under way, or be late, and is no reason to kill pods.
func date(e *event.Event) (why string) {
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
		return "the instance is " + e.State
	}
	return ""
}

// heed does what is configured for the event.
func (a *Agent) heed(ctx context.Context, e event.Event) (Outcome, error) {
	outcome, err := a.act(ctx, e)
	if err != nil {
		return a.verdict(ctx, e, outcome, err)
	}
	return outcome, nil
}

func (a *Agent) act(ctx context.Context, e event.Event) (Outcome, error) {
	switch a.cfg.Events.Action(e.Kind) {
	case event.Cordon:
		_, _, err := a.mark(ctx, e)
		return or(Cordoned, err)
	case event.Replace:
		err := a.replace(ctx, e)
		if !errors.Is(err, errNoGroup) {
			return or(Replaced, err)
		}
	}
	return a.vacate(ctx, e)
}

// or is the outcome of what has ended with err.
func or(outcome Outcome, err error) (Outcome, error) {
	switch {
	case errors.Is(err, errUnregistered):
		return Unregistered, nil
	case err != nil:
		return Interrupted, err
	}
	return outcome, nil
}

// errNoGroup: nobody would replace the instance. It is in no Auto Scaling group, or its group cannot be told.
var errNoGroup = errors.New("no Auto Scaling group replaces the instance")

// replace has the group of the instance replace it. The error is errNoGroup if there is none, or if it could
// not be told for as long as a message is confirmed: the permission may be missing.
func (a *Agent) replace(ctx context.Context, e event.Event) error {
	if err := a.confirm(ctx, e, new(atomic.Bool)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, a.cfg.ConfirmTimeout, errNoGroup)
	defer cancel()
	err := a.retry(ctx, e, "have the instance replaced", func() error {
		return a.hooks.MarkUnhealthy(ctx, e.InstanceID)
	})
	if errors.Is(err, autoscaling.ErrGone) {
		return errNoGroup
	}
	return err
}

// expire serves the end of a Capacity Block, for each instance in it that is a Node here.
func (a *Agent) expire(ctx context.Context, e event.Event) error {
	if a.cfg.Events.Action(e.Kind) == event.Ignore {
		a.observer.EventIgnored(e, "events of this kind are ignored")
		return nil
	}
	var ids []string
	asking, cancel := context.WithTimeoutCause(ctx, a.cfg.ConfirmTimeout, errSilent)
	defer cancel()
	err := a.retry(asking, e, "list the instances of "+e.ReservationID, func() (err error) {
		ids, err = a.instances.InReservation(asking, e.ReservationID)
		return err
	})
	if err != nil {
		return err
	}
	return forEach(ids, func(id string) error {
		e := e
		e.InstanceID = id
		return a.notice(ctx, e)
	})
}

// cancel puts the node of an instance back into service if EC2 confirms that nothing is scheduled for it any
// more.
func (a *Agent) cancel(ctx context.Context, e event.Event) error {
	n, ok := a.nodes.Find(e.InstanceID)
	if !ok {
		a.observer.EventIgnored(e, "no node is of the instance")
		return nil
	}
	since := time.Now()
	for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
		scheduled, err := a.instances.HasScheduledEvent(ctx, e.InstanceID)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			a.observer.Retrying(e, "confirm the cancellation", err)
			if time.Since(since) >= a.cfg.ConfirmTimeout {
				return fmt.Errorf("%w: %w", errSilent, err)
			}
		case !scheduled:
			called := e
			called.Kind = event.ScheduledChange
			a.hand.stop(called, errCanceled)
			why := fmt.Sprintf("what was scheduled for instance %s is off or over", n.InstanceID)
			return a.restore(ctx, called, why)
		case time.Since(since) >= a.cfg.ConfirmTimeout:
			a.observer.EventIgnored(e, "EC2 has an event scheduled for the instance")
			return nil
		}
		if !retry.Sleep(ctx, delay) {
			return context.Cause(ctx)
		}
	}
}
