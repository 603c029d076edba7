package autoscaling

import (
	"cmp"
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Timing is how long a lifecycle hook waits.
type Timing struct {
	Heartbeat time.Duration // until the action times out, counted again from each heartbeat
	Global    time.Duration // until it times out whatever the heartbeats
}

// endangers is from when on the next heartbeat of an action is urgent whose last one was sent at the time: a call may
// have to be repeated.
func (t Timing) endangers(last time.Time) time.Time {
	return last.Add(t.Heartbeat - max(t.Heartbeat/8, callTimeout))
}

// shortest is the timing to assume while the hook's own is unknown.
//
//nolint:gochecknoglobals // a constant
var shortest = Timing{refresh.MinHeartbeatTimeout, refresh.GlobalTimeout(refresh.MinHeartbeatTimeout)}

// timingOf fills in what Auto Scaling leaves out.
func timingOf(h types.LifecycleHook) Timing {
	heartbeat := cmp.Or(max(seconds(h.HeartbeatTimeout), 0), refresh.DefaultHeartbeatTimeout)
	return Timing{heartbeat, cmp.Or(max(seconds(h.GlobalTimeout), 0), refresh.GlobalTimeout(heartbeat))}
}

func seconds(n *int32) time.Duration { return time.Duration(aws.ToInt32(n)) * time.Second }

// Timing returns how long the action's hook waits. The answer is kept for five minutes. The error is ErrGone
// if the group has no such hook.
func (h *Hooks) Timing(ctx context.Context, a Action) (Timing, error) {
	found, err := h.hook(ctx, a.Group, a.Hook)
	return timingOf(found), err
}

// Deadline returns the instant by which an action that began at the given one must be completed: the hook's
// global timeout less the configured margin. An action began at most a heartbeat timeout before it was first seen
// (Action.Seen), whatever its message says: Auto Scaling would have ended an older one without a heartbeat
// (docs.aws.amazon.com/autoscaling/ec2/userguide/lifecycle-hooks.html). One without a message that says when it began
// (Action.Found) counts from there. Auto Scaling may refuse to describe the hook, for example if a permission is
// missing: then the hook counts as the shortest there can be. An action that has waited for longer than its hook allows
// counts as one that begins now: what says when it began is wrong, or it has another hook.
func (h *Hooks) Deadline(ctx context.Context, a Action, began time.Time) (time.Time, error) {
	t, err := h.Timing(ctx, a)
	isGuess := isRefused(err)
	if isGuess {
		h.observer.AutoScalingFailed("read the timeouts of "+a.String(), err)
		t, err = shortest, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	return h.deadline(a, began, t, isGuess), nil
}

// ShortestDeadline is Deadline for a hook with the shortest timeouts that there are.
func (h *Hooks) ShortestDeadline(a Action, began time.Time) time.Time {
	return h.deadline(a, began, shortest, true)
}

func (h *Hooks) deadline(a Action, began time.Time, t Timing, isGuess bool) time.Time {
	if first := a.Seen.Add(-t.Heartbeat); !a.Seen.IsZero() && (a.Found || began.Before(first)) {
		began = first
	}
	margin := min(h.cfg.Margin, t.Global/10)
	end := began.Add(t.Global)
	if isGuess {
		end = end.Add(-margin)
	}
	if now := time.Now(); !end.After(now) && (isGuess || !a.Seen.IsZero()) {
		began = now
	}
	return began.Add(t.Global - margin)
}
