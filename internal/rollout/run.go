package rollout

import (
	"context"
	"errors"
	"sync"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// errTimeout ends a run that took longer than Config.Timeout.
var errTimeout = errors.New("the time of --timeout is over")

// ending is how the rollout of a group ended; without an outcome it has not.
type ending struct {
	outcome report.Outcome
	message string
}

func (e ending) over() bool { return e.outcome != "" }

// Run replaces what is outdated and follows that. When ctx ends, it does as Config.OnInterrupt says, within a
// few seconds. What it returns has been told to the reporter; an error is one of the time before there were
// groups to tell of.
func (t *Trigger) Run(ctx context.Context) (report.Outcome, error) {
	s, err := t.survey(ctx)
	if err != nil {
		return report.Error, err
	}
	turns := newTurns(t.cfg.Parallel, len(s.groups), t.cfg.FailFast)
	return t.each(ctx, s.groups, turns, func(ctx context.Context, c card, g refresh.Group) ending {
		return newRollout(t, c, g, s.templates).run(ctx, s.at)
	}), nil
}

// each does something with each group when its turn comes, and returns the worst outcome.
func (t *Trigger) each(
	ctx context.Context, groups []refresh.Group, turns *turns,
	do func(context.Context, card, refresh.Group) ending,
) report.Outcome {
	if t.cfg.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t.cfg.Timeout, errTimeout)
		defer cancel()
	}
	board := newBoard(groups, t.cfg.Mode, t.reporter, t.nodes)
	stop := background(context.WithoutCancel(ctx), board.run)
	var work sync.WaitGroup
	for i, g := range groups {
		c := card{board, i}
		begin := turns.next(ctx)
		if !begin {
			c.end(turns.skipped(ctx))
			continue
		}
		work.Go(func() {
			e := do(ctx, c, g)
			c.end(e)
			turns.done(e)
		})
	}
	work.Wait()
	stop()
	return report.Worst(board.close().Groups)
}

// background runs a function until it is stopped.
func background(ctx context.Context, run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// turns let so many groups go at a time, or all.
type turns struct {
	places   chan struct{}
	failFast bool

	mu     sync.Mutex
	failed bool
}

func newTurns(parallel, groups int, failFast bool) *turns {
	if parallel <= 0 {
		parallel = groups
	}
	return &turns{places: make(chan struct{}, max(parallel, 1)), failFast: failFast}
}

// next waits for a place, and tells whether the next group may begin.
func (t *turns) next(ctx context.Context) bool {
	select {
	case t.places <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if ctx.Err() != nil || t.failed && t.failFast {
		<-t.places
		return false
	}
	return true
}

// done gives the place back.
func (t *turns) done(e ending) {
	t.mu.Lock()
	t.failed = t.failed || e.outcome.ExitCode() != 0
	t.mu.Unlock()
	<-t.places
}

// skipped is the ending of a group that was not begun.
func (t *turns) skipped(ctx context.Context) ending {
	switch {
	case errors.Is(context.Cause(ctx), errTimeout):
		return ending{report.TimedOut, "not begun: " + errTimeout.Error() + "; run the same command again to go on"}
	case ctx.Err() != nil:
		return ending{report.Interrupted, "not begun"}
	default:
		return ending{report.Skipped, "not begun, because another group failed (--fail-fast)"}
	}
}

// nodes fills in what the cluster says of the group's instances.
func (t *Trigger) nodes(g *report.Group) {
	for i := range g.Instances {
		g.Instances[i].Node = t.node(g.Instances[i].ID)
	}
}
