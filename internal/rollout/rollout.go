package rollout

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// rollout replaces the outdated instances of one group. The holds and the taints last for as long as it runs, as does
// the lease. The desired capacity, which batches raises, is restored as a part of replacing.
type rollout struct {
	group     *group
	turns     *turns
	preflight *preflight
	replacer  replacer
	lease     *lease
	holds     *holds
	pause     *pause
	taints    *taints
	failures  *failures // nil unless failed targets are kept
	beginning *beginning

	attached bool // What is under way is followed.
	other    bool // Another trigger works on the group.
	held     bool // The group may have been changed.
}

// replacer replaces the outdated instances of a group in one of the two modes.
type replacer interface {
	// attach reports whether what is under way in the group is to be followed, so that nothing is to be started. The
	// active refresh is nil if there is none.
	attach(ctx context.Context, active *refresh.Refresh) (attached bool, err error)
	// settle ends what is under way in the group and is not followed. It reports whether there was anything.
	settle(ctx context.Context) (settled bool, err error)
	// surge raises the desired capacity, if that is requested, and returns when the new instances are ready.
	surge(ctx context.Context) error
	// start starts to replace what is outdated, if anything is.
	start(ctx context.Context) error
	// follow returns when everything has been replaced as far as this can be done.
	follow(ctx context.Context) error
	// stop does what Config.OnInterrupt asks for, and describes the result to the user.
	stop(ctx context.Context) string
	// continues reports whether AWS may go on without the trigger: a refresh was started, or is followed.
	continues() bool
	// leftBehind describes what continues without the trigger.
	leftBehind() string
	// afterError describes what a rollout that failed has left behind. It may be empty.
	afterError() string
}

// run replaces what is outdated, and returns how that ended.
func (r *rollout) run(ctx context.Context) ending {
	end, err := r.replaceOutdated(ctx)
	if err != nil {
		end = endingOf(ctx, err)
	}
	return r.finish(ctx, end)
}

// replaceOutdated is the rollout itself. The error of a step ends it.
func (r *rollout) replaceOutdated(ctx context.Context) (ending, error) {
	if err := r.check(ctx); err != nil {
		return ending{}, err
	}
	leased, err := r.hold(ctx)
	if err == nil {
		err = r.surge(leased)
	}
	if err == nil {
		err = r.replace(leased)
	}
	if err != nil {
		return ending{}, cmp.Or(lossOf(leased), err)
	}
	return r.verify(ctx)
}

// begin returns when the other groups are as far as Config.Together requires for the phase, or when it is the turn of
// this group. If that took more than a PollInterval, it reads the group again.
func (r *rollout) begin(ctx context.Context, phase refresh.Phase, shown report.Phase) error {
	asked := time.Now()
	err := r.turns.await(ctx, r.group.progress.i, phase, func() { r.group.enter(report.Queued) })
	if err != nil {
		return err
	}
	if err := r.group.gates.broken(); err != nil {
		return err
	}
	stale := time.Since(asked) > r.group.cfg.PollInterval
	if stale {
		if err := r.group.refreshState(ctx); err != nil {
			return err
		}
	}
	r.group.enter(shown)
	if phase == refresh.PhaseCheck {
		r.group.countOutdated()
		return r.group.hours.resume(ctx)
	}
	if stale {
		if err := r.recheck(ctx); err != nil {
			return err
		}
	}
	if r.attached { // What is under way is paused where it is followed.
		return nil
	}
	return r.group.hours.await(ctx, r.held)
}

// recheck counts again what is outdated, unless instances for that were launched already, and checks the group again if
// nothing was changed yet.
func (r *rollout) recheck(ctx context.Context) error {
	if _, raised := refresh.SurgeOf(r.group.state.group); !raised {
		r.group.countOutdated()
	}
	if r.held {
		return nil
	}
	return r.checkAgain(ctx)
}

// check looks at what is under way in the group, and does the preflight. It changes nothing.
func (r *rollout) check(ctx context.Context) error {
	if err := r.begin(ctx, refresh.PhaseCheck, report.Preparing); err != nil {
		return err
	}
	return r.checkAgain(ctx)
}

// checkAgain is check for a group that is read.
func (r *rollout) checkAgain(ctx context.Context) (err error) {
	var active *refresh.Refresh
	if !r.group.cfg.Mode.InBatches() || r.group.state.isDue() {
		if active, err = r.group.planner.activeRefresh(ctx, r.group.name); err != nil {
			return err
		}
	}
	if r.attached, err = r.replacer.attach(ctx, active); err != nil {
		return err
	}
	if r.attached {
		r.preflight.checkAttached(ctx, active)
		return nil
	}
	return r.preflight.check(ctx, active)
}

// hold prepares the group for the rollout. The nodes are tainted before anything is replaced: pods may begin to move
// soon after. The returned context ends if the lease is lost.
func (r *rollout) hold(ctx context.Context) (leased context.Context, err error) {
	if err := r.begin(ctx, refresh.PhaseTaint, report.Preparing); err != nil {
		return ctx, err
	}
	r.held = true
	if err := r.settle(ctx); err != nil {
		return ctx, err
	}
	leased, r.other, err = r.lease.acquire(ctx, r.attached)
	if err != nil || r.isLeftToOther() {
		return leased, err
	}
	asked := time.Now()
	if err := r.pause.begin(leased, r); err != nil {
		return leased, err
	}
	if err := r.checkSince(leased, asked); err != nil {
		return leased, err
	}
	r.group.newNodes.begin()
	if !r.attached {
		r.holds.take(leased)
	}
	r.taints.add(leased)
	if leased.Err() != nil {
		return leased, context.Cause(leased)
	}
	return leased, nil
}

