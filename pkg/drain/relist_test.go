package drain

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

var errForbidden = apierrors.NewForbidden(podResource, "a", errors.New("no"))

func TestEvictionIsNotRepeatedWhileTheWatchIsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, defaults, runningPod("a"))
		stale := w.staleWatch()
		wait := w.drain(time.Hour)
		elapse(14 * time.Second)
		w.expectRequests("evict a uid-a")
		stale.Delete(runningPod("a"))
		w.expectDrained(wait, 1)
		w.expectRequests("evict a uid-a")
	})
}

// TestAPodThatOnlyAListShows is evicted once, however late the answer and the watch are.
func TestAPodThatOnlyAListShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.answers, c.watches = constant(10*time.Second), constant(time.Minute)
		c.start(defaults)
		wait := c.drain(c.ctx, "n", time.Hour)
		elapse(time.Second)
		c.addPod("n", "late", "")
		report, err := wait()
		if err != nil || report.Total != 1 || len(report.Left) > 0 {
			t.Errorf("got %+v, %v", report, err)
		}
		if log := c.requestLog(); len(log) != 1 || log[0] != "evict n/late" {
			t.Errorf("requested %q", log)
		}
	})
}

// TestRefusedEvictionsWhileTheWatchIsStale are retried after the usual pauses, and so are the lists.
func TestRefusedEvictionsWhileTheWatchIsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, defaults)
		w.staleWatch()
		w.answer = func(string) error {
			if len(w.requested) > 1000 {
				panic("evictions are retried without a pause")
			}
			return errForbidden
		}
		w.drain(time.Hour)
		elapse(time.Second)
		before := w.countRequests("list", "pods")
		w.add(runningPod("late"))
		elapse(10 * time.Minute)
		// The pauses are 1 s, 2 s, 4 s, 8 s, 16 s, then 30 s, and up to a quarter more.
		if n := len(w.requests()); n < 15 || n > 25 {
			t.Errorf("evicted %d times in ten minutes", n)
		}
		if n := w.countRequests("list", "pods") - before; n > 70 {
			t.Errorf("listed %d times in ten minutes", n)
		}
	})
}

// TestAWatchThatNeverShowsTheEndOfPods: the API server has said that they are gone, and a list verifies it.
func TestAWatchThatNeverShowsTheEndOfPods(t *testing.T) {
	for name, deadline := range map[string]time.Duration{"long before the deadline": time.Hour, "at the deadline": 20 * time.Second} {
		virtual(t, name, func(t *testing.T) {
			w := newFixture(t, defaults, runningPod("a"), runningPod("b"))
			w.staleWatch()
			if report := w.expectDrained(w.drain(deadline), 2); report.Took > 30*time.Second {
				t.Errorf("got %+v", report)
			}
		})
	}
}

// TestAPodThatStartsDuringAList is on the node although the list does not contain it.
func TestAPodThatStartsDuringAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := runningPod("slow")
		slow.Annotations = map[string]string{DrainAnnotation: Wait}
		w := newFixture(t, defaults, runningPod("a"), slow)
		stale := w.staleWatch()
		var once sync.Once
		w.client.PrependReactor("list", "pods", func(clienttesting.Action) (handled bool, obj runtime.Object, err error) {
			if time.Since(w.since) < 10*time.Second {
				return false, nil, nil
			}
			once.Do(func() {
				w.add(runningPod("late"))
				stale.Add(runningPod("late"))
				<-time.After(time.Millisecond) // the drain's cache has it now
				handled, obj = true, &corev1.PodList{Items: []corev1.Pod{*slow}}
			})
			return handled, obj, nil
		})
		// The drain evicts a again, gets the answer that it is gone, and lists.
		if report := w.expectDrained(w.drain(time.Minute), 3); report.Took > 80*time.Second {
			t.Errorf("got %+v", report)
		}
		if !slices.Contains(w.requests(), "evict late uid-late") {
			t.Errorf("requested %q", w.requests())
		}
	})
}
