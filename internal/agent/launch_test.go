package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/pkg/autoscaling"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/launch"
	"github.com/node-drainer/node-drainer/pkg/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

const (
	pending       = autoscaling.State("Pending")
	pendingWait   = autoscaling.State("Pending:Wait")
	warmedPending = autoscaling.State("Warmed:Pending:Wait")
	warmedStopped = autoscaling.State("Warmed:Stopped")
)

// launchWorld is what a world plays of launches.
type launchWorld struct {
	serves    time.Duration                    // when the node can serve
	outage    func(after time.Duration) bool   // the API server cannot be asked
	refresh   func(group string) (bool, error) // whether a refresh is on
	protects  []error                          // one for each call
	protected []node.ProtectedNode
}

// launching is a world where nothing is wrong: a registered node, whose instance waits for its launch hook, and
// which can serve after a minute.
func launching() *world {
	w := newWorld()
	w.state = always(pendingWait)
	w.cfg.Launch.Timeout = 15 * time.Minute
	w.serves = time.Minute
	return w
}

// launch lets an agent handle the message of a launch hook, and returns the error.
func (w *world) launch(ctx context.Context, destination string) error {
	return w.agent().Handle(ctx, launchMessage("launch", destination, w.start))
}

func launchMessage(hook, destination string, at time.Time) queue.Message {
	m := message(hook, at)
	text := strings.Replace(string(m.Body), "TERMINATING", "LAUNCHING", 1)
	if destination != "" {
		text = strings.Replace(text, "{", fmt.Sprintf(`{"Origin":"EC2","Destination":%q,`, destination), 1)
	}
	m.Body = []byte(text)
	return m
}

// Launches.

func (w *world) Wait(ctx context.Context, name string, told func([]string)) error {
	w.step("wait for %s", name)
	if w.after() < w.serves {
		told([]string{"Ready"})
	}
	timer := time.NewTimer(w.serves - w.after())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w *world) Missing(ctx context.Context, name string) ([]string, error) {
	w.step("ask for %s", name)
	if w.outage != nil && w.outage(w.after()) {
		return nil, errOutage
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if w.after() < w.serves {
		return []string{"Ready"}, nil
	}
	return nil, nil
}

func (w *world) RefreshActive(_ context.Context, group string) (bool, error) {
	if w.refresh == nil {
		return false, nil
	}
	return w.refresh(group)
}

func (w *world) Protect(_ context.Context, n node.Node, group string) (bool, error) {
	if err := w.next(&w.protects); err != nil {
		return false, err
	}
	w.step("protect %s for %s", n.Name, group)
	return true, nil
}

func (w *world) Unprotect(_ context.Context, n node.Node) (bool, error) {
	if err := w.next(&w.protects); err != nil {
		return false, err
	}
	w.step("unprotect %s", n.Name)
	return true, nil
}

func (w *world) Protected() []node.ProtectedNode { return w.protected }

// Observer of launches.

func (w *world) LaunchStarted(event.Event) { w.fact("launch began") }

func (w *world) LaunchWaiting(_ event.Event, name string, missing []string) {
	w.fact("%q waits for %s", name, strings.Join(missing, ", "))
}

func (w *world) LaunchOverdue(_ event.Event, n node.Node, missing []string, o launch.Outcome) {
	w.fact("%q is overdue, lacks %s: %s", n.Name, strings.Join(missing, ", "), o)
}
func (w *world) LaunchUncordoned(event.Event, node.Node) { w.fact("launch restored") }

func (w *world) LaunchEnded(_ event.Event, o launch.Outcome, _ time.Duration) {
	if !slices.Contains(launch.Outcomes(), o) {
		o = "UNLISTED " + o
	}
	w.fact("launch ended %s", o)
}

func (w *world) NodeProtected(n node.Node, group string) {
	w.fact("%s protected for %s", n.Name, group)
}

func (w *world) NodeUnprotected(n node.Node, group string) {
	w.fact("%s unprotected of %s", n.Name, group)
}

func (w *world) ProtectionFailed(name, group string, err error) {
	w.fact("protection of %s for %s failed: %v", name, group, err)
}

func (w *world) wantFacts(t *testing.T, want ...string) {
	t.Helper()
	got := slices.DeleteFunc(slices.Clone(w.facts), func(f string) bool { return strings.HasPrefix(f, "received ") })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what was told (-want +got):\n%s", diff)
	}
}

