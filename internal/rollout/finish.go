package rollout

import (
	"context"

	"github.com/node-drainer/node-drainer/internal/report"
)

// finish adds to the message of an ending what is left behind, and takes back the suspension and the taints.
// They stay where AWS continues without the trigger, so that the next run finds them.
func (r *rollout) finish(ctx context.Context, end ending) ending {
	if !r.group.state.deleted {
		end.message += r.leftBehind(ctx, end.outcome)
	}
	r.taints.remove(ctx, end)
	return r.suspension.release(ctx, end)
}

// leftBehind stops what is under way if the user wants that of an interrupt, and describes what is left.
func (r *rollout) leftBehind(ctx context.Context, outcome report.Outcome) string {
	switch outcome { //nolint:exhaustive // The others leave nothing behind.
	case report.Interrupted:
		if r.group.cfg.OnInterrupt != Detach {
			return ": " + r.replacer.stop(ctx)
		}
		return ": " + r.replacer.leftBehind()
	case report.TimedOut, report.Stalled:
		return ": " + r.replacer.leftBehind()
	case report.Error, report.Conflict:
		return r.replacer.afterError()
	}
	return ""
}
