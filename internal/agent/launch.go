package agent

import (
	"context"
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/launch"
)

// LaunchConfig configures how launches are handled.
type LaunchConfig struct {
	Timeout  time.Duration // from the time of the event until the node must be ready
	Continue bool          // complete a launch that timed out with CONTINUE instead of ABANDON
}

// launcher knows when launches began.
type launcher struct{ *systems }

// launchOutcome returns the outcome of a launch for that of a reason.
func launchOutcome(outcome string) launch.Outcome {
	if outcome == string(CutShort) {
		return launch.Gone
	}
	return launch.Outcome(outcome)
}

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
	if end, err := l.groups.Deadline(ctx, action, start); err != nil || end.Before(now.Add(recovery)) {
		return now
	}
	return start
}

// earliestStart returns when the launch of an instance began at the earliest, whatever its message says: when EC2
// launched it, or the agent cordoned its node before it went into the warm pool; now if EC2 does not say. The launch
// gets the time of recovery at least.
func (l *launcher) earliestStart(ctx context.Context, e event.Event) time.Time {
	now := time.Now()
	latest := now.Add(recovery - l.cfg.Launch.Timeout)
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
