package rollout

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/hold"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/internal/rollout/mode"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// rollout replaces the outdated instances of one group. The holds last for as long as it runs, as does the lease. The
// desired capacity, which batches raises, is restored as a part of replacing.
type rollout struct {
	group     *loop.Group
	turns     *turns
	gates     *mode.Gates
	hours     hold.Hours
	preflight *preflight
	mode      mode.Mode
	lease     *hold.Lease
	holds     *hold.Holds
	pause     *hold.Pause
	failures  *failures // nil unless failed targets are kept
	beginning *mode.Beginning

	attached bool        // What is under way is followed.
	settling bool        // What is under way and is not followed is being ended.
	other    bool        // Another trigger works on the group.
	held     bool        // The group may have been changed.
	end      loop.Ending // if no step has failed
}

// run replaces what is outdated, and returns how that ended.
func (r *rollout) run(ctx context.Context) loop.Ending {
	guarded := r.lease.Guard(ctx)
	err := r.group.Run(guarded,
		r.turn(refresh.PhaseCheck), loop.Once(r.check),
		r.turn(refresh.PhaseTaint), r.settle, r.acquire, loop.Once(r.hold),
		r.turn(refresh.PhaseSurge), r.step(refresh.PhaseSurge),
		r.turn(refresh.PhaseReplace), r.step(refresh.PhaseReplace), r.group.AwaitDrained,
		loop.Once(r.verify),
	)
	if err != nil {
		r.end = loop.EndingOf(ctx, cmp.Or(r.lease.Loss(), err))
	}
	return r.finish(ctx, r.end)
}

// turn waits until the other groups are as far as Config.Together requires for the phase, or until it is the turn of
// this group, and then until the windows are open.
func (r *rollout) turn(phase refresh.Phase) loop.Step {
	begun := false
	return func(ctx context.Context) (*loop.Wait, error) {
		if !begun {
			if err := r.begin(ctx, phase); err != nil {
				return nil, loop.Final(ctx, err)
			}
			begun = true
		}
		if phase == refresh.PhaseCheck || r.attached { // What is under way is paused where it is followed.
			return nil, nil
		}
		return r.hours.Await(r.held)
	}
}

// begin returns when it is the turn of the group. If that took more than a PollInterval, it reads the group again.
func (r *rollout) begin(ctx context.Context, phase refresh.Phase) error {
	asked := time.Now()
	err := r.turns.await(ctx, r.group.Progress.I, phase, func() { r.group.Enter(report.Queued) })
	if err != nil {
		return err
	}
	if err := r.gates.Broken(); err != nil {
		return err
	}
	stale := time.Since(asked) > r.group.Config.PollInterval
	if stale {
		if err := r.group.RefreshState(ctx); err != nil {
			return err
		}
	}
	if r.group.Enter(report.Preparing); phase == refresh.PhaseReplace {
		r.group.Enter(report.Replacing)
	}
	switch {
	case phase == refresh.PhaseCheck:
		r.group.CountOutdated()
		return r.hours.Resume(ctx)
	case stale:
		return r.recheck(ctx)
	}
	return nil
}

// recheck counts again what is outdated, unless instances for that were launched already, and checks the group again if
// nothing was changed yet.
func (r *rollout) recheck(ctx context.Context) error {
	if _, raised := refresh.SurgeOf(r.group.State.Group); !raised {
		r.group.CountOutdated()
	}
	if r.held {
		return nil
	}
	return r.check(ctx)
}

// check looks at what is under way in the group, and does the preflight. It changes nothing.
func (r *rollout) check(ctx context.Context) error {
	active, err := r.attach(ctx)
	// An update of a node group that has begun since leaves nothing outdated at first: EKS sets its launch template later.
	if n := r.group.State.Group.Nodegroup; err == nil && active == nil && n != nil && n.Updating {
		active, err = r.attach(ctx)
	}
	if err != nil {
		return err
	}
	if r.attached {
		r.preflight.checkAttached(ctx, active)
		return nil
	}
	return r.preflight.check(ctx, active)
}

// attach attaches to what is under way in the group, if it is to be followed, and returns it.
func (r *rollout) attach(ctx context.Context) (active *refresh.Refresh, err error) {
	if !r.group.Config.Mode.InBatches() || r.group.State.IsDue() {
		if active, err = r.group.Planner.ActiveRefresh(ctx, r.group.Name); err != nil {
			return nil, err
		}
	}
	r.attached, err = r.mode.Attach(ctx, active)
	return active, err
}

// settle ends what is under way in the group and is not followed, and checks the group again after that.
func (r *rollout) settle(ctx context.Context) (*loop.Wait, error) {
	r.held = true
	if r.attached {
		return nil, nil
	}
	w, err := r.mode.Step(ctx, refresh.PhaseTaint)
	if w != nil || err != nil || !r.settling {
		r.settling = r.settling || w != nil
		return w, err
	}
	r.settling, r.preflight.cancelled = false, r.group.Config.OnConflict == plan.CancelActive
	if err := r.check(ctx); err != nil {
		return nil, loop.Final(ctx, err)
	}
	return r.settle(ctx) // Another one may be under way by now.
}