func TestLaunch(t *testing.T) {
	t.Parallel()
	const (
		began, waits = "launch began", `"node-1" waits for Ready`
		overdue      = `"node-1" is overdue, lacks Ready: `
	)
	done := []string{"hold launch", "await", "wait for node-1", "let go of launch", "complete launch with CONTINUE"}
	kept := []string{"hold launch", "let go of launch"}
	for _, tt := range []struct {
		name        string
		given       func(w *world)
		destination string
		steps       []string
		facts       []string
		after       time.Duration
	}{
		{
			name: "is completed as soon as the node can serve", given: func(*world) {}, destination: "AutoScalingGroup",
			steps: done, facts: []string{began, waits, "launch ended ready"}, after: time.Minute,
		},
		{
			name: "of an old message, which has no destination", given: func(*world) {},
			steps: done, facts: []string{began, waits, "launch ended ready"}, after: time.Minute,
		},
		{
			name: "of a node that can serve at once", given: func(w *world) { w.serves = 0; w.state = always(pending) },
			steps: done, facts: []string{began, "launch ended ready"},
		},
		{
			name: "of an instance that is no Node yet", given: func(w *world) { w.registers = 30 * time.Second },
			steps: done, facts: []string{began, `"" waits for a registered Node`, waits, "launch ended ready"}, after: time.Minute,
		},
		{
			name: "is abandoned when the node not ready in time", given: func(w *world) { w.serves = never },
			steps: []string{"hold launch", "await", "wait for node-1", "ask for node-1", "let go of launch", "complete launch with ABANDON"},
			facts: []string{began, waits, overdue + "abandoned", "launch ended abandoned"}, after: 15 * time.Minute,
		},
		{
			name: "goes on then, if that is configured", given: func(w *world) { w.serves, w.cfg.Launch.Continue = never, true },
			steps: []string{"hold launch", "await", "wait for node-1", "ask for node-1", "let go of launch", "complete launch with CONTINUE"},
			facts: []string{began, waits, overdue + "continued", "launch ended continued"}, after: 15 * time.Minute,
		},
		{
			name: "is abandoned when no Node comes, by the API server's word", given: func(w *world) { w.registers = never },
			steps: []string{"hold launch", "await", "look up", "let go of launch", "complete launch with ABANDON"},
			facts: []string{
				began, `"" waits for a registered Node`, `"" is overdue, lacks a registered Node: abandoned`, "launch ended abandoned",
			},
			after: 15 * time.Minute,
		},
		{
			name: "is not abandoned for a watch that hides the Node", given: func(w *world) { w.hidden = true },
			steps: []string{"hold launch", "await", "look up", "ask for node-1", "let go of launch", "complete launch with CONTINUE"},
			facts: []string{began, `"" waits for a registered Node`, "launch ended ready"}, after: 15 * time.Minute,
		},
		{
			name: "is bounded by what the hook can hold", given: func(w *world) { w.serves, w.timeout["launch"] = never, 5*time.Minute },
			steps: []string{"hold launch", "await", "wait for node-1", "ask for node-1", "let go of launch", "complete launch with ABANDON"},
			facts: []string{began, waits, overdue + "abandoned", "launch ended abandoned"}, after: 5*time.Minute - 10*time.Second,
		},
		{
			name: "to the warm pool is completed at once", given: func(w *world) { w.state, w.registers = always(warmedPending), never },
			destination: "WarmPool", steps: append(slices.Clone(kept), "complete launch with CONTINUE"),
			facts: []string{began, "launch ended pooled"},
		},
		{
			name: "to the warm pool by its state alone", given: func(w *world) { w.state, w.registers = always(warmedPending), never },
			steps: append(slices.Clone(kept), "complete launch with CONTINUE"), facts: []string{began, "launch ended pooled"},
		},
		{
			name: "from the warm pool takes off what a termination has left",
			given: func(w *world) {
				w.serves = 0
				w.node.Mark = node.Mark{InstanceID: instance, Since: w.start.Add(-time.Hour)}
			},
			destination: "AutoScalingGroup",
			steps:       []string{"hold launch", "await", "restore", "wait for node-1", "let go of launch", "complete launch with CONTINUE"},
			facts:       []string{began, "launch restored", "launch ended ready"},
		},
		{
			name: "leaves the mark of a termination that came after it",
			given: func(w *world) {
				w.serves = 0
				w.node.Mark = node.Mark{InstanceID: instance, Since: w.start.Add(time.Second)}
			},
			steps: done, facts: []string{began, "launch ended ready"},
		},

		{
			name: "that is over is let go", given: func(w *world) { w.state = always(inService) },
			steps: kept, facts: []string{began, "launch ended gone"},
		},
		{
			name: "of an instance that goes is let go", given: func(w *world) { w.state = always(terminating) },
			steps: kept, facts: []string{began, "launch ended gone"},
		},
		{
			name: "that the group gives up is let go", given: func(w *world) { w.serves, w.givesUp["launch"] = never, 5*time.Minute },
			steps: []string{"hold launch", "await", "wait for node-1", "let go of launch"},
			facts: []string{began, waits, "launch ended gone"}, after: 5 * time.Minute,
		},
		{
			name: "of an instance that is long gone is let go", given: func(w *world) { w.state, w.registers = always(inNoGroup), never },
			steps: kept, facts: []string{began, "launch ended gone"}, after: time.Minute,
		},
		{
			name: "that Auto Scaling knows nothing of was forged", given: func(w *world) { w.state = always(inNoGroup) },
			steps: kept, facts: []string{began, "launch ended unconfirmed"}, after: time.Minute,
		},
		{
			name: "of a late copy of the pool's does not end the wait", given: func(*world) {}, destination: "WarmPool",
			steps: kept, facts: []string{began, "launch ended unconfirmed"}, after: time.Minute,
		},
		{
			name: "from the pool is not taken for one to it", given: func(w *world) { w.state = always(warmedPending) },
			destination: "AutoScalingGroup", steps: kept, facts: []string{began, "launch ended unconfirmed"}, after: time.Minute,
		},
		{
			name: "is believed when Auto Scaling's answers have caught up", destination: "AutoScalingGroup",
			given: func(w *world) { w.state = turns(warmedStopped, 10*time.Second, pendingWait) },
			steps: done, facts: []string{began, waits, "launch ended ready"}, after: time.Minute,
		},
		{
			name: "to the pool that has arrived there is let go", given: func(w *world) { w.state = always(warmedStopped) },
			destination: "WarmPool", steps: kept, facts: []string{began, "launch ended gone"},
		},
		{
			name: "of a group without such a hook is let go", given: func(w *world) { w.unknown = true },
			steps: kept, facts: []string{began, "launch ended gone"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := launching()
				tt.given(w)
				if err := w.launch(t.Context(), tt.destination); err != nil {
					t.Errorf("the message ended with %v", err)
				}
				w.wantSteps(t, tt.steps...)
				w.wantFacts(t, tt.facts...)
				if w.after() != tt.after {
					t.Errorf("it took %v, want %v", w.after(), tt.after)
				}
			})
		})
	}
}

