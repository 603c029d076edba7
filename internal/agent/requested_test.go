package agent_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
)

// ByHand has an element when request has changed the Node.
func (f nodes) ByHand() <-chan struct{} { return f.requestChannel() }

func (f *fixture) requestChannel() chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.requests == nil {
		f.requests = make(chan struct{}, 1)
	}
	return f.requests
}

// current is the Node with its boot id, its owner and its mark as the watch shows them, and needs mu.
func (f nodes) current() node.Node {
	n := f.node
	if f.boots != 0 && f.after() >= f.boots {
		n.BootID = "boot-2"
	}
	n.Ready = n.Ready || f.hasReturned()
	n.Unselected, _ = f.theirs(f.after())
	if f.after() < f.unmarked {
		n.Mark = node.Mark{}
	}
	return n
}

// hasReturned reports whether the machine has failed, and is back.
func (f *fixture) hasReturned() bool { return f.returns != 0 && f.after() >= f.returns }

// request annotates the Node, or removes the annotation.
func (f *fixture) request(is bool) {
	requests := f.requestChannel()
	f.mu.Lock()
	f.node.DrainRequested = is
	f.mu.Unlock()
	select {
	case requests <- struct{}{}:
	default:
	}
}

// TestDrainRequests: an annotation has the node of an instance drained that no hook holds, until it is removed.
func TestDrainRequests(t *testing.T) {
	t.Parallel()
	drained := drainedWithoutHook("1h0m1s")
	standbyUntil := func(at time.Duration) given {
		return with(stateIs(changes(standby, at, inService)), func(f *fixture) {
			f.members = changes(member(standby), at, member(inService))
		})
	}
	for _, tt := range []struct {
		name      string
		given     given
		withdrawn time.Duration // 0: never
		again     time.Duration // it is annotated once more; 0: never
		stops     time.Duration // the process, and another one continues
		steps     []string
		fact      string
	}{
		{name: "in Standby", given: standbyUntil(never), steps: drained, fact: "ended drained"},
		{name: "in service", given: standbyUntil(0), steps: drained, fact: "ended drained"},
		{name: "pods are left at the deadline", given: with(standbyUntil(never), podsLeft), steps: drained, fact: "ended left-behind"},
		{
			name: "its machine fails, and is back an hour later: drained again", fact: "ended drained",
			given: with(standbyUntil(never), notReady, podsLeft, lost, func(f *fixture) { f.returns = time.Hour }),
			steps: append(slices.Clip(drained), "cordon until 2h0m0s..2h0m1s", "drain node-1 until 1h0m1s", "exclude"),
		},
		{
			name: "its machine fails for good", given: with(standbyUntil(never), notReady, podsLeft, lost), steps: drained,
			fact: "ended node-lost",
		},
		{
			name: "withdrawn after its drain, in service an hour later", given: standbyUntil(2 * time.Hour), withdrawn: time.Hour,
			steps: append(slices.Clip(drained), "uncordon"), fact: "uncordoned: the annotation " + node.DrainRequestAnnotation + " was removed",
		},
		{
			name: "withdrawn during its drain", given: standbyUntil(5 * time.Second), withdrawn: 7 * time.Second,
			steps: append(drained[:2:2], "uncordon"), fact: "ended canceled",
		},
		{
			name: "withdrawn in Standby: it stays cordoned", given: standbyUntil(never), withdrawn: time.Hour,
			steps: drained, fact: "ended drained",
		},
		{
			name: "withdrawn in Standby during its drain, and annotated again: by the earlier deadline", given: standbyUntil(never),
			withdrawn: 7 * time.Second, again: 20 * time.Second, fact: "ended drained",
			steps: append(drained[:2:2], "cordon until 1h0m20s..1h0m21s", "drain node-1 until 1h0m1s", "exclude"),
		},
		{
			name: "withdrawn in Standby after its drain, and annotated again after its deadline", given: standbyUntil(never),
			withdrawn: time.Hour, again: 3 * time.Hour, fact: "ended drained",
			steps: append(slices.Clip(drained), "cordon until 4h0m0s..4h0m1s", "drain node-1 until 4h0m0s..4h0m1s", "exclude"),
		},
		{
			name: "withdrawn, and the instance terminates", withdrawn: time.Hour, steps: drained, fact: "ended drained",
			given: with(standbyUntil(never), func(f *fixture) {
				f.state, f.members = changes(standby, time.Hour, terminating), changes(member(standby), time.Hour, member(terminating))
			}),
		},
		{
			name:  "pods of drained nodes have no room at first: drained when they have",
			given: with(standbyUntil(0), roomAfter(20*time.Minute)), steps: drainedWithoutHook("1h20m0s..1h20m15s"),
			fact: "postponed, busy false, no room true",
		},
		{
			name: "the API server does not say whether they have: drained when it does", given: with(standbyUntil(0), func(f *fixture) {
				f.unplaced = silent(20*time.Minute, 0)
			}), steps: drainedWithoutHook("1h20m0s..1h20m18s"), fact: "ended drained",
		},
		{
			name: "withdrawn while it waits for room: its condition goes", given: with(standbyUntil(0), roomAfter(20*time.Minute)),
			withdrawn: 10 * time.Minute, steps: []string{"remove condition"}, fact: "ended canceled",
		},
		{
			name: "another process continues", given: standbyUntil(never), stops: 3 * time.Second,
			steps: append(drained[:2:2], append([]string{"cordon until 1h0m4s"}, drained[1:]...)...), fact: "ended drained",
		},
	} {
		each(t, tt.name, tt.given, func(t *testing.T, f *fixture) {
			if tt.again > 0 {
				time.AfterFunc(tt.again, func() { f.request(true) })
			}
			runRequested(t, f, tt.withdrawn, tt.stops)
			f.wantSteps(t, tt.steps...)
			if f.observed(tt.fact) == 0 {
				t.Errorf("%q was not observed", tt.fact)
			}
			f.wantPostponedOnce(t)
		})
	}
}

