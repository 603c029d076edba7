package drain

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestManyDrains drains 300 nodes at the same time. The pods of each app are spread over them, and two of an app may be
// disrupted at a time.
func TestManyDrains(t *testing.T) {
	const nodes, perNode, apps = 300, 3, 20
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.answers, c.watches = between(2*time.Millisecond, 20*time.Millisecond), between(time.Millisecond, 10*time.Millisecond)
		c.counts, c.starts = between(5*time.Millisecond, 50*time.Millisecond), between(2*time.Second, 8*time.Second)
		for i := range apps {
			c.addBudget(fmt.Sprint("app-", i), nodes*perNode/apps-2, 0)
		}
		for i := range nodes * perNode {
			c.addPod(fmt.Sprint("node-", i%nodes), fmt.Sprint("pod-", i), fmt.Sprint("app-", (i/nodes*7+i)%apps), gracePeriod(int64(1+i%5)))
		}
		c.start(withConfig(func(cfg *Config) { cfg.VolumeTimeout = 2 * time.Minute }))
		start := time.Now()
		var all []func() (Report, error)
		for i := range nodes {
			all = append(all, c.drain(fmt.Sprint("node-", i), 2*time.Hour))
		}
		for i, wait := range all {
			if report, err := wait(); err != nil || report.Total != perNode || len(report.Left)+report.Forced > 0 {
				t.Errorf("node-%d: %+v, %v", i, report, err)
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		evictions, refused := len(c.requests), 0
		for _, r := range c.requests {
			if r.err != nil {
				refused++
			}
		}
		for name, a := range c.apps {
			if a.least < int(a.pdb.Status.DesiredHealthy) {
				t.Errorf("%s: only %d pods were healthy, %d are required", name, a.least, a.pdb.Status.DesiredHealthy)
			}
		}
		if evictions > nodes*perNode || refused > 0 {
			t.Errorf("%d evictions for %d pods, and %d were refused", evictions, nodes*perNode, refused)
		}
		t.Logf("%d drains took %v of virtual time: %d evictions for %d pods, %d refused",
			nodes, time.Since(start).Round(time.Second), evictions, nodes*perNode, refused)
	})
	t.Logf("and %v of real time", time.Since(began).Round(time.Millisecond))
}

// TestAHundredPods of one node share five budgets with pods elsewhere.
func TestAHundredPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.answers, c.watches = between(2*time.Millisecond, 20*time.Millisecond), between(time.Millisecond, 10*time.Millisecond)
		c.counts, c.starts = between(5*time.Millisecond, 50*time.Millisecond), between(time.Second, 3*time.Second)
		for i := range 5 {
			c.addBudget(fmt.Sprint("app-", i), 19, 2)
		}
		for i := range 110 {
			app := fmt.Sprint("app-", i%5)
			if i >= 100 {
				app = ""
			}
			c.addPod("n", fmt.Sprint("pod-", i), app, gracePeriod(2))
		}
		c.start(defaults)
		report, err := c.drain("n", time.Hour)()
		if err != nil || report.Total != 110 || len(report.Left)+report.Forced > 0 {
			t.Errorf("got %+v, %v", report, err)
		}
		if n := len(c.requests); n != 110 {
			t.Errorf("%d requests for 110 pods", n)
		}
		if report.Took > time.Minute {
			t.Errorf("it took %v", report.Took)
		}
	})
}
