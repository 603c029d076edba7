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
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Writer changes groups, and taints their nodes if there is a Cluster.
type Writer interface {
	refreshWriter
	refreshPauser
	batchWriter
	standbyWriter
	standbyReturner
	processWriter
	protectionWriter
	leaseWriter
	failedWriter
	begunWriter
	tainter
	scaleDownWriter
}

// Trigger replaces the outdated instances of the selected groups.
type Trigger struct {
	cfg      Config
	planner  *Planner
	writer   Writer
	reporter report.Reporter
	failures *failures // nil unless a Watcher runs it
}

// New returns a Trigger. The view and the reporter may be nil.
func New(cfg Config, reader Reader, writer Writer, view Cluster, reporter report.Reporter) *Trigger {
	return &Trigger{cfg: cfg, planner: NewPlanner(cfg, reader, view), writer: writer, reporter: reporter}
}

// errWaves refuses waves that would all begin at once.
var errWaves = errors.New("the groups are in several waves (tag " + refresh.WaveTag + "), and --no-wait waits for " +
	"none: leave it out, or name the groups in their order with --asg")

// Run replaces what is outdated and follows that. When ctx ends, it does as Config.OnInterrupt says, within
// a few seconds. The reporter has been given what it returns; an error happened before the groups were
// known.
func (t *Trigger) Run(ctx context.Context) (report.Rollout, error) {
	s, err := t.planner.surveyToReplace(ctx)
	if err != nil {
		return report.Rollout{}, err
	}
	waves := refresh.Waves(s.groups, t.cfg.Order)
	if !t.cfg.Wait && waves[0] != waves[len(waves)-1] {
		return report.Rollout{}, errWaves
	}
	turns, gates := newTurns(t.cfg, s.groups), newGates(t.cfg)
	pause := newPause(t.cfg, len(s.groups))
	return t.each(ctx, s.groups, func(ctx context.Context, p groupProgress, g refresh.Group) ending {
		group := t.newGroup(p, g, s)
		group.gates = gates
		r := t.newRollout(group, turns)
		r.pause = pause
		end := r.run(ctx)
		if !pause.groupEnded(ctx, p.note) {
			end = end.leaves()
		}
		turns.end(p.i, end.outcome)
		return end
	}), nil
}

// each calls do for all groups at once, and returns how they ended.
func (t *Trigger) each(
	ctx context.Context, groups []refresh.Group, do func(context.Context, groupProgress, refresh.Group) ending,
) report.Rollout {
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
		work.Go(func() { p.end(do(ctx, p, g)) })
	}
	work.Wait()
	stop()
	return all.close()
}

func (t *Trigger) newGroup(p groupProgress, g refresh.Group, found survey) *group {
	s := &state{policy: t.planner.policy, templates: found.templates, began: time.Now(), readAt: found.at}
	s.update(g)
	one := &group{
		name: g.Name, cfg: t.cfg, planner: t.planner, state: s, progress: p, records: t.writer,
		seen: func(refresh.Group) {},
	}
	one.hours = hours{one, t.writer}
	return one
}

func (t *Trigger) newRollout(g *group, all *turns) *rollout {
	g.newNodes = &scaleDown{group: g, nodes: t.writer}
	begins := &beginning{group: g, aws: t.writer}
	inBatches := &batches{group: g, aws: t.writer, beginning: begins}
	var by replacer = inBatches
	switch unhealthy := (marker{g, t.writer, marks{}}); t.cfg.Mode {
	case refresh.ModeRefresh:
		by = &instanceRefresh{group: g, aws: t.writer}
	case refresh.ModeNodegroup:
		by = &nodegroupUpdate{instanceRefresh: &instanceRefresh{group: g, aws: t.writer}}
	case refresh.ModeUnhealthy:
		inBatches.by = unhealthy
	case refresh.ModeStandby:
		inBatches.by = &standby{g, t.writer, unhealthy}
	}
	return &rollout{
		group: g, turns: all, replacer: by, preflight: &preflight{group: g, warned: map[string]bool{}},
		lease: &lease{group: g, aws: t.writer}, holds: newHolds(g, t.writer),
		taints: &taints{group: g, tainter: t.writer}, failures: t.failures, beginning: begins,
	}
}
