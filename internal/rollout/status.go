package rollout

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Status reads how far the newest refresh of each group is, without waiting.
func (t *Trigger) Status(ctx context.Context) (report.Rollout, error) {
	s, err := t.planner.survey(ctx)
	if err != nil {
		return report.Rollout{}, err
	}
	p := newProgress(s.groups, t.cfg.Mode, nil, t.planner.policy.nodes)
	var work errgroup.Group
	work.SetLimit(concurrency)
	for i, g := range s.groups {
		work.Go(func() error { return t.newGroup(groupProgress{p, i}, g, s).status(ctx) })
	}
	if err := work.Wait(); err != nil {
		return report.Rollout{}, err
	}
	return p.latest(), nil
}

// status shows the newest refresh of the group, and its instances. They are compared with what the refresh
// replaces them by: the group itself is given that only when it has succeeded.
func (g *group) status(ctx context.Context) error {
	g.enter(report.Replacing)
	all, err := g.planner.reader.Refreshes(ctx, g.name)
	if err != nil {
		return err
	}
	holds := g.planner.holds(ctx, g.state.group)
	g.progress.set(func(p *report.Group) { p.Holds = holds })
	if f, failed := refresh.FailedOf(g.state.group); failed {
		g.progress.set(func(p *report.Group) { p.Failed = f.Describe() })
	}
	if len(all) == 0 {
		g.countOutdated()
		g.showBatches()
		return nil
	}
	newest := all[0]
	if newest.Desired != nil && leadsToDesired(newest) {
		g.state.group.Source = *newest.Desired
	}
	g.countOutdated()
	g.progress.set(func(p *report.Group) { p.Refresh = newest.ID })
	g.show(&newest)
	g.progress.set(func(p *report.Group) {
		if !newest.Active() {
			p.Phase, p.Ended = report.Finished, newest.Ended
		}
		if len(g.state.leaving()) > 0 && !newest.Active() {
			p.Phase = report.Draining
		}
	})
	if !newest.Active() {
		g.showBatches()
	}
	return nil
}

// showBatches shows what is known of a rollout in batches: only its trigger knows all of it. Without one, the rollout
// is over.
func (g *group) showBatches() {
	group := g.state.group
	lease, held := refresh.HeldByOther(group, "", time.Now())
	begun, unfinished := refresh.BegunOf(group)
	left, _ := g.state.remaining()
	outdated := fmt.Sprintf("%d of %s outdated", len(left), text.Count(len(group.Instances), "instance"))
	g.progress.set(func(p *report.Group) {
		switch {
		case held:
			p.Phase = report.Replacing
			p.Message = fmt.Sprintf("the trigger %s works on the group: %s", lease.Holder, outdated)
		case unfinished:
			p.Phase = report.Replacing
			p.Message = fmt.Sprintf("the rollout that began at %s has not ended, and no trigger works on it: %s; run the "+
				"same command again to continue", begun.At.UTC().Format(time.RFC3339), outdated)
		case p.Refresh == "":
			p.Phase = report.Finished
		}
	})
}

// leadsToDesired reports whether the refresh leads, or has led, to its desired configuration. One that
// failed, was cancelled or was rolled back leaves the group at its own.
func leadsToDesired(f refresh.Refresh) bool {
	if f.Active() {
		return f.Status != refresh.StatusCancelling && f.Status != refresh.StatusRollbackInProgress
	}
	return f.Status == refresh.StatusSuccessful
}
