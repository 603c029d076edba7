package trigger

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// untagged are groups without a wave.
func untagged(names ...string) map[string]map[string]string {
	tags := map[string]map[string]string{}
	for _, name := range names {
		tags[name] = nil
	}
	return tags
}

// inBatches is a rollout of all groups that starts all new instances first.
func inBatches() plan.Config {
	c := flags(refresh.ModeUnhealthy)
	c.Pace.Surge, c.Suspend, c.Taint = refresh.Amount{N: 100, Percent: true}, []string{"AZRebalance"}, cluster.HardTaint
	return c
}

// TestPhases: what is done together is done in all groups before anything else is, and the rest in one group after the
// other.
func TestPhases(t *testing.T) {
	t.Parallel()
	all := []string{"a", "b"}
	for name, tt := range map[string]struct {
		together refresh.Phase
		before   []string // are done in all groups, in this order
		rest     []string // is done in a, and then in b
	}{
		"each group in turn":          {refresh.NoPhase, nil, []string{"taint", "raise", "terminate"}},
		"checks together":             {refresh.PhaseCheck, nil, []string{"taint", "raise", "terminate"}},
		"taints together":             {refresh.PhaseTaint, []string{"taint"}, []string{"raise", "terminate"}},
		"taints and surges, together": {refresh.PhaseSurge, []string{"taint", "raise"}, []string{"terminate"}},
	} {
		inWorld(t, name, 2, untagged(all...), func(w *world) {
			w.newVersion(2)
			w.slow = "b"
			cfg := inBatches()
			cfg.Together = tt.together
			if got, want := w.run(cfg), map[string]report.Outcome{"a": report.Done, "b": report.Done}; !maps.Equal(got, want) {
				w.Errorf("outcomes %v", got)
			}
			w.events.expectPhases(w, all, tt.before, tt.rest)
			w.expectReplaced(all...)
			w.expectAsBefore(0)
		})
	}
}

// TestWaves: a wave begins when the one before has ended well, whatever --parallel-asgs says.
func TestWaves(t *testing.T) {
	t.Parallel()
	tags := map[string]map[string]string{"a": {refresh.WaveTag: "2"}, "b": {refresh.WaveTag: "1"}, "c": nil}
	everything := []string{"taint", "raise", "mark", "terminate"}
	inWorld(t, "by their tags", 2, tags, func(w *world) {
		w.newVersion(2)
		cfg := inBatches()
		cfg.Parallel = 0
		w.run(cfg)
		w.events.expectOrder(w, everything, "b", "a", "c")
		w.expectReplaced("a", "b", "c")
	})
	inWorld(t, "as they are named", 2, tags, func(w *world) {
		w.newVersion(2)
		cfg := inBatches()
		cfg.Order = []string{"c", "a", "b"}
		w.run(cfg)
		w.events.expectOrder(w, everything, "c", "a", "b")
	})
	inWorld(t, "one does not end well", 2, tags, func(w *world) {
		w.newVersion(2)
		w.must(w.SetState(w.Instances("b")[0].ID, "Standby"))
		want := map[string]report.Outcome{"b": report.Incomplete, "a": report.Skipped, "c": report.Skipped}
		if got := w.run(inBatches()); !maps.Equal(got, want) || w.events.first(everything, "a", "c") >= 0 {
			w.Errorf("outcomes %v, events %v", got, w.events)
		}
	})
	inWorld(t, "one is not waited for", 2, tags, func(w *world) {
		w.newVersion(2)
		cfg := inBatches()
		cfg.Mode, cfg.Wait, cfg.Suspend = refresh.ModeRefresh, false, nil
		reader, writer := w.clients(triggerKey)
		if _, err := rollout.New(cfg, reader, writer, w, nil).Run(w.Context()); err == nil || len(w.events) > 0 {
			w.Errorf("error %v, events %v", err, w.events)
		}
	})
}

// TestWavesOfAProgram: the program replaces the group of the first wave before the other one.
func TestWavesOfAProgram(t *testing.T) {
	t.Parallel()
	a := newAccount(t, latest(2))
	batch := latest(2)
	batch.Name, batch.Max, batch.LaunchTemplate = "batch", 10, template
	a.createGroup(batch)
	a.addVersion(template, "ami-3")
	a.tag(refresh.WaveTag, "1")
	r := a.newRun(nil, "--cluster", "demo", "--parallel-asgs", "0", "--mode", "unhealthy", "--batch", "50%", "--surge", "50%")
	r.Cmd.Env = slices.DeleteFunc(r.Cmd.Env, func(e string) bool { return strings.HasPrefix(e, "TRIGGER_ASG=") })
	a.must(r.Start())
	r.killAtEnd()
	r.waitExit(0, `(?s)workers +desired capacity raised from 2 to 3.*workers +done: .*batch +desired capacity raised from 2 to 3`)
}

// TestSurgeInSteps: the nodes of a step are Ready before the next one, and those of all before an instance terminates.
func TestSurgeInSteps(t *testing.T) {
	t.Parallel()
	inWorld(t, "one at a time", 2, untagged("b"), func(w *world) {
		w.slow = "b" // so that a step takes five minutes
		cfg, started := inBatches(), time.Now()
		cfg.Taint, cfg.Pace.Step = cluster.NoTaint, refresh.Amount{N: 1}
		w.newVersion(2)
		w.run(cfg)
		want := events{{"raise", "b"}, {"raise", "b"}, {"terminate", "b"}, {"terminate", "b"}}
		if took := time.Since(started); !slices.Equal(w.events, want) || took < 10*time.Minute {
			w.Errorf("%v took %v", w.events, took)
		}
		w.expectReplaced("b")
		w.expectAsBefore(0)
	})
}
