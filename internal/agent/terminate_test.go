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
	"github.com/node-drainer/node-drainer/pkg/ec2"
	"github.com/node-drainer/node-drainer/pkg/node"
)

// drainedBy are the steps of a termination whose drain has the deadline, which may be a range.
func drainedBy(deadline string) []string {
	return []string{
		"hold drain", "cordon until " + deadline, "drain node-1 until " + deadline, "exclude", "release drain",
		"complete drain with CONTINUE",
	}
}

// neverDrained are the steps of a termination that has nothing to drain.
func neverDrained(steps ...string) []string {
	return slices.Concat([]string{"hold drain"}, steps, []string{"release drain"})
}

// TestTermination: the steps of a termination, its outcome, and the error that Handle returns.
func TestTermination(t *testing.T) {
	t.Parallel()
	unregistered := append(neverDrained("await", "look up"), "complete drain with CONTINUE")
	for _, tt := range []struct {
		name    string
		given   func(f *fixture)
		steps   []string
		outcome agent.Outcome
		err     error // nil: the message is deleted
	}{
		{
			name:  "confirmed at once: cordoned and drained under the hold, then completed",
			given: func(*fixture) {}, steps: drainedBy("1h0m0s"), outcome: agent.Drained,
		},
		{
			name:  "the instance does not wait for its hook yet",
			given: func(f *fixture) { f.state = always("Terminating") }, steps: drainedBy("1h0m0s"), outcome: agent.Drained,
		},
		{
			name: "the drain fails", given: func(f *fixture) { f.drainErr = errOutage },
			steps: neverDrained("cordon until 1h0m0s", "drain node-1 until 1h0m0s"), outcome: agent.Interrupted, err: errOutage,
		},
		{
			name: "pods are left at the deadline", given: func(f *fixture) { f.report.Left = []string{"web/a"} },
			steps: drainedBy("1h0m0s"), outcome: agent.LeftBehind,
		},
		{
			name:    "the group gives up during the drain: not completed",
			given:   func(f *fixture) { f.givesUp["drain"] = 5 * time.Second },
			steps:   neverDrained("cordon until 1h0m0s", "drain node-1 until 1h0m0s"),
			outcome: agent.CutShort,
		},
		{
			name: "the group gives up during the confirmation: not completed",
			given: func(f *fixture) {
				f.state = silent(never, "")
				f.givesUp["drain"] = 5 * time.Second
			},
			steps: neverDrained("cordon"), outcome: agent.Gone,
		},
		{
			name:  "the completion fails",
			given: func(f *fixture) { f.complete = func(context.Context) error { return errOutage } },
			steps: drainedBy("1h0m0s")[:5], outcome: agent.Interrupted, err: errOutage,
		},
		{
			name:  "the load-balancer label fails twice",
			given: func(f *fixture) { f.excludeErrs = repeat(errOutage, 2) }, steps: drainedBy("1h0m0s"), outcome: agent.Drained,
		},
		{
			name: "the node is deleted after the drain", given: func(f *fixture) { f.excludeErrs = []error{node.ErrGone} },
			steps:   append(neverDrained("cordon until 1h0m0s", "drain node-1 until 1h0m0s"), "complete drain with CONTINUE"),
			outcome: agent.Drained,
		},

		// The confirmation.
		{
			name:    "Auto Scaling does not answer: cordoned without a deadline, drained after the confirmation",
			given:   func(f *fixture) { f.state = silent(5*time.Second, terminating) },
			steps:   slices.Insert(drainedBy("1h0m7.75s..1h0m9.3s"), 1, "cordon"),
			outcome: agent.Drained,
		},
		{
			name: "Auto Scaling does not answer, and the first cordon fails",
			given: func(f *fixture) {
				f.state = silent(5*time.Second, terminating)
				f.cordonErrs = []error{errOutage}
			},
			steps: drainedBy("1h0m7.75s..1h0m9.3s"), outcome: agent.Drained,
		},
		{
			name:  "Auto Scaling does not answer, then contradicts: uncordoned",
			given: func(f *fixture) { f.state = silent(5*time.Second, inService) },
			steps: append(neverDrained("cordon"), "uncordon"), outcome: agent.Unconfirmed,
		},
		{
			name:  "Auto Scaling does not answer, then does not know the instance: uncordoned",
			given: func(f *fixture) { f.state = silent(5*time.Second, inNoGroup) },
			steps: append(neverDrained("cordon"), "uncordon"), outcome: agent.Unconfirmed,
		},
		{
			name: "uncordon fails longer than the hook is held: still retried",
			given: func(f *fixture) {
				f.state = silent(5*time.Second, inNoGroup)
				f.givesUp["drain"] = 2 * time.Minute
				f.uncordonErrs = repeat(errOutage, 20)
			},
			steps: append(neverDrained("cordon"), "uncordon"), outcome: agent.Unconfirmed,
		},
		{
			name: "the node of an unconfirmed termination is deleted",
			given: func(f *fixture) {
				f.state = silent(5*time.Second, inService)
				f.uncordonErrs = []error{node.ErrGone}
			},
			steps: neverDrained("cordon"), outcome: agent.Unconfirmed,
		},
		{
			name: "unconfirmed, and cordoned by an agent that crashed before the confirmation: uncordoned",
			given: func(f *fixture) {
				f.state = always(inNoGroup)
				f.node.Mark = node.Mark{InstanceID: instance, Since: f.start.Add(-time.Minute)}
			},
			steps: append(neverDrained(), "uncordon"), outcome: agent.Unconfirmed,
		},
		{
			name:  "contradicted for less than the timeout: not cordoned before the confirmation",
			given: func(f *fixture) { f.state = changes(inService, 45*time.Second, terminating) },
			steps: drainedBy("1h0m45.75s..1h0m54.9s"), outcome: agent.Drained,
		},
		{
			name:  "contradicted for longer than the timeout",
			given: func(f *fixture) { f.state = changes(inService, 61*time.Second, terminating) },
			steps: neverDrained(), outcome: agent.Unconfirmed,
		},
		{
			name: "in no group, and has a node", given: func(f *fixture) { f.state = always(inNoGroup) },
			steps: neverDrained(), outcome: agent.Unconfirmed,
		},
		{
			name: "in no group, and has a node with a deadline: its termination is over",
			given: func(f *fixture) {
				f.state = always(inNoGroup)
				f.node.Mark = node.Mark{InstanceID: instance, Since: f.start.Add(-time.Minute), Deadline: f.start.Add(time.Hour)}
			},
			steps: neverDrained(), outcome: agent.Gone,
		},
		{
			name: "in no group, and has no node", given: func(f *fixture) { f.state, f.registers = always(inNoGroup), never },
			steps: neverDrained(), outcome: agent.Gone,
		},
		{
			name: "the hook is already completed", given: func(f *fixture) { f.state = always(proceeding) },
			steps: neverDrained(), outcome: agent.Gone,
		},
		{
			name:  "the group has no such hook",
			given: func(f *fixture) { f.noHook = true }, steps: neverDrained(), outcome: agent.Gone,
		},

		// The node and its cluster.
		{
			name: "registers after a minute, in a group of this cluster",
			given: func(f *fixture) {
				f.registers = time.Minute
				f.clusters = func(time.Duration) ([]string, error) { return []string{"demo"}, nil }
			},
			steps: slices.Insert(drainedBy("1h1m0s"), 1, "await"), outcome: agent.Drained,
		},
		{
			name:  "never registers, in a group that names no cluster",
			given: func(f *fixture) { f.registers = never }, steps: unregistered, outcome: agent.Unregistered,
		},
		{
			name: "never registers, in a group of several clusters",
			given: func(f *fixture) {
				f.registers = never
				f.clusters = func(time.Duration) ([]string, error) { return []string{"demo", "other"}, nil }
			},
			steps: unregistered, outcome: agent.Unregistered,
		},
		{
			name: "never registers, and the API server does not answer at first",
			given: func(f *fixture) {
				f.registers = never
				f.lookupErrs = repeat(errOutage, 20)
			},
			steps: unregistered, outcome: agent.Unregistered,
		},
		{
			name: "terminated at the console: its node never registers",
			given: func(f *fixture) {
				f.registers, f.ec2 = never, describes(ec2.Instance{State: "terminated"})
			},
			steps: append(neverDrained("look up"), "complete drain with CONTINUE"), outcome: agent.Unregistered,
		},
		{
			name: "a node of this cluster in a group that names another",
			given: func(f *fixture) {
				f.clusters = func(time.Duration) ([]string, error) { return []string{"other"}, nil }
			},
			steps: drainedBy("1h0m0s"), outcome: agent.Drained,
		},
		{
			name: "the tags cannot be read at first",
			given: func(f *fixture) {
				f.registers = never
				f.clusters = func(after time.Duration) ([]string, error) {
					if after < 10*time.Second {
						return nil, errOutage
					}
					return []string{"demo"}, nil
				}
			},
			steps: unregistered, outcome: agent.Unregistered,
		},
		{
			name: "the tags cannot be read, until the node registers",
			given: func(f *fixture) {
				f.registers = time.Second
				f.clusters = func(time.Duration) ([]string, error) { return nil, errOutage }
			},
			steps: drainedBy("1h0m1.75s..1h0m2.1s"), outcome: agent.Drained,
		},
		{
			name: "the watch does not show the node", given: func(f *fixture) { f.hidden = true },
			steps: slices.Insert(drainedBy("1h5m0s"), 1, "await", "look up"), outcome: agent.Drained,
		},
		{
			name: "the node is deleted before the cordon", given: func(f *fixture) { f.cordonErrs, f.deleted = []error{node.ErrGone}, true },
			steps: append(neverDrained("look up"), "complete drain with CONTINUE"), outcome: agent.Unregistered,
		},
		{
			name: "the instance has registered again", given: func(f *fixture) { f.cordonErrs = []error{node.ErrGone} },
			steps: slices.Insert(drainedBy("1h0m0.25s..1h0m0.3s"), 1, "look up"), outcome: agent.Drained,
		},

		// The cordon.
		{
			name: "the cordon fails three times", given: func(f *fixture) { f.cordonErrs = repeat(errOutage, 3) },
			steps: drainedBy("1h0m1.75s..1h0m2.1s"), outcome: agent.Drained,
		},
		{
			name:  "the hook's timeout cannot be read at first: cordoned without a deadline",
			given: func(f *fixture) { f.deadlineErrs = []error{errOutage} },
			steps: slices.Insert(drainedBy("1h0m0.25s..1h0m0.3s"), 1, "cordon"), outcome: agent.Drained,
		},
		{
			name: "neither the timeout nor the cordon succeed at first",
			given: func(f *fixture) {
				f.deadlineErrs, f.cordonErrs = repeat(errOutage, 2), []error{errOutage}
			},
			steps: slices.Insert(drainedBy("1h0m0.75s..1h0m0.9s"), 1, "cordon"), outcome: agent.Drained,
		},
		{
			name:    "the node cannot be changed: drained after 10 % of the time",
			given:   func(f *fixture) { f.cordonErrs, f.excludeErrs = repeat(errOutage, 1000), repeat(errOutage, 1000) },
			steps:   append(neverDrained("drain node-1 until 1h6m40s..1h6m58s"), "complete drain with CONTINUE"),
			outcome: agent.Drained,
		},
		{
			name: "the node can be changed during its drain: cordoned with the deadline of the drain",
			given: func(f *fixture) {
				f.cordonErrs, f.drainTakes = repeat(errOutage, 35), 10*time.Minute
			},
			steps: append(neverDrained("drain node-1 until 1h6m40s..1h6m58s", "cordon until 1h6m40s..1h6m58s", "exclude"),
				"complete drain with CONTINUE"),
			outcome: agent.Drained,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture()
				tt.given(f)
				if err := f.handle(t.Context(), "drain"); !errors.Is(err, tt.err) {
					t.Errorf("the message ended with %v, want %v", err, tt.err)
				}
				f.wantSteps(t, tt.steps...)
				f.wantOutcome(t, tt.outcome)
				if f.observed("drained before") > 0 {
					t.Error("drained before the node was cordoned")
				}
			})
		})
	}
}

