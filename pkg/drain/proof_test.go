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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
)

// staleWatch gives every drain from now on a watch that shows nothing until it is told to.
func (w *fixture) staleWatch() *watch.FakeWatcher {
	behind := watch.NewFake()
	w.client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
		return true, behind, nil
	})
	return behind
}

// add puts a pod on the node.
func (w *fixture) add(p *corev1.Pod) {
	w.t.Helper()
	if err := w.client.Tracker().Add(p); err != nil {
		w.t.Fatal(err)
	}
}

// lists counts the lists of pods so far.
func (w *fixture) lists() (n int) {
	for _, a := range w.client.Actions() {
		if a.Matches("list", "pods") {
			n++
		}
	}
	return n
}

var forbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("no"))

// TestARefusalIsNotRepeatedAtOnceWhileTheWatchIsBehind: a pod that only the list shows is tried with pauses,
// like any other, and the list is not repeated at once either.
func TestARefusalIsNotRepeatedAtOnceWhileTheWatchIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, defaults)
		w.staleWatch()
		w.answer = func(string) error {
			if len(w.requested) > 1000 {
				panic("a hot loop")
			}
			return forbidden
		}
		w.drain(time.Hour)
		elapse(time.Second)
		before := w.lists()
		w.add(running("late"))
		elapse(10 * time.Minute)
		// Pauses of 1 s, 2 s, 4 s, 8 s, 16 s, then 30 s and a bit.
		if n := len(w.requests()); n < 15 || n > 25 {
			t.Errorf("evicted %d times in ten minutes", n)
		}
		if n := w.lists() - before; n > 70 {
			t.Errorf("listed %d times in ten minutes", n)
		}
	})
}

// TestAPodThatTheWatchShowsForEver: the API server has said that it is gone, and a list is the proof.
func TestAPodThatTheWatchShowsForEver(t *testing.T) {
	for name, deadline := range map[string]time.Duration{"long before the deadline": time.Hour, "at the deadline": 20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t, defaults, running("a"), running("b"))
				w.staleWatch()
				wait := w.drain(deadline)
				report, err := wait()
				if err != nil || report.Total != 2 || len(report.Left) > 0 || report.Took > 30*time.Second {
					t.Errorf("got %+v, %v", report, err)
				}
			})
		})
	}
}

// TestTheListDoesNotHideWhatTheWatchShowsSince: a pod that has come while the list was under way is none that has
// gone.
func TestTheListDoesNotHideWhatTheWatchShowsSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := running("slow")
		slow.Annotations = map[string]string{DrainAnnotation: Wait}
		w := newFixture(t, defaults, running("a"), slow)
		behind := w.staleWatch()
		var once sync.Once
		w.client.PrependReactor("list", "pods", func(clienttesting.Action) (handled bool, obj runtime.Object, err error) {
			if time.Since(w.since) < 10*time.Second {
				return false, nil, nil
			}
			once.Do(func() {
				w.add(running("late"))
				behind.Add(running("late"))
				<-time.After(time.Millisecond) // the drain's store has it now
				handled, obj = true, &corev1.PodList{Items: []corev1.Pod{*slow}}
			})
			return handled, obj, nil
		})
		wait := w.drain(time.Minute)
		report, err := wait() // it asks for a once more, hears that it has gone, and lists
		if err != nil || report.Total != 3 || len(report.Left) > 0 || report.Took > 80*time.Second {
			t.Errorf("got %+v, %v", report, err)
		}
		if !slices.Contains(w.requests(), "evict late uid-late") {
			t.Errorf("asked for %q", w.requests())
		}
	})
}
