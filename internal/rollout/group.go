package rollout

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// group reads one group from AWS during a rollout, and shows how far it is.
type group struct {
	name     string
	cfg      Config
	planner  *Planner
	state    *state
	progress groupProgress
	hours    hours
	records  leaseWriter
	seen     func(refresh.Group) // is given what is described
	gates    *gates              // of a rollout; nil otherwise
	newNodes *scaleDown          // of a rollout; nil otherwise
	restored atomic.Bool         // Tags were written again; the renewals of the lease read the group, too.
	stale    bool                // The nodes were stale when the group was described last.

	evictions *evictions // of a node group update that is followed; nil otherwise
}

// describe reads the group again, with one call, and another for its warm pool.
func (g *group) describe(ctx context.Context) error {
	now, err := g.read(ctx)
	if err == nil {
		err = g.planner.addPool(ctx, &now)
	}
	if err == nil {
		g.seen(now)
		g.state.described(now, time.Now())
		g.warnOfStaleNodes()
		g.newNodes.disable(ctx)
	}
	return err
}

// read reads the group. What another client has removed of the tags by which this run records what it has changed, it
// writes again: a later step, or run, could else not give back what is held.
func (g *group) read(ctx context.Context) (refresh.Group, error) {
	now, err := g.planner.reader.Group(ctx, g.name)
	if err != nil {
		return now, err
	}
	now, restored, err := g.records.Restore(ctx, now)
	if len(restored) > 0 && !g.restored.Swap(true) {
		g.progress.note(refresh.Warn, "written again, since somebody has removed them: the tags %s; infrastructure as code "+
			"must ignore the tags whose keys begin with node-drainer.io/ (docs/trigger.md)", strings.Join(restored, ", "))
	}
	return now, err
}

func (g *group) warnOfStaleNodes() {
	err := g.state.policy.nodes.stale()
	if err != nil && !g.stale {
		g.progress.note(refresh.Warn, "the nodes are shown as they were: %v", err)
	}
	g.stale = err != nil
}

// resolve reads again what the group's instances should be launched from, and from EC2 what that needs.
func (g *group) resolve(ctx context.Context) error {
	s, err := g.planner.resolve(ctx, []refresh.Group{g.state.group})
	if err != nil {
		return err
	}
	g.state.update(s.groups[0])
	g.state.templates = s.templates
	return nil
}

// refreshState reads everything again: the group, and what its instances should be launched from.
func (g *group) refreshState(ctx context.Context) error {
	if err := g.describe(ctx); err != nil {
		return err
	}
	return g.resolve(ctx)
}

// enter shows that the group is in the phase.
func (g *group) enter(phase report.Phase) { g.progress.set(func(p *report.Group) { p.Phase = phase }) }

// updateTarget reads what instances should be launched from, before a batch is chosen. If $Latest has
// changed, what the group has launched since would else count as outdated, and be replaced without end.
func (g *group) updateTarget(ctx context.Context) error {
	if err := g.resolve(ctx); err != nil {
		return err
	}
	if now := g.state.assess().target; now.Text != g.state.target.Text {
		g.state.target = now
		g.progress.set(func(p *report.Group) { p.Target = now.Text })
		g.progress.note(refresh.Warn, "the target has changed: instances are now launched from %s", now.Text)
	}
	return nil
}

// countOutdated counts what is to be replaced, and shows it.
func (g *group) countOutdated() {
	g.state.count()
	g.progress.set(func(p *report.Group) {
		p.Target, p.Total = g.state.target.Text, len(g.state.old)
	})
	g.show(nil)
}

// show shows how far the group is, and the refresh if one is followed.
func (g *group) show(status *refresh.Refresh) {
	a := g.state.assess()
	g.state.countMore(a)
	g.progress.set(func(p *report.Group) {
		p.Total = len(g.state.old)
		p.Desired, p.Instances = g.state.group.Desired, instancesOf(g.state.group)
		for n, i := range g.state.group.Instances {
			p.Instances[n].Old = g.state.isOld(i, a)
		}
		p.Gone = g.state.replaced()
		if status != nil {
			p.Status, p.Reason, p.Percent = status.Status, status.Reason, status.Percent
		}
		if p.Total > 0 && (status == nil && p.Refresh == "" || status != nil && status.Update != nil) {
			p.Percent = 100 * p.Gone / p.Total
		}
		p.Phase = phaseOf(p.Phase, status)
	})
}

func phaseOf(before report.Phase, status *refresh.Refresh) report.Phase {
	switch {
	case before == report.Queued || status == nil:
		return before
	case status.Status == refresh.StatusBaking:
		return report.Baking
	case status.Active():
		return report.Replacing
	default:
		return report.Draining
	}
}

// awaitDrained returns when no old instance is leaving any more, or at once if the trigger is not to wait.
func (g *group) awaitDrained(ctx context.Context) error {
	stall := newStall(g)
	for g.cfg.Wait && len(g.state.leaving()) > 0 {
		g.enter(report.Draining)
		if err := stall.check(nil, ""); err != nil {
			return err
		}
		if err := g.describeAgain(ctx, 0); err != nil {
			return err
		}
	}
	return nil
}

// describeAgain reads the group again after a pause, and shows it.
func (g *group) describeAgain(ctx context.Context, atMost time.Duration) error {
	if err := g.pause(ctx, atMost); err != nil {
		return err
	}
	if err := g.retry(ctx, g.describe); err != nil {
		return err
	}
	g.show(nil)
	return nil
}

// repeat takes one step after the other until one is done. A step that fails is repeated, up to maxFailures times in a
// row. One that another activity of Auto Scaling prevents is repeated until Config.StallTimeout. The group is described
// again in between, after recheckAfter if that is set and shorter than a PollInterval.
func (g *group) repeat(
	ctx context.Context, step func(context.Context) (done bool, recheckAfter time.Duration, err error),
) error {
	busy := newStall(g)
	for failures := 0; ; {
		done, recheckAfter, err := step(ctx)
		var end *endError
		switch {
		case err == nil && done:
			return nil
		case err == nil:
			failures, busy = 0, newStall(g)
		case errors.Is(err, refresh.ErrBusy) && ctx.Err() == nil: // That may take as long as anything else.
			if err := busy.check(nil, err.Error()); err != nil {
				return err
			}
		case errors.As(err, &end), ctx.Err() != nil:
			return err
		default:
			if failures++; failures == maxFailures {
				return err
			}
			g.progress.note(refresh.Warn, "step failed, retrying: %v", err)
		}
		if err := g.describeAgain(ctx, recheckAfter); err != nil {
			return err
		}
	}
}

// retry repeats a read until it succeeds, up to maxFailures times. That the group was deleted is final.
func (g *group) retry(ctx context.Context, read func(context.Context) error) error {
	for failures := 1; ; failures++ {
		err := read(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, refresh.ErrNoGroup):
			g.state.deleted = true
			return &endError{report.Error, "the group was deleted during the rollout, and its instances with it: " +
				err.Error()}
		case failures == maxFailures:
			return err
		}
		g.progress.note(refresh.Warn, "call failed, retrying: %v", err)
		if err := g.pause(ctx, 0); err != nil {
			return err
		}
	}
}

// pause waits until the group is to be read again: for a PollInterval, or less if atMost is set and shorter.
// It returns an error if ctx ended.
func (g *group) pause(ctx context.Context, atMost time.Duration) error {
	d := g.cfg.PollInterval
	if atMost > 0 {
		d = min(d, atMost)
	}
	if !retry.Sleep(ctx, d) {
		return context.Cause(ctx)
	}
	return nil
}
