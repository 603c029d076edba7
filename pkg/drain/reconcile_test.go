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
	left int

	mu   sync.Mutex
	pods []string // of each call
}

func (s *reconciler) Reconcile(_ context.Context, r handover.Request) (handover.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods = append(s.pods, r.Pod.Name)
	return handover.Answer{Go: len(s.pods) > s.left}, nil
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
