package rollout

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Status reads how far the newest refresh of each group is, without waiting.
func (t *Trigger) Status(ctx context.Context) (report.Rollout, error) {
	s, err := t.planner.Survey(ctx)
	if err != nil {
		return report.Rollout{}, err
	}
	p := loop.NewProgress(s.Groups, t.cfg.Mode, nil, t.planner.Policy.Nodes)
	var work errgroup.Group
	work.SetLimit(plan.Concurrency)
	for i, g := range s.Groups {
		work.Go(func() error { return showStatus(ctx, t.newGroup(loop.GroupProgress{All: p, I: i}, g, s)) })
	}
	if err := work.Wait(); err != nil {
		return report.Rollout{}, err
	}
	return p.Latest(), nil
}

// showStatus shows the newest refresh of the group, and its instances. They are compared with what the refresh
// replaces them by: the group itself is given that only when it has succeeded.
func showStatus(ctx context.Context, g *loop.Group) error {
	g.Enter(report.Replacing)
	all, err := g.Planner.Reader.Refreshes(ctx, g.Name)
	if err != nil {
		return err
	}
	holds := g.Planner.Holds(ctx, g.State.Group)
	g.Progress.Set(func(p *report.Group) { p.Holds = holds })
	if f, failed := refresh.FailedOf(g.State.Group); failed {
		g.Progress.Set(func(p *report.Group) { p.Failed = f.Describe() })
	}
	if len(all) == 0 {
		g.CountOutdated()
		showBatches(g, nil)
		return nil
	}
	newest := all[0]
	if newest.Desired != nil && leadsToDesired(newest) {
		g.State.Group.Source = *newest.Desired
	}
	g.CountOutdated()
	g.Progress.Set(func(p *report.Group) { p.Refresh = newest.ID })
	g.Show(&newest)
	g.Progress.Set(func(p *report.Group) {
		if !newest.Active() {
			p.Phase, p.Ended = report.Finished, newest.Ended
		}
		if len(g.State.Leaving()) > 0 && !newest.Active() {
			p.Phase = report.Draining
		}
	})
	if !newest.Active() {
		showBatches(g, &newest)
	}
	return nil
}

// showBatches shows what is known of a rollout in batches: only its trigger knows all of it. Without one, the rollout
// is over, as its instances show, or the refresh that ended last.
func showBatches(g *loop.Group, last *refresh.Refresh) {
	group := g.State.Group
	lease, held := refresh.HeldByOther(group, "", time.Now())
	begun, unfinished := refresh.BegunOf(group)
	left, _ := g.State.Remaining()
	outdated := fmt.Sprintf("%d of %s outdated", len(left), text.Count(len(group.Instances), "instance"))
	g.Progress.Set(func(p *report.Group) {
		switch {
		case held:
			p.Phase = report.Replacing
			p.Message = fmt.Sprintf("the trigger %s works on the group: %s", lease.Holder, outdated)
		case unfinished:
			p.Phase = report.Replacing
			p.Message = fmt.Sprintf("the rollout that began at %s has not ended, and no trigger works on it: %s; run the "+
				"same command again to continue", begun.At.UTC().Format(time.RFC3339), outdated)
			p.Outcome = report.Incomplete
		case last == nil:
			p.Phase, p.Outcome = report.Finished, report.Nothing
			if len(left) > 0 {
				p.Outcome = report.Incomplete
			}
		case p.Phase == report.Finished:
			p.Outcome = outcomeOf(last.Status)
		}
	})
}

// outcomeOf is how a refresh with the status has ended.
func outcomeOf(status string) report.Outcome {
	switch status {
	case refresh.StatusSuccessful:
		return report.Done
	case refresh.StatusRollbackSuccessful:
		return report.RolledBack
	}
	return report.Failed
}

// leadsToDesired reports whether the refresh leads, or has led, to its desired configuration. One that
// failed, was cancelled or was rolled back leaves the group at its own.
func leadsToDesired(f refresh.Refresh) bool {
	if f.Active() {
		return f.Status != refresh.StatusCancelling && f.Status != refresh.StatusRollbackInProgress
	}
	return f.Status == refresh.StatusSuccessful
}
