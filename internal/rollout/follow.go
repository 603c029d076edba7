package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// patience is how many looks in a row may fail before a rollout is given up. The client has tried each for
// long.
const patience = 5

// refresh is the rollout by an Instance Refresh: one that runs is followed, or one is started.
func (r *rollout) refresh(ctx context.Context) ending {
	id, e := r.start(ctx)
	if e.over() {
		return r.last(ctx, e, id)
	}
	r.taint(ctx)
	if !r.cfg.Wait {
		if id == "" {
			return r.verify(ctx) // The same state ends with the same code, waited for or not.
		}
		return ending{report.Detached, "instance refresh " + id + " goes on; trigger status tells how far it is"}
	}
	if id != "" {
		e = r.follow(ctx, id, r.judge)
	}
	if !e.over() {
		e = r.drained(ctx)
	}
	if !e.over() {
		e = r.verify(ctx)
	}
	return r.last(ctx, e, id)
}

// start returns the id of the refresh to be followed; none if there is nothing to refresh. Refreshes that
// others start meanwhile are heeded.
func (r *rollout) start(ctx context.Context) (id string, e ending) {
	for tries := 0; ; {
		active, err := r.active(ctx, r.group.Name)
		if err != nil {
			return "", r.broken(ctx, err)
		}
		if active != nil {
			id, again, e := r.conflict(ctx, *active)
			if !again || e.over() {
				return id, e
			}
			continue
		}
		tries++
		if id, again, e := r.launch(ctx, tries); !again || e.over() {
			return id, e
		}
	}
}

// launch starts a refresh, if there is a need for one and the preflight finds nothing against it. It is to be
// tried again, a few times, if one is in progress already: AWS may not show it yet.
func (r *rollout) launch(ctx context.Context, tries int) (id string, again bool, e ending) {
	if e := r.settled(ctx); e.over() {
		return "", false, e
	}
	if id, e := r.earlier(ctx); id != "" || e.over() {
		return id, false, e
	}
	if e := r.preflight(ctx); e.over() || len(r.assessed().outdated()) == 0 {
		return "", false, e
	}
	id, err := r.send(ctx)
	switch {
	case err == nil:
		r.card.set(func(g *report.Group) { g.Refresh = id })
		return id, false, ending{}
	case !errors.Is(err, refresh.ErrInProgress) || tries == patience:
		return "", false, r.broken(ctx, err)
	case !r.rest(ctx, 0):
		return "", false, stopped(ctx)
	default: // It may have been our own, whose answer was lost, and be over already.
		return "", true, r.ask(ctx)
	}
}

// settled describes the group anew, once no refresh was found to be under way: one that was, when the group
// was described, may have ended since, and what it has replaced is not to be replaced again. Where nothing is
// outdated nothing will be started.
func (r *rollout) settled(ctx context.Context) ending {
	if len(r.assessed().outdated()) == 0 {
		return ending{}
	}
	e := r.describe(ctx)
	if !e.over() {
		r.begin()
	}
	return e
}

// send asks AWS to start a refresh.
func (r *rollout) send(ctx context.Context) (id string, err error) {
	r.suspend(ctx)
	ctx, cancel := calling(ctx)
	defer cancel()
	return r.writer.Start(ctx, r.group, r.target, r.cfg.Pin, r.preferences(r.group))
}

// conflict does as configured about a refresh that is under way: follow it, or look again when it is over.
func (r *rollout) conflict(ctx context.Context, active refresh.Refresh) (id string, again bool, e ending) {
	what := fmt.Sprintf("instance refresh %s is under way (%s, %d %%)", active.ID, active.Status, active.Percent)
	switch r.cfg.OnConflict {
	case Attach:
		if !active.HasTarget(r.target) {
			return "", false, ending{report.Conflict, what + ", with another aim: wait for it " +
				"(--on-conflict wait) or cancel it (--on-conflict cancel)"}
		}
		r.card.set(func(g *report.Group) { g.Refresh, g.Attached = active.ID, true })
		r.card.note(refresh.OK, "%s: it is followed", what)
		return active.ID, false, r.since(ctx, active)
	case CancelActive:
		if _, err := r.writer.Cancel(ctx, r.group.Name); err != nil && !errors.Is(err, refresh.ErrNoRefresh) {
			return "", false, r.broken(ctx, err)
		}
		r.card.note(refresh.Warn, "%s: it is cancelled", what)
	case Wait:
		r.card.note(refresh.OK, "%s: it is waited for", what)
	default:
		return "", false, ending{report.Conflict, what + ": see --on-conflict"}
	}
	r.card.set(func(g *report.Group) { g.Phase = report.Queued })
	e = r.follow(ctx, active.ID, func(f refresh.Refresh) (bool, ending) { return !f.Active(), ending{} })
	if e.over() {
		return "", false, e // It is not ours: what becomes of ours does not concern it.
	}
	r.card.set(func(g *report.Group) { g.Phase = report.Replacing })
	return "", true, r.renew(ctx)
}

