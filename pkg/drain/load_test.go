package drain

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/retry"
)

// load is drains of many nodes at the same time. The pods of each app are spread over the nodes, and two of an app may
// be disrupted at a time.
type load struct {
	nodes, perNode, apps, elsewhere int
	bare                            int           // pods of the first node without a budget
	others                          bool          // another client evicts pods elsewhere all the time
	within                          time.Duration // for all drains: no disruption that a budget allows is left unused
}

// TestManyDrains: reservations never exceed what the budgets allow. So without other clients the API server refuses no
// eviction.
func TestManyDrains(t *testing.T) {
	for _, l := range []load{
		{nodes: 100, perNode: 3, apps: 10, within: 2 * time.Minute},
		{nodes: 1, perNode: 100, apps: 5, elsewhere: 1, bare: 10, within: time.Minute},
		{nodes: 30, perNode: 3, apps: 3, elsewhere: 9, others: true, within: 5 * time.Minute},
		{nodes: 100, perNode: 2, apps: 1, within: 20 * time.Minute},
	} {
		virtual(t, fmt.Sprintf("%+v", l), func(t *testing.T) {
			c, pods := newCluster(t), l.nodes*l.perNode
			c.answers, c.watches = between(2*time.Millisecond, 20*time.Millisecond), between(time.Millisecond, 10*time.Millisecond)
			c.counts, c.starts = between(5*time.Millisecond, 50*time.Millisecond), between(time.Second, 3*time.Second)
			for i := range l.apps {
				c.addBudget(fmt.Sprint("app-", i), pods/l.apps+l.elsewhere-2, l.elsewhere)
			}
			for i := range pods {
				app := fmt.Sprint("app-", (i/l.nodes*7+i)%l.apps)
				c.addPod(fmt.Sprint("node-", i%l.nodes), fmt.Sprint("pod-", i), app, gracePeriod(int64(1+i%5)))
			}
			for i := range l.bare {
				c.addPod("node-0", fmt.Sprint("bare-", i), "", gracePeriod(2))
			}
			c.start(withConfig(func(cfg *Config) { cfg.VolumeTimeout = 2 * time.Minute }))
			if l.others {
				go c.disruptElsewhere()
			}
			var all []func() (Report, error)
			for i := range l.nodes {
				all = append(all, c.drain(fmt.Sprint("node-", i), 2*time.Hour))
			}
			for _, wait := range all {
				if report := c.expectDrained(wait, l.perNode+l.bare); report.Took > l.within {
					t.Errorf("it took %v", report.Took)
				}
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			refused := 0
			for _, r := range c.requests {
				if r.err != nil {
					refused++
				}
			}
			if n := len(c.requests) - refused; n != pods+l.bare || refused > 0 && !l.others {
				t.Errorf("%d requests for %d pods, and %d that were refused", n, pods+l.bare, refused)
			}
			for name, a := range c.apps {
				if a.least < int(a.pdb.Status.DesiredHealthy) {
					t.Errorf("%s: only %d pods were healthy, %d are required", name, a.least, a.pdb.Status.DesiredHealthy)
				}
			}
		})
	}
}

// disruptElsewhere evicts pods on other nodes, as another client does, until the end of the test.
func (c *cluster) disruptElsewhere() {
	for i := 0; retry.Sleep(c.ctx, between(50*time.Millisecond, 500*time.Millisecond)()); i++ {
		c.mu.Lock()
		for _, a := range c.apps {
			if c.decrement(a, fmt.Sprint("other-", i)) == nil {
				a.elsewhere--
				c.countSoon(a)
				c.replace(a)
			}
		}
		c.mu.Unlock()
	}
}

// TestBurstOfDrains: no more drains than concurrentStarts list their pods at a time, and those whose lists have no answer
// do not hold up the others for long.
func TestBurstOfDrains(t *testing.T) {
	for _, tt := range []struct {
		name   string
		hang   int64 // of the lists
		within time.Duration
		most   int64 // lists in progress
	}{
		{name: "quick lists", within: time.Second, most: concurrentStarts},
		{name: "lists without an answer", hang: 40, within: 2*longestStart + time.Second, most: 40 + concurrentStarts},
	} {
		virtual(t, tt.name, func(t *testing.T) {
			const nodes = 300
			c := newCluster(t)
			c.addBudget("app", nodes, 0)
			var begun, running, most, listed atomic.Int64
			c.onList = func() error {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				answers := 50 * time.Millisecond
				if begun.Add(1) <= tt.hang {
					answers = 10 * time.Minute
				}
				if retry.Sleep(c.ctx, answers) {
					listed.Add(1)
				}
				return c.ctx.Err()
			}
			for i := range nodes {
				c.addPod(fmt.Sprint("node-", i), fmt.Sprint("pod-", i), "app")
			}
			c.start(withConfig(func(*Config) {}))
			for i := range nodes {
				c.drain(fmt.Sprint("node-", i), time.Hour)
			}
			time.Sleep(tt.within)
			synctest.Wait()
			if got := listed.Load(); got != nodes-tt.hang || most.Load() > tt.most {
				t.Errorf("%d nodes have been listed after %v, and %d at a time", got, tt.within, most.Load())
			}
		})
	}
}
