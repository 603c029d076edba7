package agent_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/drain"
)

func (f drainer) Unplaced(context.Context) (int, error) { return f.unplaced(f.after()) }

func (f drainer) AwaitPod(ctx context.Context, _ string, _ time.Time, earlier *drain.Owners) error {
	if earlier != f.report.Owners {
		f.fact("the owners %v are known", earlier)
	}
	f.fact("pods are watched")
	for _, at := range f.late {
		if at > f.after() {
			if retry.Sleep(ctx, at-f.after()) {
				return nil
			}
			return context.Cause(ctx)
		}
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// TestLatePods: a node that gets a pod after its drain for a notice is drained again, as long as it has its mark.
func TestLatePods(t *testing.T) {
	t.Parallel()
	const until = "47h59m55s"
	first := drainedWithoutHook(until)
	again := []string{"cordon until " + until, "drain node-1 until " + until, "exclude"}
	late := func(at ...time.Duration) given { return func(f *fixture) { f.late = at } }
	requested := func(cordon string) []string {
		return []string{"cordon until " + cordon, "drain node-1 until 1h0m0s", "exclude"}
	}
	for _, tt := range []struct {
		name    string
		given   given
		message source
		steps   []string
	}{
		{"no late pod", nil, maintenance, first},
		{
			"the scheduler binds pods a minute and an hour late", late(70*time.Second, time.Hour),
			maintenance, slices.Concat(first, again, again),
		},
		{"pods that the deadline left are no reason", with(podsLeft, late(70*time.Second)), maintenance, slices.Concat(first, again)},
		{
			"the maintenance is over by then: uncordoned, and its pods stay",
			with(late(time.Hour), scheduled(changes(true, 10*time.Minute, false))), maintenance, append(slices.Clone(first), "uncordon"),
		},
		{"the node is gone by then", with(late(time.Hour), func(f *fixture) { f.leaves = 10 * time.Minute }), maintenance, first},
		{
			"another process has drained the node", with(late(time.Hour), cordoned(event.ScheduledChange, -time.Hour, 48*time.Hour-5*time.Second, 48*time.Hour)),
			nil, slices.Concat(again, again),
		},
		{
			"an annotation asks for the drain, and what the node was cordoned for is over",
			with(late(30*time.Minute), cordoned(event.StateChange, -time.Hour, 2*time.Hour, 2*time.Hour), func(f *fixture) {
				f.node.DrainRequested = true
			}),
			nil, slices.Concat(requested("1h0m0s"), requested("1h30m0s")),
		},
	} {
		each(t, tt.name, with(inGroup(inService), tt.given), func(t *testing.T, f *fixture) {
			a := f.agent()
			if tt.message != nil {
				go mustHandle(t, f, a, tt.message)
			}
			resync(t, a, 2*time.Hour)
			synctest.Wait()
			f.wantSteps(t, tt.steps...)
		})
	}
}

// TestPodsThatComeBack: whatever binds pods to the node at once, again and again, does not have it drained all the time.
func TestPodsThatComeBack(t *testing.T) {
	inBubble(t, inGroup(inService), func(t *testing.T, f *fixture) {
		f.drainTakes = time.Second
		for at := 15 * time.Second; at < 2*time.Hour; at += 15 * time.Second {
			f.late = append(f.late, at)
		}
		a := f.agent()
		go mustHandle(t, f, a, maintenance)
		resync(t, a, 2*time.Hour)
		synctest.Wait()
		if n := len(f.did("drain")); n < 20 || n > 40 {
			t.Errorf("drained %d times in two hours", n)
		}
	})
}

// TestLatePodOfALaunch: the node of an instance that is announced to terminate before its launch has ended is watched, too.
func TestLatePodOfALaunch(t *testing.T) {
	inBubble(t, with(launching, readyAt(never), inGroup(pendingWait)), func(t *testing.T, f *fixture) {
		f.late = []time.Duration{5 * time.Minute}
		a := f.agent()
		go func() { _ = a.Handle(t.Context(), launchMessage("", f.start)) }() // which is interrupted
		go mustHandle(t, f, a, maintenance)
		resync(t, a, 8*time.Minute)
		synctest.Wait()
		if n := len(f.did("drain")); n != 2 {
			t.Errorf("drained %d times, want twice: %q", n, f.did(""))
		}
	})
}

// TestLatePodOfAHook: a drain for a hook is not watched, because its instance terminates.
func TestLatePodOfAHook(t *testing.T) {
	inBubble(t, inGroup(terminating, "drain"), func(t *testing.T, f *fixture) {
		f.late = []time.Duration{time.Hour}
		resync(t, f.agent(), 2*time.Hour)
		f.wantSteps(t, drainedBy("1h0m0s")...)
		if f.observed("pods are watched") != 0 {
			t.Error("its pods were watched")
		}
	})
}
