package rollout

import (
	"context"
	"errors"
	"sync"

	"github.com/node-drainer/node-drainer/internal/report"
)

// turns bounds how many groups are worked on at a time.
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

// next waits for a place, and reports whether the next group may start.
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

// done frees the place of a group that has ended.
func (t *turns) done(end ending) {
	t.mu.Lock()
	t.failed = t.failed || end.outcome.ExitCode() != 0
	t.mu.Unlock()
	<-t.places
}

// skipped is the ending of a group that was not started.
func (t *turns) skipped(ctx context.Context) ending {
	switch {
	case errors.Is(context.Cause(ctx), errTimeout):
		return ending{report.TimedOut, "not started: " + errTimeout.Error() + "; run the same command again to " +
			"continue"}
	case ctx.Err() != nil:
		return ending{report.Interrupted, "not started"}
	default:
		return ending{report.Skipped, "not started, because another group failed (--fail-fast)"}
	}
}
