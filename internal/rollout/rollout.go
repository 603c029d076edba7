package rollout

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// rollout replaces the outdated instances of one group. The suspension and the taints hold for as long as it
// runs, as does the lease. The desired capacity, which batches raises, is restored as a part of replacing.
type rollout struct {
	group      *group
	replacer   replacer
	lease      *lease
	suspension *suspension
	taints     *taints
}

// replacer replaces the outdated instances of a group in one of the two modes.
type replacer interface {
	// attach looks at what is under way in the group, and reports whether it is to be followed, so that nothing
	// is to be started.
	attach(ctx context.Context) (attached bool, err error)
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

// run replaces what is outdated, and returns how that ended. It reads the group again if it was described
// more than a PollInterval ago, which is so if other groups came first.
func (r *rollout) run(ctx context.Context, described time.Time) ending {
	if time.Since(described) > r.group.cfg.PollInterval {
		if err := r.group.refreshState(ctx); err != nil {
			return endingOf(ctx, err)
		}
	}
	r.group.countOutdated()
	end, err := r.replaceOutdated(ctx)
	if err != nil {
		end = endingOf(ctx, err)
	}
	return r.finish(ctx, end)
}

// replaceOutdated is the rollout itself. The error of a step ends it.
func (r *rollout) replaceOutdated(ctx context.Context) (ending, error) {
	attached, err := r.replacer.attach(ctx)
	if err == nil && !attached {
		err = r.preflight(ctx)
	}
	if err != nil {
		return ending{}, err
	}
	leased, other, err := r.lease.acquire(ctx, attached)
	if err == nil {
		err = r.replace(leased, attached, other)
	}
	if err != nil {
		return ending{}, cmp.Or(lossOf(leased), err)
	}
	return r.verify(ctx)
}

// replace returns when nothing is left to replace, and the old instances are drained. What another trigger does in the
// group is left to that. The nodes are tainted first: pods may begin to move soon after.
func (r *rollout) replace(ctx context.Context, attached, other bool) error {
	switch {
	case attached:
		r.checkAttached(ctx)
		r.taints.add(ctx)
	case other:
		return r.group.awaitDrained(ctx)
	default:
		r.suspension.suspend(ctx)
		r.taints.add(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := r.replacer.start(ctx); err != nil {
			return err
		}
	}
	if err := r.replacer.follow(ctx); err != nil {
		return err
	}
	return r.group.awaitDrained(ctx)
}

// preflight checks whether the rollout may start. Where nothing is outdated there is nothing to check.
func (r *rollout) preflight(ctx context.Context) error {
	g, a := r.group, r.group.state.assess()
	if a.target.Problem != "" {
		return &endError{report.Refused, a.target.Problem}
	}
	if len(a.outdated()) == 0 {
		return nil
	}
	facts, err := r.facts(ctx, a)
	if err != nil {
		return err
	}
	return r.applyFindings(refresh.Preflight(g.state.group, facts))
}

func (r *rollout) facts(ctx context.Context, a assessment) (refresh.Facts, error) {
	g := r.group
	loads, err := g.planner.loads(ctx, []refresh.Group{g.state.group}, []assessment{a})
	if err != nil { // The rollout does not need the cluster: AWS and the agent do the work.
		g.progress.note(refresh.Warn, "the pods on the group's nodes cannot be listed: %v", err)
	}
	return g.planner.facts(ctx, g.state.group, a, loads)
}

// checkAttached does the preflight for a refresh that is under way, with the preferences that it has. Whatever it
// finds is a warning, since the refresh continues without the trigger too.
func (r *rollout) checkAttached(ctx context.Context) {
	a := r.group.state.assess()
	if len(a.outdated()) == 0 {
		return
	}
	switch facts, err := r.facts(ctx, a); {
	case err != nil:
		r.group.progress.note(refresh.Warn, "the refresh is followed without a preflight: %v", err)
	case facts.Active != nil:
		facts.Preferences, facts.Pin = facts.Active.Preferences, facts.Active.Desired != nil
		r.warn(refresh.Preflight(r.group.state.group, facts))
	}
}

// warn shows those of the findings that are not OK.
func (r *rollout) warn(findings []refresh.Finding) {
	for _, f := range findings {
		if f.Level != refresh.OK {
			r.group.progress.note(refresh.Warn, "%s: %s", f.Check, f.Text)
		}
	}
}

// applyFindings shows what the preflight found, and returns an error if it must not start.
func (r *rollout) applyFindings(findings []refresh.Finding) error {
	refused := refresh.Refused(findings, r.group.cfg.Allow)
	isRefused := func(f refresh.Finding) bool { return slices.Contains(refused, f) }
	r.warn(slices.DeleteFunc(slices.Clone(findings), isRefused))
	if len(refused) == 0 {
		return nil
	}
	var why []string
	for _, f := range refused {
		why = append(why, f.Check+": "+f.Text)
	}
	end := &endError{report.Refused, "nothing was changed: " + strings.Join(why, "; ")}
	if len(refused) == 1 && refused[0].Check == refresh.CheckActive {
		end.outcome = report.Conflict
	}
	return end
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
	end := verdict(len(s.old), left, retained)
	if end.outcome == report.Nothing && len(g.cfg.Only) > 0 {
		end.message = "none of the instances that --instance names is in the group: " +
			text.First(g.cfg.Only, mostNames)
	}
	if newer := s.target.Newer; end.outcome == report.Nothing && newer != "" {
		end.message += "; " + newer
	}
	return end, nil
}

// finish adds to the message of an ending what is left behind, and takes back the suspension and the taints.
// They stay where AWS continues without the trigger, so that the next run finds them.
func (r *rollout) finish(ctx context.Context, end ending) ending {
	if !r.group.state.deleted {
		end.message += r.leftBehind(ctx, end.outcome)
	}
	r.taints.remove(ctx, r.replacer.continues() && r.leavesToAWS(end))
	end = r.suspension.release(ctx, end)
	r.lease.release(ctx)
	return end
}

// leavesToAWS reports whether a rollout that ended so continues, if anything was started.
func (r *rollout) leavesToAWS(end ending) bool {
	continues := []report.Outcome{report.Detached, report.TimedOut, report.Stalled, report.Error}
	if r.group.cfg.OnInterrupt == Detach {
		continues = append(continues, report.Interrupted)
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
	case report.Error, report.Conflict:
		return r.replacer.afterError()
	}
	return ""
}
