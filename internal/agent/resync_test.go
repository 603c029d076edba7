package agent_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/pkg/autoscaling"
	"github.com/node-drainer/node-drainer/pkg/ec2"
	"github.com/node-drainer/node-drainer/pkg/node"
)

// inGroup says that the instance is in the group, with this state.
func inGroup(s autoscaling.State) func(time.Duration) (map[string]autoscaling.Member, error) {
	return func(time.Duration) (map[string]autoscaling.Member, error) {
		return map[string]autoscaling.Member{instance: {Group: group, InstanceID: instance, State: s}}, nil
	}
}

// cordonedFor marks the node as cordoned an hour ago for an event of this kind.
func cordonedFor(f *fixture, kind string, deadline, terminatesAt time.Duration) {
	f.node.Mark = node.Mark{InstanceID: instance, Reason: kind, Since: f.start.Add(-time.Hour)}
	if deadline != 0 {
		f.node.Mark.Deadline = f.start.Add(deadline)
	}
	if terminatesAt != 0 {
		f.node.Mark.TerminatesAt = f.start.Add(terminatesAt)
	}
}

// resync runs the resyncs of an agent for a time.
func resync(t *testing.T, a *agent.Agent, d time.Duration) {
	t.Helper()
	ctx, cancel := contextFor(t, d)
	defer cancel()
	if err := a.Run(ctx); !errors.Is(err, errStopping) {
		t.Errorf("Run returned %v", err)
	}
}

