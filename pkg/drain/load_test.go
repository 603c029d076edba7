package drain

import (
	"fmt"
	"testing"
	"time"
)

// TestManyDrains drains many nodes at the same time, or one with many pods. The pods of each app are spread over the
// nodes, and two of an app may be disrupted at a time.
func TestManyDrains(t *testing.T) {
	for _, tt := range []struct {
		nodes, perNode, apps, elsewhere int
		bare                            int // pods of the first node without a budget
		within                          time.Duration
	}{
		{nodes: 300, perNode: 3, apps: 20, within: 2 * time.Hour},
		{nodes: 1, perNode: 100, apps: 5, elsewhere: 1, bare: 10, within: time.Minute},
	} {
		virtual(t, fmt.Sprint(tt.nodes, " nodes"), func(t *testing.T) {
			c, pods := newCluster(t), tt.nodes*tt.perNode
			c.answers, c.watches = between(2*time.Millisecond, 20*time.Millisecond), between(time.Millisecond, 10*time.Millisecond)
			c.counts, c.starts = between(5*time.Millisecond, 50*time.Millisecond), between(time.Second, 3*time.Second)
			for i := range tt.apps {
				c.addBudget(fmt.Sprint("app-", i), pods/tt.apps+tt.elsewhere-2, tt.elsewhere)
			}
			for i := range pods {
				app := fmt.Sprint("app-", (i/tt.nodes*7+i)%tt.apps)
				c.addPod(fmt.Sprint("node-", i%tt.nodes), fmt.Sprint("pod-", i), app, gracePeriod(int64(1+i%5)))
			}
			for i := range tt.bare {
				c.addPod("node-0", fmt.Sprint("bare-", i), "", gracePeriod(2))
			}
			c.start(withConfig(func(cfg *Config) { cfg.VolumeTimeout = 2 * time.Minute }))
			var all []func() (Report, error)
			for i := range tt.nodes {
				all = append(all, c.drain(fmt.Sprint("node-", i), 2*time.Hour))
			}
			for _, wait := range all {
				if report := c.expectDrained(wait, tt.perNode+tt.bare); report.Took > tt.within {
					t.Errorf("it took %v", report.Took)
				}
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, r := range c.requests {
				if r.err != nil {
					t.Errorf("%s of %s was refused: %v", r.verb, r.pod, r.err)
				}
			}
			if n := len(c.requests); n != pods+tt.bare {
				t.Errorf("%d requests for %d pods", n, pods+tt.bare)
			}
			for name, a := range c.apps {
				if a.least < int(a.pdb.Status.DesiredHealthy) {
					t.Errorf("%s: only %d pods were healthy, %d are required", name, a.least, a.pdb.Status.DesiredHealthy)
				}
			}
		})
	}
}
