package agent_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
)

// member is the instance in the group, with this state.
func member(s autoscaling.State) map[string]autoscaling.Member {
	return map[string]autoscaling.Member{instance: {Group: group, InstanceID: instance, State: s}}
}

// inGroup says that the instance is in the group, with this state, and which hooks of ours its group has.
func inGroup(s autoscaling.State, hooks ...string) given {
	return func(f *fixture) { f.members, f.state, f.ownHooks = always(member(s)), always(s), hooks }
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
	const h = time.Hour
	completedLaunch, uncordoned := []string{"complete launch with CONTINUE"}, []string{"uncordon"}
	spot := func(s ec2.State) ec2.Instance { return ec2.Instance{State: s, Spot: true} }
	hook := cordoned(event.LifecycleTerminating, -h, h, 0)
	recommended := with(inGroup(inService), func(f *fixture) { f.cfg.Events.RebalanceTimeout = 2 * h })
	maintenance := cordoned(event.ScheduledChange, -h, h, 48*h)
	for _, tt := range []struct {
		name  string
		given given
		steps []string
	}{
		{
			"the instance waits for our hook, and then for the hooks of others: drained once",
			inGroup(terminating, "drain"), drainedBy("1h0m0s"),
		},
		{
			"the instance has returned from the warm pool, and waits again: drained again",
			with(inGroup(terminating, "drain"), func(f *fixture) {
				f.members = func(after time.Duration) (map[string]autoscaling.Member, error) {
					if after > 2*time.Minute && after < 4*time.Minute {
						return member("Pending"), nil
					}
					return member(terminating), nil
				}
			}),
			append(drainedBy("1h0m0s"), "hold drain", "cordon until 1h6m0s", "drain node-1 until 1h0m0s", "exclude",
				"release drain", "complete drain with CONTINUE"),
		},
		{
			"the instance has another root volume, and terminates before a resync sees it in service: drained again",
			with(inGroup(terminating, "drain"), func(f *fixture) {
				f.members = func(after time.Duration) (map[string]autoscaling.Member, error) {
					if after < 2*time.Minute {
						return member(replacingWait), nil
					}
					return member(terminating), nil
				}
			}),
			append(drainedBy("1h0m0s"), "hold drain", "cordon until 1h3m0s", "drain node-1 until 1h0m0s", "exclude",
				"release drain", "complete drain with CONTINUE"),
		},
		{
			"the instance returns to the warm pool: drained",
			with(inGroup(warmedPending, "drain"), pendingIs(always(true))), drainedBy("1h0m0s"),
		},
		{
			"the instance returns to the warm pool, and is terminated there before the next resync: drained again",
			with(inGroup(warmedPending, "drain"), pendingIs(always(true)), func(f *fixture) {
				f.members = changes(member(warmedPending), 2*time.Minute, member("Warmed:Terminating:Wait"))
				f.state = changes(warmedPending, 2*time.Minute, "Warmed:Terminating:Wait")
			}),
			append(drainedBy("1h0m0s"), "hold drain", "cordon until 1h3m0s", "drain node-1 until 1h0m0s", "exclude",
				"release drain", "complete drain with CONTINUE"),
		},
		{"a new instance enters the warm pool, and others' launch hooks hold it", inGroup(warmedPending, "drain"), nil},
		{
			"a new instance enters the warm pool, and has registered: its launch is completed once",
			with(inGroup(warmedPending, "launch"), pendingIs(changes(true, time.Minute, false))), // then others' hooks hold it
			completedLaunch,
		},
		{
			"a new instance enters the warm pool, and has not registered", with(inGroup(warmedPending, "launch"), noNode),
			completedLaunch,
		},
		{
			"an instance enters the warm pool, and Auto Scaling does not answer whether it is new",
			with(inGroup(warmedPending, "launch"), pendingIs(silent(time.Minute, true))), completedLaunch,
		},
		{
			"the instance is launching", with(launching, inGroup(pendingWait, "launch")),
			completed("CONTINUE", "await", "wait for node-1"),
		},
		{"the instance waits for others' hooks", inGroup(terminating), nil},
		{"the instance waits for no hook", inGroup(proceeding, "drain"), nil},
		{
			"Auto Scaling does not answer at first: retried soon",
			with(inGroup(terminating, "drain"), func(f *fixture) {
				f.members = silent(time.Second, member(terminating))
				f.complete = func(context.Context) error {
					f.members = always[map[string]autoscaling.Member](nil)
					ec2State("shutting-down")(f)
					return nil
				}
			}),
			drainedBy("1h0m2s..1h0m2.5s"),
		},

		// Nodes that are cordoned.
		{"cordoned for a hook, and in service: uncordoned", with(hook, inGroup(inService)), uncordoned},
		{"cordoned for a hook, and in the warm pool", with(hook, inGroup(warmedStopped)), nil},
		{"cordoned for a hook, in no group, and shutting down", with(hook, ec2State("shutting-down")), nil},
		{
			"cordoned for a hook, detached from its group, and running: uncordoned",
			with(hook, inState(inNoGroup)), uncordoned,
		},
		{
			"cordoned for a hook, and in service again, but EC2 is about to terminate it: stays cordoned until then",
			with(cordoned(event.LifecycleTerminating, -h, 3*time.Minute, 4*time.Minute), inGroup(inService)), uncordoned,
		},
		{
			"the same, and the time has not come: stays cordoned",
			with(cordoned(event.LifecycleTerminating, -h, h, 2*h), inGroup(inService)), nil,
		},
		{
			"the same, and the time has just passed: stays cordoned, EC2 may be late, or its clock is",
			with(cordoned(event.LifecycleTerminating, -h, 8*time.Minute, 8*time.Minute+10*time.Second), inGroup(inService)), nil,
		},
		{
			"the same, but what is due is maintenance, which has its own check: uncordoned, and drained for that",
			with(cordoned(event.LifecycleTerminating, -h, h, 48*h), inGroup(inService), func(f *fixture) {
				f.node.Maintenance = f.start.Add(48 * h)
			}),
			[]string{"uncordon", "cordon until 47h59m55s", "drain node-1 until 47h59m55s", "exclude"},
		},
		{
			"cordoned for a hook, and in service, but a moment later it terminates: stays cordoned",
			with(hook, inGroup(inService), inState(terminating)), nil,
		},
		{
			"cordoned for a hook, and in service, but its state cannot be read: tried again with each resync",
			with(hook, inGroup(inService), stateIs(silent(5*time.Minute, inService))), uncordoned,
		},
		{
			"the drain for a Spot interruption continues, with its deadline",
			with(cordoned(event.SpotInterruption, -h, time.Minute, 2*time.Minute), inGroup(inService),
				ec2Says(changes(spot(running), time.Minute+1, spot("shutting-down")))),
			[]string{"cordon until 1m55s", "drain node-1 until 1m0s", "exclude"},
		},
		{
			"the drain for a Spot interruption continues in Standby",
			with(cordoned(event.SpotInterruption, -h, time.Minute, 2*time.Minute), inGroup("Standby"),
				ec2Says(changes(spot(running), time.Minute+1, spot("shutting-down")))),
			[]string{"cordon until 1m55s", "drain node-1 until 1m0s", "exclude"},
		},
		{
			"the maintenance is complete, but the instance is in Standby: stays cordoned",
			with(maintenance, inGroup("Standby"), scheduled(always(false))), nil,
		},
		{
			"the drain for the end of a Capacity Block continues, although EC2 does not list its instances",
			with(cordoned(event.CapacityBlockExpiration, -h, 10*time.Minute, 40*time.Minute), inGroup(inService),
				fails("list", 1000, errOutage), func(f *fixture) { f.drainTakes = 9 * time.Minute }),
			[]string{"cordon until 39m55s", "drain node-1 until 10m0s", "exclude"},
		},
		{
			"the drain of a stopping instance continues",
			with(cordoned(event.StateChange, -h, 20*time.Second, 30*time.Second), ec2State("stopping")),
			[]string{"cordon until 25s", "drain node-1 until 20s", "exclude"},
		},
		{
			"cordoned for a false warning without a time, drained for a hook, and in service again: uncordoned",
			with(cordoned(event.SpotInterruption, -h, -30*time.Minute, 0), inGroup(inService), ec2Says(always(spot("running"))),
				func(f *fixture) { f.node.Mark.Hook = group + "/drain" }),
			uncordoned,
		},
		{
			"a false warning without a time, and a request that is withdrawn a minute after its drain: uncordoned",
			with(cordoned(event.SpotInterruption, -time.Minute, 59*time.Minute, 0), inGroup(inService), ec2Says(always(spot(running))),
				func(f *fixture) {
					f.spot, f.node.DrainRequested = always(fulfilled), true
					time.AfterFunc(time.Minute, func() { f.request(false) })
				}),
			[]string{"cordon until 1h0m0s", "drain node-1 until 59m0s", "exclude", "uncordon"},
		},
		{
			"no interruption followed a rebalance recommendation within two hours: uncordoned",
			with(recommended, cordoned(event.RebalanceRecommendation, -2*h, 0, 0)), uncordoned,
		},
		{"the recommendation is an hour old", with(recommended, cordoned(event.RebalanceRecommendation, -h, 0, 0)), nil},
		{
			"the recommendation becomes two hours old",
			with(recommended, cordoned(event.RebalanceRecommendation, -2*h+5*time.Minute, 0, 0)), uncordoned,
		},
		{
			"the node was drained for the recommendation by another process: uncordoned",
			with(recommended, cordoned(event.RebalanceRecommendation, -2*h, -h, 0)), uncordoned,
		},
		{
			"an interruption followed, and its time has not come",
			with(recommended, cordoned(event.RebalanceRecommendation, -2*h, 15*time.Minute, 20*time.Minute)),
			[]string{"cordon until 15m0s..20m0s", "drain node-1 until 15m0s", "exclude"},
		},
		{
			"the instance terminates", with(recommended, cordoned(event.RebalanceRecommendation, -2*h, 0, 0), inGroup(terminating)), nil,
		},
		{
			"no time is configured", with(recommended, cordoned(event.RebalanceRecommendation, -100*h, 0, 0), func(f *fixture) {
				f.cfg.Events.RebalanceTimeout = 0
			}), nil,
		},
		{"cordoned without a drain", cordoned(event.RebalanceRecommendation, -h, 0, 0), nil},
		{
			"a Spot Instance is running long after its interruption: uncordoned",
			with(cordoned(event.SpotInterruption, -h, -30*time.Minute, -30*time.Minute), inGroup(inService)), uncordoned,
		},
		{
			"a crash before EC2 had contradicted the Spot interruption for long enough: asked again, uncordoned",
			with(cordoned(event.SpotInterruption, -time.Minute, 59*time.Minute, 0), inGroup(inService), func(f *fixture) { f.spot = always(fulfilled) }),
			[]string{"cordon until 1h0m0s", "drain node-1 until 59m0s", "exclude", "uncordon"},
		},
		{
			"the maintenance is complete: uncordoned",
			with(maintenance, inGroup(inService), scheduled(always(false))), uncordoned,
		},
		{
			"the maintenance that was announced is complete: uncordoned",
			with(maintenance, inGroup(inService), scheduled(always(false)), func(f *fixture) { f.node.Maintenance = f.start.Add(-h) }),
			[]string{"end maintenance", "uncordon"},
		},
		{
			"the maintenance is complete, but the instance terminates",
			with(maintenance, inGroup(terminating), scheduled(always(false))), nil,
		},
		{"EC2 does not answer", with(maintenance, scheduled(silent(never, false))), nil},
		{
			"a Spot Instance is stopped",
			with(cordoned(event.SpotInterruption, -h, h, 2*h), ec2Says(always(spot("stopped")))), nil,
		},
		{
			"cordoned for a Spot interruption, and EC2 does not know the instance: uncordoned, as its node is Ready",
			with(cordoned(event.SpotInterruption, -h, 0, 0), inState(inNoGroup), ec2State("")), uncordoned,
		},
		{
			"cordoned for a hook, and AWS does not know the instance: uncordoned, as its node is Ready",
			with(hook, inState(inNoGroup), ec2State("")), uncordoned,
		},
		{
			"cordoned for a hook, and AWS does not know the instance anymore: its node is not Ready either",
			with(hook, ec2State(""), notReady), nil,
		},
		{"in service and not cordoned", inGroup(inService), nil},

		// Nodes with the drain condition.
		{
			"an earlier process has removed the mark, but not the condition: removed",
			with(conditioned, inGroup(inService)),
			[]string{"remove condition"},
		},
		{"cordoned: the condition stays", with(conditioned, hook, inGroup(terminating)), nil},
		{
			"the drain waits for its time: the condition stays",
			with(conditioned, inGroup(inService), func(f *fixture) { f.node.Maintenance = f.start.Add(200 * h) }), nil,
		},
		{
			"drained, although the node cannot be cordoned: the condition stays meanwhile",
			with(inGroup(terminating, "drain"), fails("cordon", 1000, errOutage), func(f *fixture) {
				f.cfg.DrainTimeout, f.drainTakes = 30*time.Second, 8*time.Minute
				time.AfterFunc(time.Minute, func() {
					f.mu.Lock()
					defer f.mu.Unlock()
					conditioned(f)
				})
			}),
			[]string{
				"hold drain", "drain node-1 untainted until 30s..40s", "exclude", "release drain",
				"complete drain with CONTINUE", "remove condition",
			},
		},
	} {
		each(t, tt.name, tt.given, func(t *testing.T, f *fixture) {
			resync(t, f.agent(), 10*time.Minute)
			f.wantSteps(t, tt.steps...)
		})
	}
}

