// Package rollout replaces the outdated instances of Auto Scaling groups: it finds and checks them, has them
// replaced, and follows that until the last old node is drained. It declares the interfaces that it needs,
// and imports no SDK.
package rollout

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/hold"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/internal/rollout/mode"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Writer changes groups, and taints their nodes if there is a Cluster.
type Writer interface {
	mode.Writer
	hold.Writer
	hold.LeaseWriter
	refreshPauser
	failedWriter
}

// Trigger replaces the outdated instances of the selected groups.
type Trigger struct {
	cfg      plan.Config
	planner  *plan.Planner
	writer   Writer
	reporter report.Reporter
	failures *failures // nil unless a Watcher runs it
}

// New returns a Trigger. The view and the reporter may be nil.
func New(cfg plan.Config, reader plan.Reader, writer Writer, view plan.Cluster, reporter report.Reporter) *Trigger {
	return &Trigger{cfg: cfg, planner: plan.NewPlanner(cfg, reader, view), writer: writer, reporter: reporter}
}

// errWaves refuses waves that would all begin at once.
var errWaves = errors.New("the groups are in several waves (tag " + refresh.WaveTag + "), and --no-wait waits for " +
	"none: leave it out, or name the groups in their order with --asg")

// Run replaces what is outdated and follows that. When ctx ends, it does as Config.OnInterrupt says, within
// a few seconds. The reporter has been given what it returns; an error happened before the groups were
// known.
func (t *Trigger) Run(ctx context.Context) (report.Rollout, error) {
	s, err := t.planner.SurveyToReplace(ctx)
	if err != nil {
		return report.Rollout{}, err
	}
	waves := refresh.Waves(s.Groups, t.cfg.Order)
	if !t.cfg.Wait && waves[0] != waves[len(waves)-1] {
		return report.Rollout{}, errWaves
	}
	turns, gates := newTurns(t.cfg, s.Groups), mode.NewGates(t.cfg)
	pause := hold.NewPause(t.cfg, len(s.Groups))
	return t.each(ctx, s.Groups, func(ctx context.Context, p loop.GroupProgress, g refresh.Group) loop.Ending {
		group := t.newGroup(p, g, s)
		r := t.newRollout(group, turns, gates)
		r.pause = pause
		end := r.run(ctx)
		if !pause.GroupEnded(ctx, p.Note) {
			end = end.Leaves()
		}
		turns.end(p.I, end.Outcome)
		return end
	}), nil
}

// each calls do for all groups at once, and returns how they ended.
func (t *Trigger) each(
	ctx context.Context, groups []refresh.Group, do func(context.Context, loop.GroupProgress, refresh.Group) loop.Ending,
) report.Rollout {
	if t.cfg.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t.cfg.Timeout, loop.ErrTimeout)
		defer cancel()
	}
	all := loop.NewProgress(groups, t.cfg.Mode, t.reporter, t.planner.Policy.Nodes)
	stop := all.Start(context.WithoutCancel(ctx))
	var work sync.WaitGroup
	for i, g := range groups {
		p := loop.GroupProgress{All: all, I: i}
		work.Go(func() { p.End(do(ctx, p, g)) })
	}
	work.Wait()
	stop()
	return all.Close()
}

func (t *Trigger) newGroup(p loop.GroupProgress, g refresh.Group, found plan.Survey) *loop.Group {
	s := &loop.State{Policy: t.planner.Policy, Templates: found.Templates, Began: time.Now(), ReadAt: found.At}
	s.Update(g)
	return &loop.Group{Name: g.Name, Config: t.cfg, Planner: t.planner, State: s, Progress: p, Records: t.writer}
}

func (t *Trigger) newRollout(g *loop.Group, all *turns, gates *mode.Gates) *rollout {
	begins := mode.NewBeginning(g, t.writer)
	return &rollout{
		group: g, turns: all, gates: gates, hours: hold.Hours{Group: g, AWS: t.writer},
		mode:      mode.New(g, t.writer, begins, gates),
		preflight: &preflight{group: g, warned: map[string]bool{}}, lease: &hold.Lease{Group: g, AWS: t.writer},
		holds: hold.New(g, t.writer), failures: t.failures, beginning: begins,
	}
}
