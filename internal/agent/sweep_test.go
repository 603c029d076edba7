package agent_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/pkg/autoscaling"
	ec2 "github.com/node-drainer/node-drainer/pkg/ec2"
	"github.com/node-drainer/node-drainer/pkg/node"
)

// inGroup is a sweep's answer: the instance is in this state.
func inGroup(s autoscaling.State) func(time.Duration) (map[string]autoscaling.Member, error) {
	return func(time.Duration) (map[string]autoscaling.Member, error) {
		return map[string]autoscaling.Member{instance: {Group: group, InstanceID: instance, State: s}}, nil
	}
}

// markFor is the mark that an agent put on the node an hour ago for an event of this kind.
func (w *world) markFor(kind string, deadline, goes time.Duration) {
	w.node.Mark = node.Mark{InstanceID: instance, Reason: kind, Since: w.start.Add(-time.Hour)}
	if deadline != 0 {
		w.node.Mark.Deadline = w.start.Add(deadline)
	}
	if goes != 0 {
		w.node.Mark.TerminatesAt = w.start.Add(goes)
	}
}

// TestSweep: what is taken up, and put right, without a message, within ten minutes.
func TestSweep(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		given func(w *world)
		steps []string
	}{
		{
			name: "an instance that waits for our hooks: each is held and completed, the node drained once",
			given: func(w *world) {
				w.members, w.own = inGroup(terminating), []string{"drain"} // and it waits on for others' hooks
			},
			steps: []string{
				"hold drain", "mark until 1h0m0s", "drain node-1 until 1h0m0s", "exclude", "let go of drain", "complete drain with CONTINUE",
			},
		},
		{
			name: "an instance that comes back from the warm pool, and waits again: a new termination",
			given: func(w *world) {
				w.own = []string{"drain"}
				w.members = func(after time.Duration) (map[string]autoscaling.Member, error) {
					if after > 2*time.Minute && after < 4*time.Minute {
						return inGroup("Pending")(after)
					}
					return inGroup(terminating)(after)
				}
			},
			steps: []string{
				"hold drain", "mark until 1h0m0s", "drain node-1 until 1h0m0s", "exclude", "let go of drain", "complete drain with CONTINUE",
				"hold drain", "mark until 1h6m0s", "drain node-1 until 1h0m0s", "exclude", "let go of drain", "complete drain with CONTINUE",
			},
		},
		{
			name: "an instance that goes back into the warm pool",
			given: func(w *world) {
				w.members, w.own, w.state = inGroup(warmedPending), []string{"drain"}, always(warmedPending)
			},
			steps: []string{
				"hold drain", "mark until 1h0m0s", "drain node-1 until 1h0m0s", "exclude", "let go of drain", "complete drain with CONTINUE",
			},
		},
		{
			name: "a new instance on its way into the warm pool, whose node has registered: let in, once",
			given: func(w *world) {
				w.members, w.own, w.state = inGroup(warmedPending), []string{"launch"}, always(warmedPending)
				w.held = func(after time.Duration) (bool, error) { return after < time.Minute, nil } // then others' hooks hold it
			},
			steps: []string{"hold launch", "let go of launch", "complete launch with CONTINUE"},
		},
		{
			name: "one of the two, and Auto Scaling does not say which: nothing is done before it does",
			given: func(w *world) {
				w.members, w.own, w.state = inGroup(warmedPending), []string{"launch"}, always(warmedPending)
				w.held = func(after time.Duration) (bool, error) {
					if after < time.Minute {
						return false, errOutage
					}
					return true, nil
				}
			},
			steps: []string{"hold launch", "let go of launch", "complete launch with CONTINUE"},
		},
		{
			name:  "an instance that waits for others' hooks: left to them",
			given: func(w *world) { w.members = inGroup(terminating) },
		},
		{
			name:  "an instance that waits for nothing",
			given: func(w *world) { w.members, w.own = inGroup("Terminating:Proceed"), []string{"drain"} },
		},
		{
			name: "Auto Scaling does not answer at first: asked again soon",
			given: func(w *world) {
				found := inGroup(terminating)
				w.members = func(after time.Duration) (map[string]autoscaling.Member, error) {
					if after < time.Second {
						return nil, errOutage
					}
					return found(after)
				}
				w.own, w.completes = []string{"drain"}, w.thenGone
			},
			steps: []string{
				"hold drain", "mark until 1h0m1.75s", "drain node-1 until 1h0m1.75s", "exclude", "let go of drain", "complete drain with CONTINUE",
			},
		},
		{
			name: "a node in service that bears the mark of a termination: put back when that has lasted",
			given: func(w *world) {
				w.markFor("lifecycle-terminating", time.Hour, 0)
				w.members = inGroup(inService)
			},
			steps: []string{"restore"},
		},
		{
			name: "a node whose instance is in the warm pool keeps its mark",
			given: func(w *world) {
				w.markFor("lifecycle-terminating", time.Hour, 0)
				w.members = inGroup("Warmed:Stopped")
			},
		},
		{
			name: "a node whose instance no group knows keeps its mark while it goes",
			given: func(w *world) {
				w.markFor("lifecycle-terminating", time.Hour, 0)
				w.ec2 = is(ec2.Instance{State: "shutting-down"})
			},
		},
		{
			name:  "a node whose instance was detached from its group, and runs: put back",
			given: func(w *world) { w.markFor("lifecycle-terminating", time.Hour, 0) },
			steps: []string{"restore"},
		},
		{
			name: "the drain of a Spot interruption that another process began goes on, by its deadline",
			given: func(w *world) {
				w.markFor("spot-interruption", time.Minute, 2*time.Minute)
				w.members = inGroup(inService)
				w.ec2 = func(after time.Duration) (ec2.Instance, error) {
					if after > time.Minute {
						return ec2.Instance{State: "shutting-down", Spot: true}, nil
					}
					return ec2.Instance{State: runsOn, Spot: true}, nil
				}
			},
			steps: []string{"mark until 1m55s", "drain node-1 until 1m0s", "exclude"},
		},
		{
			name: "so does that of an instance in a Capacity Block, once, though EC2 lists nothing for it",
			given: func(w *world) {
				w.markFor("capacity-block-expiration", 10*time.Minute, 40*time.Minute)
				w.members, w.reservedErr, w.drainTakes = inGroup(inService), errOutage, 9*time.Minute
			},
			steps: []string{"mark until 39m55s", "drain node-1 until 10m0s", "exclude"},
		},
		{
			name: "and that of an instance that is being stopped: its deadline came with the mark",
			given: func(w *world) {
				w.markFor("state-change", 20*time.Second, 30*time.Second)
				w.ec2 = is(ec2.Instance{State: "stopping"})
			},
			steps: []string{"mark until 25s", "drain node-1 until 20s", "exclude"},
		},
		{
			name:  "a node that was only cordoned is not drained",
			given: func(w *world) { w.markFor("rebalance-recommendation", 0, 0) },
		},
		{
			name: "a Spot Instance that runs long after it was to be taken: its node is put back",
			given: func(w *world) {
				w.markFor("spot-interruption", -30*time.Minute, -30*time.Minute)
				w.members = inGroup(inService)
			},
			steps: []string{"restore"},
		},
		{
			name: "maintenance that is over: its node is put back",
			given: func(w *world) {
				w.markFor("scheduled-change", time.Hour, 48*time.Hour)
				w.members, w.scheduled = inGroup(inService), func(time.Duration) (bool, error) { return false, nil }
			},
			steps: []string{"restore"},
		},
		{
			name: "maintenance that is over, of an instance that terminates by now: the mark stays",
			given: func(w *world) {
				w.markFor("scheduled-change", time.Hour, 48*time.Hour)
				w.members, w.scheduled = inGroup(terminating), func(time.Duration) (bool, error) { return false, nil }
			},
		},
		{
			name: "EC2 does not answer: the mark stays",
			given: func(w *world) {
				w.markFor("scheduled-change", time.Hour, 48*time.Hour)
				w.scheduled = func(time.Duration) (bool, error) { return false, errOutage }
			},
		},
		{
			name:  "a node without a mark is not asked about",
			given: func(w *world) { w.members = inGroup(inService) },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				tt.given(w)
				ctx, cancel := contextFor(t, 10*time.Minute)
				defer cancel()
				if err := w.agent().Run(ctx); !errors.Is(err, errStopping) {
					t.Errorf("ended with %v", err)
				}
				w.wantSteps(t, tt.steps...)
			})
		})
	}
}

