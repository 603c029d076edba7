package history_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/node-drainer/node-drainer/internal/history"
)

// fixture is a ConfigMap behind an API server that answers as a test says, and a Writer that runs until stop.
type fixture struct {
	*history.Writer
	t      *testing.T
	client *fake.Clientset
	stop   func()

	mu     sync.Mutex
	answer func(update int) error // to the nth update, counted from 0; nil accepts it
	writes []time.Duration        // when updates were sent, since the start
	failed []string
}

func newFixture(t *testing.T, names ...string) *fixture {
	t.Helper()
	f := &fixture{t: t, client: fake.NewClientset(), answer: func(int) error { return nil }}
	for _, name := range append(names, "agents/history") {
		namespace, name, _ := strings.Cut(name, "/")
		f.must(f.client.Tracker().Add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{history.Label: "true"},
		}}))
	}
	began := time.Now()
	f.client.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.writes = append(f.writes, time.Since(began))
		err := f.answer(len(f.writes) - 1)
		return err != nil, nil, err
	})
	f.Writer = history.NewWriter(f.client, "agents", "history")
	f.run()
	return f
}

// run runs the Writer, as in a term of a leader.
func (f *fixture) run() {
	ctx, cancel := context.WithCancel(f.t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx, f) })
	f.stop = func() {
		cancel()
		running.Wait()
	}
}

func (f *fixture) HistoryFailed(records int, retried bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = append(f.failed, fmt.Sprintf("%d, retried %v: %v", records, retried, err))
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) answerWith(answer func(update int) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

// add adds the record of a drain of each node.
func (f *fixture) add(nodes ...string) {
	for _, node := range nodes {
		f.Add(history.Drain{Node: node, UID: node, Outcome: "drained", Began: time.Now(), Ended: time.Now()})
	}
}

// nodes returns the nodes of the records, the newest first.
func (f *fixture) nodes() (nodes []string) {
	f.t.Helper()
	drains, err := history.Read(f.t.Context(), f.client, "agents", "history")
	f.must(err)
	for _, d := range drains {
		nodes = append(nodes, d.Node)
	}
	return nodes
}

func (f *fixture) expect(nodes ...string) {
	f.t.Helper()
	if got := f.nodes(); !slices.Equal(got, nodes) {
		f.t.Errorf("there are records of %q, want %q", got, nodes)
	}
}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestFewWrites: a thousand drains that end within seconds are one write, and others are written every five seconds.
func TestFewWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		for i := range 1000 {
			f.add(fmt.Sprint(i))
			pass(time.Millisecond)
		}
		pass(10 * time.Second)
		if got := f.nodes(); len(got) != 200 || got[0] != "999" || len(f.writes) != 1 {
			t.Errorf("%d records by writes at %v", len(got), f.writes)
		}
		for range 60 {
			f.add("a")
			pass(time.Second)
		}
		f.stop()
		if n := len(f.writes); n > 14 {
			t.Errorf("%d writes in a minute: %v", n, f.writes)
		}
	})
}

// TestNewLeader: records of two processes are all kept, also if they write at once.
func TestNewLeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		other := history.NewWriter(f.client, "agents", "history")
		f.add("a")
		conflict := apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "history", errors.New("changed"))
		f.answerWith(func(update int) error {
			if update > 0 {
				return nil
			}
			return conflict
		})
		pass(10 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		other.Add(history.Drain{Node: "b", UID: "b", Began: time.Now(), Ended: time.Now()})
		other.Run(ctx, f)
		f.expect("b", "a")
		f.add("c")
		f.stop()
		f.run()
		f.add("d")
		f.stop()
		f.expect("d", "c", "b", "a")
		if len(f.failed) > 0 {
			t.Errorf("failed: %q", f.failed)
		}
	})
}

// TestOutage: records are written when the API server answers again, and the pauses become longer meanwhile.
func TestOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.answerWith(func(int) error { return errors.New("no answer") })
		f.add("a")
		pass(10 * time.Minute)
		f.answerWith(func(int) error { return nil })
		if n := len(f.writes); n < 5 || n > 15 || len(f.failed) != n {
			t.Errorf("%d writes in ten minutes, %d failures", n, len(f.failed))
		}
		if !strings.HasPrefix(f.failed[0], "1, retried true: write ConfigMap agents/history: no answer") {
			t.Errorf("failed: %q", f.failed[0])
		}
		f.add("b")
		pass(10 * time.Minute)
		f.expect("b", "a")
		f.stop()
	})
}

// TestStop: what is queued is written at the end, for two seconds at most, and what is not is reported.
func TestStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.add("a")
		began := time.Now()
		f.stop()
		f.expect("a")
		if took := time.Since(began); took > 0 {
			t.Errorf("the stop took %v", took)
		}
		f.run()
		f.client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "history", nil)
		})
		f.add("b")
		f.stop()
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the stop took %v", took)
		}
		if len(f.failed) != 1 || !strings.HasPrefix(f.failed[0], "1, retried false: get ConfigMap agents/history: ") {
			t.Errorf("failed: %q", f.failed)
		}
	})
}

// TestFind: the only ConfigMap with the label is found, and with two the error names both.
func TestFind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.add("a")
		f.stop()
		if drains, err := history.Find(t.Context(), f.client); err != nil || len(drains) != 1 || drains[0].Node != "a" {
			t.Errorf("got %+v, %v", drains, err)
		}
		two := newFixture(t, "team/history")
		two.stop()
		var several history.SeveralError
		if _, err := history.Find(t.Context(), two.client); !errors.As(err, &several) || len(several) != 2 {
			t.Errorf("got %v", err)
		}
		if _, err := history.Find(t.Context(), fake.NewClientset()); !history.IsMissing(err) {
			t.Errorf("got %v", err)
		}
		if _, err := history.Read(t.Context(), f.client, "agents", "other"); !history.IsMissing(err) {
			t.Errorf("got %v", err)
		}
	})
}
