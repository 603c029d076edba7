package drain

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

// reconciler is an asker that has work left for some calls.
type reconciler struct {
	asker
	left  int
	hangs bool // calls do not return before their context ends

	mu   sync.Mutex
	pods []string // of each call
}

func (s *reconciler) Reconcile(ctx context.Context, r handover.Request) (handover.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods = append(s.pods, r.Pod.Name)
	if s.hangs {
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
	}
	return handover.Answer{Go: len(s.pods) > s.left}, ctx.Err()
}

func (s *reconciler) calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.pods)
}

// TestGroupIsReconciled expects calls with a pod that stays, after the evicted one has gone, until nothing is left.
func TestGroupIsReconciled(t *testing.T) {
	virtual(t, "reconciled", func(t *testing.T) {
		s, c := &reconciler{left: 2}, newCluster(t)
		s.answer = always(handover.Answer{Go: true, Outcome: handover.HandedOver})
		c.kinds = map[string]handover.Kind{"test": {Releaser: s, Peers: true}}
		c.stays = func(node string) bool { return node != "n" && node != "o" }
		c.add(memberPod("a", "test"))
		c.add(memberPod("b", "test", on("o")))
		c.add(memberPod("c", "other", on("m")))
		c.add(memberPod("d", "test", on("m")))
		c.start(withConfig(func(cfg *Config) { cfg.HandOverTimeout = time.Minute }))
		c.lead(c.ctx)
		c.expectDrained(c.drain("n", time.Hour), 1)
		if calls := s.calls(); len(calls) > 0 {
			t.Errorf("the drain waited for %q", calls)
		}
		elapse(time.Hour)
		if want := []string{"d", "d", "d"}; !slices.Equal(s.calls(), want) {
			t.Errorf("got calls with %q, want %q", s.calls(), want)
		}
	})
}

// lead reconciles groups as the leader does.
func (c *cluster) lead(ctx context.Context) {
	c.t.Helper()
	var running sync.WaitGroup
	running.Go(func() { c.drainer.ReconcileGroups(ctx) })
	c.t.Cleanup(running.Wait)
}

// reconciled returns a cluster with pods of one group on the node, and a member that stays.
func reconciled(t *testing.T, s *reconciler, pods ...string) *cluster {
	t.Helper()
	c := newCluster(t)
	s.answer = always(handover.Answer{Go: true, Outcome: handover.HandedOver})
	c.kinds = map[string]handover.Kind{"test": {Releaser: s, Peers: true}}
	c.stays = func(node string) bool { return node != "n" }
	for _, name := range pods {
		c.add(memberPod(name, "test"))
	}
	c.add(memberPod("z", "test", on("m")))
	c.start(withConfig(func(cfg *Config) { cfg.HandOverTimeout = time.Minute }))
	return c
}

// TestGroupIsReconciledOnce, however many of its pods were evicted.
func TestGroupIsReconciledOnce(t *testing.T) {
	virtual(t, "one loop", func(t *testing.T) {
		s := &reconciler{left: 1000}
		c := reconciled(t, s, "a", "b", "c", "d", "e", "f")
		c.lead(c.ctx)
		c.expectDrained(c.drain("n", time.Hour), 6)
		elapse(time.Hour)
		if n, most := len(s.calls()), int((reconcileTimeout+time.Minute)/reconcilePause); n == 0 || n > most {
			t.Errorf("%d calls, want %d at most", n, most)
		}
	})
}

// TestOnlyTheLeaderReconciles: a process that does not lead any more leaves the groups to the next leader.
func TestOnlyTheLeaderReconciles(t *testing.T) {
	virtual(t, "leadership ends", func(t *testing.T) {
		s := &reconciler{left: 1000}
		c := reconciled(t, s, "a")
		leading, stop := context.WithCancel(c.ctx)
		defer stop()
		c.lead(leading)
		c.expectDrained(c.drain("n", time.Hour), 1)
		elapse(time.Minute)
		before := len(s.calls())
		stop()
		elapse(time.Minute)
		c.lead(c.ctx)
		elapse(time.Hour)
		if n := len(s.calls()); before == 0 || n != before {
			t.Errorf("%d calls, %d of them while it led", n, before)
		}
	})
}

// TestTurnEnds: a group that does not answer keeps the turn of its namespace for a bounded time.
func TestTurnEnds(t *testing.T) {
	virtual(t, "no answer", func(t *testing.T) {
		s := &reconciler{left: 1000, hangs: true}
		c := reconciled(t, s, "a")
		c.lead(c.ctx)
		c.expectDrained(c.drain("n", time.Hour), 1)
		var longest, taken time.Duration
		for range 300 {
			elapse(time.Second)
			if taken += time.Second; c.drainer.turns.take("x") {
				c.drainer.turns.end("x")
				taken = 0
			}
			longest = max(longest, taken)
		}
		if longest < time.Second || longest > turnTimeout {
			t.Errorf("the turn was taken for %v", longest)
		}
	})
}