// acquire waits until the group is held, if that is needed.
func (r *rollout) acquire(ctx context.Context) (w *loop.Wait, err error) {
	w, r.other, err = r.lease.Acquire(ctx, r.attached)
	return w, loop.Final(ctx, err)
}

// hold prepares the group for the rollout. The nodes are tainted before anything is replaced: pods may begin to move
// soon after.
func (r *rollout) hold(ctx context.Context) error {
	if r.isLeftToOther() {
		return nil
	}
	asked := time.Now()
	if !r.other && (r.attached || r.group.State.IsDue()) {
		if err := r.pause.Begin(ctx, r.group, r.attached); err != nil {
			return err
		}
	}
	if err := r.checkSince(ctx, asked); err != nil {
		return err
	}
	r.holds.Take(ctx, r.attached)
	return context.Cause(ctx)
}

// checkSince checks the group again if another trigger may have replaced what is outdated since the time: it had paused
// the Cluster Autoscaler.
func (r *rollout) checkSince(ctx context.Context, at time.Time) error {
	if r.attached || time.Since(at) <= r.group.Config.PollInterval {
		return nil
	}
	if err := r.group.RefreshState(ctx); err != nil {
		return err
	}
	r.group.CountOutdated()
	return r.check(ctx)
}

// isLeftToOther reports whether another trigger works on the group, and this one only waits for the drains.
func (r *rollout) isLeftToOther() bool { return r.other && !r.attached }

// step is that of the mode. What another trigger does in the group is left to that.
func (r *rollout) step(phase refresh.Phase) loop.Step {
	return func(ctx context.Context) (*loop.Wait, error) {
		if r.isLeftToOther() {
			return nil, nil
		}
		return r.mode.Step(ctx, phase)
	}
}

// verify reads the group once more when everything is said to be replaced, and the launch templates as they
// are now: if it is not pinned, the instances should have the newest version, not the one of the start.
func (r *rollout) verify(ctx context.Context) error {
	g, s := r.group, r.group.State
	before, pinned := s.Templates, g.Config.Mode == refresh.ModeRefresh && s.Policy.Pins(s.Group, s.Target)
	if err := g.Retry(ctx, g.Resolve); err != nil {
		return err
	}
	if pinned {
		s.Templates = before
	}
	g.Show(nil)
	left, retained := s.Remaining()
	r.end = s.Drains.Judge(s.Verdict(left, retained), s.Policy.Nodes.Cluster != nil)
	if newer := s.Target.Newer; r.end.Outcome == report.Nothing && newer != "" {
		r.end.Message += "; " + newer
	}
	return nil
}

// finish adds to the message of an ending what is left behind, and gives back what is held. All of it stays if another
// process continues.
func (r *rollout) finish(ctx context.Context, end loop.Ending) loop.Ending {
	interrupt := r.group.Config.OnInterrupt
	notLeading := errors.Is(context.Cause(ctx), loop.ErrNotLeading)
	if notLeading {
		interrupt = plan.Detach
	}
	if r.held || ctx.Err() == nil {
		if !r.group.State.Deleted {
			end.Message += r.leftBehind(ctx, end.Outcome, interrupt)
		}
		if !notLeading {
			end = r.holds.Release(ctx, end, r.mode.Begun() && leavesToAWS(end, interrupt))
		}
		end = r.failures.record(ctx, r.group, end)
		r.beginning.End(ctx, end.Outcome)
	}
	r.lease.Release(ctx)
	return end
}

// leavesToAWS reports whether a rollout that ended so continues, if anything was started.
func leavesToAWS(end loop.Ending, interrupt plan.Interrupt) bool {
	continues := []report.Outcome{
		report.Detached, report.TimedOut, report.Stalled, report.Error, report.Skipped,
	}
	if interrupt == plan.Detach {
		continues = append(continues, report.Interrupted, report.Gated)
	}
	return slices.Contains(continues, end.Outcome)
}

// leftBehind stops what is under way if the user wants that of an interrupt, and describes what is left.
func (r *rollout) leftBehind(ctx context.Context, outcome report.Outcome, interrupt plan.Interrupt) string {
	switch outcome { //nolint:exhaustive // The others leave nothing behind.
	case report.Interrupted:
		if interrupt != plan.Detach {
			ctx, cancel := loop.Uncancelled(ctx)
			defer cancel()
			return ": " + r.mode.Undo(ctx)
		}
		return ": " + r.mode.Remains()
	case report.TimedOut, report.Stalled:
		return ": " + r.mode.Remains()
	case report.Error, report.Conflict, report.Skipped:
		if r.mode.Begun() {
			return ": " + r.mode.Remains()
		}
	}
	return ""
}
