package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// refreshWriter starts and ends Instance Refreshes. Cancel and Rollback return the id of the refresh. A refresh whose
// cancellation is awaited ends when the launches and terminations that have begun are done.
type refreshWriter interface {
	Start(
		ctx context.Context, g refresh.Group, t refresh.Target, pin bool, p refresh.Preferences,
	) (string, error)
	Cancel(ctx context.Context, group string, awaited bool) (string, error)
	Rollback(ctx context.Context, group string) (string, error)
}

// instanceRefresh replaces instances by an Instance Refresh: it starts one, or attaches to one that is under
// way, and follows it.
type instanceRefresh struct {
	group *group
	aws   refreshWriter
	id    string // of the refresh that is followed; empty if there is none
	ended bool   // That refresh was seen to have ended.
}

// attach handles a refresh that is under way, whichever client has started it, as Config.OnConflict says. It leaves one
// that is to be cancelled or waited for to settle.
func (r *instanceRefresh) attach(ctx context.Context, active *refresh.Refresh) (attached bool, err error) {
	switch g := r.group; {
	case active == nil:
		return r.attachToEnded(ctx)
	case g.cfg.OnConflict == Attach && active.IsEnding():
		return false, &endError{report.Conflict, describeActive(*active) + ": run the same command again when that has " +
			"ended, or wait for it (--on-conflict wait)"}
	case g.cfg.OnConflict == Attach && !active.HasTarget(g.state.target):
		return false, &endError{report.Conflict, describeActive(*active) + ", with another target: wait for it " +
			"(--on-conflict wait) or cancel it (--on-conflict cancel)"}
	case g.cfg.OnConflict == Attach:
		r.setID(active.ID)
		g.progress.note(refresh.OK, "%s: it is followed", describeActive(*active))
		r.comparePreferences(*active)
		return true, r.ignoreNewer(ctx, *active)
	case g.cfg.OnConflict == Fail:
		return false, &endError{report.Conflict, describeActive(*active) + ": see --on-conflict"}
	}
	return false, nil
}

// attachSince is attach to what is under way now, and that this run may have started then.
func (r *instanceRefresh) attachSince(ctx context.Context, sent time.Time) (attached bool, err error) {
	active, err := r.group.planner.activeRefresh(ctx, r.group.name)
	switch {
	case err != nil:
		return false, err
	case active != nil && r.isOwn(*active, sent):
		r.setID(active.ID)
		r.group.progress.note(refresh.OK, "%s: this run has started it, and the answer of AWS was lost",
			describeActive(*active))
		return true, nil
	}
	return r.attach(ctx, active)
}

// isOwn reports whether the refresh is the one that this run has asked for then, and that AWS has not confirmed: it has
// the same target and preferences, and was started since, by a clock that may differ.
func (r *instanceRefresh) isOwn(active refresh.Refresh, sent time.Time) bool {
	s := r.group.state
	same := active.Update != nil || len(active.Preferences.DifferencesFrom(s.policy.preferences(s.group))) == 0
	return same && active.HasTarget(s.target) && !active.Started.Before(sent.Add(-time.Minute))
}

// settle cancels a refresh that is under way, or waits for its end. It returns when that has ended.
func (r *instanceRefresh) settle(ctx context.Context) (settled bool, err error) {
	g := r.group
	if g.cfg.OnConflict != Wait && g.cfg.OnConflict != CancelActive {
		return false, nil
	}
	active, err := g.planner.activeRefresh(ctx, g.name)
	if active == nil || err != nil {
		return false, err
	}
	if g.cfg.OnConflict == CancelActive {
		if _, err := r.aws.Cancel(ctx, g.name, false); err != nil && !errors.Is(err, refresh.ErrNoRefresh) {
			return false, err
		}
		g.progress.note(refresh.Warn, "%s: it is cancelled; drains that have begun continue", describeActive(*active))
	} else {
		g.progress.note(refresh.OK, "%s: waiting for its end", describeActive(*active))
	}
	g.enter(report.Queued)
	if _, err := watchRefresh(ctx, g, active.ID, nil, nil); err != nil {
		return false, err
	}
	if err := g.resolve(ctx); err != nil {
		return false, err
	}
	g.enter(report.Preparing)
	g.countOutdated()
	return true, nil
}

func describeActive(active refresh.Refresh) string {
	if active.Update != nil {
		return fmt.Sprintf("%s is in progress", active.Name())
	}
	return fmt.Sprintf("%s is under way (%s, %d %%)", active.Name(), active.Status, active.Percent)
}

// comparePreferences notes which preferences of a refresh that is followed are not those of the configuration.
func (r *instanceRefresh) comparePreferences(active refresh.Refresh) {
	s := r.group.state
	if active.Update != nil {
		return
	}
	if others := active.Preferences.DifferencesFrom(s.policy.preferences(s.group)); len(others) > 0 {
		r.group.progress.note(refresh.Warn, "instance refresh %s has other preferences than requested: %s; they cannot "+
			"be changed, but --on-conflict cancel starts another one", active.ID, strings.Join(others, "; "))
	}
}

