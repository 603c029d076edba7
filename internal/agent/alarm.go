package agent

import (
	"context"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/retry"
)

// alarmTurns let the agent act on one alarm of each group at a time: CloudWatch confirms an alarm that anyone has put
// who may put one. So they take the nodes of a group one by one, and not all at once.
type alarmTurns struct {
	*systems

	mu   sync.Mutex
	busy map[string]chan struct{} // by group; closed at the end of the handling
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

// begin waits until no other alarm of the instance's group is acted on. The caller calls the returned function at
// its end. Instances that are in no group count as one group.
func (l *alarmTurns) begin(ctx context.Context, e event.Event) (end func(), err error) {
	group, err := l.groups.GroupOf(ctx, e.InstanceID)
	if err != nil {
		return nil, err
	}
	for {
		l.mu.Lock()
		other, isBusy := l.busy[group]
		if !isBusy {
			defer l.mu.Unlock()
			return l.take(group), nil
		}
		l.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// take must be called with mu locked.
func (l *alarmTurns) take(group string) (end func()) {
	ended := make(chan struct{})
	if l.busy == nil {
		l.busy = map[string]chan struct{}{}
	}
	l.busy[group] = ended
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.busy, group)
		close(ended)
	}
}
