package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/hold"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/internal/rollout/mode"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/internal/text"
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
	s, err := t.planner.Survey(ctx)
	if err != nil && len(s.Groups) == 0 {
		return report.Rollout{}, err
	} // Stopping a refresh needs no launch template, so that those may be unknown.
	pause := hold.NewPause(t.cfg, len(s.Groups))
	return t.each(ctx, s.Groups, func(ctx context.Context, p loop.GroupProgress, g refresh.Group) loop.Ending {
		act := t.endRefresh
		if a == ActPause || a == ActResume {
			act = t.pauseOrResume
		}
		group := t.newGroup(p, g, s)
		group.Enter(report.Replacing)
		group.State.Count()
		if a == ActRollback && len(refresh.StandbyOf(g)) > 0 {
			act = t.rollBack
		}
		end, err := act(ctx, group, a)
		if err != nil {
			end = loop.EndingOf(ctx, err)
		}
		if a == ActResume && !pause.GroupEnded(ctx, p.Note) {
			end = end.Leaves()
		}
		return end
	}), nil
}

// rollBack rolls back the refresh that is under way, or returns from Standby what the trigger has moved there: what an
// earlier rollout keeps there has nothing to do with a refresh.
func (t *Trigger) rollBack(ctx context.Context, g *loop.Group, a Action) (loop.Ending, error) {
	switch active, err := t.planner.ActiveRefresh(ctx, g.Name); {
	case err != nil:
		return loop.Ending{}, err
	case active != nil:
		return t.endRefresh(ctx, g, a)
	}
	g.CountOutdated()
	return t.returnStandby(ctx, g)
}

// returnStandby returns what the trigger has moved into Standby, and gives the new instances back.
func (t *Trigger) returnStandby(ctx context.Context, g *loop.Group) (loop.Ending, error) {
	l, r := &hold.Lease{Group: g, AWS: t.writer}, mode.NewStandbyReturn(g, t.writer)
	guarded := l.Guard(ctx)
	defer l.Release(ctx)
	if err := g.Run(guarded, l.AwaitExpiry, loop.Once(l.Hold)); err != nil {
		return loop.Ending{}, cmp.Or(l.Loss(), err)
	}
	if err := g.Run(guarded, r.Step); err != nil {
		return loop.Ending{}, fmt.Errorf("%w; run the same command again to continue", cmp.Or(l.Loss(), err))
	}
	mode.NewBeginning(g, t.writer).Forget(ctx)
	done := fmt.Sprintf("%s from Standby in service again", text.Plural(r.Returned, "instance is", "instances are"))
	return hold.New(g, t.writer).GiveBackAll(guarded, loop.Ending{Outcome: report.Done, Message: done}), nil
}

// pauseOrResume pauses or resumes the refreshes of the group.
func (t *Trigger) pauseOrResume(ctx context.Context, g *loop.Group, a Action) (loop.Ending, error) {
	if a == ActPause {
		const done = "the process InstanceRefresh is suspended: refreshes of the group make no progress, also later ones, " +
			"until trigger resume"
		return loop.Ending{Outcome: report.Done, Message: done}, t.writer.Pause(ctx, g.Name)
	}
	if err := t.writer.Resume(ctx, g.Name); err != nil {
		return loop.Ending{}, err
	}
	done, err := t.releaseFailed(ctx, g)
	if err != nil {
		return loop.Ending{}, err
	}
	l, conflict := hold.Lease{Group: g, AWS: t.writer}, (*loop.EndError)(nil)
	if err := g.Run(ctx, l.AwaitExpiry); errors.As(err, &conflict) {
		return loop.Ending{Outcome: report.Done, Message: done + "; nothing else is, because " + conflict.Message}, nil
	} else if err != nil {
		return loop.Ending{}, err
	}
	if err := t.lowerSurge(ctx, g); err != nil {
		return loop.Ending{}, err
	}
	if _, begun := refresh.BegunOf(g.State.Group); begun { // A rollout to the same target may begin again.
		if err := t.writer.RemoveBegun(ctx, g.Name); err != nil {
			return loop.Ending{}, err
		}
	}
	return hold.New(g, t.writer).GiveBackAll(ctx, loop.Ending{Outcome: report.Done, Message: done}), t.removeLease(ctx, g)
}