func (r *instanceRefresh) setID(id string) {
	r.id = id
	r.group.progress.set(func(p *report.Group) { p.Refresh, p.Attached = id, true })
}

// attachToEnded attaches to the newest refresh if it has replaced all instances, as Config.All asks for, and
// old instances are still draining: a trigger that was killed has started it. Nothing else would show that
// all have been replaced already.
//
// It describes the group again first. A refresh that was under way when the group was described may have
// ended since, and what it has replaced must not be replaced again.
func (r *instanceRefresh) attachToEnded(ctx context.Context) (attached bool, err error) {
	g := r.group
	if g.state.isDue() {
		if err := g.describe(ctx); err != nil {
			return false, err
		}
		g.countOutdated()
	}
	newest, err := newestForAll(ctx, g)
	if newest == nil || err != nil {
		return false, err
	}
	if err := r.ignoreNewer(ctx, *newest); err != nil {
		return false, err
	}
	leaving := len(g.state.leaving())
	if leaving == 0 { // What terminates is none of its old instances.
		g.countOutdated()
		return false, nil
	}
	r.setID(newest.ID)
	g.progress.note(refresh.OK, "instance refresh %s has replaced all instances, and %s still terminating: it "+
		"is followed, and no other one is started", r.id, text.Plural(leaving, "old one is", "old ones are"))
	return true, nil
}

// newestForAll returns the newest refresh if it was to replace all instances by instances of the target, has
// succeeded, and old instances are still leaving. Else it returns nil.
func newestForAll(ctx context.Context, g *group) (*refresh.Refresh, error) {
	if !g.cfg.All || !g.cfg.Wait || len(g.state.leaving()) == 0 {
		return nil, nil
	}
	all, err := g.planner.reader.Refreshes(ctx, g.name)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	f := all[0]
	if f.Status != refresh.StatusSuccessful || f.Preferences.SkipMatching || !f.StartedFor(g.state.target) {
		return nil, nil
	}
	return &f, nil
}

// ignoreNewer, if all instances are to be replaced, counts as old only those that were there when the
// refresh started: the others are their replacements.
func (r *instanceRefresh) ignoreNewer(ctx context.Context, f refresh.Refresh) error {
	s := r.group.state
	if !r.group.cfg.All || f.Started.IsZero() {
		return nil
	}
	groups := []refresh.Group{s.group}
	if err := r.group.planner.reader.Complete(ctx, groups); err != nil {
		return fmt.Errorf("read the launch times of instances: %w", err)
	}
	s.update(groups[0])
	old := map[string]bool{}
	for _, i := range s.group.Instances {
		if s.old[i.ID] && !i.Launched.After(f.Started) {
			old[i.ID] = true
		}
	}
	s.old = old
	r.group.progress.set(func(p *report.Group) { p.Total = len(old) })
	r.group.show(nil)
	return nil
}

// surge does nothing: AWS launches and terminates instances in turns.
func (*instanceRefresh) surge(context.Context) error { return nil }

// start starts a refresh, if anything is outdated, and the gate passes.
func (r *instanceRefresh) start(ctx context.Context) error {
	g := r.group
	if !g.state.isDue() {
		return nil
	}
	if err := g.gates.pass(ctx, g, atStart); err != nil {
		return err
	}
	g.countOutdated()
	return startRefresh(ctx, r)
}