// roomAfter has pods of drained nodes that find room at the time.
func roomAfter(at time.Duration) given { return func(f *fixture) { f.unplaced = changes(1, at, 0) } }

// TestRecommendationWaits: a rebalance recommendation has the node drained when pods of drained nodes have room, unless that
// takes as long as the node would stay cordoned.
func TestRecommendationWaits(t *testing.T) {
	t.Parallel()
	for room, steps := range map[time.Duration][]string{
		10 * time.Minute: drainedWithoutHook("1h10m0s..1h10m15s"), 3 * time.Hour: {"remove condition"},
	} {
		given := with(inGroup(inService), roomAfter(room), func(f *fixture) { f.cfg.Events.RebalanceTimeout = 2 * time.Hour })
		each(t, room.String(), given, func(t *testing.T, f *fixture) {
			mustHandle(t, f, f.agent(), rebalance)
			f.wantSteps(t, steps...)
			f.wantPostponedOnce(t)
		})
	}
}

// wantPostponedOnce: while a drain waits for the same, that is said once, however often the API server is asked.
func (f *fixture) wantPostponedOnce(t *testing.T) {
	t.Helper()
	if n := f.observed("postponed"); n > 1 {
		t.Errorf("it was said %d times that the drain is postponed", n)
	}
}

const standby autoscaling.State = "Standby"

// runRequested runs an agent for four hours, and annotates the node a second after the start.
func runRequested(t *testing.T, f *fixture, withdrawn, stops time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Hour)
	defer cancel()
	var all sync.WaitGroup
	run := func(ctx context.Context, a *agent.Agent) { all.Go(func() { _ = a.Run(ctx) }) }
	first, stop := context.WithCancel(ctx)
	defer stop()
	run(first, f.agent())
	<-time.After(time.Second)
	f.request(true)
	if withdrawn > 0 {
		time.AfterFunc(withdrawn, func() { f.request(false) })
	}
	if stops > 0 {
		<-time.After(stops)
		stop()
		all.Wait()
		run(ctx, f.agent())
	}
	<-ctx.Done()
	all.Wait()
	synctest.Wait()
}

