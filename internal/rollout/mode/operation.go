package mode

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/hold"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
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

// operation is what AWS does with a group of itself, an Instance Refresh or an update of a managed node group: one is
// started, or one that is under way is attached to. It is a part of the modes refresh and nodegroup.
type operation struct {
	group *loop.Group
	aws   refreshWriter
	gates *Gates
	hours hold.Hours
	id    string // of the one that is followed; empty if there is none
	ended bool   // It was seen to have ended.

	conflicting string    // The id of one whose end is awaited before another one is started.
	attempts    int       // to start one
	sent        time.Time // when the last of them was made
}

// Attach handles a refresh that is under way, whichever client has started it, as Config.OnConflict says. It leaves one
// that is to be cancelled or waited for to settle.
func (o *operation) Attach(ctx context.Context, active *refresh.Refresh) (attached bool, err error) {
	switch g := o.group; {
	case active == nil:
		return o.attachToEnded(ctx)
	case g.Config.OnConflict == plan.Attach && active.IsEnding():
		return false, loop.EndWith(report.Conflict, describeActive(*active)+": run the same command again when that has "+
			"ended, or wait for it (--on-conflict wait)")
	case g.Config.OnConflict == plan.Attach && !active.HasTarget(g.State.Target):
		return false, loop.EndWith(report.Conflict, describeActive(*active)+", with another target: wait for it "+
			"(--on-conflict wait) or cancel it (--on-conflict cancel)")
	case g.Config.OnConflict == plan.Attach:
		o.setID(active.ID)
		g.Progress.Note(refresh.OK, "%s: it is followed", describeActive(*active))
		o.comparePreferences(*active)
		return true, o.ignoreNewer(ctx, *active)
	case g.Config.OnConflict == plan.Fail:
		return false, loop.EndWith(report.Conflict, describeActive(*active)+": see --on-conflict")
	}
	return false, nil
}

func describeActive(active refresh.Refresh) string {
	if active.Update != nil {
		return fmt.Sprintf("%s is in progress", active.Name())
	}
	return fmt.Sprintf("%s is under way (%s, %d %%)", active.Name(), active.Status, active.Percent)
}

// comparePreferences notes which preferences of a refresh that is followed are not those of the configuration.
func (o *operation) comparePreferences(active refresh.Refresh) {
	s := o.group.State
	if active.Update != nil {
		return
	}
	if others := active.Preferences.DifferencesFrom(s.Policy.Preferences(s.Group)); len(others) > 0 {
		o.group.Progress.Note(refresh.Warn, "instance refresh %s has other preferences than requested: %s; they cannot "+
			"be changed, but --on-conflict cancel starts another one", active.ID, strings.Join(others, "; "))
	}
}

func (o *operation) setID(id string) {
	o.id = id
	o.group.Progress.Set(func(p *report.Group) { p.Refresh, p.Attached = id, true })
}

// attachToEnded attaches to the newest refresh if it has replaced all instances, as Config.All asks for, and
// old instances are still draining: a trigger that was killed has started it. Nothing else would show that
// all have been replaced already.
//
// It describes the group again first. A refresh that was under way when the group was described may have
// ended since, and what it has replaced must not be replaced again.
func (o *operation) attachToEnded(ctx context.Context) (attached bool, err error) {
	g := o.group
	if g.State.IsDue() {
		if err := g.Describe(ctx); err != nil {
			return false, err
		}
		g.CountOutdated()
	}
	newest, err := newestForAll(ctx, g)
	if newest == nil || err != nil {
		return false, err
	}
	if err := o.ignoreNewer(ctx, *newest); err != nil {
		return false, err
	}
	leaving := len(g.State.Leaving())
	if leaving == 0 { // What terminates is none of its old instances.
		g.CountOutdated()
		return false, nil
	}
	o.setID(newest.ID)
	g.Progress.Note(refresh.OK, "instance refresh %s has replaced all instances, and %s still terminating: it "+
		"is followed, and no other one is started", o.id, text.Plural(leaving, "old one is", "old ones are"))
	return true, nil
}

// newestForAll returns the newest refresh if it was to replace all instances by instances of the target, has
// succeeded, and old instances are still leaving. Else it returns nil.
func newestForAll(ctx context.Context, g *loop.Group) (*refresh.Refresh, error) {
	if !g.Config.All || !g.Config.Wait || len(g.State.Leaving()) == 0 {
		return nil, nil
	}
	all, err := g.Planner.Reader.Refreshes(ctx, g.Name)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	f := all[0]
	if f.Status != refresh.StatusSuccessful || f.Preferences.SkipMatching || !f.StartedFor(g.State.Target) {
		return nil, nil
	}
	return &f, nil
}

// ignoreNewer, if all instances are to be replaced, counts as old only those that were there when the
// refresh started: the others are their replacements.
func (o *operation) ignoreNewer(ctx context.Context, f refresh.Refresh) error {
	s := o.group.State
	if !o.group.Config.All || f.Started.IsZero() {
		return nil
	}
	groups := []refresh.Group{s.Group}
	if err := o.group.Planner.Reader.Complete(ctx, groups); err != nil {
		return fmt.Errorf("read the launch times of instances: %w", err)
	}
	s.Update(groups[0])
	old := map[string]bool{}
	for _, i := range s.Group.Instances {
		if s.Old[i.ID] && !i.Launched.After(f.Started) {
			old[i.ID] = true
		}
	}
	s.Old = old
	o.group.Progress.Set(func(p *report.Group) { p.Total = len(old) })
	o.group.Show(nil)
	return nil
}

