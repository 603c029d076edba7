package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/pkg/autoscaling"
	"github.com/node-drainer/node-drainer/pkg/node"
)

// TestTermination: what the agent does, step by step, and what becomes of the message.
func TestTermination(t *testing.T) {
	t.Parallel()
	whole := []string{
		"hold drain", "mark until 1h0m0s", "drain node-1 until 1h0m0s", "exclude", "let go of drain", "complete drain with CONTINUE",
	}
	for _, tt := range []struct {
		name    string
		given   func(w *world)
		steps   []string
		outcome agent.Outcome
		err     error // nil: the message goes
	}{
		{
			name:    "confirmed at once: marked and drained under the hold, then completed",
			steps:   whole,
			outcome: agent.Drained,
		},
		{
			name: "terminating, but not waiting yet: drained all the same",
			given: func(w *world) {
				w.state = always("Terminating")
			},
			steps:   whole,
			outcome: agent.Drained,
		},
		{
			name:    "the drain fails: not completed, the message stays",
			given:   func(w *world) { w.drainErr = errOutage },
			steps:   []string{"hold drain", "mark until 1h0m0s", "drain node-1 until 1h0m0s", "let go of drain"},
			outcome: agent.Interrupted,
			err:     errOutage,
		},
		{
			name:    "pods are left at the deadline: completed, and told",
			given:   func(w *world) { w.report.Left = []string{"web/a"} },
			steps:   whole,
			outcome: agent.LeftBehind,
		},
		{
			name:  "Auto Scaling is silent: marked without a deadline, drained after the confirmation",
			given: func(w *world) { w.state = silent(5*time.Second, terminating) },
			steps: []string{
				"hold drain", "mark", "mark until 1h0m7.75s", "drain node-1 until 1h0m7.75s", "exclude", "let go of drain",
				"complete drain with CONTINUE",
			},
			outcome: agent.Drained,
		},
		{
			name:    "Auto Scaling is silent, then contradicts: the mark is taken off",
			given:   func(w *world) { w.state = silent(5*time.Second, inService) },
			steps:   []string{"hold drain", "mark", "let go of drain", "restore"},
			outcome: agent.Unconfirmed,
		},
		{
			name: "Auto Scaling is silent, then knows no such instance: the mark is taken off",
			given: func(w *world) {
				w.state = silent(5*time.Second, inNoGroup)
			},
			steps:   []string{"hold drain", "mark", "let go of drain", "restore"},
			outcome: agent.Unconfirmed,
		},
		{
			name: "the mark cannot be taken off at first: tried again",
			given: func(w *world) {
				w.state = silent(5*time.Second, inService)
				w.restoreErrs = []error{errOutage, errOutage, errOutage}
			},
			steps:   []string{"hold drain", "mark", "let go of drain", "restore"},
			outcome: agent.Unconfirmed,
		},
		{
			name: "the mark cannot be taken off for longer than the hook is held: still tried again",
			given: func(w *world) {
				w.state = silent(5*time.Second, inNoGroup)
				w.givesUp["drain"] = 2 * time.Minute
				w.restoreErrs = repeat(errOutage, 20)
			},
			steps:   []string{"hold drain", "mark", "let go of drain", "restore"},
			outcome: agent.Unconfirmed,
		},
		{
			name: "the node of a forged message is gone when its mark is to be taken off: nothing to do",
			given: func(w *world) {
				w.state = silent(5*time.Second, inService)
				w.restoreErrs = []error{node.ErrGone}
			},
			steps:   []string{"hold drain", "mark", "let go of drain"},
			outcome: agent.Unconfirmed,
		},
		{
			name: "the mark of an agent that died before the confirmation: taken off",
			given: func(w *world) {
				w.state = always(inNoGroup)
				w.node.Mark = node.Mark{InstanceID: instance, Since: w.start.Add(-time.Minute)}
			},
			steps:   []string{"hold drain", "let go of drain", "restore"},
			outcome: agent.Unconfirmed,
		},
		{
			name:  "contradicted for less than the timeout, then confirmed: drained, not marked before",
			given: func(w *world) { w.state = turns(inService, 45*time.Second, terminating) },
			steps: []string{
				"hold drain", "mark until 1h0m45.75s", "drain node-1 until 1h0m45.75s", "exclude", "let go of drain",
				"complete drain with CONTINUE",
			},
			outcome: agent.Drained,
		},
		{
			name:    "contradicted for longer than the timeout: forged, nothing marked",
			given:   func(w *world) { w.state = turns(inService, 61*time.Second, terminating) },
			steps:   []string{"hold drain", "let go of drain"},
			outcome: agent.Unconfirmed,
		},
		{
			name:    "an instance in no group, with a node: forged",
			given:   func(w *world) { w.state = always(inNoGroup) },
			steps:   []string{"hold drain", "let go of drain"},
			outcome: agent.Unconfirmed,
		},
		{
			name: "an instance in no group, with a node that was marked for good: its termination is over",
			given: func(w *world) {
				w.state = always(inNoGroup)
				w.node.Mark = node.Mark{InstanceID: instance, Since: w.start.Add(-time.Minute), Deadline: w.start.Add(time.Hour)}
			},
			steps:   []string{"hold drain", "let go of drain"},
			outcome: agent.Gone,
		},
		{
			name: "an instance in no group, without a node: gone",
			given: func(w *world) {
				w.state, w.registers = always(inNoGroup), never
			},
			steps:   []string{"hold drain", "let go of drain"},
			outcome: agent.Gone,
		},
		{
			name:    "a state past its hooks: gone, no drain",
			given:   func(w *world) { w.state = always(proceeding) },
			steps:   []string{"hold drain", "let go of drain"},
			outcome: agent.Gone,
		},
		{
			name:    "a hook that does not exist: gone, no drain",
			given:   func(w *world) { w.unknown = true },
			steps:   []string{"hold drain", "let go of drain"},
			outcome: agent.Gone,
		},
		{
			name:    "the group gives up amid the drain: cut short, not completed",
			given:   func(w *world) { w.givesUp["drain"] = 5 * time.Second },
			steps:   []string{"hold drain", "mark until 1h0m0s", "drain node-1 until 1h0m0s", "let go of drain"},
			outcome: agent.CutShort,
		},
		{
			name: "the group gives up amid the confirmation: gone, not completed",
			given: func(w *world) {
				w.state = silent(never, "")
				w.givesUp["drain"] = 5 * time.Second
			},
			steps:   []string{"hold drain", "mark", "let go of drain"},
			outcome: agent.Gone,
		},
		{
			name: "no node, in a group of this cluster: awaited, drained when it registers",
			given: func(w *world) {
				w.registers = time.Minute
				w.clusters = func(time.Duration) ([]string, error) { return []string{"demo"}, nil }
			},
			steps: []string{
				"hold drain", "await", "mark until 1h1m0s", "drain node-1 until 1h1m0s", "exclude", "let go of drain",
				"complete drain with CONTINUE",
			},
			outcome: agent.Drained,
		},
		{
			name:    "no node, in a group that names no cluster: may be ours, never registers, completed",
			given:   func(w *world) { w.registers = never },
			steps:   []string{"hold drain", "await", "look up", "let go of drain", "complete drain with CONTINUE"},
			outcome: agent.Unregistered,
		},
		{
			name: "no node, in a group of several clusters, one of them ours: awaited",
			given: func(w *world) {
				w.registers = never
				w.clusters = func(time.Duration) ([]string, error) { return []string{"demo", "other"}, nil }
			},
			steps:   []string{"hold drain", "await", "look up", "let go of drain", "complete drain with CONTINUE"},
			outcome: agent.Unregistered,
		},
		{
			name: "a node, in a group that names another cluster: drained, for the node is here",
			given: func(w *world) {
				w.clusters = func(time.Duration) ([]string, error) { return []string{"other"}, nil }
			},
			steps:   whole,
			outcome: agent.Drained,
		},
		{
			name: "tags that cannot be read: asked again, the hook not touched until it is known whose it is",
			given: func(w *world) {
				w.registers = never
				w.clusters = func(after time.Duration) ([]string, error) {
					if after < 10*time.Second {
						return nil, errOutage
					}
					return []string{"demo"}, nil
				}
			},
			steps:   []string{"hold drain", "await", "look up", "let go of drain", "complete drain with CONTINUE"},
			outcome: agent.Unregistered,
		},
		{
			name: "tags that cannot be read, until a node registers: it is ours, and drained",
			given: func(w *world) {
				w.registers = time.Second
				w.clusters = func(time.Duration) ([]string, error) { return nil, errOutage }
			},
			steps: []string{
				"hold drain", "mark until 1h0m1.75s", "drain node-1 until 1h0m1.75s", "exclude", "let go of drain",
				"complete drain with CONTINUE",
			},
			outcome: agent.Drained,
		},
		{
			name:  "the mark fails three times: tried again",
			given: func(w *world) { w.retireErrs = []error{errOutage, errOutage, errOutage} },
			steps: []string{
				"hold drain", "mark until 1h0m1.75s", "drain node-1 until 1h0m1.75s", "exclude", "let go of drain",
				"complete drain with CONTINUE",
			},
			outcome: agent.Drained,
		},
		{
			name:  "the hook's timeout cannot be read at first: marked without a deadline, drained when it is known",
			given: func(w *world) { w.deadlineErrs = []error{errOutage} },
			steps: []string{
				"hold drain", "mark", "mark until 1h0m0.25s", "drain node-1 until 1h0m0.25s", "exclude", "let go of drain",
				"complete drain with CONTINUE",
			},
			outcome: agent.Drained,
		},
		{
			name: "neither can the timeout be read nor the node be marked at first: both are tried again",
			given: func(w *world) {
				w.deadlineErrs, w.retireErrs = []error{errOutage, errOutage}, []error{errOutage}
			},
			steps: []string{
				"hold drain", "mark", "mark until 1h0m0.75s", "drain node-1 until 1h0m0.75s", "exclude", "let go of drain",
				"complete drain with CONTINUE",
			},
			outcome: agent.Drained,
		},
		{
			name:  "the node is not to be changed: drained after a tenth of the time, by the deadline of then, and not excluded",
			given: func(w *world) { w.retireErrs, w.excludeErrs = repeat(errOutage, 1000), repeat(errOutage, 1000) },
			steps: []string{
				"hold drain", "drain node-1 until 1h6m45.75s", "let go of drain", "complete drain with CONTINUE",
			},
			outcome: agent.Drained,
		},
		{
			name: "the node can be changed at last, amid its drain: marked with the deadline of the drain",
			given: func(w *world) {
				w.retireErrs, w.drainTakes = repeat(errOutage, 35), 10*time.Minute
			},
			steps: []string{
				"hold drain", "drain node-1 until 1h6m45.75s", "mark until 1h6m45.75s", "exclude", "let go of drain",
				"complete drain with CONTINUE",
			},
			outcome: agent.Drained,
		},
		{
			name: "the mark before the confirmation fails: marked after it",
			given: func(w *world) {
				w.state = silent(5*time.Second, terminating)
				w.retireErrs = []error{errOutage}
			},
			steps: []string{
				"hold drain", "mark until 1h0m7.75s", "drain node-1 until 1h0m7.75s", "exclude", "let go of drain",
				"complete drain with CONTINUE",
			},
			outcome: agent.Drained,
		},
		{
			name:    "the node is gone when it is to be marked: completed as unregistered",
			given:   func(w *world) { w.retireErrs = []error{node.ErrGone}; w.deleted = true },
			steps:   []string{"hold drain", "look up", "let go of drain", "complete drain with CONTINUE"},
			outcome: agent.Unregistered,
		},
		{
			name:  "a node that the watch does not show: found when the API server is asked, and drained",
			given: func(w *world) { w.hidden = true },
			steps: []string{
				"hold drain", "await", "look up", "mark until 1h5m0.25s", "drain node-1 until 1h5m0.25s", "exclude",
				"let go of drain", "complete drain with CONTINUE",
			},
			outcome: agent.Drained,
		},
		{
			name: "no node, and the API server does not answer: held until it says that there is none",
			given: func(w *world) {
				w.registers = never
				w.lookupErrs = repeat(errOutage, 20)
			},
			steps:   []string{"hold drain", "await", "look up", "let go of drain", "complete drain with CONTINUE"},
			outcome: agent.Unregistered,
		},
		{
			name:  "the watch shows a node that has registered anew since: the new one is drained",
			given: func(w *world) { w.retireErrs = []error{node.ErrGone} },
			steps: []string{
				"hold drain", "look up", "mark until 1h0m0.25s", "drain node-1 until 1h0m0.25s", "exclude",
				"let go of drain", "complete drain with CONTINUE",
			},
			outcome: agent.Drained,
		},
		{
			name:    "the load balancers are tried again, before the completion",
			given:   func(w *world) { w.excludeErrs = []error{errOutage, errOutage} },
			steps:   whole,
			outcome: agent.Drained,
		},
		{
			name:    "the node is gone after the drain: out of the load balancers as well",
			given:   func(w *world) { w.excludeErrs = []error{node.ErrGone} },
			steps:   []string{"hold drain", "mark until 1h0m0s", "drain node-1 until 1h0m0s", "let go of drain", "complete drain with CONTINUE"},
			outcome: agent.Drained,
		},
		{
			name:    "the completion fails: the message stays",
			given:   func(w *world) { w.completes = func(context.Context) error { return errOutage } },
			steps:   whole[:5],
			outcome: agent.Interrupted,
			err:     errOutage,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				if tt.given != nil {
					tt.given(w)
				}
				if err := w.handle(t.Context(), "drain"); !errors.Is(err, tt.err) {
					t.Errorf("the message ended with %v, want %v", err, tt.err)
				}
				w.wantSteps(t, tt.steps...)
				w.wantOutcome(t, tt.outcome)
				if w.told("drained before") > 0 {
					t.Error("drained before the node was marked")
				}
			})
		})
	}
}

