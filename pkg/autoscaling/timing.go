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
// global timeout less the configured margin. Auto Scaling may refuse to describe the hook, for example if a
// permission is missing. The deadline is then that of the shortest hook there can be; an action that has
// waited for longer has another hook, and counts as one that begins now. One that was found (Action.Found) counts
// from a heartbeat timeout before the given instant: Auto Scaling would have ended an older one without a heartbeat
// (docs.aws.amazon.com/autoscaling/ec2/userguide/lifecycle-hooks.html).
func (h *Hooks) Deadline(ctx context.Context, a Action, began time.Time) (time.Time, error) {
	t, err := h.Timing(ctx, a)
	switch {
	case err == nil:
		return h.deadline(a, began, t), nil
	case !isRefused(err):
		return time.Time{}, err
	}
	h.observer.AutoScalingFailed("read the timeouts of "+a.String(), err)
	if now := time.Now(); !h.deadline(a, began, shortest).After(now) {
		began = now
	}
	return h.deadline(a, began, shortest), nil
}

func (h *Hooks) deadline(a Action, began time.Time, t Timing) time.Time {
	if a.Found {
		began = began.Add(-t.Heartbeat)
	}
	return began.Add(t.Global - min(h.cfg.Margin, t.Global/10))
}
