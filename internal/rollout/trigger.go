// Package rollout replaces the outdated instances of Auto Scaling groups: it finds and checks them, has them
// replaced, and follows that until the last old node is drained. It declares the interfaces that it needs,
// and imports no SDK.
package rollout

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Writer changes groups, and taints their nodes if there is a Cluster.
type Writer interface {
	refreshWriter
	refreshPauser
	batchWriter
	processWriter
	leaseWriter
	tainter
}

// Trigger replaces the outdated instances of the selected groups.
type Trigger struct {
	cfg      Config
	planner  *Planner
	writer   Writer
	reporter report.Reporter
}

// New returns a Trigger. The view and the reporter may be nil.
func New(cfg Config, reader Reader, writer Writer, view Cluster, reporter report.Reporter) *Trigger {
	return &Trigger{cfg: cfg, planner: NewPlanner(cfg, reader, view), writer: writer, reporter: reporter}
}

// Run replaces what is outdated and follows that. When ctx ends, it does as Config.OnInterrupt says, within
// a few seconds. The reporter has been given what it returns; an error happened before the groups were
// known.
func (t *Trigger) Run(ctx context.Context) (report.Rollout, error) {
	s, err := t.planner.survey(ctx)
	if err != nil {
		return report.Rollout{}, err
	}
	rollOut := func(ctx context.Context, p groupProgress, g refresh.Group) ending {
		return t.newRollout(t.newGroup(p, g, s.templates)).run(ctx, s.at)
	}
	return t.each(ctx, s.groups, t.cfg.Parallel, rollOut), nil
}

// each calls do for each group, for so many at a time, or for all at once if parallel is 0. It returns how
// they ended.
func (t *Trigger) each(
	ctx context.Context, groups []refresh.Group, parallel int,
	do func(context.Context, groupProgress, refresh.Group) ending,
) report.Rollout {
	if t.cfg.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t.cfg.Timeout, errTimeout)
		defer cancel()
	}
	all := newProgress(groups, t.cfg.Mode, t.reporter, t.planner.policy.nodes)
	stop := all.start(context.WithoutCancel(ctx))
	var work errgroup.Group
	work.SetLimit(cmp.Or(parallel, -1))
	var failed atomic.Bool
	for i, g := range groups {
		p := groupProgress{all, i}
		work.Go(func() error {
			end := skipped(ctx, t.cfg.FailFast && failed.Load())
			if end.outcome == "" {
				end = do(ctx, p, g)
			}
			if end.outcome.ExitCode() != 0 {
				failed.Store(true)
			}
			p.end(end)
			return nil
		})
	}
	_ = work.Wait()
	stop()
	return all.close()
}

// skipped is the ending of a group that is not started any more; without an outcome if it is.
func skipped(ctx context.Context, otherFailed bool) ending {
	switch {
	case errors.Is(context.Cause(ctx), errTimeout):
		return ending{report.TimedOut, "not started: " + errTimeout.Error() + "; run the same command again to " +
			"continue"}
	case ctx.Err() != nil:
		return ending{report.Interrupted, "not started"}
	case otherFailed:
		return ending{report.Skipped, "not started, because another group failed (--fail-fast)"}
	default:
		return ending{}
	}
}

func (t *Trigger) newGroup(p groupProgress, g refresh.Group, templates refresh.Templates) *group {
	s := &state{policy: t.planner.policy, templates: templates, began: time.Now()}
	s.update(g)
	return &group{name: g.Name, cfg: t.cfg, planner: t.planner, state: s, progress: p}
}

func (t *Trigger) newRollout(g *group) *rollout {
	var by replacer = &batches{group: g, aws: t.writer, marks: marks{}}
	if t.cfg.Mode == refresh.ModeRefresh {
		by = &instanceRefresh{group: g, aws: t.writer}
	}
	return &rollout{
		group: g, replacer: by, lease: &lease{group: g, aws: t.writer}, suspension: &suspension{g, t.writer},
		taints: &taints{group: g, tainter: t.writer},
	}
}