// TestWithdrawnInStandby: while the instance of a request that was withdrawn stays in Standby, the agent asks for its
// state less and less often.
func TestWithdrawnInStandby(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, f *fixture) {
		asked := 0
		f.state = func(time.Duration) (autoscaling.State, error) {
			asked++
			return standby, nil
		}
		f.members = always(member(standby))
		if runRequested(t, f, time.Hour, 0); asked > 100 {
			t.Errorf("asked %d times in three hours", asked)
		}
	})
}

// TestDrainRequestAndMarks: the drain of a request ends with its annotation, and not before, whatever the mark says.
func TestDrainRequestAndMarks(t *testing.T) {
	t.Parallel()
	drained := drainedWithoutHook("1h0m1s")
	served := with(inState(inService), func(f *fixture) { f.members = always(member(inService)) })
	for _, tt := range []struct {
		name      string
		given     given
		withdrawn time.Duration // 0: never
		again     time.Duration // it is annotated once more; 0: never
		uncordons time.Duration // somebody else removes the mark; 0: nobody
		steps     []string
	}{
		{
			name:  "marked for a termination that is over: cordoned until the annotation is removed",
			given: with(served, cordoned(event.LifecycleTerminating, 0, time.Hour, 0)), withdrawn: 2 * time.Hour,
			steps: []string{"cordon until 1h0m1s", "drain node-1 until 1h0m0s", "exclude", "uncordon"},
		},
		{
			name: "uncordoned at a launch: drained again", given: served, uncordons: 30 * time.Minute,
			steps: append(slices.Clip(drained), "cordon until 1h30m0s..1h33m0s", "drain node-1 until 1h30m0s..1h33m0s", "exclude"),
		},
		{
			name: "withdrawn before the watch shows the mark", withdrawn: 6 * time.Second,
			given: with(served, func(f *fixture) { f.unmarked = 8 * time.Second }), steps: append(drained[:2:2], "uncordon"),
		},
	} {
		each(t, tt.name, tt.given, func(t *testing.T, f *fixture) {
			if tt.uncordons > 0 {
				time.AfterFunc(tt.uncordons, func() {
					f.mu.Lock()
					defer f.mu.Unlock()
					f.node.Mark = node.Mark{}
				})
			}
			runRequested(t, f, tt.withdrawn, 0)
			f.wantSteps(t, tt.steps...)
			if last := f.steps[len(f.steps)-1]; last.what == "uncordon" && last.after < tt.withdrawn {
				t.Errorf("uncordoned after %v, before the annotation was removed", last.after)
			}
		})
	}
}

// TestWithdrawnRequestIsNoticed: a node is uncordoned within a minute after its annotation was removed, and not only at
// the next resync.
func TestWithdrawnRequestIsNoticed(t *testing.T) {
	t.Parallel()
	const withdrawn, served = 6 * time.Second, 30 * time.Second
	for _, tt := range []struct {
		name    string
		given   given
		message source // arrives a second before the annotation is removed
	}{
		{
			name:    "another event is in flight, and the watch does not show the mark",
			given:   func(f *fixture) { f.unmarked, f.cfg.Events.Alarm = 8*time.Second, event.Replace },
			message: alarmOn,
		},
		{
			name:  "the root volume of the instance is replaced",
			given: stateIs(changes("ReplacingRootVolume:Wait", served, inService)),
		},
	} {
		each(t, tt.name, with(inState(inService), tt.given), func(t *testing.T, f *fixture) {
			a := f.agent()
			time.AfterFunc(time.Second, func() { f.request(true) })
			if tt.message != nil {
				time.AfterFunc(withdrawn-time.Second, func() { _ = a.Handle(t.Context(), tt.message(f)) })
			}
			time.AfterFunc(withdrawn, func() { f.request(false) })
			resync(t, a, 10*time.Minute)
			i := slices.IndexFunc(f.steps, func(s step) bool { return s.what == "uncordon" })
			if i < 0 || f.steps[i].after < withdrawn || f.steps[i].after > served+time.Minute {
				t.Errorf("not uncordoned in time: %v", f.steps)
			}
		})
	}
}
