package rollout

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/gate"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Gate is a check of the user's own. Try returns why the rollout must not continue at the point, or nil.
type Gate interface {
	Try(ctx context.Context, at gate.Point) error
}

// The points at which a gate is tried, for gate.Point.
const (
	atStart      = "start"      // before a refresh
	atBatch      = "batch"      // before a batch
	atCheckpoint = "checkpoint" // at a checkpoint of a refresh
)

// gates has the gate tried, for one group at a time. When it has failed, nothing in any group continues.
type gates struct {
	cfg  Config
	turn chan struct{} // It is full while the gate is tried for a group.

	mu     sync.Mutex
	failed error
}

func newGates(cfg Config) *gates { return &gates{cfg: cfg, turn: make(chan struct{}, 1)} }

// failure returns with which error the gate has failed, or nil.
func (g *gates) failure() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failed
}

func (g *gates) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failed = err
}

// broken returns an error for a group that is not started any more because the gate has failed.
func (g *gates) broken() error {
	if g.failure() == nil {
		return nil
	}
	return &endError{report.Skipped, "not started, because the gate did not pass"}
}

// pass returns when the gate has passed, or the error that ends the rollout. A gate that fails is tried again for
// Config.GateTimeout. The group is read again if that took a while.
func (g *gates) pass(ctx context.Context, group *group, phase string) error {
	if g.cfg.Gate == nil {
		return nil
	}
	started := time.Now()
	if err := g.await(ctx, group, phase); err != nil {
		return err
	}
	group.progress.note(refresh.OK, "the gate has passed (%s)", phase)
	if time.Since(started) <= g.cfg.PollInterval {
		return nil
	}
	return group.retry(ctx, group.refreshState)
}

// await tries the gate until it passes.
func (g *gates) await(ctx context.Context, group *group, phase string) error {
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, g.cfg.GateTimeout)
	defer cancel()
	at := gate.Point{Group: group.name, Phase: phase, Replaced: group.state.replaced(), Total: len(group.state.old)}
	for noted := false; g.failure() == nil; noted = true {
		err := g.cfg.Gate.Try(limited, at)
		if err == nil {
			return nil
		}
		if !noted && limited.Err() == nil {
			group.progress.note(refresh.Warn, "the gate has not passed (%s), trying again for %v: %v", phase,
				g.cfg.GateTimeout, err)
		}
		if !retry.Sleep(limited, g.cfg.PollInterval) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			g.fail(&endError{report.Failed, fmt.Sprintf("the gate did not pass (%s of %s) in %v (--gate-timeout): %v; "+
				"nothing further is replaced: fix the cause, then run the same command again to continue",
				phase, group.name, g.cfg.GateTimeout, err)})
		}
	}
	return g.failure()
}

// checkpoints keeps a refresh that is under way from continuing after a checkpoint unless the gate passes. AWS waits
// there for the delay of the refresh, which is longer than the gate takes. When the gate fails, the refresh is paused.
type checkpoints struct {
	group  *group
	passed int  // the percentage of the last one for which the gate has passed
	failed bool // The gate has failed.
}

// pass returns when the gate has passed, if the refresh has come to a further checkpoint. It resumes a refresh that an
// earlier run has paused. It reports whether the gate was tried.
func (c *checkpoints) pass(ctx context.Context, f refresh.Refresh) (tried bool, err error) {
	if c == nil || f.Status != refresh.StatusInProgress {
		return false, nil
	}
	reached, g := lastReached(f), c.group
	if g.cfg.Gate == nil || reached <= c.passed {
		return false, nil
	}
	if err := g.gates.pass(ctx, g, atCheckpoint); err != nil {
		c.failed = g.gates.broken() != nil
		return true, err
	}
	c.passed = reached
	_, other := refresh.HeldByOther(g.state.group, g.cfg.Holder, time.Now())
	if other || !g.hours.paused() || !g.hours.open() {
		return true, nil
	}
	return true, g.hours.release(ctx, "the gate has passed")
}

// lastReached is the last checkpoint that the refresh has come to, and that is not its end.
func lastReached(f refresh.Refresh) (percent int) {
	for _, checkpoint := range f.Preferences.Checkpoints {
		if checkpoint <= f.Percent && checkpoint < 100 {
			percent = checkpoint
		}
	}
	return percent
}

// pauseAtGate pauses the refresh, as the tag of suspended processes says, and describes the result to the user.
func pauseAtGate(ctx context.Context, g *group, id string) string {
	paused := fmt.Sprintf("instance refresh %s is paused until then, or until trigger resume --asg %s", id, g.name)
	if g.hours.paused() {
		return paused
	}
	ctx, cancel := uncancelled(ctx)
	defer cancel()
	if _, err := g.hours.aws.Suspend(ctx, g.state.group, []string{refresh.ProcessInstanceRefresh}); err != nil {
		return fmt.Sprintf("instance refresh %s could not be paused, and continues after the checkpoint: %v", id, err)
	}
	return paused
}
