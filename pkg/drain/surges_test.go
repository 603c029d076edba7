package drain

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

// surger is a Surger with surges, each of which ends in so many calls.
type surger struct {
	mu    sync.Mutex
	left  map[string]int // by StatefulSet
	fails int            // so many calls fail
	lists int
	calls []string // STATEFULSET, and the pods
	at    []time.Time
}

func (s *surger) Surges(context.Context) (all []handover.Surge, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lists++; s.fails > 0 {
		s.fails--
		return nil, errors.New("no answer")
	}
	for name, left := range s.left {
		if left > 0 {
			all = append(all, handover.Surge{Namespace: "x", StatefulSet: name})
		}
	}
	return all, nil
}

func (s *surger) EndSurge(_ context.Context, surge handover.Surge, pods []handover.Pod) (handover.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	call := surge.StatefulSet
	for _, p := range pods {
		call += " " + p.Name
	}
	s.calls, s.at = append(s.calls, call), append(s.at, time.Now())
	s.left[surge.StatefulSet]--
	return handover.Answer{Go: s.left[surge.StatefulSet] == 0, Message: "redis-0 has not moved yet"}, nil
}

// startSurging returns a cluster whose Drainer ends surges.
func startSurging(t *testing.T, s *surger, pods ...*corev1.Pod) *cluster {
	t.Helper()
	c := newCluster(t)
	c.surger, c.stays = s, func(string) bool { return true }
	c.kinds = map[string]handover.Kind{"test": {
		Releaser: &asker{answer: always(handover.Answer{Go: true, Outcome: handover.HandedOver})},
	}}
	for _, p := range pods {
		c.add(p)
	}
	c.start(withConfig(func(cfg *Config) { cfg.HandOverTimeout = time.Minute }))
	var running sync.WaitGroup
	running.Go(func() { c.drainer.EndSurges(c.ctx) })
	t.Cleanup(running.Wait)
	return c
}

// TestRecordedSurgeEnds without any drain, when the agent starts, however long that takes.
func TestRecordedSurgeEnds(t *testing.T) {
	virtual(t, "a surge", func(t *testing.T) {
		s := &surger{left: map[string]int{"redis": 100}, fails: 2}
		c := startSurging(t, s, memberPod("a", "test", on("m")))
		elapse(time.Hour)
		if len(s.calls) != 100 || s.calls[99] != "redis a" {
			t.Errorf("got %d calls, want 100 with the pod", len(s.calls))
		}
		if took := s.at[99].Sub(s.at[0]); took < 10*time.Minute || took > 40*time.Minute {
			t.Errorf("100 calls took %v, want growing pauses", took)
		}
		if n := c.countRecords("surge of redis put off: redis-0 has not moved yet"); n != 1 {
			t.Errorf("%d records of the same cause, want 1", n)
		}
		lists := s.lists
		elapse(time.Hour)
		if s.lists > lists {
			t.Errorf("%d reads of the records without a surge", s.lists-lists)
		}
		c.cancel(errors.New("the test has ended"))
	})
}

// TestSurgeOfADrainEnds: a call to a pod that permits a surge is a reason to read the records.
func TestSurgeOfADrainEnds(t *testing.T) {
	permits := func(p *corev1.Pod) { p.Annotations[handover.SurgeAnnotation] = "true" }
	for name, tt := range map[string]struct {
		pod   *corev1.Pod
		calls int
	}{
		"permitted":     {memberPod("a", "test", permits), 2},
		"not permitted": {memberPod("a", "test"), 0},
	} {
		virtual(t, name, func(t *testing.T) {
			s := &surger{left: map[string]int{}}
			c := startSurging(t, s, tt.pod)
			elapse(time.Minute)
			s.mu.Lock()
			s.left["redis"] = 2
			s.mu.Unlock()
			c.expectDrained(c.drain("n", time.Hour), 1)
			elapse(time.Hour)
			if isRead := s.lists > 1; len(s.calls) != tt.calls || isRead != (tt.calls > 0) {
				t.Errorf("calls %q and %d reads, want %d calls", s.calls, s.lists, tt.calls)
			}
			c.cancel(errors.New("the test has ended"))
		})
	}
}

// TestSurgeTakesItsTurn: while a pod of the namespace is asked, no surge of it ends.
func TestSurgeTakesItsTurn(t *testing.T) {
	virtual(t, "a turn", func(t *testing.T) {
		s := &surger{left: map[string]int{"redis": 1}}
		c := newCluster(t)
		c.surger = s
		c.start(defaults)
		c.drainer.turns.take("x")
		left, err := c.drainer.endSurges(c.ctx, map[string]string{})
		if left != 1 || err != nil || len(s.calls) > 0 {
			t.Errorf("%d left, %v, %q", left, err, s.calls)
		}
		c.drainer.turns.end("x")
		if left, err := c.drainer.endSurges(c.ctx, map[string]string{}); left != 0 || err != nil || len(s.calls) != 1 {
			t.Errorf("%d left, %v, %q", left, err, s.calls)
		}
		c.cancel(errors.New("the test has ended"))
	})
}