// TestResync: what happens within ten minutes without a message.
func TestResync(t *testing.T) {
	t.Parallel()
	launched := completed("CONTINUE")
	for _, tt := range []struct {
		name  string
		given func(f *fixture)
		steps []string
	}{
		{
			name: "the instance waits for our hook, and then for the hooks of others: drained once",
			given: func(f *fixture) {
				f.members, f.ownHooks = inGroup(terminating), []string{"drain"}
			},
			steps: drainedBy("1h0m0s"),
		},
		{
			name: "the instance has returned from the warm pool, and waits again: drained again",
			given: func(f *fixture) {
				f.ownHooks = []string{"drain"}
				f.members = func(after time.Duration) (map[string]autoscaling.Member, error) {
					if after > 2*time.Minute && after < 4*time.Minute {
						return inGroup("Pending")(after)
					}
					return inGroup(terminating)(after)
				}
			},
			steps: append(drainedBy("1h0m0s"),
				"hold drain", "cordon until 1h6m0s", "drain node-1 until 1h0m0s", "exclude", "release drain", "complete drain with CONTINUE"),
		},
		{
			name: "the instance returns to the warm pool: drained",
			given: func(f *fixture) {
				f.members, f.ownHooks, f.state = inGroup(warmedPending), []string{"drain"}, always(warmedPending)
			},
			steps: drainedBy("1h0m0s"),
		},
		{
			name: "a new instance enters the warm pool, and has registered: its launch is completed once",
			given: func(f *fixture) {
				f.members, f.ownHooks, f.state = inGroup(warmedPending), []string{"launch"}, always(warmedPending)
				f.pending = func(after time.Duration) (bool, error) { return after < time.Minute, nil } // then others' hooks hold it
			},
			steps: launched,
		},
		{
			name: "a new instance enters the warm pool, and has not registered",
			given: func(f *fixture) {
				f.members, f.ownHooks, f.state = inGroup(warmedPending), []string{"launch"}, always(warmedPending)
				f.registers = never
			},
			steps: launched,
		},
		{
			name: "an instance enters the warm pool, and Auto Scaling does not answer whether it is new",
			given: func(f *fixture) {
				f.members, f.ownHooks, f.state = inGroup(warmedPending), []string{"launch"}, always(warmedPending)
				f.pending = func(after time.Duration) (bool, error) {
					if after < time.Minute {
						return false, errOutage
					}
					return true, nil
				}
			},
			steps: launched,
		},
		{
			name: "the instance is launching",
			given: func(f *fixture) {
				f.members, f.ownHooks, f.state = inGroup(pendingWait), []string{"launch"}, always(pendingWait)
				f.cfg.Launch.Timeout = time.Minute
			},
			steps: completed("CONTINUE", "await", "wait for node-1"),
		},
		{
			name: "the instance waits for others' hooks", given: func(f *fixture) { f.members = inGroup(terminating) },
		},
		{
			name:  "the instance waits for no hook",
			given: func(f *fixture) { f.members, f.ownHooks = inGroup("Terminating:Proceed"), []string{"drain"} },
		},
		{
			name: "Auto Scaling does not answer at first: retried soon",
			given: func(f *fixture) {
				f.members = func(after time.Duration) (map[string]autoscaling.Member, error) {
					if after < time.Second {
						return nil, errOutage
					}
					return inGroup(terminating)(after)
				}
				f.ownHooks = []string{"drain"}
				f.complete = func(context.Context) error {
					f.members = func(time.Duration) (map[string]autoscaling.Member, error) { return nil, nil }
					f.ec2 = describes(ec2.Instance{State: "shutting-down"})
					return nil
				}
			},
			steps: drainedBy("1h0m1.75s..1h0m2.1s"),
		},

		// Nodes that are cordoned.
		{
			name: "cordoned for a hook, and in service: uncordoned",
			given: func(f *fixture) {
				cordonedFor(f, "lifecycle-terminating", time.Hour, 0)
				f.members = inGroup(inService)
			},
			steps: []string{"uncordon"},
		},
		{
			name: "cordoned for a hook, and in the warm pool",
			given: func(f *fixture) {
				cordonedFor(f, "lifecycle-terminating", time.Hour, 0)
				f.members = inGroup("Warmed:Stopped")
			},
		},
		{
			name: "cordoned for a hook, in no group, and shutting down",
			given: func(f *fixture) {
				cordonedFor(f, "lifecycle-terminating", time.Hour, 0)
				f.ec2 = describes(ec2.Instance{State: "shutting-down"})
			},
		},
		{
			name:  "cordoned for a hook, detached from its group, and running: uncordoned",
			given: func(f *fixture) { cordonedFor(f, "lifecycle-terminating", time.Hour, 0) },
			steps: []string{"uncordon"},
		},
		{
			name: "the drain for a Spot interruption continues, with its deadline",
			given: func(f *fixture) {
				cordonedFor(f, "spot-interruption", time.Minute, 2*time.Minute)
				f.members = inGroup(inService)
				f.ec2 = func(after time.Duration) (ec2.Instance, error) {
					if after > time.Minute {
						return ec2.Instance{State: "shutting-down", Spot: true}, nil
					}
					return ec2.Instance{State: running, Spot: true}, nil
				}
			},
			steps: []string{"cordon until 1m55s", "drain node-1 until 1m0s", "exclude"},
		},
		{
			name: "the drain for the end of a Capacity Block continues, although EC2 does not list its instances",
			given: func(f *fixture) {
				cordonedFor(f, "capacity-block-expiration", 10*time.Minute, 40*time.Minute)
				f.members, f.reservedErr, f.drainTakes = inGroup(inService), errOutage, 9*time.Minute
			},
			steps: []string{"cordon until 39m55s", "drain node-1 until 10m0s", "exclude"},
		},
		{
			name: "the drain of a stopping instance continues",
			given: func(f *fixture) {
				cordonedFor(f, "state-change", 20*time.Second, 30*time.Second)
				f.ec2 = describes(ec2.Instance{State: "stopping"})
			},
			steps: []string{"cordon until 25s", "drain node-1 until 20s", "exclude"},
		},
		{
			name:  "cordoned without a drain",
			given: func(f *fixture) { cordonedFor(f, "rebalance-recommendation", 0, 0) },
		},
		{
			name: "a Spot Instance is running long after its interruption: uncordoned",
			given: func(f *fixture) {
				cordonedFor(f, "spot-interruption", -30*time.Minute, -30*time.Minute)
				f.members = inGroup(inService)
			},
			steps: []string{"uncordon"},
		},
		{
			name: "the maintenance is complete: uncordoned",
			given: func(f *fixture) {
				cordonedFor(f, "scheduled-change", time.Hour, 48*time.Hour)
				f.members, f.scheduled = inGroup(inService), func(time.Duration) (bool, error) { return false, nil }
			},
			steps: []string{"uncordon"},
		},
		{
			name: "the maintenance is complete, but the instance terminates",
			given: func(f *fixture) {
				cordonedFor(f, "scheduled-change", time.Hour, 48*time.Hour)
				f.members, f.scheduled = inGroup(terminating), func(time.Duration) (bool, error) { return false, nil }
			},
		},
		{
			name: "EC2 does not answer",
			given: func(f *fixture) {
				cordonedFor(f, "scheduled-change", time.Hour, 48*time.Hour)
				f.scheduled = func(time.Duration) (bool, error) { return false, errOutage }
			},
		},
		{
			name: "a Spot Instance is stopped",
			given: func(f *fixture) {
				cordonedFor(f, "spot-interruption", time.Hour, 2*time.Hour)
				f.ec2 = describes(ec2.Instance{State: "stopped", Spot: true})
			},
		},
		{
			name: "in service and not cordoned", given: func(f *fixture) { f.members = inGroup(inService) },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture()
				tt.given(f)
				resync(t, f.agent(), 10*time.Minute)
				f.wantSteps(t, tt.steps...)
			})
		})
	}
}

