package agent

import (
	"context"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
)

// startOf returns when the launch of an instance without a message began: when EC2 launched it, so that a restart
// of the agent does not give it its whole time again. An instance of a warm pool, or one that was attached, may
// have been launched long before. So the launch gets the time of recovery at least, and a node that was cordoned
// before, or a hook that could not have waited since, all of its time.
func (l *launcher) startOf(ctx context.Context, e event.Event) time.Time {
	now := time.Now()
	if n, ok := l.nodes.Find(e.InstanceID); ok && !n.Mark.Since.IsZero() {
		return now
	}
	start := l.earliestStart(ctx, e)
	action := actionOf(e)
	action.Found, action.Seen = false, time.Time{}
	if end, err := l.actions.Deadline(ctx, action, start); err != nil || end.Before(now.Add(recovery)) {
		return now
	}
	return start
}

// earliestStart returns when the launch of an instance began at the earliest, whatever its message says: when EC2
// launched it, or the agent cordoned its node before it went into the warm pool; now if EC2 does not say. The launch
// gets the time of recovery at least.
func (l *launcher) earliestStart(ctx context.Context, e event.Event) time.Time {
	now := time.Now()
	latest := now.Add(recovery - l.cfg.Timeout)
	if n, ok := l.nodes.Find(e.InstanceID); ok && !n.Mark.Since.IsZero() {
		return earlier(laterOf(n.Mark.Since, latest), now)
	}
	ctx, cancel := context.WithTimeout(ctx, cordonUnconfirmedAfter)
	defer cancel()
	i, err := l.instances.Describe(ctx, e.InstanceID)
	if err != nil || i.Launched.IsZero() {
		return now
	}
	return earlier(laterOf(i.Launched, latest), now)
}

// launchStarts passes the times of messages to the launches that they join. The zero value is ready.
type launchStarts struct{ byKey sync.Map }

// register returns the channel of a launch that begins. The caller calls done at its end.
func (s *launchStarts) register(e event.Event) (times <-chan time.Time, done func()) {
	one := make(chan time.Time, 1)
	s.byKey.Store(keyOf(e), one)
	return one, func() { s.byKey.Delete(keyOf(e)) }
}

// send passes the time of the event to its launch, if that is in progress. All copies of a message have the same
// time, so one that waits in the channel already is enough.
func (s *launchStarts) send(e event.Event) {
	value, _ := s.byKey.Load(keyOf(e))
	if one, ok := value.(chan time.Time); ok {
		select {
		case one <- e.At:
		default:
		}
	}
}
