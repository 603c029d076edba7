package agent_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/pkg/autoscaling"
	"github.com/node-drainer/node-drainer/pkg/node"
)

const (
	pending       = autoscaling.State("Pending")
	pendingWait   = autoscaling.State("Pending:Wait")
	warmedPending = autoscaling.State("Warmed:Pending:Wait")
	warmedStopped = autoscaling.State("Warmed:Stopped")
)

// held are the steps between the start and the end of the hold; completed adds a completion.
func held(steps ...string) []string {
	return slices.Concat([]string{"hold launch"}, steps, []string{"release launch"})
}

func completed(result string, steps ...string) []string {
	return append(held(steps...), "complete launch with "+result)
}

func TestLaunch(t *testing.T) {
	t.Parallel()
	const (
		started, waits = "launch started", `"node-1" waits for Ready`
		overdue        = `"node-1" is overdue, lacks Ready: `
		unregistered   = `"" waits for a registered Node`
	)
	ready := completed("CONTINUE", "await", "wait for node-1")
	for _, tt := range []struct {
		name        string
		given       func(f *fixture)
		destination string
		steps       []string
		facts       []string
		took        time.Duration
	}{
		{
			name: "completed when the node is ready", given: func(*fixture) {}, destination: "AutoScalingGroup",
			steps: ready, facts: []string{started, waits, "launch ended ready"}, took: time.Minute,
		},
		{
			name: "old message without a destination", given: func(*fixture) {},
			steps: ready, facts: []string{started, waits, "launch ended ready"}, took: time.Minute,
		},
		{
			name: "the node is ready at once", given: func(f *fixture) { f.ready = 0; f.state = always(pending) },
			steps: ready, facts: []string{started, "launch ended ready"},
		},
		{
			name: "the instance registers later", given: func(f *fixture) { f.registers = 30 * time.Second },
			steps: ready, facts: []string{started, unregistered, waits, "launch ended ready"}, took: time.Minute,
		},
		{
			name: "the node is not ready in time: abandoned", given: func(f *fixture) { f.ready = never },
			steps: completed("ABANDON", "await", "wait for node-1", "ask about node-1"),
			facts: []string{started, waits, overdue + "abandoned", "launch ended abandoned"}, took: 15 * time.Minute,
		},
		{
			name: "the node is not ready in time: continued, as configured", given: func(f *fixture) { f.ready, f.cfg.Launch.Continue = never, true },
			steps: completed("CONTINUE", "await", "wait for node-1", "ask about node-1"),
			facts: []string{started, waits, overdue + "continued", "launch ended continued"}, took: 15 * time.Minute,
		},
		{
			name: "the instance never registers", given: func(f *fixture) { f.registers = never },
			steps: completed("ABANDON", "await", "look up"),
			facts: []string{
				started, unregistered, `"" is overdue, lacks a registered Node: abandoned`, "launch ended abandoned",
			},
			took: 15 * time.Minute,
		},
		{
			name: "the watch does not show the Node", given: func(f *fixture) { f.hidden = true },
			steps: completed("CONTINUE", "await", "look up", "ask about node-1"),
			facts: []string{started, unregistered, "launch ended ready"}, took: 15 * time.Minute,
		},
		{
			name: "the hook's timeout is shorter", given: func(f *fixture) { f.ready, f.timeout["launch"] = never, 5*time.Minute },
			steps: completed("ABANDON", "await", "wait for node-1", "ask about node-1"),
			facts: []string{started, waits, overdue + "abandoned", "launch ended abandoned"}, took: 5*time.Minute - 10*time.Second,
		},

		// The warm pool.
		{
			name: "into the warm pool: completed at once", given: func(f *fixture) { f.state, f.registers = always(warmedPending), never },
			destination: "WarmPool", steps: completed("CONTINUE"), facts: []string{started, "launch ended pooled"},
		},
		{
			name: "into the warm pool, without a destination", given: func(f *fixture) { f.state, f.registers = always(warmedPending), never },
			steps: completed("CONTINUE"), facts: []string{started, "launch ended pooled"},
		},
		{
			name: "from the warm pool, with a cordon of the termination into it",
			given: func(f *fixture) {
				f.ready = 0
				f.node.Mark = node.Mark{InstanceID: instance, Since: f.start.Add(-time.Hour)}
			},
			destination: "AutoScalingGroup",
			steps:       completed("CONTINUE", "await", "uncordon", "wait for node-1"),
			facts:       []string{started, "launch uncordoned", "launch ended ready"},
		},
		{
			name: "with a cordon of a later termination",
			given: func(f *fixture) {
				f.ready = 0
				f.node.Mark = node.Mark{InstanceID: instance, Since: f.start.Add(time.Second)}
			},
			steps: ready, facts: []string{started, "launch ended ready"},
		},
		{
			name: "the node is deleted before it is uncordoned",
			given: func(f *fixture) {
				f.ready, f.uncordonErrs = 0, []error{node.ErrGone}
				f.node.Mark = node.Mark{InstanceID: instance, Since: f.start.Add(-time.Hour)}
			},
			steps: ready, facts: []string{started, "launch ended ready"},
		},

		// The confirmation.
		{
			name: "already in service", given: func(f *fixture) { f.state = always(inService) },
			steps: held(), facts: []string{started, "launch ended gone"},
		},
		{
			name: "already terminating", given: func(f *fixture) { f.state = always(terminating) },
			steps: held(), facts: []string{started, "launch ended gone"},
		},
		{
			name: "the group gives up", given: func(f *fixture) { f.ready, f.givesUp["launch"] = never, 5*time.Minute },
			steps: held("await", "wait for node-1"), facts: []string{started, waits, "launch ended gone"}, took: 5 * time.Minute,
		},
		{
			name: "in no group, and has no node", given: func(f *fixture) { f.state, f.registers = always(inNoGroup), never },
			steps: held(), facts: []string{started, "launch ended gone"}, took: time.Minute,
		},
		{
			name: "in no group, and has a node", given: func(f *fixture) { f.state = always(inNoGroup) },
			steps: held(), facts: []string{started, "launch ended unconfirmed"}, took: time.Minute,
		},
		{
			name: "a late copy of the launch into the warm pool", given: func(*fixture) {}, destination: "WarmPool",
			steps: held(), facts: []string{started, "launch ended unconfirmed"}, took: time.Minute,
		},
		{
			name: "to the group, of an instance that enters the warm pool", given: func(f *fixture) { f.state = always(warmedPending) },
			destination: "AutoScalingGroup", steps: held(), facts: []string{started, "launch ended unconfirmed"}, took: time.Minute,
		},
		{
			name: "an old answer of Auto Scaling is followed by a new one", destination: "AutoScalingGroup",
			given: func(f *fixture) { f.state = changes(warmedStopped, 10*time.Second, pendingWait) },
			steps: ready, facts: []string{started, waits, "launch ended ready"}, took: time.Minute,
		},
		{
			name: "already in the warm pool", given: func(f *fixture) { f.state = always(warmedStopped) },
			destination: "WarmPool", steps: held(), facts: []string{started, "launch ended gone"},
		},
		{
			name: "the group has no such hook", given: func(f *fixture) { f.noHook = true },
			steps: held(), facts: []string{started, "launch ended gone"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newLaunchFixture()
				tt.given(f)
				if err := f.launch(t.Context(), tt.destination); err != nil {
					t.Errorf("the message ended with %v", err)
				}
				f.wantSteps(t, tt.steps...)
				f.wantFacts(t, tt.facts...)
				if f.after() != tt.took {
					t.Errorf("it took %v, want %v", f.after(), tt.took)
				}
			})
		})
	}
}