func repeat(err error, n int) []error {
	return slices.Repeat([]error{err}, n)
}

func TestAutoScalingMayDelayTheMarkByTwoSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.state = silent(10*time.Minute, terminating)
		if err := w.handle(t.Context(), "drain"); err != nil {
			t.Error(err)
		}
		if at := w.when("mark"); at != 2*time.Second {
			t.Errorf("marked after %v, want 2s", at)
		}
		if at := w.when("drain"); at < 10*time.Minute {
			t.Errorf("drained after %v, before the confirmation", at)
		}
		if w.told("retrying to confirm") == 0 {
			t.Error("nobody was told that Auto Scaling does not answer")
		}
	})
}

// TestLoadBalancersMayDelayTheCompletionUntilTheDeadline: the API server may refuse the label for ever.
func TestLoadBalancersMayDelayTheCompletionUntilTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.excludeErrs = repeat(errOutage, 1000)
		if err := w.handle(t.Context(), "drain"); err != nil {
			t.Error(err)
		}
		w.wantOutcome(t, agent.Drained)
		if at := w.when("complete drain"); at != time.Hour {
			t.Errorf("completed after %v, want 1h0m0s", at)
		}
		if w.told("retrying to exclude") == 0 {
			t.Error("nobody was told that the node is still in its load balancers")
		}
	})
}

func TestForgeryTakesTheWholeTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.state = always(inService)
		if err := w.handle(t.Context(), "drain"); err != nil {
			t.Error(err)
		}
		if w.after() != w.cfg.ConfirmTimeout {
			t.Errorf("forged after %v, want %v", w.after(), w.cfg.ConfirmTimeout)
		}
	})
}

func TestRegistrationIsAwaitedFromTheEvent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		at   time.Duration // of the event, after now
		want time.Duration
	}{
		{"an event of now", 0, 5 * time.Minute},
		{"an event of two minutes ago", -2 * time.Minute, 3 * time.Minute},
		{"an event of an hour ago", -time.Hour, 0},
		{"an event of the year after next counts from now", 2 * 365 * 24 * time.Hour, 5 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.registers = 100 * 365 * 24 * time.Hour
				if err := w.agent().Handle(t.Context(), message("drain", w.start.Add(tt.at))); err != nil {
					t.Error(err)
				}
				w.wantOutcome(t, agent.Unregistered)
				if w.after() != tt.want || w.told("awaited") != 1 {
					t.Errorf("awaited for %v, want %v", w.after(), tt.want)
				}
			})
		})
	}
}

// TestForeign: a message for another cluster is left to its owner, whose hook is not touched.
func TestForeign(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.registers = never
		w.clusters = func(time.Duration) ([]string, error) { return []string{"other"}, nil }
		err := w.handle(t.Context(), "drain")
		if err == nil || !strings.Contains(err.Error(), `group workers belongs to cluster ["other"], this is "demo"`) {
			t.Errorf("the message ended with %v", err)
		}
		w.wantSteps(t)
		w.wantOutcome(t, agent.OtherCluster)
	})
}

