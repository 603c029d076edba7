package rollout

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// processWriter suspends processes of a group, and tags the group with them. Release resumes those of the
// tag, or only some of them.
type processWriter interface {
	Suspend(ctx context.Context, g refresh.Group, processes []string) (suspended []string, err error)
	Release(ctx context.Context, g refresh.Group, only ...string) (resumed []string, err error)
}

// suspension suspends processes of the group for the rollout.
type suspension struct {
	group *group
	aws   processWriter
}

// suspend suspends the processes of Config.Suspend, if anything is to be replaced. The rollout continues if
// that fails.
func (s *suspension) suspend(ctx context.Context) {
	g := s.group
	if len(g.cfg.Suspend) == 0 || !g.state.anyOutdated() {
		return
	}
	ctx, cancel := uncancelled(ctx)
	defer cancel()
	suspended, err := s.aws.Suspend(ctx, g.state.group, g.cfg.Suspend)
	switch {
	case err != nil:
		g.progress.note(refresh.Warn, "the rollout continues without suspending processes: %v", err)
	case len(suspended) > 0:
		g.progress.note(refresh.OK, "suspended for the rollout: %s", strings.Join(suspended, ", "))
	}
}

// release resumes what this run has suspended, or one that was killed. It stays suspended where a refresh
// continues without the trigger, and the ending says so.
func (s *suspension) release(ctx context.Context, end ending) ending {
	if len(s.group.cfg.Suspend)+len(refresh.SuspendedBy(s.group.state.group)) == 0 {
		return end
	}
	ctx, cancel := uncancelled(ctx)
	defer cancel()
	g, err := s.group.planner.reader.Group(ctx, s.group.name)
	if err != nil {
		s.warn(err)
		return end
	}
	ours := refresh.SuspendedBy(g)
	if _, held := refresh.HeldByOther(g, s.group.cfg.Holder, time.Now()); held || len(ours) == 0 {
		return end
	}
	switch continues, err := s.refreshContinues(ctx, end); {
	case err != nil:
		s.warn(err)
	case continues:
		end.message += fmt.Sprintf("; still suspended: %s; the next run resumes that, or trigger resume --asg %s",
			strings.Join(ours, ", "), g.Name)
	default:
		s.resume(ctx, g)
	}
	return end
}

// refreshContinues reports whether AWS continues to replace instances of the group. A refresh that was just
// started may not be listed yet. In ModeUnhealthy nothing continues without the trigger.
func (s *suspension) refreshContinues(ctx context.Context, end ending) (bool, error) {
	switch {
	case s.group.cfg.Mode == refresh.ModeUnhealthy:
		return false, nil
	case end.outcome == report.Detached:
		return true, nil
	}
	active, err := s.group.planner.activeRefresh(ctx, s.group.name)
	return active != nil && active.Status != refresh.StatusCancelling, err
}

// resume resumes what any run of the trigger has suspended.
func (s *suspension) resume(ctx context.Context, g refresh.Group) {
	ctx, cancel := uncancelled(ctx)
	defer cancel()
	resumed, err := s.aws.Release(ctx, g)
	switch {
	case err != nil:
		s.warn(err)
	case len(resumed) > 0:
		s.group.progress.note(refresh.OK, "resumed: %s", strings.Join(resumed, ", "))
	}
}

func (s *suspension) warn(err error) {
	s.group.progress.note(refresh.Warn, "processes of the group may still be suspended, run trigger resume: %v",
		err)
}
