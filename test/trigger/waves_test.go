package trigger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// untagged are groups without a wave.
func untagged(names ...string) map[string]map[string]string {
	tags := map[string]map[string]string{}
	for _, name := range names {
		tags[name] = nil
	}
	return tags
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
		inFleet(t, name, untagged(all...), func(f *fleet) {
			f.slow = "b"
			cfg := inBatches()
			cfg.Together = tt.together
			if got, want := f.run(cfg), map[string]report.Outcome{"a": report.Done, "b": report.Done}; !maps.Equal(got, want) {
				f.Errorf("outcomes %v", got)
			}
			f.events.expectPhases(f, all, tt.before, tt.rest)
			f.expectReplaced(all...)
			f.expectNothingLeft(0)
		})
	}
}

// TestWaves: a wave begins when the one before has ended well, whatever --parallel-asgs says.
func TestWaves(t *testing.T) {
	t.Parallel()
	tags := map[string]map[string]string{"a": {refresh.WaveTag: "2"}, "b": {refresh.WaveTag: "1"}, "c": nil}
	everything := []string{"taint", "raise", "mark", "terminate"}
	inFleet(t, "by their tags", tags, func(f *fleet) {
		cfg := inBatches()
		cfg.Parallel = 0
		f.run(cfg)
		f.events.expectOrder(f, everything, "b", "a", "c")
		f.expectReplaced("a", "b", "c")
	})
	inFleet(t, "as they are named", tags, func(f *fleet) {
		cfg := inBatches()
		cfg.Order = []string{"c", "a", "b"}
		f.run(cfg)
		f.events.expectOrder(f, everything, "c", "a", "b")
	})
	inFleet(t, "one does not end well", tags, func(f *fleet) {
		f.must(f.aws.SetState(f.aws.Instances("b")[0].ID, "Standby"))
		want := map[string]report.Outcome{"b": report.Incomplete, "a": report.Skipped, "c": report.Skipped}
		if got := f.run(inBatches()); !maps.Equal(got, want) || f.events.first(everything, "a", "c") >= 0 {
			f.Errorf("outcomes %v, events %v", got, f.events)
		}
	})
	inFleet(t, "one is not waited for", tags, func(f *fleet) {
		cfg := inBatches()
		cfg.Mode, cfg.Wait, cfg.Suspend = refresh.ModeRefresh, false, nil
		ctx, trigger := f.trigger(cfg, -1)
		if _, err := trigger.Run(ctx); err == nil || len(f.events) > 0 {
			f.Errorf("error %v, events %v", err, f.events)
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
	inFleet(t, "one at a time", untagged("b"), func(f *fleet) {
		f.slow = "b" // so that a step takes five minutes
		cfg, started := inBatches(), time.Now()
		cfg.Taint, cfg.Pace.Step = cluster.NoTaint, refresh.Amount{N: 1}
		f.run(cfg)
		want := events{{"raise", "b"}, {"raise", "b"}, {"terminate", "b"}, {"terminate", "b"}}
		if took := time.Since(started); !slices.Equal(f.events, want) || took < 10*time.Minute {
			f.Errorf("%v took %v", f.events, took)
		}
		f.expectReplaced("b")
		f.expectNothingLeft(0)
	})
}

// TestKilledBetweenPhases: a trigger that does all phases together, and raises the surge in steps, is killed after each of its changes in turn. The same
// command, run again, finishes the rollout, and "trigger resume" takes back what it has changed.
func TestKilledBetweenPhases(t *testing.T) {
	t.Parallel()
	cfg := inBatches()
	cfg.Together, cfg.Pace.Step = refresh.PhaseSurge, refresh.Amount{N: 1}
	later := cfg
	later.Holder = "ci-1/2"
	for _, n := range sample(49) {
		kill := func(f *fleet) (ended bool) {
			ctx, trigger := f.trigger(cfg, n)
			_, _ = trigger.Run(ctx)
			return ctx.Err() == nil
		}
		inFleet(t, fmt.Sprintf("after %d changes, and run again", n), untagged("a", "b"), func(f *fleet) {
			if kill(f) {
				f.Error("the trigger was not killed")
			}
			for name, outcome := range f.run(later) {
				if outcome != report.Done && outcome != report.Nothing {
					f.Errorf("%s ended with %s", name, outcome)
				}
			}
			f.expectReplaced("a", "b")
			f.expectNothingLeft(0)
		})
		inFleet(t, fmt.Sprintf("after %d changes, and resumed", n), untagged("a", "b"), func(f *fleet) {
			kill(f)
			settled := func(now []awsim.Instance) bool {
				return !slices.ContainsFunc(now, func(i awsim.Instance) bool { return i.State != "InService" })
			}
			f.must(f.aws.WaitInstances(f.Context(), "a", settled))
			f.must(f.aws.WaitInstances(f.Context(), "b", settled))
			ctx, trigger := f.trigger(later, -1)
			_, err := trigger.Act(ctx, rollout.ActResume)
			f.must(err)
			f.expectNothingLeft(0)
		})
	}
}
