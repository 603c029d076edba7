package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/gate"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/internal/rollout/mode"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// fakeGate passes except for some of its tries, counted from 1, and records the points.
type fakeGate struct {
	fails  func(try int) bool
	hangs  int   // in this try
	err    error // of the tries that fail
	points []string
}

func (g *fakeGate) Try(ctx context.Context, at gate.Point) error {
	g.points = append(g.points, fmt.Sprintf("%s %d/%d", at.Phase, at.Replaced, at.Total))
	if len(g.points) == g.hangs {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if g.fails != nil && g.fails(len(g.points)) {
		return cmp.Or(g.err, errors.New("3 of 5 shards"))
	}
	return nil
}

func from(first int) func(int) bool { return func(try int) bool { return try >= first } }

// TestGate: nothing is replaced before the gate has passed, in both modes.
func TestGate(t *testing.T) {
	const failed = "the gate did not pass (%s of workers) in 1m0s (--gate-timeout): 3 of 5 shards"
	for name, tt := range map[string]struct {
		mode   refresh.Mode
		change func(*plan.Config)
		fails  func(int) bool
		hangs  int
		stop   time.Duration // until an interrupt
		want   report.Outcome
		words  []string
		calls  string
		points string // the different ones, in their order
	}{
		"before each batch": {
			mode: refresh.ModeUnhealthy, want: report.Done, calls: "Mark i-1 Mark i-2 Mark i-3",
			points: "batch 0/3, batch 1/3, batch 2/3",
		},
		"fails before the first batch": {
			mode: refresh.ModeUnhealthy, fails: from(1), want: report.Gated, points: "batch 0/3",
			words: []string{fmt.Sprintf(failed, "batch"), "nothing further is replaced"},
		},
		"the time ends during a try: the one before says why": {
			mode: refresh.ModeUnhealthy, fails: from(1), hangs: 2, want: report.Gated, points: "batch 0/3",
			words: []string{fmt.Sprintf(failed, "batch")},
		},
		"fails before the second batch": {
			mode: refresh.ModeUnhealthy, fails: from(2), want: report.Gated, calls: "Mark i-1", points: "batch 0/3, batch 1/3",
		},
		"passes at last": {
			mode: refresh.ModeUnhealthy, fails: func(try int) bool { return try > 1 && try < 8 }, want: report.Done,
			calls: "Mark i-1 Mark i-2 Mark i-3", points: "batch 0/3, batch 1/3, batch 2/3",
		},
		"interrupted": {
			mode: refresh.ModeUnhealthy, fails: from(1), stop: 10 * time.Second, want: report.Interrupted, points: "batch 0/3",
		},
		"before a refresh, and at its checkpoints": {
			want: report.Done, calls: "Start", points: "start 0/3, checkpoint 1/3, checkpoint 2/3",
		},
		"fails before a refresh": {fails: from(1), want: report.Gated, words: []string{"start of workers"}, points: "start 0/3"},
		"fails at a checkpoint": {
			fails: from(3), want: report.Gated, calls: "Start Suspend InstanceRefresh",
			words:  []string{fmt.Sprintf(failed, "checkpoint"), "r-1 is paused until then", "trigger resume"},
			points: "start 0/3, checkpoint 1/3, checkpoint 2/3",
		},
		"fails at a checkpoint, and interrupts cancel": {
			change: func(c *plan.Config) { c.OnInterrupt = plan.Cancel }, fails: from(2), want: report.Gated, calls: "Start Cancel",
			words: []string{"r-1 is cancelled"}, points: "start 0/3, checkpoint 1/3",
		},
	} {
		runInBubble(t, name, func(t *testing.T) {
			a, cfg, g := newFakeAWS(3), defaults(), &fakeGate{fails: tt.fails, hangs: tt.hangs}
			if a.script = replaceUnhealthy(a); tt.mode == "" {
				a.script = withCheckpoints(a)
			}
			cfg.Gate, cfg.GateTimeout, cfg.Timeout = g, time.Minute, time.Hour
			if tt.mode != "" {
				cfg.Mode, cfg.Surge = tt.mode, nil
			}
			if tt.change != nil {
				tt.change(&cfg)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.stop > 0 {
				defer time.AfterFunc(tt.stop, cancel).Stop()
			}
			expect(t, runGroup(ctx, t, cfg, a, nil), tt.want, tt.words...)
			a.expectCalls(t, tt.calls)
			if got := strings.Join(g.different(), ", "); got != tt.points {
				t.Errorf("the gate was tried at %s, want %s", got, tt.points)
			}
		})
	}
}

func (g *fakeGate) different() (points []string) {
	for n, p := range g.points {
		if n == 0 || p != g.points[n-1] {
			points = append(points, p)
		}
	}
	return points
}

// withCheckpoints is the script of a refresh that waits at 30 % and at 60 %, for ten reads each, and then ends.
func withCheckpoints(a *fakeAWS) func(int) {
	running := 0
	return func(int) {
		if len(a.refreshes) == 0 || !a.refreshes[0].Active() || a.group.Tags[refresh.SuspendedTag] != "" {
			return
		}
		r := &a.refreshes[0]
		r.Preferences.Checkpoints = []int{30, 60, 100}
		switch running++; running {
		case 3, 15:
			n := running / 15
			a.group.Instances[n] = instance(fmt.Sprintf("i-%d-new", n+1), "2")
			r.Percent = 33 * (n + 1)
		case 30:
			a.replaceAll("2")
			r.Percent, r.Status = 100, refresh.StatusSuccessful
		}
	}
}

// TestGateWithoutCommand: a command that does not exist is not tried again, and nothing is replaced.
func TestGateWithoutCommand(t *testing.T) {
	runInBubble(t, "at the start", func(t *testing.T) {
		a, cfg, g := newFakeAWS(3), defaults(), &fakeGate{fails: from(1), err: gate.ErrNoCommand}
		cfg.Gate, cfg.GateTimeout = g, time.Minute
		end := runGroup(t.Context(), t, cfg, a, nil)
		expect(t, end, report.Gated, "the gate did not pass (start of workers): the command does not exist")
		if a.expectCalls(t, ""); len(g.points) != 1 {
			t.Errorf("tried at %v", g.points)
		}
	})
}

// TestGateIsTriedAgain: the same command, run again after a gate has failed, tries the gate again before it continues.
func TestGateIsTriedAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		mode  refresh.Mode
		calls string
	}{
		"in batches":               {refresh.ModeUnhealthy, "Mark i-1 | Mark i-2 Mark i-3"},
		"a refresh that is paused": {refresh.ModeRefresh, "Start Suspend InstanceRefresh | Release InstanceRefresh"},
	} {
		runInBubble(t, name, func(t *testing.T) {
			a, cfg, g := newFakeAWS(3), defaults(), &fakeGate{fails: from(2)}
			if a.script = replaceUnhealthy(a); tt.mode == refresh.ModeRefresh {
				a.script = withCheckpoints(a)
			} else {
				cfg.Surge = nil
			}
			cfg.Mode, cfg.Gate, cfg.GateTimeout, cfg.Timeout = tt.mode, g, time.Minute, time.Hour
			expect(t, runGroup(t.Context(), t, cfg, a, nil), report.Gated)
			expect(t, runGroup(t.Context(), t, cfg, a, nil), report.Gated) // It has not passed yet.
			a.calls = append(a.calls, "|")
			g.fails = nil
			tries := len(g.points)
			expect(t, runGroup(t.Context(), t, cfg, a, nil), report.Done)
			a.expectCalls(t, tt.calls)
			if len(g.points) == tries {
				t.Error("the gate was not tried again")
			}
		})
	}
}