// startRefresh starts a refresh, if anything is outdated. AWS may refuse it because one is in progress that it does
// not list yet: one that another client has started, or our own, whose answer was lost. It is then looked
// for after a pause, and up to maxFailures times.
func startRefresh(ctx context.Context, r *instanceRefresh) error {
	g := r.group
	for attempt := 1; g.state.isDue(); attempt++ {
		sent := time.Now()
		id, err := r.send(ctx)
		switch {
		case err == nil:
			r.id = id
			g.progress.set(func(p *report.Group) { p.Refresh = id })
			return nil
		case !errors.Is(err, refresh.ErrInProgress) || attempt == maxFailures:
			return err
		}
		if err := g.pause(ctx, 0); err != nil {
			return err
		}
		if err := g.resolve(ctx); err != nil {
			return err
		}
		if attached, err := r.attachSince(ctx, sent); attached || err != nil {
			return err
		}
		if _, err := r.settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// send asks AWS to start a refresh.
func (r *instanceRefresh) send(ctx context.Context) (id string, err error) {
	g := r.group
	ctx, cancel := uncancelled(ctx)
	defer cancel()
	s := g.state
	return r.aws.Start(ctx, s.group, s.target, s.policy.pins(s.group, s.target), s.policy.preferences(s.group))
}

// follow returns when the refresh has succeeded, or at once if there is none.
func (r *instanceRefresh) follow(ctx context.Context) error {
	switch {
	case r.id == "":
		return nil
	case !r.group.cfg.Wait:
		return &endError{report.Detached, "instance refresh " + r.id + " continues; trigger status shows its " +
			"progress"}
	}
	ready, points := newReadiness(r.group), &checkpoints{group: r.group}
	f, err := watchRefresh(ctx, r.group, r.id, ready, points)
	switch {
	case points.failed:
		return &endError{report.Gated, err.Error() + "; " + stopAtGate(ctx, r)}
	case err != nil:
		return err
	case f.Active():
		return endUnready(ctx, r, ready.last)
	}
	r.ended = true
	return failureOf(f)
}

// stopAtGate pauses the refresh, or ends it if that is what Config.OnInterrupt asks for, and describes the result.
func stopAtGate(ctx context.Context, r *instanceRefresh) string {
	if r.group.cfg.OnInterrupt == Detach {
		return pauseAtGate(ctx, r.group, r.id)
	}
	ctx, cancel := uncancelled(ctx)
	defer cancel()
	return r.stop(ctx)
}

// failureOf is the error for a refresh that has ended without success, else nil.
func failureOf(f refresh.Refresh) error {
	switch f.Status {
	case refresh.StatusFailed, refresh.StatusRollbackFailed:
		return &endError{report.Failed, describeStatus(f) + "; fix the cause and run the same command again; " +
			"replaced instances are kept"}
	case refresh.StatusCancelled:
		return &endError{report.Failed, describeStatus(f) + "; replaced instances are kept; run the same command " +
			"again to continue"}
	case refresh.StatusRollbackSuccessful:
		return &endError{report.RolledBack, describeStatus(f) + "; the instances are as they were before"}
	default:
		return nil
	}
}

// describeStatus is the refresh and its status, with the reasons that AWS gives.
func describeStatus(f refresh.Refresh) string {
	what := fmt.Sprintf("%s is %s", f.Name(), f.Status)
	reasons := []string{what, f.Reason, f.RollbackReason}
	reasons = slices.DeleteFunc(reasons, func(s string) bool { return s == "" })
	return strings.Join(reasons, ": ")
}

// stop cancels the refresh or rolls it back.
func (r *instanceRefresh) stop(ctx context.Context) string {
	if r.id == "" || r.ended || !r.stillActive(ctx) {
		return r.leftBehind()
	}
	rollback := r.group.cfg.OnInterrupt == Rollback
	_, cancelled, err := endActive(ctx, r.group, r.aws, rollback)
	done, next := "cancelled", "; replacements that have begun continue, with their drains"
	switch {
	case !cancelled:
		done, next = "rolled back", "; trigger status shows its progress"
	case rollback:
		next = ": it had not begun, so that nothing was replaced"
	}
	switch {
	case err == nil:
		return fmt.Sprintf("instance refresh %s is %s%s", r.id, done, next)
	case errors.Is(err, refresh.ErrNoRefresh):
		return "instance refresh " + r.id + " had ended already, or is being stopped"
	default:
		return fmt.Sprintf("instance refresh %s could not be %s and continues: %v", r.id, done, err)
	}
}

// endActive has the active refresh of the group rolled back or cancelled, and returns its id and which of the two.
func endActive(
	ctx context.Context, g *group, aws refreshWriter, rollback bool,
) (id string, cancelled bool, err error) {
	if rollback {
		return rollBack(ctx, g, aws)
	}
	id, err = aws.Cancel(ctx, g.name, true)
	return id, true, err
}

// rollBack has the active refresh of the group rolled back, and returns its id. AWS rolls back none that is Pending, as
// each is for some seconds, and answers as if there were none: rollBack cancels it.
func rollBack(ctx context.Context, g *group, aws refreshWriter) (id string, cancelled bool, err error) {
	for range 2 { // A refresh may begin between the two calls.
		if id, err = aws.Rollback(ctx, g.name); !errors.Is(err, refresh.ErrNoRefresh) {
			return id, false, err
		}
		active, failed := g.planner.activeRefresh(ctx, g.name)
		switch {
		case failed != nil:
			return "", false, failed
		case active == nil:
			return "", false, err
		case active.Status == refresh.StatusPending:
			id, err = aws.Cancel(ctx, g.name, true)
			return id, true, err
		}
	}
	return "", false, err
}

// stillActive reports whether the refresh is still active. AWS cancels whichever refresh of the group is
// active, which may be another one by now. If AWS does not answer, the refresh counts as active.
func (r *instanceRefresh) stillActive(ctx context.Context) bool {
	active, err := r.group.planner.activeRefresh(ctx, r.group.name)
	r.ended = err == nil && (active == nil || active.ID != r.id)
	return !r.ended
}

func (r *instanceRefresh) continues() bool { return r.id != "" }

func (r *instanceRefresh) leftBehind() string {
	switch leaving := len(r.group.state.leaving()); {
	case r.id == "":
		return "no instance refresh was started"
	case !r.ended:
		return fmt.Sprintf("instance refresh %s continues; run the same command again to follow it, or stop it "+
			"with trigger cancel --asg %s", r.id, r.group.name)
	case leaving > 0:
		return fmt.Sprintf("instance refresh %s has ended; %s still terminating; run the same "+
			"command again to follow that", r.id, text.Plural(leaving, "old instance is", "old instances are"))
	default:
		return "instance refresh " + r.id + " has ended"
	}
}

func (r *instanceRefresh) afterError() string {
	if r.id == "" {
		return ""
	}
	return ": " + r.leftBehind()
}
