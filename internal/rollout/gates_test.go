package rollout_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/gate"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// fakeGate passes except for some of its tries, counted from 1, and records the points.
type fakeGate struct {
	fails  func(try int) bool
	hangs  int   // in this try
	err    error // of the tries that fail
	tries  int
	points []string // the different ones
}

func (g *fakeGate) Try(ctx context.Context, at gate.Point) error {
	g.tries++
	p := fmt.Sprintf("%s %d/%d", at.Phase, at.Replaced, at.Total)
	if len(g.points) == 0 || g.points[len(g.points)-1] != p {
		g.points = append(g.points, p)
	}
	if g.tries == g.hangs {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if g.fails != nil && g.fails(g.tries) {
		return cmp.Or(g.err, errors.New("3 of 5 shards"))
	}
	return nil
}

func from(first int) func(int) bool { return func(try int) bool { return try >= first } }

// checkpoints has refreshes wait when one instance is replaced, and when two are: drained, too, when it is described.
func (w *world) checkpoints() {
	w.hook("ready", 8*time.Second)
	w.hook("drain", time.Second)
	w.cfg.Preferences.Checkpoints, w.cfg.Preferences.CheckpointDelay = []int{30, 60, 100}, new(2*time.Minute)
}

// TestGate: nothing is replaced before the gate has passed, in both modes.
func TestGate(t *testing.T) {
	const failed = "the gate did not pass (%s of workers) in 1m0s (--gate-timeout): 3 of 5 shards"
	const batches, points = refresh.ModeUnhealthy, "start 0/3, checkpoint 1/3, checkpoint 2/3"
	for name, tt := range map[string]struct {
		scenario
		fakeGate
		points string
	}{
		"before each batch": {
			scenario{mode: batches, want: report.Done, calls: markAll}, fakeGate{}, "batch 0/3, batch 1/3, batch 2/3",
		},
		"fails before the first batch": {
			scenario{mode: batches, want: report.Gated, words: fmt.Sprintf(failed, "batch") + " | nothing further is replaced"},
			fakeGate{fails: from(1)},
			"batch 0/3",
		},
		"the time ends during a try: the one before says why": {
			scenario{mode: batches, want: report.Gated, words: fmt.Sprintf(failed, "batch")},
			fakeGate{fails: from(1), hangs: 2},
			"batch 0/3",
		},
		"fails before the second batch": {
			scenario{mode: batches, want: report.Gated, calls: "Mark i-1"}, fakeGate{fails: from(2)}, "batch 0/3, batch 1/3",
		},
		"passes at last": {
			scenario{mode: batches, want: report.Done, calls: markAll},
			fakeGate{fails: func(try int) bool { return try > 1 && try < 8 }},
			"batch 0/3, batch 1/3, batch 2/3",
		},
		"interrupted": {
			scenario{mode: batches, stop: 10 * time.Second, want: report.Interrupted}, fakeGate{fails: from(1)}, "batch 0/3",
		},
		"the command does not exist, and is not tried again": {
			scenario{want: report.Gated, words: "the gate did not pass (start of workers): the command does not exist"},
			fakeGate{fails: from(1), err: gate.ErrNoCommand},
			"start 0/3",
		},
		"before a refresh, and at its checkpoints": {scenario{want: report.Done, calls: "Start"}, fakeGate{}, points},
		"fails before a refresh": {
			scenario{want: report.Gated, words: "start of workers"}, fakeGate{fails: from(1)}, "start 0/3",
		},
		"fails at a checkpoint": {
			scenario{
				want: report.Gated, calls: "Start, Suspend InstanceRefresh",
				words: fmt.Sprintf(failed, "checkpoint") + " | r is paused until then | trigger resume",
			}, fakeGate{fails: from(3)}, points,
		},
		"fails at a checkpoint, and interrupts cancel": {
			scenario{
				before: func(w *world) { w.cfg.OnInterrupt = plan.Cancel }, want: report.Gated, calls: "Start, Cancel",
				words: "r is cancelled",
			}, fakeGate{fails: from(2)}, "start 0/3, checkpoint 1/3",
		},
	} {
		inWorld(t, name, awsim.Group{}, func(w *world) {
			w.setMode(tt.mode)
			w.checkpoints()
			w.cfg.Gate = &tt.fakeGate
			w.play(tt.scenario)
			if got := strings.Join(tt.fakeGate.points, ", "); got != tt.points || tt.err != nil && tt.tries != 1 {
				w.Errorf("the gate was tried %d times, at %s, want %s", tt.tries, got, tt.points)
			}
		})
	}
}

// TestGateIsTriedAgain: the same command, run again after a gate has failed, tries the gate again before it continues.
func TestGateIsTriedAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		mode         refresh.Mode
		before, then string
	}{
		"in batches":               {refresh.ModeUnhealthy, "Mark i-1", markAll},
		"a refresh that is paused": {"", "Start, Suspend InstanceRefresh", "Start, Suspend InstanceRefresh, Resume InstanceRefresh"},
	} {
		inWorld(t, name, awsim.Group{}, func(w *world) {
			g := &fakeGate{fails: from(2)}
			w.setMode(tt.mode)
			w.checkpoints()
			w.cfg.Gate = g
			w.play(scenario{want: report.Gated, calls: tt.before})
			w.play(scenario{want: report.Gated, calls: tt.before}) // It has not passed yet.
			g.fails = nil
			tries := g.tries
			if w.play(scenario{want: report.Done, calls: tt.then}); g.tries == tries {
				w.Error("the gate was not tried again")
			}
		})
	}
}

// TestGateOfSeveralGroups: when the gate fails, no further group is changed. While it is tried for one group, another one
// can be interrupted, and is not kept from what needs no gate.
func TestGateOfSeveralGroups(t *testing.T) {
	inWorld(t, "one fails", awsim.Group{}, func(w *world) {
		w.addGroups("x", "y")
		w.cfg.Suspend, w.cfg.Gate = []string{"AZRebalance"}, &fakeGate{fails: from(1)}
		w.several(report.Gated, report.Skipped, report.Skipped)
		w.expectCalls("Suspend AZRebalance, Resume AZRebalance")
	})
	inWorld(t, "all are interrupted", awsim.Group{}, func(w *world) {
		w.addGroups("x")
		w.setMode(refresh.ModeUnhealthy)
		w.cfg.Parallel, w.cfg.Timeout, w.cfg.GateTimeout = 0, 30*time.Second, time.Hour
		w.cfg.Gate, w.cfg.Pace.Surge.N = &fakeGate{hangs: 1}, 1
		w.several(report.TimedOut, report.TimedOut)
		if w.desired("workers") != 4 || w.desired("x") != 2 {
			w.Errorf("calls %v", w.calls)
		}
	})
}
