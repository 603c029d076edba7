package agent

import (
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// mostDelay is how long an event may be on its way into the queue for the time in its message to be believed.
const mostDelay = time.Minute

// dated returns the event of the message with the times that the agent acts on. Whoever can write to the queue chooses
// the times in a message, and deadlines count from them: one in the future would postpone a deadline without limit, one
// in the past would end it at once. SQS itself records when a message was sent. An event that says that it happened
// later than now, or long before that, has happened when its message was sent. AWS may have delivered it late all the
// same, so that a lifecycle action may have begun before.
func dated(m queue.Message, e event.Event) event.Event {
	now := time.Now()
	sent := m.SentAt
	if sent.Unix() <= 0 || sent.After(now) {
		sent = now
	}
	switch {
	case e.At.Unix() <= 0 || e.At.After(now):
		e.At = sent
	case e.At.Before(sent.Add(-mostDelay)):
		e.At, e.Found = sent, e.Hook.Name != ""
	}
	e.Seen, e.Sender = now, m.Sender
	if m.Receives > 1 {
		e.Seen = sent // whoever received it before may have held the action since
	}
	if notice := e.Kind.ShortestNotice(); notice > 0 {
		e.Deadline = laterOf(e.Deadline, sent.Add(notice/2)) // the message may be late, but not by as much
	}
	return e
}

// foundNow returns the event of a lifecycle action that is pending, although no message says since when.
func foundNow(e event.Event) event.Event { return foundAt(e, time.Now()) }

func foundAt(e event.Event, now time.Time) event.Event {
	e.At, e.Found = now, true
	e.Seen = e.At
	return e
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func laterOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
