package drain

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

var errForbidden = apierrors.NewForbidden(podResource, "a", errors.New("no"))

// TestAPodThatOnlyAListShows is evicted once, however late the answer and the watch are.
func TestAPodThatOnlyAListShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.answers, c.watches = constant(10*time.Second), constant(time.Minute)
		c.start(defaults)
		wait := c.drain("n", time.Hour)
		elapse(time.Second)
		c.addPod("n", "late", "")
		c.expectDrained(wait, 1)
		c.expectRequests("evict n/late")
	})
}

// TestRefusedEvictionsWhileTheWatchIsStale are retried after the usual pauses, and so are the lists.
func TestRefusedEvictionsWhileTheWatchIsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, defaults)
		c.stale = watch.NewFake()
		c.answer = func(string) error { return errForbidden }
		c.drain("n", time.Hour)
		elapse(time.Second)
		before := c.reads
		c.add(runningPod("late"))
		elapse(10 * time.Minute)
		// The pauses are 1 s, 2 s, 4 s, 8 s, 16 s, then 30 s, and up to a quarter more.
		if n := len(c.requests); n < 15 || n > 25 {
			t.Errorf("evicted %d times in ten minutes", n)
		}
		if n := c.reads - before; n > 70 {
			t.Errorf("listed %d times in ten minutes", n)
		}
		c.expect(t, "failed remove pod x/late")
	})
}

// TestAWatchThatNeverShowsTheEndOfPods: the API server has said that they are gone, and a list verifies it.
func TestAWatchThatNeverShowsTheEndOfPods(t *testing.T) {
	for name, deadline := range map[string]time.Duration{"long before the deadline": time.Hour, "at the deadline": 20 * time.Second} {
		virtual(t, name, func(t *testing.T) {
			c := startCluster(t, defaults, runningPod("a"), runningPod("b"))
			c.stale = watch.NewFake()
			wait := c.drain("n", deadline)
			elapse(14 * time.Second)
			if log := c.requestLog(); len(log) != 2 {
				t.Errorf("evictions are repeated before the watch may show them: %v", log)
			}
			if report, err := wait(); err != nil || report.Total != 2 || len(report.Left) > 0 || report.Took > 30*time.Second {
				t.Errorf("got %+v, %v", report, err)
			}
		})
	}
}

// TestAPodThatStartsDuringAList is on the node although the list does not contain it.
func TestAPodThatStartsDuringAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := runningPod("slow")
		slow.Annotations = map[string]string{DrainAnnotation: Wait}
		c := newCluster(t, runningPod("a"), slow)
		c.stale = watch.NewFake()
		var once sync.Once
		c.onList = func() error {
			if time.Since(c.since) > 10*time.Second {
				once.Do(func() {
					c.add(runningPod("late"))
					c.stale.Add(runningPod("late"))
					<-time.After(time.Millisecond) // the drain's cache has it now
				})
			}
			return nil
		}
		c.start(defaults)
		// The drain evicts a again, gets the answer that it is gone, and lists.
		report, err := c.drain("n", time.Minute)()
		if err != nil || report.Total != 3 || len(report.Left) > 0 || report.Took > 80*time.Second {
			t.Errorf("got %+v, %v", report, err)
		}
		if log := c.requestLog(); !slices.Contains(log, "evict n/late") {
			t.Errorf("requested %q", log)
		}
	})
}