// TestResyncWithoutSomeAnswers: what Auto Scaling has described is handled, and the rest is left as it is.
func TestResyncWithoutSomeAnswers(t *testing.T) {
	t.Parallel()
	partly := func(s autoscaling.State) given {
		return func(f *fixture) {
			f.members = func(time.Duration) (map[string]autoscaling.Member, error) { return member(s), errOutage }
		}
	}
	for _, tt := range []struct {
		name  string
		given given
		steps []string
	}{
		{"the instance is described", with(inGroup(terminating, "drain"), partly(terminating)), drainedBy("1h0m0s")},
		{
			"the instance is not described, and its node is cordoned",
			with(cordoned(event.LifecycleTerminating, -time.Hour, time.Hour, 0), partly(autoscaling.Undescribed)), nil,
		},
		{
			"the instance is not described any more, after its completion",
			with(inGroup(terminating, "drain"), func(f *fixture) {
				f.members = func(after time.Duration) (map[string]autoscaling.Member, error) {
					if after > 2*time.Minute && after < 4*time.Minute {
						return member(autoscaling.Undescribed), errOutage
					}
					return member(terminating), nil
				}
			}),
			drainedBy("1h0m0s"),
		},
	} {
		each(t, tt.name, tt.given, func(t *testing.T, f *fixture) {
			resync(t, f.agent(), 10*time.Minute)
			f.wantSteps(t, tt.steps...)
		})
	}
}

