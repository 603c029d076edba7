// Package rollout replaces the outdated instances of Auto Scaling groups: it finds and checks them, has them
// replaced, and follows that until the last old node is drained. It declares the interfaces that it needs,
// and imports no SDK.
package rollout

import (
	"context"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Writer changes groups.
type Writer interface {
	refreshWriter
	refreshPauser
	batchWriter
	processWriter
}

// Trigger replaces the outdated instances of the selected groups.
type Trigger struct {
	cfg      Config
	planner  *Planner
	writer   Writer
	tainter  Tainter // nil without.
	reporter report.Reporter
}

// New returns a Trigger. The view may be nil.
func New(cfg Config, reader Reader, writer Writer, view Cluster, reporter report.Reporter) *Trigger {
	return &Trigger{cfg: cfg, planner: NewPlanner(cfg, reader, view), writer: writer, reporter: reporter}
}

// Taints gives the trigger what Config.Taint needs, beside a Cluster: without it no node is tainted. It must
// be called before Run.
func (t *Trigger) Taints(by Tainter) { t.tainter = by }

// Run replaces what is outdated and follows that. When ctx ends, it does as Config.OnInterrupt says, within
// a few seconds. The reporter has been given what it returns; an error happened before the groups were
// known.
func (t *Trigger) Run(ctx context.Context) (report.Outcome, error) {
	s, err := t.planner.survey(ctx)
	if err != nil {
		return report.Error, err
	}
	turns := newTurns(t.cfg.Parallel, len(s.groups), t.cfg.FailFast)
	return t.each(ctx, s.groups, turns, func(ctx context.Context, p groupProgress, g refresh.Group) ending {
		return t.newRollout(t.newGroup(p, g, s.templates)).run(ctx, s.at)
	}), nil
}

// each calls do for each group when its turn comes, and returns the worst outcome.
func (t *Trigger) each(
	ctx context.Context, groups []refresh.Group, turns *turns,
	do func(context.Context, groupProgress, refresh.Group) ending,
) report.Outcome {
	if t.cfg.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t.cfg.Timeout, errTimeout)
		defer cancel()
	}
	all := newProgress(groups, t.cfg.Mode, t.reporter, t.planner.policy.nodes)
	stop := all.start(context.WithoutCancel(ctx))
	var work sync.WaitGroup
	for i, g := range groups {
		p := groupProgress{all, i}
		if !turns.next(ctx) {
			p.end(turns.skipped(ctx))
			continue
		}
		work.Go(func() {
			end := do(ctx, p, g)
			p.end(end)
			turns.done(end)
		})
	}
	work.Wait()
	stop()
	return report.Worst(all.close().Groups)
}

func (t *Trigger) newGroup(p groupProgress, g refresh.Group, templates refresh.Templates) *group {
	s := &state{policy: t.planner.policy, templates: templates, began: time.Now()}
	s.update(g)
	return &group{name: g.Name, cfg: t.cfg, planner: t.planner, state: s, progress: p}
}

func (t *Trigger) newRollout(g *group) *rollout {
	var by replacer = newBatches(g, t.writer)
	if t.cfg.Mode == refresh.ModeRefresh {
		by = &instanceRefresh{group: g, aws: t.writer}
	}
	h := holds{&suspension{g, t.writer}, &taints{group: g, tainter: t.tainter}}
	return &rollout{group: g, replacer: by, holds: h, cleanup: cleanup{g, by, h}}
}
