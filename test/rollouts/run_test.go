package rollouts

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/test/awsim"
)

const (
	// longest is how long all processes may take, which wait for windows, gates and stalled rollouts.
	longest = 24 * time.Hour
	// finals is how often the trigger is run at the end until nothing is left to do.
	finals = 3
)

// Result is what came of a Spec.
type Result struct {
	Violations []Violation
	Outcomes   map[report.Outcome]int // of all rollouts of groups
	lines      []line
	began      time.Time
}

// Log returns all that happened, a line each.
func (r Result) Log() string { return format(r.lines, r.began) }

// Simulate runs a Spec.
func Simulate(t *testing.T, spec Spec) Result { return simulate(t, spec, mutant{}) }

func simulate(t *testing.T, spec Spec, m mutant) (result Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 4*longest)
		defer cancel()
		w := newWorld(ctx, spec)
		w.mutant, w.stop = m, cancel
		err := w.createAll()
		if err == nil {
			w.runAll(ctx)
		}
		cancel()
		if closed := w.aws.Close(); err == nil {
			err = closed
		}
		if err != nil {
			t.Errorf("seed %d: %v", spec.Seed, err)
		}
		result = Result{Violations: w.judge.violations, Outcomes: w.judge.outcomes, lines: w.log.lines, began: w.began}
	})
	return result
}

// runAll has everything happen that the Spec says, and then runs the trigger until nothing is left to do.
func (w *world) runAll(ctx context.Context) {
	var work sync.WaitGroup
	for n, run := range w.spec.Runs {
		work.Go(func() {
			time.Sleep(run.At)
			w.finish(ctx, w.newProcess(fmt.Sprintf("ci-%d/1", n+1), run))
		})
	}
	work.Go(func() { w.runSteps() })
	work.Go(func() { w.injectFaults() })
	work.Wait()
	w.heal() //nolint:contextcheck // What ends in the simulation has its own context.
	w.runFinals(ctx)
}

// finish runs a process, which must end.
func (w *world) finish(ctx context.Context, p *process) report.Rollout {
	limited, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	ended, err := p.execute(limited)
	if err != nil {
		w.judge.violate("simulated", "%v", err)
	}
	if limited.Err() != nil && ctx.Err() == nil {
		w.judge.violate("rollouts end", "%s has not ended in %v", p.name, longest)
	}
	return ended
}

// heal ends all that interferes.
func (w *world) heal() {
	w.mu.Lock()
	w.healed = true
	w.mu.Unlock()
	w.note("operator", "nothing interferes any more")
	w.aws.SetAlarm(alarm, awsim.AlarmOK)
	for _, g := range w.groups {
		w.healGroup(g)
	}
	time.Sleep(grace)
}

// isAnyNamedGone reports whether an instance that is named is in no group any more.
func (w *world) isAnyNamedGone() bool {
	return slices.ContainsFunc(w.groups, func(g *group) bool {
		now := w.aws.Instances(g.asg)
		return slices.ContainsFunc(g.only, func(id string) bool {
			return !slices.ContainsFunc(now, func(i awsim.Instance) bool { return i.ID == id })
		})
	})
}

func (w *world) isHealed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.healed
}

// runFinals runs the trigger until nothing is left to do, and judges what is left. Where it does not succeed, trigger
// resume must give back what triggers hold.
func (w *world) runFinals(ctx context.Context) {
	var ended report.Rollout
	for n := range finals {
		p := w.newProcess(fmt.Sprintf("final-%d/1", n+1), Run{})
		p.final = true
		ended = w.finish(ctx, p)
		if report.Worst(ended.Groups).ExitCode() == 0 && len(ended.Groups) > 0 {
			break
		}
		time.Sleep(w.spec.Visible) // Until then AWS shows its lease, and trigger resume says that it has to be run again.
		w.finish(ctx, w.newProcess(fmt.Sprintf("resume-%d/1", n+1), Run{Command: Resume}))
		time.Sleep(grace)
	}
	if ctx.Err() != nil {
		return
	}
	time.Sleep(grace) // until what is terminating is gone
	w.judge.scalerRestored()
	for _, g := range ended.Groups {
		w.judge.nothingLeft(w.named(g.Name), g.Outcome)
	}
	if len(ended.Groups) == 0 && w.isAnyNamedGone() { // Then it is an error to name them.
		for _, g := range w.groups {
			w.judge.nothingLeft(g, report.Error)
		}
		return
	}
	if len(ended.Groups) != len(w.groups) {
		w.judge.violate("rollouts end", "the last trigger has ended with %d groups of %d", len(ended.Groups), len(w.groups))
	}
}
