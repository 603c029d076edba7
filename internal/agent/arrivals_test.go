package agent_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// strangers returns the ids of instances that are none of the cluster.
func strangers(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("i-%017x", i))
	}
	return ids
}

// TestMaintenanceOfManyInstances: each instance of a message is handled, also one that registers only later.
func TestMaintenanceOfManyInstances(t *testing.T) {
	t.Parallel()
	const others = 50
	many := func(f *fixture) queue.Message { return health(f, "upcoming", append(strangers(others), instance)...) }
	for _, tt := range []struct {
		name   string
		given  given
		steps  []string
		ignore int
		took   time.Duration
	}{
		{"at once", nil, []string{"announce maintenance at 48h0m0s"}, others, 5 * time.Minute},
		{"later", registers(2*time.Minute + time.Second), []string{"announce maintenance at 48h0m0s"}, others, 5 * time.Minute},
		{"never", noNode, nil, others + 1, 5 * time.Minute},
		{"configured to be ignored", func(f *fixture) { f.cfg.Events.ScheduledChange = event.Ignore }, nil, others + 1, 0},
		{
			"canceled at once", func(f *fixture) { f.node.Maintenance, f.scheduled = f.start.Add(48*time.Hour), always(false) },
			[]string{"end maintenance"},
			others, 5 * time.Minute,
		},
	} {
		each(t, tt.name, with(lead, tt.given), func(t *testing.T, f *fixture) {
			mustHandle(t, f, f.agent(), many)
			f.wantSteps(t, tt.steps...)
			if n := f.observed("ignored scheduled-change"); n != tt.ignore || f.after() != tt.took {
				t.Errorf("%d were ignored in %v, want %d in %v", n, f.after(), tt.ignore, tt.took)
			}
		})
	}
}

// TestManyInstancesAreCheap: instances that are no Nodes cost no goroutine, and little memory, while they are awaited.
func TestManyInstancesAreCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // not beside others, whose memory would count
		f := newFixture()
		a, message := f.agent(), health(f, "upcoming", strangers(event.MaxInstances)...)
		ctx, cancel := contextFor(t, time.Minute)
		defer cancel()
		goroutines, before := runtime.NumGoroutine(), heap()
		var handled sync.WaitGroup
		handled.Go(func() {
			if err := a.Handle(ctx, message); !errors.Is(err, errStopping) {
				t.Errorf("the message ended with %v", err)
			}
		})
		time.Sleep(30 * time.Second)
		synctest.Wait()
		f.facts = nil
		const most = 1 << 20
		if n, bytes := runtime.NumGoroutine()-goroutines, heap()-before; n > 10 || bytes > most {
			t.Errorf("%d goroutines and %d bytes for %d instances", n, bytes, event.MaxInstances)
		}
		handled.Wait()
	})
}

// TestManyAwaitedNodes: messages about instances that are no Nodes leave room for others.
func TestManyAwaitedNodes(t *testing.T) {
	const most = 300
	for name, kind := range map[string]func(f *fixture, i int) queue.Message{
		"one instance each": func(f *fixture, i int) queue.Message {
			return fromEC2(f, "EC2 Instance Rebalance Recommendation", fmt.Sprintf(`{"instance-id":"i-%017x"}`, i))
		},
		"two instances each": func(f *fixture, i int) queue.Message {
			return health(f, "upcoming", fmt.Sprintf("i-%017x", i), fmt.Sprintf("i-%08x", i))
		},
	} {
		each(t, name, nil, func(t *testing.T, f *fixture) {
			a := f.agent()
			var handled sync.WaitGroup
			for i := range most {
				handled.Go(func() { mustHandle(t, f, a, func(f *fixture) queue.Message { return kind(f, i) }) })
			}
			synctest.Wait()
			mustHandle(t, f, a, func(f *fixture) queue.Message { return kind(f, most) }, spotWarning)
			if f.after() > 11*time.Second || f.observed("ended drained") != 1 {
				t.Errorf("two more messages took %v, want the 10s of the drain of one", f.after())
			}
			handled.Wait()
		})
	}
}

func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