// begin does what comes before a refresh is followed: it ends what is under way and is not followed, and starts one.
// While the desired capacity is raised there is nothing to do: AWS launches and terminates instances in turns. It
// reports whether a refresh is to be followed now.
func (o *operation) begin(ctx context.Context, phase refresh.Phase) (w *loop.Wait, follows bool, err error) {
	switch {
	case phase == refresh.PhaseTaint:
		w, err = o.settle(ctx)
		return w, false, err
	case phase == refresh.PhaseSurge:
		return nil, false, nil
	case o.id == "":
		w, err = o.start(ctx)
	}
	return w, w == nil && err == nil && o.id != "", err
}

// settle cancels a refresh that is under way and is not followed, or waits for its end, as Config.OnConflict says.
func (o *operation) settle(ctx context.Context) (*loop.Wait, error) {
	g := o.group
	if g.Config.OnConflict != plan.Wait && g.Config.OnConflict != plan.CancelActive {
		return nil, nil
	}
	if o.conflicting == "" {
		return o.beginToSettle(ctx)
	}
	_, w, err := o.hours.Follow(ctx, o.conflicting)
	if w != nil || err != nil {
		return w, err
	}
	if err := g.Resolve(ctx); err != nil {
		return nil, err
	}
	o.conflicting = ""
	g.Enter(report.Preparing)
	g.CountOutdated()
	return nil, nil
}

// beginToSettle cancels the active refresh, if there is one and it is to be cancelled.
func (o *operation) beginToSettle(ctx context.Context) (*loop.Wait, error) {
	g := o.group
	active, err := g.Planner.ActiveRefresh(ctx, g.Name)
	if active == nil || err != nil {
		return nil, err
	}
	if g.Config.OnConflict == plan.CancelActive {
		if _, err := o.aws.Cancel(ctx, g.Name, false); err != nil && !errors.Is(err, refresh.ErrNoRefresh) {
			return nil, loop.Final(ctx, err)
		}
		g.Progress.Note(refresh.Warn, "%s: it is cancelled; drains that have begun continue", describeActive(*active))
	} else {
		g.Progress.Note(refresh.OK, "%s: waiting for its end", describeActive(*active))
	}
	g.Enter(report.Queued)
	o.conflicting = active.ID
	return &loop.Wait{Status: active}, nil
}

// start starts a refresh, if anything is outdated, and the gate passes. AWS may refuse it because one is in progress
// that it does not list yet: one that another client has started, or our own, whose answer was lost. It is then looked
// for after a pause, and up to loop.MaxFailures times.
func (o *operation) start(ctx context.Context) (*loop.Wait, error) {
	g := o.group
	if !g.State.IsDue() {
		return nil, nil
	}
	if o.attempts == 0 {
		if err := o.gates.Pass(ctx, g, atStart); err != nil {
			return nil, loop.Final(ctx, err)
		}
		g.CountOutdated()
		if !g.State.IsDue() {
			return nil, nil
		}
	} else if w, err := o.findStarted(ctx); w != nil || err != nil || o.id != "" {
		return w, err
	}
	o.attempts++
	o.sent = time.Now()
	id, err := o.send(ctx)
	switch {
	case err == nil:
		o.id = id
		g.Progress.Set(func(p *report.Group) { p.Refresh = id })
		return nil, nil
	case !errors.Is(err, refresh.ErrInProgress) || o.attempts == loop.MaxFailures:
		return nil, loop.Final(ctx, err)
	}
	return &loop.Wait{}, nil
}

// findStarted looks for the refresh that has prevented ours. It attaches to it, or waits for its end.
func (o *operation) findStarted(ctx context.Context) (*loop.Wait, error) {
	if o.conflicting == "" {
		if err := o.group.Resolve(ctx); err != nil {
			return nil, err
		}
		if attached, err := o.attachSince(ctx); attached || err != nil {
			return nil, err
		}
	}
	return o.settle(ctx)
}

// attachSince is Attach to what is under way now, and that this run may have started since its last attempt.
func (o *operation) attachSince(ctx context.Context) (attached bool, err error) {
	active, err := o.group.Planner.ActiveRefresh(ctx, o.group.Name)
	switch {
	case err != nil:
		return false, err
	case active != nil && o.isOwn(*active):
		o.setID(active.ID)
		o.group.Progress.Note(refresh.OK, "%s: this run has started it, and the answer of AWS was lost",
			describeActive(*active))
		return true, nil
	}
	return o.Attach(ctx, active)
}

// isOwn reports whether the refresh is the one that this run has asked for last, and that AWS has not confirmed: it has
// the same target and preferences, and was started since, by a clock that may differ.
func (o *operation) isOwn(active refresh.Refresh) bool {
	s := o.group.State
	same := active.Update != nil || len(active.Preferences.DifferencesFrom(s.Policy.Preferences(s.Group))) == 0
	return same && active.HasTarget(s.Target) && !active.Started.Before(o.sent.Add(-time.Minute))
}

// send asks AWS to start a refresh.
func (o *operation) send(ctx context.Context) (id string, err error) {
	ctx, cancel := loop.Uncancelled(ctx)
	defer cancel()
	s := o.group.State
	return o.aws.Start(ctx, s.Group, s.Target, s.Policy.Pins(s.Group, s.Target), s.Policy.Preferences(s.Group))
}

// Begun reports whether a refresh was started, or is followed.
func (o *operation) Begun() bool { return o.id != "" }

// stillActive reports whether the refresh is still active. AWS cancels whichever refresh of the group is
// active, which may be another one by now. If AWS does not answer, the refresh counts as active.
func (o *operation) stillActive(ctx context.Context) bool {
	active, err := o.group.Planner.ActiveRefresh(ctx, o.group.Name)
	o.ended = err == nil && (active == nil || active.ID != o.id)
	return !o.ended
}
