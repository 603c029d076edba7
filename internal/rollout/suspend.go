package rollout

import (
	"context"
	"fmt"
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

// release resumes what this run has suspended, or one that was killed. It stays suspended where a refresh
// goes on without the trigger, and the ending says so.
func (r *rollout) release(ctx context.Context, e ending) ending {
	if len(r.cfg.Suspend)+len(refresh.SuspendedBy(r.group)) == 0 {
		return e
	}
	ctx, cancel := calling(ctx)
	defer cancel()
	g, err := r.reader.Group(ctx, r.group.Name)
	if err != nil {
		r.unreleased(err)
		return e
	}
	ours := refresh.SuspendedBy(g)
	if len(ours) == 0 {
		return e
	}
	switch stays, err := r.refreshing(ctx, e); {
	case err != nil:
		r.unreleased(err)
	case stays:
		e.message += fmt.Sprintf("; still suspended: %s; the next run resumes that, or trigger resume --asg %s",
			strings.Join(ours, ", "), g.Name)
	default:
		r.resume(ctx, g)
	}
	return e
}

// refreshing asks whether AWS goes on to replace instances of the group. A refresh that was just started, and
// left to AWS, may not be shown yet. In ModeUnhealthy nothing goes on alone.
func (r *rollout) refreshing(ctx context.Context, e ending) (bool, error) {
	switch {
	case r.cfg.Mode == refresh.ModeUnhealthy:
		return false, nil
	case e.outcome == report.Detached:
		return true, nil
	}
	active, err := r.active(ctx, r.group.Name)
	return active != nil && active.Status != refresh.StatusCancelling, err
}

// resume resumes what the trigger has suspended, whatever goes on.
func (r *rollout) resume(ctx context.Context, g refresh.Group) {
	ctx, cancel := calling(ctx)
	defer cancel()
	resumed, err := r.writer.Release(ctx, g)
	switch {
	case err != nil:
		r.unreleased(err)
	case len(resumed) > 0:
		r.card.note(refresh.OK, "resumed: %s", strings.Join(resumed, ", "))
	}
}

func (r *rollout) unreleased(err error) {
	r.card.note(refresh.Warn, "processes of the group may still be suspended, run trigger resume: %v", err)
}