// TestResyncAfterAnotherLeader: the instance may have returned from the warm pool while another process led, so that
// an action that was completed before is handled again.
func TestResyncAfterAnotherLeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.members, f.ownHooks = inGroup(terminating), []string{"drain"}
		a := f.agent()
		for term := range 2 {
			resync(t, a, 10*time.Minute)
			if got := len(f.did("complete drain")); got != term+1 {
				t.Errorf("after term %d: completed %d times", term+1, got)
			}
		}
	})
}

// TestResyncAndMessage: the message of an action that a resync found joins its termination.
func TestResyncAndMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.members, f.ownHooks = inGroup(terminating), []string{"drain"}
		f.drainTakes = 8 * time.Minute
		a := f.agent()
		var err error
		go func() {
			time.Sleep(time.Minute)
			err = a.Handle(t.Context(), message("drain", f.start))
		}()
		resync(t, a, 8*time.Minute+time.Second)
		synctest.Wait()
		if err != nil {
			t.Errorf("the message ended with %v", err)
		}
		f.wantSteps(t, drainedBy("1h0m0s")...)
		if f.observed("resynced: found 1, lost 0") != 1 || f.observed("resynced: found 0, lost 0") != 2 {
			t.Errorf("a later resync found what is in flight: %q", f.facts)
		}
		f.wantOutcome(t, agent.Drained)
	})
}

// TestLostMessage: an action counts as lost if its message does not arrive before the first resync after its end. A
// resync is often faster than a message.
func TestLostMessage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		drain   time.Duration
		message time.Duration // after the resync; 0 is never
		lost    int
	}{
		{"no message", time.Minute, 0, 1},
		{"a message a moment later", time.Minute, time.Second, 0},
		{"a message after the end, before the next resync", time.Minute, 2 * time.Minute, 0},
		{"a message several resyncs later, during the drain", 20 * time.Minute, 15 * time.Minute, 0},
		{"a message after the next resync", time.Minute, 10 * time.Minute, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture()
				f.members, f.ownHooks = inGroup(terminating), []string{"drain"}
				f.drainTakes = tt.drain
				a := f.agent()
				if tt.message > 0 {
					go func() {
						time.Sleep(tt.message)
						_ = a.Handle(t.Context(), message("drain", f.start))
					}()
				}
				resync(t, a, time.Hour)
				if n := f.observed("resynced: found 0, lost 1"); n != tt.lost {
					t.Errorf("%d were lost, want %d: %q", n, tt.lost, f.facts)
				}
			})
		})
	}
}