// TestLaunchDuringOutage: a node is not abandoned while the API server does not answer and the hook can be held.
func TestLaunchDuringOutage(t *testing.T) {
	t.Parallel()
	const (
		m           = time.Minute
		lastAttempt = 18 * time.Second // the longest pause between two attempts
	)
	until := func(end time.Duration) func(time.Duration) bool {
		return func(after time.Duration) bool { return after < end }
	}
	for _, tt := range []struct {
		name        string
		given       func(f *fixture)
		last        string
		least, most time.Duration
	}{
		{
			"the node is ready right after the outage",
			func(f *fixture) { f.ready, f.outage = 40*m, until(39*m) },
			"complete launch with CONTINUE", 40 * m, 40 * m,
		},
		{
			"the node is ready two minutes after the outage",
			func(f *fixture) { f.ready, f.outage = 41*m, until(39*m) },
			"complete launch with CONTINUE", 41 * m, 41 * m,
		},
		{
			"the node is not ready three minutes after the outage",
			func(f *fixture) { f.ready, f.outage = never, until(39*m) },
			"complete launch with ABANDON", 42 * m, 42*m + lastAttempt,
		},
		{
			"the outage lasts until the hook's timeout",
			func(f *fixture) { f.ready, f.outage, f.timeout["launch"] = never, until(never), time.Hour },
			"complete launch with ABANDON", time.Hour, time.Hour,
		},
		{
			"only the watches are affected",
			func(f *fixture) { f.hidden, f.lookupErrs, f.ready = true, repeat(errOutage, 5), m },
			"complete launch with CONTINUE", 15 * m, 16 * m,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newLaunchFixture()
				tt.given(f)
				if err := f.launch(t.Context(), ""); err != nil {
					t.Errorf("the message ended with %v", err)
				}
				steps := f.did("")
				if last := steps[len(steps)-1]; last != tt.last || f.after() < tt.least || f.after() > tt.most {
					t.Errorf("%s after %v, want %s after %v to %v", last, f.after(), tt.last, tt.least, tt.most)
				}
			})
		})
	}
}