// TestStopping: whenever the process stops, the message stays and nothing is completed.
func TestStopping(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		given func(w *world)
	}{
		{"while it reads the tags", func(w *world) {
			w.registers = never
			w.clusters = func(time.Duration) ([]string, error) { return nil, errOutage }
		}},
		{"while it confirms", func(w *world) { w.state = silent(never, "") }},
		{"while it is contradicted", func(w *world) { w.state = always(inService) }},
		{"while it awaits the node", func(w *world) { w.registers = never }},
		{"while it marks the node", func(w *world) { w.retireErrs = repeat(errOutage, 1000) }},
		{"while it takes a mark off", func(w *world) {
			w.state = always(inNoGroup)
			w.cfg.ConfirmTimeout = time.Second
			w.restoreErrs = repeat(errOutage, 1000)
		}},
		{"while it drains", func(w *world) { w.drainTakes = time.Hour }},
		{"while it excludes the node from load balancers", func(w *world) { w.excludeErrs = repeat(errOutage, 1000) }},
		{"while it completes", func(w *world) {
			w.completes = func(ctx context.Context) error {
				<-ctx.Done()
				return context.Cause(ctx)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				tt.given(w)
				ctx, cancel := context.WithDeadlineCause(t.Context(), w.start.Add(30*time.Second), errStopping)
				defer cancel()
				if err := w.handle(ctx, "drain"); !errors.Is(err, errStopping) {
					t.Errorf("the message ended with %v, want %v", err, errStopping)
				}
				if done := w.did("complete"); len(done) > 0 {
					t.Errorf("completed: %q", done)
				}
				if w.after() != 30*time.Second {
					t.Errorf("left after %v, want at once", w.after()-30*time.Second)
				}
			})
		})
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		hook, own time.Duration
		want      string
	}{
		{"the hook's, counted from the event, if it is earlier", 50 * time.Minute, time.Hour, "drain node-1 until 40m0s"},
		{"the configured time from now, if that is earlier", 2 * time.Hour, time.Hour, "drain node-1 until 1h0m0s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.timeout["drain"], w.cfg.DrainTimeout = tt.hook, tt.own
				if err := w.agent().Handle(t.Context(), message("drain", w.start.Add(-10*time.Minute))); err != nil {
					t.Error(err)
				}
				if got := w.did("drain"); len(got) != 1 || got[0] != tt.want {
					t.Errorf("drained as %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// TestEarlierMark: an agent that comes back keeps the deadline that the node has.
func TestEarlierMark(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.node.Mark = node.Mark{InstanceID: instance, Since: w.start.Add(-time.Minute), Deadline: w.start.Add(20 * time.Minute)}
		if err := w.handle(t.Context(), "drain"); err != nil {
			t.Error(err)
		}
		if got := w.did("drain"); len(got) != 1 || got[0] != "drain node-1 until 20m0s" {
			t.Errorf("drained as %q", got)
		}
	})
}

// TestReregistered: a Node that was deleted and has come back under another UID may have pods.
func TestReregistered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.state = func(after time.Duration) (autoscaling.State, error) {
			if after < time.Second {
				return "", errOutage
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.node.UID = "uid-2"
			return terminating, nil
		}
		if err := w.handle(t.Context(), "drain"); err != nil {
			t.Error(err)
		}
		w.wantOutcome(t, agent.Drained)
		if got := w.did("drain"); len(got) != 1 {
			t.Errorf("drained as %q, want one drain of the node that came back", got)
		}
	})
}