// TestGateOfSeveralGroups: when the gate fails, no further group is changed.
func TestGateOfSeveralGroups(t *testing.T) {
	runInBubble(t, "one fails", func(t *testing.T) {
		a, cfg := newFakeAWS(1), defaults()
		cfg.Suspend, cfg.Gate, cfg.GateTimeout = []string{"AZRebalance"}, &fakeGate{fails: from(1)}, time.Minute
		r, err := New(cfg, manyGroups{a, []string{"a", "b", "c"}}, a, nil, nil).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		expect(t, r.Groups[0], report.Gated)
		expect(t, r.Groups[1], report.Skipped, "the gate did not pass")
		expect(t, r.Groups[2], report.Skipped, "the gate did not pass")
		if calls := strings.Join(a.calls, " "); strings.Count(calls, "Suspend") != 1 {
			t.Errorf("calls %s", calls)
		}
	})
}

// TestGateOfAnotherGroup: while the gate is tried for one group, another one can be interrupted, and is not kept from
// what needs no gate.
func TestGateOfAnotherGroup(t *testing.T) {
	runInBubble(t, "", func(t *testing.T) {
		a, cfg := newFakeAWS(1), unhealthyDefaults()
		cfg.Gate, cfg.GateTimeout = &fakeGate{fails: from(1)}, time.Minute
		all := loop.NewProgress([]refresh.Group{a.group}, cfg.Mode, nil, plan.NodeIndex{})
		group := New(cfg, a, a, nil, nil).newGroup(loop.GroupProgress{All: all, I: 0}, a.group, plan.Survey{})
		g := mode.NewGates(cfg)
		failed := make(chan error, 1)
		go func() { failed <- g.Pass(t.Context(), group, mode.AtBatch) }()
		synctest.Wait()
		if err := g.Broken(); err != nil {
			t.Errorf("another group is not started: %v", err)
		}
		interrupted, stop := context.WithCancel(t.Context())
		stop()
		if err := g.Pass(interrupted, group, mode.AtBatch); !errors.Is(err, context.Canceled) {
			t.Errorf("another group is interrupted: %v", err)
		}
		if err := <-failed; err == nil || g.Broken() == nil {
			t.Errorf("the gate has failed: %v", err)
		}
	})
}
