package rollout

import (
	"context"

	"github.com/node-drainer/node-drainer/internal/report"
)

// cleanup ends the rollout of a group.
type cleanup struct {
	group    *group
	replacer replacer
	holds    holds
}

// finish adds to the message of an ending what is left behind, and takes the holds back. They stay where AWS
// continues without the trigger, so that the next run finds them.
func (c cleanup) finish(ctx context.Context, end ending) ending {
	if !c.group.state.deleted {
		end.message += c.leftBehind(ctx, end.outcome)
	}
	c.holds.taints.remove(ctx, end)
	return c.holds.suspension.release(ctx, end)
}

// leftBehind stops what is under way if the user wants that of an interrupt, and describes what is left.
func (c cleanup) leftBehind(ctx context.Context, outcome report.Outcome) string {
	switch outcome { //nolint:exhaustive // The others leave nothing behind.
	case report.Interrupted:
		if c.group.cfg.OnInterrupt != Detach {
			return ": " + c.replacer.stop(ctx)
		}
		return ": " + c.replacer.leftBehind()
	case report.TimedOut, report.Stalled:
		return ": " + c.replacer.leftBehind()
	case report.Error, report.Conflict:
		return c.replacer.afterError()
	}
	return ""
}
