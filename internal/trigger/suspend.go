package trigger

import (
	"context"
	"strings"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// suspend suspends the processes that the group is to do without meanwhile. A rollout goes on without that.
func (r *rollout) suspend(ctx context.Context) {
	if len(r.cfg.Suspend) == 0 {
		return
	}
	ctx, cancel := calling(ctx)
	defer cancel()
	suspended, err := r.writer.Suspend(ctx, r.group, r.cfg.Suspend)
	switch {
	case err != nil:
		r.card.note(refresh.Warn, "the rollout goes on with all processes of the group: %v", err)
	case len(suspended) > 0:
		r.card.note(refresh.OK, "suspended meanwhile: %s", strings.Join(suspended, ", "))
	}
}

// release resumes what this run has suspended, or one that was killed, unless the rollout goes on without the
// trigger.
func (r *rollout) release(ctx context.Context, e ending) {
	if r.goesOn(e) || len(r.cfg.Suspend)+len(refresh.SuspendedBy(r.group)) == 0 {
		return
	}
	ctx, cancel := calling(ctx)
	defer cancel()
	g, err := r.reader.Group(ctx, r.group.Name)
	var resumed []string
	if err == nil {
		resumed, err = r.writer.Release(ctx, g)
	}
	switch {
	case err != nil:
		r.card.note(refresh.Warn, "processes of the group may still be suspended, run trigger resume: %v", err)
	case len(resumed) > 0:
		r.card.note(refresh.OK, "resumed: %s", strings.Join(resumed, ", "))
	}
}

// goesOn tells whether AWS goes on with a rollout that ended so, so that the next run is to find it as it is.
// In ModeUnhealthy it does nothing alone.
func (r *rollout) goesOn(e ending) bool {
	if r.cfg.Mode == refresh.ModeUnhealthy {
		return false
	}
	switch e.outcome { //nolint:exhaustive // The others are over.
	case report.Left, report.TimedOut, report.Stalled, report.Broken:
		return true
	case report.Interrupted:
		return r.cfg.OnInterrupt == Detach
	}
	return false
}