// TestSweepOfAnotherTerm: while another process led, the instance may have come back from the warm pool. What is
// remembered of an earlier term is not believed.
func TestSweepOfAnotherTerm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.members, w.own = inGroup(terminating), []string{"drain"}
		a := w.agent()
		for term := range 2 {
			ctx, cancel := contextFor(t, 10*time.Minute)
			if err := a.Run(ctx); !errors.Is(err, errStopping) {
				t.Errorf("Run returned %v", err)
			}
			cancel()
			if got := len(w.did("complete drain")); got != term+1 {
				t.Errorf("after term %d: completed %d times", term+1, got)
			}
		}
	})
}

// TestSweepAndMessage: the message of what a sweep has taken up joins it, and the other way round.
func TestSweepAndMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.members, w.own = inGroup(terminating), []string{"drain"}
		w.drainTakes = 8 * time.Minute
		a := w.agent()
		ctx, cancel := contextFor(t, 8*time.Minute+time.Second)
		defer cancel()
		var ended error
		go func() {
			time.Sleep(time.Minute)
			ended = a.Handle(ctx, message("drain", w.start))
		}()
		if err := a.Run(ctx); !errors.Is(err, errStopping) {
			t.Errorf("ended with %v", err)
		}
		synctest.Wait()
		if ended != nil {
			t.Errorf("the message stays: %v", ended)
		}
		want := []string{"hold drain", "mark until 1h0m0s", "drain node-1 until 1h0m0s", "exclude", "let go of drain", "complete drain with CONTINUE"}
		if diff := cmp.Diff(want, w.did("")); diff != "" {
			t.Error(diff)
		}
		if w.told("swept: 1, untold: 0") != 1 || w.told("swept: 0, untold: 0") != 2 {
			t.Errorf("a later sweep takes up what is in hand: %q", w.facts)
		}
		w.wantOutcome(t, agent.Drained)
	})
}

// TestLostMessage: only what no message tells of, to its end, counts as untold. A sweep is often faster than a message.
func TestLostMessage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		drain   time.Duration
		message time.Duration // after it was taken up; 0 is never
		untold  int
	}{
		{"no message", time.Minute, 0, 1},
		{"a message a moment later", time.Minute, time.Second, 0},
		{"a message after the end, before the next look", time.Minute, 2 * time.Minute, 0},
		{"a message several looks later, amid the drain", 20 * time.Minute, 15 * time.Minute, 0},
		{"a message that comes too late", time.Minute, 10 * time.Minute, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.members, w.own = inGroup(terminating), []string{"drain"}
				w.drainTakes = tt.drain
				a := w.agent()
				ctx, cancel := contextFor(t, time.Hour)
				defer cancel()
				if tt.message > 0 {
					go func() {
						time.Sleep(tt.message)
						_ = a.Handle(ctx, message("drain", w.start))
					}()
				}
				if err := a.Run(ctx); !errors.Is(err, errStopping) {
					t.Errorf("ended with %v", err)
				}
				if n := w.told("swept: 0, untold: 1"); n != tt.untold {
					t.Errorf("%d were untold, want %d: %q", n, tt.untold, w.facts)
				}
			})
		})
	}
}