// TestTerminationTimes: how long each part of a termination may delay the next one.
func TestTerminationTimes(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, tt := range []struct {
		name        string
		given       func(f *fixture)
		step        string // whose time is checked; empty: the end
		least, most time.Duration
		fact        string // which must be observed
	}{
		{
			name: "an unanswered confirmation delays the cordon by 2 s", step: "cordon", least: 2 * time.Second, most: 2 * time.Second,
			given: func(f *fixture) { f.state = silent(10*time.Minute, terminating) }, fact: "retrying to confirm",
		},
		{
			name: "an unanswered confirmation delays the drain", step: "drain", least: 10 * time.Minute, most: 10*time.Minute + 18*time.Second,
			given: func(f *fixture) { f.state = silent(10*time.Minute, terminating) },
		},
		{
			name: "a contradicted message is dropped after the timeout", least: time.Minute, most: time.Minute,
			given: func(f *fixture) { f.state = always(inService) }, fact: "ended unconfirmed",
		},
		{
			name: "load balancers delay the completion until the deadline", step: "complete drain", least: time.Hour, most: time.Hour,
			given: func(f *fixture) { f.excludeErrs = repeat(errOutage, 1000) }, fact: "retrying to exclude",
		},
		{
			name: "an instance that was terminated is not awaited", most: 300 * ms,
			given: func(f *fixture) { f.registers, f.ec2 = never, describes(ec2.Instance{State: "terminated"}) },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture()
				tt.given(f)
				if err := f.handle(t.Context(), "drain"); err != nil {
					t.Error(err)
				}
				at := f.after()
				if tt.step != "" {
					at = f.when(tt.step)
				}
				if at < tt.least || at > tt.most || f.observed(tt.fact) == 0 {
					t.Errorf("after %v, want %v to %v; facts %q", at, tt.least, tt.most, f.facts)
				}
			})
		})
	}
}

// TestOtherCluster: a message for another cluster is released, and its hook is not touched.
func TestOtherCluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.registers = never
		f.clusters = func(time.Duration) ([]string, error) { return []string{"other"}, nil }
		err := f.handle(t.Context(), "drain")
		if err == nil || !strings.Contains(err.Error(), `group workers belongs to cluster ["other"], this is "demo"`) {
			t.Errorf("the message ended with %v", err)
		}
		f.wantSteps(t)
		f.wantOutcome(t, agent.OtherCluster)
	})
}

// TestRegisteredAgain: a Node that was deleted and registered again with another UID may have pods.
func TestRegisteredAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.state = func(after time.Duration) (autoscaling.State, error) {
			if after < time.Second {
				return "", errOutage
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.node.UID = "uid-2"
			return terminating, nil
		}
		if err := f.handle(t.Context(), "drain"); err != nil {
			t.Error(err)
		}
		f.wantOutcome(t, agent.Drained)
		if got := f.did("drain"); len(got) != 1 {
			t.Errorf("drained as %q, want one drain of the new node", got)
		}
	})
}