// TestLaunchInAnOutage: an API server that cannot be asked makes no node a bad one, as long as the hook holds.
func TestLaunchInAnOutage(t *testing.T) {
	t.Parallel()
	until := func(end time.Duration) func(time.Duration) bool {
		return func(after time.Duration) bool { return after < end }
	}
	for _, tt := range []struct {
		name        string
		given       func(w *world)
		last        string
		least, most time.Duration
	}{
		{
			"when its time is over: the node serves when the outage ends",
			func(w *world) { w.serves, w.outage = 40*time.Minute, until(39*time.Minute) },
			"complete launch with CONTINUE", 40 * time.Minute, 40 * time.Minute,
		},
		{
			"the kubelet and the controllers come back to the API server two minutes after it",
			func(w *world) { w.serves, w.outage = 41*time.Minute, until(39*time.Minute) },
			"complete launch with CONTINUE", 41 * time.Minute, 41 * time.Minute,
		},
		{
			"then the node has three minutes more, and cannot serve",
			func(w *world) { w.serves, w.outage = never, until(39*time.Minute) },
			"complete launch with ABANDON", 42 * time.Minute, 42*time.Minute + 15*time.Second,
		},
		{
			"for as long as the hook holds",
			func(w *world) { w.serves, w.outage, w.timeout["launch"] = never, until(never), time.Hour },
			"complete launch with ABANDON", time.Hour, time.Hour,
		},
		{
			"of the watches alone",
			func(w *world) { w.hidden, w.lookupErrs, w.serves = true, repeat(errOutage, 5), time.Minute },
			"complete launch with CONTINUE", 15 * time.Minute, 16 * time.Minute,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := launching()
				tt.given(w)
				if err := w.launch(t.Context(), ""); err != nil {
					t.Errorf("the message ended with %v", err)
				}
				steps := w.did("")
				if last := steps[len(steps)-1]; last != tt.last || w.after() < tt.least || w.after() > tt.most {
					t.Errorf("%s after %v, want %s after %v to %v", last, w.after(), tt.last, tt.least, tt.most)
				}
			})
		})
	}
}

