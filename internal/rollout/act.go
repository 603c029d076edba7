package rollout

import (
	"context"
	"errors"
	"fmt"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Action is what can be done to the Instance Refresh of a group that is under way.
type Action string

// The actions.
const (
	ActCancel   Action = "cancel"
	ActRollback Action = "rollback"
	ActPause    Action = "pause"
	ActResume   Action = "resume"
)

// refreshPauser suspends and resumes the process InstanceRefresh of a group.
type refreshPauser interface {
	Pause(ctx context.Context, group string) error
	Resume(ctx context.Context, group string) error
}

// Act does one thing to the active refresh of each selected group, of all groups at once. It follows a
// refresh that is cancelled or rolled back until that has ended, if Config.Wait is set.
func (t *Trigger) Act(ctx context.Context, a Action) (report.Rollout, error) {
	s, err := t.planner.survey(ctx)
	if err != nil && len(s.groups) == 0 {
		return report.Rollout{}, err
	} // Stopping a refresh needs no launch template, so that those may be unknown.
	pause := newPause(t.cfg, len(s.groups))
	return t.each(ctx, s.groups, func(ctx context.Context, p groupProgress, g refresh.Group) ending {
		act := t.endRefresh
		if a == ActPause || a == ActResume {
			act = t.pauseOrResume
		}
		group := t.newGroup(p, g, s)
		group.enter(report.Replacing)
		group.state.count()
		if a == ActRollback && len(refresh.StandbyOf(g)) > 0 {
			act = t.rollBack
		}
		end, err := act(ctx, group, a)
		if err != nil {
			end = endingOf(ctx, err)
		}
		if a == ActResume && !pause.groupEnded(ctx, p.note) {
			end = end.leaves()
		}
		return end
	}), nil
}

// rollBack rolls back the refresh that is under way, or returns from Standby what the trigger has moved there: what an
// earlier rollout keeps there has nothing to do with a refresh.
func (t *Trigger) rollBack(ctx context.Context, g *group, a Action) (ending, error) {
	switch active, err := t.planner.activeRefresh(ctx, g.name); {
	case err != nil:
		return ending{}, err
	case active != nil:
		return t.endRefresh(ctx, g, a)
	}
	g.countOutdated()
	return t.returnStandby(ctx, g)
}

// pauseOrResume pauses or resumes the refreshes of the group.
func (t *Trigger) pauseOrResume(ctx context.Context, g *group, a Action) (ending, error) {
	if a == ActPause {
		return ending{report.Done, "the process InstanceRefresh is suspended: refreshes of the group make no " +
			"progress, also later ones, until trigger resume"}, t.writer.Pause(ctx, g.name)
	}
	if err := t.writer.Resume(ctx, g.name); err != nil {
		return ending{}, err
	}
	done, err := t.releaseFailed(ctx, g)
	if err != nil {
		return ending{}, err
	}
	l, conflict := lease{group: g, aws: t.writer}, (*endError)(nil)
	if err := l.awaitExpiry(ctx); errors.As(err, &conflict) {
		return ending{report.Done, done + "; nothing else is, because " + conflict.message}, nil
	} else if err != nil {
		return ending{}, err
	}
	if err := t.lowerSurge(ctx, g); err != nil {
		return ending{}, err
	}
	if _, begun := refresh.BegunOf(g.state.group); begun { // A rollout to the same target may begin again.
		if err := t.writer.RemoveBegun(ctx, g.name); err != nil {
			return ending{}, err
		}
	}
	return newHolds(g, t.writer).giveBack(ctx, ending{report.Done, done}), t.removeLease(ctx, g)
}

// releaseFailed lets trigger watch try a target again that failed.
func (t *Trigger) releaseFailed(ctx context.Context, g *group) (done string, err error) {
	done = "the process InstanceRefresh is resumed"
	if f, failed := refresh.FailedOf(g.state.group); failed {
		done += "; trigger watch may try the target again that failed: " + f.Describe()
		err = t.writer.RemoveFailed(ctx, g.name)
	}
	return done, err
}

// lowerSurge takes back the surge of a trigger that was killed.
func (t *Trigger) lowerSurge(ctx context.Context, g *group) error {
	c := capacity{g, t.writer}
	if err := c.confirm(ctx); err != nil {
		return err
	}
	if _, raised := refresh.SurgeOf(g.state.group); raised {
		return c.lower(ctx)
	}
	return nil
}

// removeLease removes the lease of a trigger that was killed.
func (t *Trigger) removeLease(ctx context.Context, g *group) error {
	if _, left := refresh.LeaseOf(g.state.group); left {
		return t.writer.RemoveLease(ctx, g.name)
	}
	return nil
}

// endRefresh cancels the refresh of the group, or has it rolled back, and resumes at its end what was
// suspended for it.
func (t *Trigger) endRefresh(ctx context.Context, g *group, a Action) (ending, error) {
	id, participle, reached, err := t.requestEnd(ctx, g, a)
	switch {
	case errors.Is(err, refresh.ErrNoRefresh) && a == ActCancel:
		return ending{report.Nothing, "no instance refresh is under way"}, nil
	case errors.Is(err, refresh.ErrNoRefresh):
		return ending{}, fmt.Errorf("%w%s", refresh.ErrNoRefresh, rollbackHint(err))
	case err != nil:
		return ending{}, fmt.Errorf("%w%s", err, rollbackHint(err))
	}
	g.progress.set(func(p *report.Group) { p.Refresh, p.Attached = id, true })
	g.countOutdated()
	h := newHolds(g, t.writer)
	what := fmt.Sprintf("instance refresh %s is being %s", id, participle)
	if !g.cfg.Wait {
		return h.release(ctx, ending{report.Detached, what}), nil
	}
	f, err := watchRefresh(ctx, g, id, nil, nil)
	end := ending{report.Done, fmt.Sprintf("instance refresh %s is %s", id, participle)}
	switch {
	case err != nil:
		end = endingOf(ctx, err)
	case f.Status != reached:
		end = ending{report.Failed, describeStatus(f) + "; it is not " + participle}
	}
	if end.outcome == report.Interrupted || end.outcome == report.TimedOut {
		end.message += ": " + what
	}
	return h.release(ctx, end), nil
}

// requestEnd has the refresh of the group cancelled or rolled back. It returns its id, and what it will be.
func (t *Trigger) requestEnd(
	ctx context.Context, g *group, a Action,
) (id, participle, reached string, err error) {
	id, cancelled, err := endActive(ctx, g, t.writer, a == ActRollback)
	switch {
	case !cancelled:
		return id, "rolled back", refresh.StatusRollbackSuccessful, err
	case a == ActRollback:
		g.progress.note(refresh.Warn, "instance refresh %s had not begun, so that nothing was replaced, and AWS rolls "+
			"back nothing: it is cancelled", id)
	}
	return id, "cancelled", refresh.StatusCancelled, err
}

// rollbackHint says what the user can do if AWS has nothing to roll back.
func rollbackHint(err error) string {
	const start = "to go back, start a refresh to the version before: trigger --launch-template-version"
	switch {
	case errors.Is(err, refresh.ErrNoRefresh):
		return "; only one that is under way can be rolled back: " + start
	case errors.Is(err, refresh.ErrIrreversible):
		return "; a refresh can be rolled back if it has a desired configuration (--pin), and the group does " +
			"not use $Latest or $Default: cancel it first, with trigger cancel; " + start
	default:
		return ""
	}
}
