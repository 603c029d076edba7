package rollout

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Status tells how the newest refresh of each group stands, without waiting.
func (t *Trigger) Status(ctx context.Context) (report.Rollout, error) {
	s, err := t.survey(ctx)
	if err != nil {
		return report.Rollout{}, err
	}
	b := newBoard(s.groups, t.cfg.Mode, silent{}, t.nodes)
	var work errgroup.Group
	work.SetLimit(together)
	for i, g := range s.groups {
		work.Go(func() error { return newRollout(t, card{b, i}, g, s.templates).status(ctx) })
	}
	if err := work.Wait(); err != nil {
		return report.Rollout{}, err
	}
	return b.close(), nil
}

// status shows the newest refresh of the group, and its instances.
func (r *rollout) status(ctx context.Context) error {
	all, err := r.reader.Refreshes(ctx, r.group.Name)
	if err != nil {
		return err
	}
	if len(all) > 0 && all[0].Desired != nil && replaces(all[0]) {
		r.group.Source = *all[0].Desired // It replaces what differs from that. The group says the old one yet.
	}
	r.begin()
	if len(all) == 0 {
		return nil
	}
	r.card.set(func(g *report.Group) { g.Refresh = all[0].ID })
	r.show(&all[0])
	r.card.set(func(g *report.Group) {
		if !all[0].Active() {
			g.Phase, g.Ended = report.Finished, all[0].Ended
		}
		if len(r.leaving()) > 0 && !all[0].Active() {
			g.Phase = report.Draining
		}
	})
	return nil
}

// replaces tells whether the refresh leads, or has led, to its desired configuration. One that failed or was
// cancelled has left the group at its own; so has one that was rolled back.
func replaces(f refresh.Refresh) bool {
	return f.Active() && advancing(f) || f.Status == refresh.StatusSuccessful
}

// advancing tells whether a refresh goes forward: not one that is being cancelled or rolled back.
func advancing(f refresh.Refresh) bool {
	return f.Status != refresh.StatusCancelling && f.Status != refresh.StatusRollbackInProgress
}

// silent is told things that nobody wants to know.
type silent struct{}

// Plan tells nothing.
func (silent) Plan([]report.Plan) error { return nil }

// Show tells nothing.
func (silent) Show(report.Rollout) {}

// End tells nothing.
func (silent) End(report.Rollout) {}

// Act does one thing to the active refresh of each selected group, and waits with none for another. What is
// cancelled or rolled back is followed to its end, if Config.Wait says so.
func (t *Trigger) Act(ctx context.Context, a Action) (report.Outcome, error) {
	s, err := t.survey(ctx)
	if err != nil && len(s.groups) == 0 {
		return report.Error, err
	} // Who stops a refresh needs no launch template for that.
	all := newTurns(0, len(s.groups), false)
	return t.each(ctx, s.groups, all, func(ctx context.Context, c card, g refresh.Group) ending {
		r := newRollout(t, c, g, s.templates)
		r.begin()
		switch a {
		case ActPause, ActResume:
			return r.halt(ctx, a)
		default:
			return r.turn(ctx, a)
		}
	}), nil
}

// halt pauses or resumes the refreshes of the group.
func (r *rollout) halt(ctx context.Context, a Action) ending {
	do, done := r.writer.Pause, "the process InstanceRefresh is suspended: a refresh of the group halts, "+
		"now and later, until trigger resume"
	if a == ActResume {
		do, done = r.writer.Resume, "the process InstanceRefresh is resumed"
	}
	if err := do(ctx, r.group.Name); err != nil {
		return r.broken(ctx, err)
	}
	if a == ActResume {
		r.resume(ctx, r.group)
	}
	return ending{report.Done, done}
}

// turn cancels the refresh of the group, or has it rolled back. What was suspended for it is resumed at its
// end.
func (r *rollout) turn(ctx context.Context, a Action) ending {
	do, done, reached := r.writer.Cancel, "cancelled", refresh.StatusCancelled
	if a == ActRollback {
		do, done, reached = r.writer.Rollback, "rolled back", refresh.StatusRollbackSuccessful
	}
	id, err := do(ctx, r.group.Name)
	switch {
	case errors.Is(err, refresh.ErrNoRefresh) && a == ActCancel:
		return ending{report.Nothing, "no instance refresh is under way"}
	case err != nil:
		e := r.broken(ctx, err)
		e.message += wayBack(err)
		return e
	}
	r.card.set(func(g *report.Group) { g.Refresh, g.Attached = id, true })
	if !r.cfg.Wait {
		return r.release(ctx, ending{report.Detached, fmt.Sprintf("instance refresh %s is being %s", id, done)})
	}
	e := r.follow(ctx, id, func(f refresh.Refresh) (bool, ending) {
		switch {
		case f.Active():
			return false, ending{}
		case f.Status == reached:
			return true, ending{report.Done, fmt.Sprintf("instance refresh %s is %s", id, done)}
		default:
			return true, ending{report.Failed, ended(f) + "; it is not " + done}
		}
	})
	if e.outcome == report.Interrupted || e.outcome == report.TimedOut {
		e.message += fmt.Sprintf(": instance refresh %s is being %s, which goes on", id, done)
	}
	return r.release(ctx, e)
}

// wayBack says what to do if there is nothing that AWS could roll back.
func wayBack(err error) string {
	const start = "to go back, start a refresh to the version before: trigger --launch-template-version"
	switch {
	case errors.Is(err, refresh.ErrNoRefresh):
		return "; only one that is under way can be rolled back: " + start
	case errors.Is(err, refresh.ErrIrreversible):
		return "; a refresh can be rolled back if it has a desired configuration (--pin), and the group does " +
			"not say $Latest or $Default: cancel it first, by trigger cancel; " + start
	default:
		return ""
	}
}
