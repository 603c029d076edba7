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
	"github.com/node-drainer/node-drainer/pkg/node"
)

var (
	// errForged: AWS contradicts the message for as long as it may.
	errForged = errors.New("AWS knows of no such termination")
	// errUnknown: Auto Scaling does not know the instance.
	errUnknown = errors.New("the instance is in no Auto Scaling group")
)

const (
	// markAfter is how long AWS may stay silent before a node is taken out of service unconfirmed: new pods must
	// not come to it. Pods are moved only after the confirmation.
	markAfter = 2 * time.Second
	// urgency is the part of the time until the deadline for which EC2 may stay silent: then the event is
	// believed, since an instance that is taken back waits for nobody. After the same part a node that cannot be
	// marked is drained all the same. It is never less than leastPatience.
	urgency       = 10
	leastPatience = 5 * time.Second
	// overdue is how long after its deadline an instance that still runs shows that it was not taken back.
	overdue = time.Minute
)

// confirm returns nil when AWS says that the instance is going, and autoscaling.ErrGone when it has gone, or is
// past its hooks, or, without an answer, when the node has gone that no hook waits for. Its answers are
// eventually consistent: only if it contradicts the message for long enough, the error is errForged, or
// errUnknown for an instance that is in no group. Any answer sets answered.
func (a *Agent) confirm(ctx context.Context, e event.Event, answered *atomic.Bool) error {
	start := time.Now()
	var doubt doubt
	for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
		verdict := a.ask(ctx, e)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case verdict == nil, errors.Is(verdict, autoscaling.ErrGone):
			return verdict
		case errors.Is(verdict, errForged), errors.Is(verdict, errUnknown):
			answered.Store(true)
			left := doubt.left(a.cfg.ConfirmTimeout)
			if left <= 0 {
				return verdict
			}
			delay = min(delay, left)
		default:
			a.observer.Retrying(e, "confirm the termination", verdict)
			switch {
			case presses(e.Deadline, start):
				return nil
			case a.isOver(ctx, e):
				return autoscaling.ErrGone
			}
		}
		if !retry.Sleep(ctx, delay) {
			return context.Cause(ctx)
		}
	}
}

// doubt is for how long AWS has contradicted a message. Its zero value is ready.
type doubt struct{ since time.Time }

// left is how much of the timeout is left, which begins with the first call.
func (d *doubt) left(timeout time.Duration) time.Duration {
	if d.since.IsZero() {
		d.since = time.Now()
	}
	return timeout - time.Since(d.since)
}

// isOver tells whether the node of an event that no hook waits for has gone, as the API server has it: a
// watch may lag.
func (a *Agent) isOver(ctx context.Context, e event.Event) bool {
	if _, ok := a.nodes.Find(e.InstanceID); ok || e.Hook.Name != "" {
		return false
	}
	_, err := a.nodes.Lookup(ctx, e.InstanceID)
	return errors.Is(err, node.ErrGone)
}

// presses tells whether there is no more time to wait for what should come first.
func presses(deadline, start time.Time) bool {
	return !deadline.IsZero() && time.Since(start) >= max(deadline.Sub(start)/urgency, leastPatience)
}

// ask returns what AWS says of the event: nil confirms it, autoscaling.ErrGone says that it is over, errForged
// and errUnknown contradict it. Any other error is no answer.
func (a *Agent) ask(ctx context.Context, e event.Event) error {
	switch e.Kind {
	case event.LifecycleTerminating:
		state, err := a.hooks.State(ctx, e.InstanceID)
		if err != nil {
			return err
		}
		return ofState(state)
	case event.ScheduledChange:
		scheduled, err := a.instances.HasScheduledEvent(ctx, e.InstanceID)
		if err == nil && !scheduled {
			err = fmt.Errorf("%w: EC2 has no event scheduled for the instance", errForged)
		}
		return err
	}
	i, err := a.instances.Describe(ctx, e.InstanceID)
	if err != nil {
		return err
	}
	return ofInstance(e, i, time.Now())
}

// ofState is what the instance's lifecycle state says of its termination.
func ofState(state autoscaling.State) error {
	switch {
	case state.Terminating():
		return nil
	case state.Gone():
		return autoscaling.ErrGone
	case state.Unknown():
		return errUnknown
	}
	return fmt.Errorf("%w: the instance is %s", errForged, state)
}

// ofInstance is what EC2's description of the instance says of an event of EC2.
func ofInstance(e event.Event, i ec2.Instance, now time.Time) error {
	late := !e.Deadline.IsZero() && now.After(e.Deadline.Add(overdue))
	switch {
	case i.State.Stopped() && e.Kind != event.StateChange:
		return autoscaling.ErrGone
	case i.State.Stopped(), i.State.ShuttingDown():
		return nil
	case e.Kind == event.StateChange:
		return forged("is " + string(i.State))
	case !isTaken(e.Kind, i):
		return forged("is not of those that EC2 takes back so")
	case late:
		return forged("runs although it was to go at " + e.Deadline.Format(time.RFC3339))
	}
	return nil
}

func forged(why string) error { return fmt.Errorf("%w: the instance %s", errForged, why) }

// isTaken tells whether EC2 takes instances like this one back by events of the kind.
func isTaken(k event.Kind, i ec2.Instance) bool {
	if k == event.SpotInterruption || k == event.RebalanceRecommendation {
		return i.Spot
	}
	return i.Reserved
}

// confirmNode returns nil when AWS confirms the termination. If it stays silent, the node is marked
// meanwhile.
func (a *Agent) confirmNode(ctx context.Context, e event.Event, n node.Node) error {
	var answered atomic.Bool
	confirmed := make(chan error, 1)
	go func() { confirmed <- a.confirm(ctx, e, &answered) }()
	timer := time.NewTimer(markAfter)
	defer timer.Stop()
	select {
	case err := <-confirmed:
		return judge(n, err)
	case <-timer.C:
	}
	if !answered.Load() {
		_, _, err := a.nodes.Cordon(ctx, n, reason(e, time.Time{}))
		if err != nil {
			a.observer.Retrying(e, "mark node "+n.Name, err) // marked again when confirmed
		}
	}
	return judge(n, <-confirmed)
}

// judge is what Auto Scaling's verdict means for an instance that has a node. The termination of an instance
// that no group knows was no forgery if the node has been marked with a deadline, as is done after the
// confirmation: it is long over.
func judge(n node.Node, verdict error) error {
	switch {
	case !errors.Is(verdict, errUnknown):
		return verdict
	case n.Mark.Deadline.IsZero():
		return fmt.Errorf("%w: %w", errForged, verdict)
	}
	return autoscaling.ErrGone
}

// restore takes the mark of an event off the node of its instance, if there is one. Another event's mark, and
// a node that is being drained, is left alone. It does so for as long as this process runs, and not under the
// hold: that ends when no group knows the instance.
func (a *Agent) restore(ctx context.Context, e event.Event, why string) error {
	n, ok := a.nodes.Find(e.InstanceID)
	if !ok || a.drains.has(n.UID) || n.Mark.Reason != "" && n.Mark.Reason != string(e.Kind) {
		return nil
	}
	err := a.retry(ctx, e, "take the mark off node "+n.Name, func() error {
		restored, err := a.nodes.Uncordon(ctx, n)
		if restored && err == nil {
			a.swept.restored(n.UID)
			a.observer.NodeUncordoned(n, why)
		}
		return err
	})
	if errors.Is(err, node.ErrGone) {
		return nil
	}
	return err
}