// renew looks at everything anew, when another refresh has changed it.
func (r *rollout) renew(ctx context.Context) ending {
	e := r.ask(ctx)
	if !e.over() {
		r.begin()
	}
	return e
}

// ask asks anew what the group's instances should be launched from.
func (r *rollout) ask(ctx context.Context) ending {
	s, err := r.resolve(ctx, []refresh.Group{r.group})
	if err != nil {
		return r.broken(ctx, err)
	}
	r.remember(s.groups[0])
	r.templates = s.templates
	return ending{}
}

// follow looks at the refresh until it is judged to be over, with or without an ending, or nothing moves any
// more.
func (r *rollout) follow(ctx context.Context, id string, judge func(refresh.Refresh) (bool, ending)) ending {
	stall := r.newStall()
	failures := 0
	for {
		status, err := r.look(ctx, id)
		switch {
		case ctx.Err() != nil:
			return stopped(ctx)
		case err != nil:
			if e := r.failed(&failures, err); e.over() {
				return e
			}
		default:
			failures = 0
			if over, e := judge(status); over {
				return e
			}
			if e := stall.judge(r.group, &status, ""); e.over() {
				return e
			}
		}
		if !r.rest(ctx, 0) {
			return stopped(ctx)
		}
	}
}

// failed counts looks that failed in a row. Too many are an ending, and so is a group that is not there any
// more.
func (r *rollout) failed(failures *int, err error) ending {
	*failures++
	switch {
	case errors.Is(err, refresh.ErrNoGroup):
		r.deleted = true
		return ending{report.Error, "the group was deleted meanwhile, and its instances with it: " + err.Error()}
	case *failures == patience:
		return ending{report.Error, err.Error()}
	}
	r.card.note(refresh.Warn, "will be asked again: %v", err)
	return ending{}
}

// look asks how the refresh and its group are, and shows that.
func (r *rollout) look(ctx context.Context, id string) (refresh.Refresh, error) {
	g, err := r.reader.Group(ctx, r.group.Name) // It comes first, since it says if there is none any more.
	if err != nil {
		return refresh.Refresh{}, err
	}
	status, err := r.reader.Refresh(ctx, r.group.Name, id)
	if err != nil {
		return status, err
	}
	if !status.Active() { // What it did last may have come between.
		if g, err = r.reader.Group(ctx, r.group.Name); err != nil {
			return status, err
		}
	}
	r.remember(g)
	r.show(&status)
	return status, nil
}

// judge says how the refresh ended; a successful one is no ending yet.
func (r *rollout) judge(f refresh.Refresh) (over bool, e ending) {
	what := ended(f)
	r.ended = !f.Active()
	switch f.Status {
	case refresh.StatusSuccessful:
		return true, ending{}
	case refresh.StatusFailed, refresh.StatusRollbackFailed:
		return true, ending{report.Failed, what + "; mend what it says and run the same command again: " +
			"what is replaced already stays"}
	case refresh.StatusCancelled:
		return true, ending{report.Failed, what + "; what is replaced already stays; run the same command " +
			"again to go on"}
	case refresh.StatusRollbackSuccessful:
		return true, ending{report.RolledBack, what + "; the instances are as they were before"}
	default:
		return false, ending{}
	}
}

// ended is the refresh and its status, with the reasons that AWS gives.
func ended(f refresh.Refresh) string {
	what := fmt.Sprintf("instance refresh %s is %s", f.ID, f.Status)
	reasons := []string{what, f.Reason, f.RollbackReason}
	reasons = slices.DeleteFunc(reasons, func(s string) bool { return s == "" })
	return strings.Join(reasons, ": ")
}

// drained waits until the old instances are as far out of the way as is asked for.
func (r *rollout) drained(ctx context.Context) ending {
	stall := r.newStall()
	for failures := 0; ; {
		if len(r.leaving()) == 0 {
			return ending{}
		}
		r.card.set(func(g *report.Group) { g.Phase = report.Draining })
		if e := stall.judge(r.group, nil, ""); e.over() {
			return e
		}
		if !r.rest(ctx, 0) {
			return stopped(ctx)
		}
		g, err := r.reader.Group(ctx, r.group.Name)
		switch {
		case ctx.Err() != nil:
			return stopped(ctx)
		case err != nil:
			if e := r.failed(&failures, err); e.over() {
				return e
			}
		default:
			failures = 0
			r.remember(g)
			r.show(nil)
		}
	}
}

// rest waits until it is time for another look: PollInterval, or less. It is false if ctx ended.
func (r *rollout) rest(ctx context.Context, less time.Duration) bool {
	wait := r.cfg.PollInterval
	if less > 0 {
		wait = min(wait, less)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