// TestLaunchTakenUpLate: what a restart has cost is not given back, but the node is looked at before it is judged.
func TestLaunchTakenUpLate(t *testing.T) {
	t.Parallel()
	for name, serves := range map[string]bool{"the node serves meanwhile": true, "the node does not serve": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := launching()
				w.serves = never
				want := "complete launch with ABANDON"
				if serves {
					w.serves, want = 0, "complete launch with CONTINUE"
				}
				m := launchMessage("launch", "", w.start.Add(-20*time.Minute))
				if err := w.agent().Handle(t.Context(), m); err != nil {
					t.Error(err)
				}
				if len(w.did(want)) != 1 || w.after() != 0 {
					t.Errorf("%q after %v, want %s at once", w.did("complete"), w.after(), want)
				}
			})
		})
	}
}

func TestCopiesOfALaunch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := launching()
		a := w.agent()
		var wg sync.WaitGroup
		for _, to := range []string{"AutoScalingGroup", "AutoScalingGroup", ""} {
			wg.Go(func() {
				if err := a.Handle(t.Context(), launchMessage("launch", to, w.start)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(w.did("hold")) != 1 || len(w.did("complete")) != 1 || w.told("received") != 3 {
			t.Errorf("three copies: %q, %q", w.did(""), w.facts)
		}
	})
}

func TestForeignLaunch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := launching()
		w.registers = never
		w.clusters = func(time.Duration) ([]string, error) { return []string{"other"}, nil }
		if err := w.launch(t.Context(), ""); err == nil || !strings.Contains(err.Error(), `belongs to cluster ["other"]`) {
			t.Errorf("the message ended with %v, want it left to its owner", err)
		}
		w.wantSteps(t)
		w.wantFacts(t, "launch began", "launch ended other-cluster")
	})
}

// TestLaunchAndStopping: whenever the process stops, the message stays and nothing is completed.
func TestLaunchAndStopping(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		given func(w *world)
	}{
		{"while it confirms", func(w *world) { w.state = silent(never, "") }},
		{"while it is contradicted", func(w *world) { w.state = always(inNoGroup) }},
		{"while it reads the timeout", func(w *world) { w.deadlineErrs = repeat(errOutage, 1000) }},
		{"while it awaits the node", func(w *world) { w.registers = never }},
		{"while it takes a mark off", func(w *world) {
			w.node.Mark = node.Mark{InstanceID: instance, Since: w.start.Add(-time.Hour)}
			w.restoreErrs = repeat(errOutage, 1000)
		}},
		{"while it waits", func(w *world) { w.serves = never }},
		{"while it asks", func(w *world) {
			w.serves, w.cfg.Launch.Timeout, w.outage = never, time.Second, func(time.Duration) bool { return true }
		}},
		{"while it completes", func(w *world) {
			w.serves = 0
			w.completes = func(ctx context.Context) error {
				<-ctx.Done()
				return context.Cause(ctx)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := launching()
				tt.given(w)
				ctx, cancel := context.WithDeadlineCause(t.Context(), w.start.Add(30*time.Second), errStopping)
				defer cancel()
				if err := w.launch(ctx, ""); !errors.Is(err, errStopping) {
					t.Errorf("the message ended with %v, want %v", err, errStopping)
				}
				if done := w.did("complete"); len(done) > 0 || w.after() != 30*time.Second || w.told("launch ended interrupted") != 1 {
					t.Errorf("completed %q, left after %v: %q", done, w.after(), w.facts)
				}
			})
		})
	}
}

