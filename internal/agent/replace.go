package agent

import (
	"context"
	"errors"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/retry"
)

// How often the agent looks whether a group replaces a marked instance, after how many looks it marks the instance
// again, and after how many it looks no more: after five minutes, and after an hour.
const (
	lookInterval = 15 * time.Second
	looksPerMark = 20
	mostLooks    = 12 * looksPerMark
)

// replace has the instance's group replace it. Until the termination begins, a health check or another client may
// take the mark back, so that it looks again, and marks again. The error is errNoGroup if the instance is in none, or
// in Standby, where no health check has it replaced, if the first call fails for as long as a message may take to
// confirm (the permission may be missing), or if the group has not begun within an hour.
func (c *confirmer) replace(ctx context.Context, w work) error {
	e := w.Event
	if err := c.markUnhealthy(ctx, w); err != nil || c.cfg.DryRun {
		return err
	}
	for look := range mostLooks {
		if !retry.Sleep(ctx, lookInterval) {
			return context.Cause(ctx)
		}
		state, err := c.groups.State(ctx, e.InstanceID)
		switch {
		case err != nil, state == autoscaling.Undescribed:
		case c.isReplaced(ctx, e.InstanceID, state):
			return nil
		case state.Unknown(), state == "Standby":
			return errNoGroup
		case state == "InService" && (look+1)%looksPerMark == 0:
			if err := c.remark(ctx, *w.reason); err != nil {
				return err
			}
		}
	}
	return errNoGroup
}

// isReplaced reports whether the group of the instance ends it, or has. It may do that so fast that no look has seen it
// terminate: then EC2 says, without delay, that it is shutting down, or that nothing runs on it.
func (c *confirmer) isReplaced(ctx context.Context, instanceID string, group autoscaling.State) bool {
	if !group.Unknown() {
		return group.Terminating() || group.Gone()
	}
	state, ok := c.instanceState(ctx, instanceID)
	return ok && (state.ShuttingDown() || state.Stopped())
}

// remark marks the instance again if EC2 still confirms the event. While EC2 does not answer, a later look does.
func (c *confirmer) remark(ctx context.Context, r reason) error {
	for doubts := 0; ; doubts++ {
		a := c.askOnce(ctx, &r)
		switch {
		case a.verdict == confirmed:
			if err := c.groups.MarkUnhealthy(ctx, r.InstanceID); err != nil && ctx.Err() == nil {
				c.observer.Retrying(r.Event, "mark the instance unhealthy", err) // the next looks show whether it leaves
			}
			return nil
		case a.verdict == ended, a.contradicts() && time.Duration(doubts)*lookInterval >= c.cfg.ConfirmTimeout:
			return errContradicted
		}
		if !retry.Sleep(ctx, lookInterval) {
			return context.Cause(ctx)
		}
	}
}

// markUnhealthy marks the instance.
func (c *confirmer) markUnhealthy(ctx context.Context, w work) error {
	if w.failing >= c.cfg.ConfirmTimeout {
		return errNoGroup
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.ConfirmTimeout-w.failing, errNoGroup)
	defer cancel()
	err := c.groups.MarkUnhealthy(ctx, w.InstanceID)
	if errors.Is(err, autoscaling.ErrGone) || errors.Is(context.Cause(ctx), errNoGroup) {
		return errNoGroup
	}
	return err
}
