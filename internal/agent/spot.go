package agent

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/retry"
)

const (
	// spotAnswerTimeout is how long EC2 may take to answer. Then the warning is believed: it leaves two minutes.
	spotAnswerTimeout = 2 * time.Second
	// spotContradicted is for how long EC2 must contradict a warning before the message counts as unconfirmed.
	spotContradicted = 30 * time.Second
	// longestSpotPause is the longest pause between two questions.
	longestSpotPause = 5 * time.Second
)

// spotWarnings asks EC2 about Spot interruption warnings. EC2's description of an instance says only that it is a Spot
// Instance. The status of its request also says whether EC2 interrupts it.
type spotWarnings struct {
	*systems

	failing atomic.Bool // the last question had no answer
}

// spotAnswer is what EC2 has said of the Spot Instance request of a warning.
type spotAnswer struct {
	asked    bool // EC2 has contradicted the warning
	decided  bool // whether to believe it
	next     time.Time
	pauses   retry.Pauses
	read     bool
	status   ec2.SpotStatus
	deadline time.Time // of the warning, which does not count until it is decided
}

// heardSpot records an answer. While the status of the request contradicts the warning, its deadline does not count:
// the node is cordoned, and pods are evicted within their budgets. If EC2 contradicts the warning for spotContradicted,
// it is over. A status that EC2 does not say is no contradiction, and neither is any other than that of a running
// instance: AWS documents the codes, and not when each is set.
func (r *reason) heardSpot(request spotStatus, now time.Time) {
	s := &r.spot
	if !s.asked && !s.decided {
		s.deadline, s.pauses = r.Deadline, retry.Backoff(firstPause, longestSpotPause)
		r.began = now
	}
	isLast := s.asked && !now.Before(r.began.Add(spotContradicted))
	s.next = earlier(now.Add(s.pauses.Step()), r.began.Add(spotContradicted))
	switch {
	case request.err != nil:
		s.decided = !s.asked || isLast
	case request.status.Running():
		s.read, s.status = true, request.status
		s.asked, r.Deadline = true, time.Time{}
		if isLast {
			r.answer = contradicts("the status of its Spot Instance request is %s", request.status)
			r.confirmed = time.Time{}
		}
		return
	default:
		s.read, s.status, s.decided = true, request.status, true
		if request.status.Marked() && !request.since.IsZero() {
			r.Deadline = s.deadline
			s.deadline = interruptionEnd(r.Event, request.since)
		}
	}
	if s.decided {
		r.Deadline = s.deadline
	}
}

// isLongOver reports whether EC2 would have terminated the instance by now. An event without a deadline is from a
// mark that was set while EC2 contradicted the warning: then the process ended before that was decided.
func isLongOver(e event.Event) bool { return isLongOverAt(e, time.Now()) }

func isLongOverAt(e event.Event, now time.Time) bool {
	return !e.Deadline.IsZero() && now.After(e.Deadline.Add(overdueAfter))
}

// spotStatus is the status of a request, or why there is none.
type spotStatus struct {
	status ec2.SpotStatus
	since  time.Time
	err    error
}

// ask asks once. last is what is known.
func (w *spotWarnings) ask(ctx context.Context, e event.Event, last spotAnswer) spotStatus {
	asking, cancel := context.WithTimeout(ctx, spotAnswerTimeout)
	defer cancel()
	request, err := w.instances.SpotRequest(asking, e.InstanceID)
	switch {
	case err != nil && ctx.Err() == nil:
		w.observer.SpotStatusFailed(e, err, !w.failing.Swap(true))
	case err == nil:
		w.failing.Store(false)
		if !last.read || request.Status != last.status {
			w.observer.SpotStatusRead(e, request.Status)
		}
	}
	return spotStatus{request.Status, request.Since, err}
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