// TestResyncAfterAnotherLeader: the instance may have returned from the warm pool while another process led, so that
// an action that was completed before is handled again.
func TestResyncAfterAnotherLeader(t *testing.T) {
	inBubble(t, inGroup(terminating, "drain"), func(t *testing.T, f *fixture) {
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
	inBubble(t, inGroup(terminating, "drain"), func(t *testing.T, f *fixture) {
		f.drainTakes = 8 * time.Minute
		a := f.agent()
		go func() {
			time.Sleep(time.Minute)
			mustHandle(t, f, a, termination)
		}()
		resync(t, a, 8*time.Minute+time.Second)
		synctest.Wait()
		f.wantSteps(t, drainedBy("1h0m0s")...)
		if f.observed("resynced: found 1, lost 0") != 1 || f.observed("resynced: found 0, lost 0") != 2 {
			t.Errorf("a later resync found what is in flight: %q", f.facts)
		}
		f.wantOutcome(t, agent.Drained)
	})
}

// TestUncordonedDuringADrain: a node that somebody uncordons while it is drained is cordoned again, with the same
// deadline, also if the mark is removed. A webhook that does so each time causes no more than one call a minute.
func TestUncordonedDuringADrain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		remove      given
		always      bool
		least, most int // cordons
	}{
		{"once", func(f *fixture) { f.node.Uncordoned = true }, false, 2, 2},
		{"with the mark", func(f *fixture) { f.node.Mark = node.Mark{} }, false, 2, 2},
		{"always", func(f *fixture) { f.node.Uncordoned = true }, true, 7, 20},
	} {
		each(t, tt.name, inGroup(terminating, "drain"), func(t *testing.T, f *fixture) {
			f.drainTakes = 30 * time.Minute
			remove := func() {
				f.mu.Lock()
				defer f.mu.Unlock()
				tt.remove(f)
			}
			time.AfterFunc(11*time.Minute, func() {
				for remove(); tt.always && f.after() < 30*time.Minute; remove() {
					time.Sleep(time.Second)
				}
			})
			resync(t, f.agent(), 40*time.Minute)
			got := f.did("cordon")
			isOther := func(s string) bool { return s != "cordon until 1h0m0s" }
			if len(got) < tt.least || len(got) > tt.most || slices.ContainsFunc(got, isOther) {
				t.Errorf("cordoned %d times, want %d to %d: %q", len(got), tt.least, tt.most, got)
			}
			if len(f.did("drain")) != 1 || len(f.did("complete")) != 1 {
				t.Errorf("steps %q", f.did(""))
			}
		})
	}
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
		each(t, tt.name, inGroup(terminating, "drain"), func(t *testing.T, f *fixture) {
			f.drainTakes = tt.drain
			a := f.agent()
			if tt.message > 0 {
				go func() {
					time.Sleep(tt.message)
					_ = a.Handle(t.Context(), termination(f))
				}()
			}
			resync(t, a, time.Hour)
			if n := f.observed("resynced: found 0, lost 1"); n != tt.lost {
				t.Errorf("%d were lost, want %d: %q", n, tt.lost, f.facts)
			}
		})
	}
}

func (f nodes) RemoveCondition(node.Node) {
	f.step("remove condition")
	f.mu.Lock()
	defer f.mu.Unlock()
	f.node.HasCondition = false
}
