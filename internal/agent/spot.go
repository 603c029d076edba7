package agent

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/retry"
)

// spotRequests reads the Spot Instance requests of instances.
type spotRequests interface {
	SpotRequest(ctx context.Context, instanceID string) (ec2.SpotRequest, error)
}

// spotObserver records what EC2 says of instances whose interruption a message announces.
type spotObserver interface {
	SpotStatusRead(e event.Event, status ec2.SpotStatus)
	SpotStatusFailed(e event.Event, err error, first bool)
}

const (
	// spotAnswerTimeout is how long EC2 may take to answer. Then the warning is believed: it leaves two minutes.
	spotAnswerTimeout = 2 * time.Second
	// spotContradicted is for how long EC2 must contradict a warning before the message counts as unconfirmed.
	spotContradicted = 30 * time.Second
	// longestSpotPause is the longest pause between two questions.
	longestSpotPause = 5 * time.Second
)

// spotWarnings acts on Spot interruption warnings. EC2's description of an instance says only that it is a Spot
// Instance. The status of its request also says whether EC2 interrupts it.
type spotWarnings struct {
	requests spotRequests
	nodes    nodeFinder
	observer spotObserver
	failing  atomic.Bool // the last question had no answer
}

// do acts on the event. While the status of the request contradicts a warning, do acts on it without its
// deadline: the node is cordoned, and pods are evicted within their budgets, unless another event does that
// already. When EC2 confirms the warning, do acts on it with the deadline, which tightens the same drain. If EC2
// contradicts it for spotContradicted, do stops the drain, and the error is errContradicted. A status that EC2
// does not say is no contradiction, and neither is any other than that of a running instance: AWS documents the
// codes, and not when each is set.
func (w *spotWarnings) do(
	ctx context.Context, e event.Event, act func(context.Context, event.Event) (Outcome, error),
) (Outcome, error) {
	if e.Kind != event.SpotInterruption || isLongOver(e) {
		return act(ctx, e)
	}
	q := spotQuestion{spotWarnings: w, event: e}
	if err := q.ask(ctx); !errors.Is(err, errContradicted) {
		return act(ctx, q.event)
	}
	if !w.hasOtherDrain(e) {
		undated := e
		undated.Deadline = time.Time{}
		stop := background(ctx, func(ctx context.Context) { _, _ = act(ctx, undated) })
		defer stop()
	}
	if err := q.askUntilConfirmed(ctx); err != nil {
		return Interrupted, err
	}
	return act(ctx, q.event)
}

// hasOtherDrain reports whether the node has a deadline by another event. Acting on a warning that EC2
// contradicts would bring that deadline forward for good.
func (w *spotWarnings) hasOtherDrain(e event.Event) bool {
	n, _ := w.nodes.Find(e.InstanceID)
	return !n.Mark.Deadline.IsZero() && n.Mark.Reason != string(e.Kind)
}

// isLongOver reports whether EC2 would have terminated the instance by now. An event without a deadline is from a
// mark that was set while EC2 contradicted the warning: then the process ended before that was decided.
func isLongOver(e event.Event) bool {
	return !e.Deadline.IsZero() && time.Now().After(e.Deadline.Add(overdueAfter))
}

// spotQuestion asks for the status of one request.
type spotQuestion struct {
	*spotWarnings
	event event.Event
	read  bool
	last  ec2.SpotStatus
}

// askUntilConfirmed returns nil when EC2 no longer contradicts the warning, or does not answer at the end, and
// errContradicted if EC2 contradicts it for spotContradicted.
func (q *spotQuestion) askUntilConfirmed(ctx context.Context) error {
	start, pauses := time.Now(), retry.Backoff(firstPause, longestSpotPause)
	for {
		left := spotContradicted - time.Since(start)
		if !retry.Sleep(ctx, min(pauses.Step(), left)) {
			return context.Cause(ctx)
		}
		err := q.ask(ctx)
		switch {
		case err == nil:
			return nil
		case time.Since(start) < spotContradicted:
		case errors.Is(err, errContradicted):
			return err
		default:
			return nil
		}
	}
}

// ask returns nil if EC2 does not contradict the warning, errContradicted if it does, and another error if it
// does not answer.
func (q *spotQuestion) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, spotAnswerTimeout)
	defer cancel()
	request, err := q.requests.SpotRequest(ctx, q.event.InstanceID)
	if err != nil {
		q.observer.SpotStatusFailed(q.event, err, !q.failing.Swap(true))
		return err
	}
	q.failing.Store(false)
	status := request.Status
	if status.Marked() && !request.Since.IsZero() {
		q.event.Deadline = interruptionEnd(q.event, request.Since)
	}
	if !q.read || status != q.last {
		q.observer.SpotStatusRead(q.event, status)
	}
	q.read, q.last = true, status
	if status.Running() {
		return fmt.Errorf("%w: the status of its Spot Instance request is %s", errContradicted, status)
	}
	return nil
}

// interruptionEnd returns when EC2 takes the instance whose request has been marked since then. The time in the message
// does not count. EC2 may set the status later than it sends the warning, but it sends none before the interruption is
// certain: it takes the instance two minutes after the message was sent at the latest. The deadline of a mark, which
// came from a message, is kept if it is earlier.
func interruptionEnd(e event.Event, marked time.Time) time.Time {
	end := marked.Add(event.SpotNotice)
	switch {
	case !e.Seen.IsZero():
		return earlier(end, e.Seen.Add(event.SpotNotice))
	case !e.Deadline.IsZero():
		return earlier(end, e.Deadline)
	}
	return end
}
