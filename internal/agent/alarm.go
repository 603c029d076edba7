package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/retry"
)

// alarmTurns let the agent act on one alarm of each group at a time, and on a few in an hour: CloudWatch confirms an
// alarm that anyone has put who may put one. So they take few nodes of a group, one by one.
type alarmTurns struct {
	*systems

	mu      sync.Mutex
	alarmed map[string]*alarmedGroup
}

// alarmedGroup is what is known of a group that has had an alarm.
type alarmedGroup struct {
	busy  chan struct{} // closed at the end of the handling; nil if there is none
	acted []time.Time   // when the last ones began that were acted on: as many as may be in an hour
}

// longestLook is how often the agent asks at least whether an instance has left its group, which hooks can hold for
// days.
const longestLook = 5 * time.Minute

// awaitDeparture returns nil when the instance does not leave its group any more: it has left, or is in service again
// with another root volume. It gives up after the longest time for which Auto Scaling lets hooks hold an instance.
func (l *alarmTurns) awaitDeparture(ctx context.Context, instanceID string) error {
	waiting, cancel := context.WithTimeout(ctx, longestAction)
	defer cancel()
	pauses := retry.Backoff(lookInterval, longestLook)
	for retry.Sleep(waiting, pauses.Step()) {
		state, err := l.groups.State(waiting, instanceID)
		if err == nil && state != autoscaling.Undescribed && !state.Terminating() {
			return nil
		}
	}
	return context.Cause(ctx)
}

// begin waits until no other alarm of the instance's group is acted on, and fewer than the most were within the last
// hour. The caller calls the returned function at its end, and says whether it has acted. Instances that are in no
// group count as one group.
func (l *alarmTurns) begin(ctx context.Context, e event.Event) (end func(acted bool), err error) {
	group, err := l.groups.GroupOf(ctx, e.InstanceID)
	if err != nil {
		return nil, err
	}
	for {
		end, other, until := l.take(group)
		if end != nil {
			return end, nil
		}
		var timer <-chan time.Time
		if other == nil {
			timer = time.After(time.Until(until))
		}
		select {
		case <-other:
		case <-timer:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// take takes the turn, or returns what to wait for: the end of another one, or the time at which the next may begin.
func (l *alarmTurns) take(group string) (end func(acted bool), other <-chan struct{}, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.alarmed[group]
	if g == nil {
		g = &alarmedGroup{}
	}
	now := time.Now()
	g.acted = slices.DeleteFunc(g.acted, func(t time.Time) bool { return !t.Add(time.Hour).After(now) })
	switch {
	case g.busy != nil:
		return nil, g.busy, time.Time{}
	case len(g.acted) >= l.cfg.Events.AlarmsPerHour:
		return nil, nil, g.acted[0].Add(time.Hour)
	}
	if l.alarmed == nil {
		l.alarmed = map[string]*alarmedGroup{}
	}
	l.alarmed[group], g.busy = g, make(chan struct{})
	return func(acted bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		close(g.busy)
		if g.busy = nil; acted {
			g.acted = append(g.acted, now)
		}
		if len(g.acted) == 0 {
			delete(l.alarmed, group)
		}
	}, nil, time.Time{}
}