// releaseFailed lets trigger watch try a target again that failed.
func (t *Trigger) releaseFailed(ctx context.Context, g *loop.Group) (done string, err error) {
	done = "the process InstanceRefresh is resumed"
	if f, failed := refresh.FailedOf(g.State.Group); failed {
		done += "; trigger watch may try the target again that failed: " + f.Describe()
		err = t.writer.RemoveFailed(ctx, g.Name)
	}
	return done, err
}

// lowerSurge takes back the surge of a trigger that was killed.
func (t *Trigger) lowerSurge(ctx context.Context, g *loop.Group) error {
	c := &hold.Capacity{Group: g, AWS: t.writer}
	if err := g.Run(ctx, c.Confirm); err != nil {
		return err
	}
	if _, raised := refresh.SurgeOf(g.State.Group); raised {
		return c.Lower(ctx)
	}
	return nil
}

// removeLease removes the lease of a trigger that was killed.
func (t *Trigger) removeLease(ctx context.Context, g *loop.Group) error {
	if _, left := refresh.LeaseOf(g.State.Group); left {
		return t.writer.RemoveLease(ctx, g.Name)
	}
	return nil
}

// endRefresh cancels the refresh of the group, or has it rolled back, and resumes at its end what was
// suspended for it.
func (t *Trigger) endRefresh(ctx context.Context, g *loop.Group, a Action) (loop.Ending, error) {
	id, participle, reached, err := t.requestEnd(ctx, g, a)
	switch {
	case errors.Is(err, refresh.ErrNoRefresh) && a == ActCancel:
		return loop.Ending{Outcome: report.Nothing, Message: "no instance refresh is under way"}, nil
	case errors.Is(err, refresh.ErrNoRefresh):
		return loop.Ending{}, fmt.Errorf("%w%s", refresh.ErrNoRefresh, rollbackHint(err))
	case err != nil:
		return loop.Ending{}, fmt.Errorf("%w%s", err, rollbackHint(err))
	}
	g.Progress.Set(func(p *report.Group) { p.Refresh, p.Attached = id, true })
	g.CountOutdated()
	h := hold.New(g, t.writer)
	what := fmt.Sprintf("instance refresh %s is being %s", id, participle)
	if !g.Config.Wait {
		return h.Release(ctx, loop.Ending{Outcome: report.Detached, Message: what}, true), nil
	}
	f := refresh.Refresh{}
	describe := func(ctx context.Context) (*loop.Wait, error) { return nil, g.Retry(ctx, g.Describe) }
	err = g.Run(ctx, describe, func(ctx context.Context) (w *loop.Wait, err error) {
		f, w, err = (hold.Hours{Group: g, AWS: t.writer}).Follow(ctx, id)
		return w, err
	})
	end := loop.Ending{Outcome: report.Done, Message: fmt.Sprintf("instance refresh %s is %s", id, participle)}
	switch {
	case err != nil:
		end = loop.EndingOf(ctx, err)
	case f.Status != reached:
		end = loop.Ending{Outcome: report.Failed, Message: mode.DescribeStatus(f) + "; it is not " + participle}
	}
	if end.Outcome == report.Interrupted || end.Outcome == report.TimedOut {
		end.Message += ": " + what
	}
	return h.Release(ctx, end, leavesToAWS(end, plan.Detach)), nil
}

// requestEnd has the refresh of the group cancelled or rolled back. It returns its id, and what it will be.
func (t *Trigger) requestEnd(
	ctx context.Context, g *loop.Group, a Action,
) (id, participle, reached string, err error) {
	id, cancelled, err := mode.EndActive(ctx, g, t.writer, a == ActRollback)
	switch {
	case !cancelled:
		return id, "rolled back", refresh.StatusRollbackSuccessful, err
	case a == ActRollback:
		g.Progress.Note(refresh.Warn, "instance refresh %s had not begun, so that nothing was replaced, and AWS rolls "+
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