// checkSince checks the group again if another trigger may have replaced what is outdated since the time: it had paused
// the Cluster Autoscaler.
func (r *rollout) checkSince(ctx context.Context, at time.Time) error {
	if r.attached || time.Since(at) <= r.group.cfg.PollInterval {
		return nil
	}
	if err := r.group.refreshState(ctx); err != nil {
		return err
	}
	r.group.countOutdated()
	return r.checkAgain(ctx)
}

// isLeftToOther reports whether another trigger works on the group, and this one only waits for the drains.
func (r *rollout) isLeftToOther() bool { return r.other && !r.attached }

// settle ends what is under way in the group and is not followed, and checks the group again after that.
func (r *rollout) settle(ctx context.Context) error {
	for !r.attached {
		settled, err := r.replacer.settle(ctx)
		if err != nil || !settled {
			return err
		}
		r.preflight.cancelled = r.group.cfg.OnConflict == CancelActive
		if err := r.checkAgain(ctx); err != nil {
			return err
		}
	}
	return nil
}

// surge raises the desired capacity, if that is requested.
func (r *rollout) surge(ctx context.Context) error {
	if err := r.begin(ctx, refresh.PhaseSurge, report.Preparing); err != nil || r.isLeftToOther() {
		return err
	}
	return r.replacer.surge(ctx)
}

// replace returns when nothing is left to replace, and the old instances are drained. What another trigger does in the
// group is left to that.
func (r *rollout) replace(ctx context.Context) error {
	if err := r.begin(ctx, refresh.PhaseReplace, report.Replacing); err != nil {
		return err
	}
	if r.isLeftToOther() {
		return r.group.awaitDrained(ctx)
	}
	if !r.attached {
		if err := r.replacer.start(ctx); err != nil {
			return err
		}
	}
	if err := r.replacer.follow(ctx); err != nil {
		return err
	}
	return r.group.awaitDrained(ctx)
}

// verify reads the group once more when everything is said to be replaced, and the launch templates as they
// are now: if it is not pinned, the instances should have the newest version, not the one of the start.
func (r *rollout) verify(ctx context.Context) (ending, error) {
	g, s := r.group, r.group.state
	before, pinned := s.templates, g.cfg.Mode == refresh.ModeRefresh && s.policy.pins(s.group, s.target)
	if err := g.retry(ctx, g.resolve); err != nil {
		return ending{}, err
	}
	if pinned {
		s.templates = before
	}
	left, retained := s.remaining()
	g.show(nil)
	end := s.drains.judge(s.verdict(left, retained), s.policy.nodes.cluster != nil)
	if newer := s.target.Newer; end.outcome == report.Nothing && newer != "" {
		end.message += "; " + newer
	}
	return end, nil
}

// finish adds to the message of an ending what is left behind, and gives back the holds and the taints.
// They stay where AWS continues without the trigger, so that the next run finds them, and where another trigger does:
// they are that one's then.
func (r *rollout) finish(ctx context.Context, end ending) ending {
	left := errors.Is(context.Cause(ctx), ErrNotLeading)
	if left {
		r.group.cfg.OnInterrupt = Detach
	}
	if !r.held && ctx.Err() != nil {
		end.message += r.replacer.afterError()
		return end
	}
	if !r.group.state.deleted {
		end.message += r.leftBehind(ctx, end.outcome)
	}
	continues := left || r.lease.isLost() || r.replacer.continues() && r.leavesToAWS(end)
	r.taints.remove(ctx, continues)
	r.group.newNodes.enable(ctx, continues)
	end = r.holds.release(ctx, end)
	end = r.failures.record(ctx, r.group, end)
	r.beginning.end(ctx, end.outcome)
	r.lease.release(ctx)
	return end
}

// leavesToAWS reports whether a rollout that ended so continues, if anything was started.
func (r *rollout) leavesToAWS(end ending) bool {
	continues := []report.Outcome{
		report.Detached, report.TimedOut, report.Stalled, report.Error, report.Skipped,
	}
	if r.group.cfg.OnInterrupt == Detach {
		continues = append(continues, report.Interrupted, report.Gated)
	}
	return slices.Contains(continues, end.outcome)
}

// leftBehind stops what is under way if the user wants that of an interrupt, and describes what is left.
func (r *rollout) leftBehind(ctx context.Context, outcome report.Outcome) string {
	switch outcome { //nolint:exhaustive // The others leave nothing behind.
	case report.Interrupted:
		if r.group.cfg.OnInterrupt != Detach {
			ctx, cancel := uncancelled(ctx)
			defer cancel()
			return ": " + r.replacer.stop(ctx)
		}
		return ": " + r.replacer.leftBehind()
	case report.TimedOut, report.Stalled:
		return ": " + r.replacer.leftBehind()
	case report.Error, report.Conflict, report.Skipped:
		return r.replacer.afterError()
	}
	return ""
}
