package mode

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/gate"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/internal/rollout/hold"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// The points at which a gate is tried, for gate.Point.
const (
	atStart      = "start"      // before a refresh
	AtBatch      = "batch"      // before a batch
	atCheckpoint = "checkpoint" // at a checkpoint of a refresh
)

// Gates has the gate tried, for one group at a time. When it has failed, nothing in any group continues.
type Gates struct {
	cfg  plan.Config
	turn chan struct{} // It is full while the gate is tried for a group.

	mu     sync.Mutex
	failed error
}

// NewGates returns the gates of a run.
func NewGates(cfg plan.Config) *Gates { return &Gates{cfg: cfg, turn: make(chan struct{}, 1)} }

// failure returns with which error the gate has failed, or nil.
func (g *Gates) failure() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failed
}

func (g *Gates) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failed = err
}

// Broken returns an error for a group that is not started any more because the gate has failed.
func (g *Gates) Broken() error {
	if g.failure() == nil {
		return nil
	}
	return loop.EndWith(report.Skipped, "not started, because the gate did not pass")
}

// Pass returns when the gate has passed, or the error that ends the rollout. A gate that fails is tried again for
// Config.GateTimeout. The group is read again if that took a while.
func (g *Gates) Pass(ctx context.Context, group *loop.Group, phase string) error {
	if g.cfg.Gate == nil {
		return nil
	}
	started := time.Now()
	if err := g.await(ctx, group, phase); err != nil {
		return err
	}
	group.Progress.Note(refresh.OK, "the gate has passed (%s)", phase)
	if time.Since(started) <= g.cfg.PollInterval {
		return nil
	}
	return group.Retry(ctx, group.RefreshState)
}

// await tries the gate until it passes.
func (g *Gates) await(ctx context.Context, group *loop.Group, phase string) error {
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, g.cfg.GateTimeout)
	defer cancel()
	at := gate.Point{Group: group.Name, Phase: phase, Replaced: group.State.Replaced(), Total: len(group.State.Old)}
	var why error // of the last try that its time did not end
	for g.failure() == nil {
		err := g.cfg.Gate.Try(limited, at)
		if err == nil {
			return nil
		}
		missing := errors.Is(err, gate.ErrNoCommand) // then it cannot pass later
		if why == nil && limited.Err() == nil && !missing {
			group.Progress.Note(refresh.Warn, "the gate has not passed (%s), trying again for %v: %v", phase,
				g.cfg.GateTimeout, err)
		}
		if why == nil || limited.Err() == nil {
			why = err
		}
		if !missing && retry.Sleep(limited, g.cfg.PollInterval) {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		g.fail(loop.EndWith(report.Gated, fmt.Sprintf("the gate did not pass (%s of %s)%s: %v; "+
			"nothing further is replaced: fix the cause, then run the same command again to continue",
			phase, group.Name, g.within(missing), why)))
	}
	return g.failure()
}

// within says in which time the gate did not pass; empty if it was tried once.
func (g *Gates) within(once bool) string {
	if once {
		return ""
	}
	return fmt.Sprintf(" in %v (--gate-timeout)", g.cfg.GateTimeout)
}

// checkpoints keeps a refresh that is under way from continuing after a checkpoint unless the gate passes. AWS waits
// there for the delay of the refresh, which is longer than the gate takes. When the gate fails, the refresh is paused.
type checkpoints struct {
	group  *loop.Group
	gates  *Gates
	hours  hold.Hours
	passed int  // the percentage of the last one for which the gate has passed
	failed bool // The gate has failed.
}

// Pass returns when the gate has passed, if the refresh has come to a further checkpoint. It resumes a refresh that an
// earlier run has paused. It reports whether the gate was tried.
func (c *checkpoints) Pass(ctx context.Context, f refresh.Refresh) (tried bool, err error) {
	if f.Status != refresh.StatusInProgress {
		return false, nil
	}
	reached, g := lastReached(f), c.group
	if g.Config.Gate == nil || reached <= c.passed {
		return false, nil
	}
	if err := c.gates.Pass(ctx, g, atCheckpoint); err != nil {
		c.failed = c.gates.Broken() != nil
		return true, err
	}
	c.passed = reached
	_, other := refresh.HeldByOther(g.State.Group, g.Config.Holder, time.Now())
	if other || !c.hours.Paused() || !g.IsOpen() {
		return true, nil
	}
	return true, c.hours.Release(ctx, "the gate has passed")
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
func pauseAtGate(ctx context.Context, h hold.Hours, id string) string {
	g := h.Group
	paused := fmt.Sprintf("instance refresh %s is paused until then, or until trigger resume --asg %s", id,
		text.ShellWord(g.Name))
	if h.Paused() {
		return paused
	}
	ctx, cancel := loop.Uncancelled(ctx)
	defer cancel()
	if _, err := h.AWS.Suspend(ctx, g.State.Group, []string{refresh.ProcessInstanceRefresh}); err != nil {
		return fmt.Sprintf("instance refresh %s could not be paused, and continues after the checkpoint: %v", id, err)
	}
	return paused
}