// TestLateLaunch: the time of the message counts, but the node is checked before it is abandoned.
func TestLateLaunch(t *testing.T) {
	t.Parallel()
	for result, ready := range map[string]time.Duration{"CONTINUE": 0, "ABANDON": never} {
		t.Run(result, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newLaunchFixture()
				f.ready = ready
				m := launchMessage("launch", "", f.start.Add(-20*time.Minute))
				if err := f.agent().Handle(t.Context(), m); err != nil {
					t.Error(err)
				}
				if len(f.did("complete launch with "+result)) != 1 || f.after() != 0 {
					t.Errorf("%q after %v, want %s at once", f.did("complete"), f.after(), result)
				}
			})
		})
	}
}

func TestCopiesShareALaunch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newLaunchFixture()
		a := f.agent()
		var messages sync.WaitGroup
		for _, destination := range []string{"AutoScalingGroup", "AutoScalingGroup", ""} {
			messages.Go(func() {
				if err := a.Handle(t.Context(), launchMessage("launch", destination, f.start)); err != nil {
					t.Error(err)
				}
			})
		}
		messages.Wait()
		if len(f.did("hold")) != 1 || len(f.did("complete")) != 1 || f.observed("received") != 3 {
			t.Errorf("three copies: %q, %q", f.did(""), f.facts)
		}
	})
}

func TestLaunchInAnotherCluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newLaunchFixture()
		f.registers = never
		f.clusters = func(time.Duration) ([]string, error) { return []string{"other"}, nil }
		if err := f.launch(t.Context(), ""); err == nil || !strings.Contains(err.Error(), `belongs to cluster ["other"]`) {
			t.Errorf("the message ended with %v, want it released", err)
		}
		f.wantSteps(t)
		f.wantFacts(t, "launch started", "launch ended other-cluster")
	})
}