// TestLaunchAmidARefresh: the autoscaler is kept off the new node, and no launch fails for that.
func TestLaunchAmidARefresh(t *testing.T) {
	t.Parallel()
	on := func(string) (bool, error) { return true, nil }
	for _, tt := range []struct {
		name  string
		given func(w *world)
		steps []string
		fails int
	}{
		{
			"the node is protected when it comes", func(w *world) { w.refresh = on },
			[]string{"await", "protect node-1 for workers", "wait for node-1"},
			0,
		},
		{
			"is tried again when it can serve", func(w *world) { w.refresh, w.protects = on, []error{errOutage} },
			[]string{"await", "wait for node-1", "protect node-1 for workers"},
			1,
		},
		{
			"is left then", func(w *world) { w.refresh = func(string) (bool, error) { return false, errOutage } },
			[]string{"await", "wait for node-1"},
			2,
		},
		{"without a refresh it is not", func(*world) {}, []string{"await", "wait for node-1"}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := launching()
				tt.given(w)
				if err := w.launch(t.Context(), ""); err != nil {
					t.Error(err)
				}
				w.wantSteps(t, slices.Concat([]string{"hold launch"}, tt.steps, []string{"let go of launch", "complete launch with CONTINUE"})...)
				if n := w.told("protection of node-1 for workers failed"); n != tt.fails {
					t.Errorf("%d failures were told, want %d: %q", n, tt.fails, w.facts)
				}
				if (w.told("node-1 protected for workers") == 1) != (len(w.did("protect")) == 1) {
					t.Errorf("told %q", w.facts)
				}
			})
		})
	}
}

// TestUnprotect: nodes are given back to the autoscaler when the refresh of their group has ended, and not before.
func TestUnprotect(t *testing.T) {
	t.Parallel()
	protected := func(name, group string) node.ProtectedNode {
		return node.ProtectedNode{Node: node.Node{Name: name}, Group: group}
	}
	for _, tt := range []struct {
		name  string
		given func(w *world)
		steps []string
		facts []string
	}{
		{"of a refresh that has ended", func(*world) {}, []string{"unprotect old"}, []string{"old unprotected of done"}},
		{
			"what fails is told, and the others are served", func(w *world) { w.protects = []error{errOutage} },
			nil,
			[]string{"protection of old for done failed: no answer"},
		},
		{
			"a node that has gone is no failure", func(w *world) { w.protects = []error{node.ErrGone} },
			nil, nil,
		},
		{
			"a refresh that cannot be asked after may be on", func(w *world) {
				w.refresh = func(string) (bool, error) { return false, errOutage }
			},
			nil,
			[]string{"protection of new for busy failed: no answer", "protection of old for done failed: no answer"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.refresh = func(group string) (bool, error) { return group == "busy", nil }
			w.protected = []node.ProtectedNode{protected("new", "busy"), protected("old", "done")}
			tt.given(w)
			w.agent().Unprotect(t.Context())
			w.wantSteps(t, tt.steps...)
			if diff := cmp.Diff(tt.facts, w.facts); diff != "" {
				t.Errorf("what was told (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBackFromTheWarmPoolAndGoing: that a node was drained on its way into the warm pool is no proof for when it goes
// the next time, however soon that is.
func TestBackFromTheWarmPoolAndGoing(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(w *world) queue.Message{
		"back into the warm pool":   func(w *world) queue.Message { return message("drain", w.start.Add(w.after())) },
		"by what no hook waits for": (*world).spotWarning,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := launching()
				w.serves, w.drainTakes = 0, time.Second
				w.state = func(after time.Duration) (autoscaling.State, error) {
					if after == 2*time.Second {
						return pendingWait, nil
					}
					return terminating, nil
				}
				a := w.agent()
				for _, m := range []func() queue.Message{
					func() queue.Message { return message("drain", w.start) },
					func() queue.Message { return launchMessage("launch", "", w.start.Add(w.after())) },
					func() queue.Message { return next(w) },
				} {
					if err := a.Handle(t.Context(), m()); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Until(w.start.Add(w.after().Truncate(time.Second) + time.Second)))
				}
				if n := len(w.did("drain ")); n != 2 {
					t.Errorf("drained %d times: %q", n, w.did(""))
				}
				if n := len(w.did("restore")); n != 1 {
					t.Errorf("restored %d times: %q", n, w.did(""))
				}
			})
		})
	}
}
