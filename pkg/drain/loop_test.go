package drain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// requestTimes returns when each request of the verb was decided, in order.
func requestTimes(c *cluster, verb string) (all []time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.requests {
		if r.verb == verb {
			all = append(all, r.after.Round(time.Second))
		}
	}
	return all
}

// TestForcedDeletionsOfOneBudgetAreSpaced has a budget that allows nothing and a grace period of 10 s: the latest
// deletion is at 9m50s.
func TestForcedDeletionsOfOneBudgetAreSpaced(t *testing.T) {
	slow := constant(10 * time.Second)
	check := func(name string, nodes []string, spacing time.Duration, answers, starts func() time.Duration, want []time.Duration) {
		t.Helper()
		virtual(t, name, func(t *testing.T) {
			c := newCluster(t)
			c.answers, c.starts = answers, starts
			c.addBudget("web", len(nodes)+1, 1)
			for i, node := range nodes {
				c.addPod(node, fmt.Sprint("web-", i), "web")
			}
			// Other pods end all the time, so that the drain decides often.
			for i := range 20 {
				c.addPod("n", fmt.Sprint("job-", i), "", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(475 + 5*i)) })
			}
			c.start(withConfig(func(c *Config) { c.ForceSpacing = cmp.Or(spacing, time.Minute) }))
			var all []func() (Report, error)
			for _, node := range slices.Compact(slices.Clone(nodes)) {
				all = append(all, c.drain(node, 10*time.Minute))
			}
			for _, wait := range all {
				if report, err := wait(); err != nil || len(report.Left) > 0 || report.Forced == 0 {
					t.Errorf("got %+v, %v", report, err)
				}
			}
			var forced []time.Duration
			deleted := map[string]bool{} // with a slow API server, deleted again at the deadline
			for _, r := range c.requests {
				if r.verb == "delete" && strings.HasPrefix(r.pod, "web") && !deleted[r.pod] {
					deleted[r.pod] = true
					forced = append(forced, r.after.Round(time.Second))
				}
			}
			// A deletion may have to wait for the answer to a probe of the budget.
			for i, due := range want {
				if i >= len(forced) || forced[i] < due || forced[i] > due+answers() {
					t.Fatalf("got %v, want %v", forced, want)
				}
			}
			if len(forced) != len(want) {
				t.Errorf("got %v, want %v", forced, want)
			}
		})
	}
	check("one node, replacements start at once", []string{"n", "n", "n"}, 0, noDelay, noDelay,
		[]time.Duration{7*time.Minute + 50*time.Second, 8*time.Minute + 50*time.Second, 9*time.Minute + 50*time.Second})
	check("slow answers of the API server", []string{"n", "n", "n"}, 0, slow, noDelay,
		[]time.Duration{7*time.Minute + 55*time.Second, 8*time.Minute + 55*time.Second, 9*time.Minute + 55*time.Second})
	check("replacements that take longer than the spacing: the latest deletion comes first", []string{"n", "n", "n"}, 0, noDelay,
		constant(100*time.Second),
		[]time.Duration{7*time.Minute + 50*time.Second, 9*time.Minute + 30*time.Second, 9*time.Minute + 50*time.Second})
	check("four nodes, too little time for the spacing: one after the other in the second half, the last one at its latest",
		[]string{"n", "o", "p", "q"}, 20*time.Minute, noDelay, noDelay,
		[]time.Duration{5 * time.Minute, 5*time.Minute + 2*time.Second, 5*time.Minute + 4*time.Second, 9*time.Minute + 50*time.Second})
	check("two nodes with the same deadline", []string{"n", "n", "o", "o"}, 0, slow, constant(15*time.Second),
		[]time.Duration{6*time.Minute + 55*time.Second, 7*time.Minute + 55*time.Second, 8*time.Minute + 55*time.Second, 9*time.Minute + 55*time.Second})
}

func TestOneBudgetOverThreeDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.starts = constant(3 * time.Second)
		c.addBudget("web", 6, 1)
		for i := range 6 {
			c.addPod(fmt.Sprint("node-", i%3), fmt.Sprint("web-", i), "web", gracePeriod(1))
		}
		c.start(defaults)
		var all []func() (Report, error)
		for i, timeout := range []time.Duration{50 * time.Minute, 40 * time.Minute, time.Hour} {
			all = append(all, c.drain(fmt.Sprint("node-", i), timeout))
			synctest.Wait() // the first is served before the others start
		}
		for i, wait := range all {
			if report, err := wait(); err != nil || report.Total != 2 || len(report.Left)+report.Forced > 0 {
				t.Errorf("node-%d: %+v, %v", i, report, err)
			}
		}
		var nodes []string
		for _, what := range c.requestLog() {
			nodes = append(nodes, what[:len("evict node-0")])
		}
		want := []string{"evict node-0", "evict node-1", "evict node-1", "evict node-0", "evict node-2", "evict node-2"}
		if diff := gocmp.Diff(want, nodes); diff != "" {
			t.Errorf("the earliest deadline is not served first:\n%s", diff)
		}
		if diff := gocmp.Diff([]time.Duration{0, 3e9, 6e9, 9e9, 12e9, 15e9}, requestTimes(c, "evict")); diff != "" {
			t.Errorf("time passes between a replacement and the next eviction:\n%s", diff)
		}
	})
}

// TestBlockedPodsCauseFewRequests counts the requests in an hour in which nothing changes.
func TestBlockedPodsCauseFewRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.addBudget("web", 5, 3) // of ten pods, of which three are healthy elsewhere and two here
		for i := range 10 {
			c.addPod("n", fmt.Sprint("web-", i), "web", func(p *corev1.Pod) {
				if i > 1 {
					p.Status.Conditions = nil
				}
			})
		}
		c.setDesired("web", 6)
		c.start(defaults)
		wait := c.drain("n", 2*time.Hour)
		elapse(time.Hour)
		log := c.requestLog()
		if n := len(log); n < 60*60/150 || n > 60*60/120 {
			t.Errorf("an hour cost %d requests: %v", n, log)
		}
		for _, what := range log {
			if !strings.HasSuffix(what, " refused") {
				t.Errorf("accepted: %s", what)
			}
		}
		if len(c.blockedPods()) != 10 || c.countRecords("refused ") != len(log) || c.countRecords("failed ") > 0 {
			t.Errorf("%d requests, recorded %q", len(log), c.log)
		}
		c.cancel(errors.New("enough"))
		_, _ = wait()
	})
}

func TestBlockedPodsAreReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.addBudget("web", 2, 0)
		c.addBudget("rigid", 1, 0)
		c.addPod("n", "db", "rigid")
		c.addPod("n", "web-0", "web")
		c.addPod("n", "web-1", "web", func(p *corev1.Pod) { p.Status.Conditions = nil })
		c.addPod("n", "job", "", func(p *corev1.Pod) { p.Annotations = map[string]string{DrainAnnotation: "wait"} })
		c.start(defaults)
		wait := c.drain("n", time.Hour)
		expect := func(want ...string) {
			t.Helper()
			if diff := gocmp.Diff(want, c.blockedPods()); diff != "" {
				t.Errorf("after %v (-want +got):\n%s", time.Since(c.since), diff)
			}
		}
		elapse(time.Second)
		expect("n/db misconfigured-budget x/rigid") // at once
		elapse(58 * time.Second)
		expect("n/db misconfigured-budget x/rigid")
		elapse(2 * time.Second)
		all := []string{
			"n/db misconfigured-budget x/rigid", "n/job opted-out", "n/web-0 blocked-by-budget x/web", "n/web-1 blocked-by-budget x/web",
		}
		expect(all...)
		want := []WaitCount{
			{Reason: BlockedByBudget, Budget: "x/web", Pods: 2}, {Reason: Misconfigured, Budget: "x/rigid", Pods: 1}, {Reason: OptedOut, Pods: 1},
		}
		if diff := gocmp.Diff(want, c.progress("n").Waiting); diff != "" {
			t.Errorf("progress (-want +got):\n%s", diff)
		}
		elapse(40 * time.Minute)
		expect(all...) // once for each thing
		c.setDesired("rigid", 0)
		synctest.Wait()
		if log := c.requestLog(); log[len(log)-1] != "evict n/db" {
			t.Errorf("no eviction after the budget was fixed: %v", log)
		}
		c.cancel(errors.New("enough"))
		_, _ = wait()
	})
}

func TestCanceledDrainGivesUpItsDemands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.answers = constant(4 * time.Second)
		c.addBudget("web", 5, 2)
		for i := range 4 {
			c.addPod("n", fmt.Sprint("web-", i), "web")
		}
		c.addPod("o", "web-o", "web")
		c.start(defaults)
		ctx, cancel := context.WithCancelCause(c.ctx)
		wait := c.drainTarget(ctx, c.target("n", time.Hour))
		elapse(time.Second) // two requests are in flight, and two pods wait
		other := c.drain("o", 2*time.Hour)
		synctest.Wait()
		canceled := time.Now()
		reason := errors.New("canceled")
		cancel(reason)
		if _, err := wait(); !errors.Is(err, reason) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(canceled); took > time.Second {
			t.Errorf("it took %v", took)
		}
		c.expect(t, "ended n: interrupted")
		// Its evictions may be accepted or not, and count for some seconds. Then other drains get the disruptions.
		if report, err := other(); err != nil || report.Took > 30*time.Second || report.Forced > 0 {
			t.Errorf("the other: %+v, %v", report, err)
		}
		c.drainer.pdbs.mu.Lock()
		defer c.drainer.pdbs.mu.Unlock()
		if n := len(c.drainer.pdbs.pdbs["x"]["web"].queue); n > 0 {
			t.Errorf("%d claims are left", n)
		}
	})
}

// TestPodsOfAnUnreachableNode: no kubelet reports the end of the pod, and the drain does not wait for StuckAfter.
func TestPodsOfAnUnreachableNode(t *testing.T) {
	for unreachable, want := range map[bool]time.Duration{true: 12 * time.Second, false: 5*time.Minute + 10*time.Second} {
		virtual(t, fmt.Sprint("unreachable: ", unreachable), func(t *testing.T) {
			c := startCluster(t, defaults, runningPod("a"))
			c.drainer.rules.Unreachable = func(node string) bool { return unreachable && node == "n" }
			c.podsNeverEnd = true
			report, err := c.drain("n", time.Hour)()
			if err != nil || report.Took.Round(time.Second) != want || len(report.Left) != 1 || report.Lost != unreachable {
				t.Errorf("got %+v, %v, want %v", report, err, want)
			}
			c.expect(t, "ended n: "+string(map[bool]Result{true: NodeLost, false: LeftBehind}[unreachable]))
		})
	}
}

// TestNodeBecomesUnreachable: the drain ends as soon as the node is not Ready any more, and its pods have had their time.
func TestNodeBecomesUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, defaults, runningPod("a"))
		var unreachable atomic.Bool
		c.drainer.rules.Unreachable = func(string) bool { return unreachable.Load() }
		c.podsNeverEnd = true
		end := c.drain("n", time.Hour)
		elapse(time.Minute)
		unreachable.Store(true)
		c.drainer.NodeChanged("n")
		report, err := end()
		if err != nil || report.Took.Round(time.Second) != time.Minute || !report.Lost {
			t.Errorf("got %+v, %v", report, err)
		}
	})
}

// TestNoDeadline: without a deadline no pod is evicted, let alone deleted at once.
func TestNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, defaults, runningPod("a"))
		target := c.target("n", time.Hour)
		target.Deadline = time.Time{}
		if _, err := c.drainTarget(c.ctx, target)(); err == nil || len(c.requests) > 0 {
			t.Errorf("%v after %d requests", err, len(c.requests))
		}
	})
}

// TestTighterDeadline: an earlier deadline during the drain has its pods deleted in time for it. A later one is ignored,
// and so is none.
func TestTighterDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.addBudget("web", 1, 0)
		c.addPod("n", "web-0", "web", gracePeriod(30))
		c.start(defaults)
		tighter, target := make(chan time.Time), c.target("n", time.Hour)
		target.Tighter = tighter
		wait := c.drainTarget(c.ctx, target)
		elapse(time.Minute)
		tighter <- target.Since.Add(3 * time.Minute)
		tighter <- target.Since.Add(2 * time.Hour)
		tighter <- time.Time{}
		if report, err := wait(); err != nil || len(report.Left) > 0 || report.Forced != 1 {
			t.Errorf("got %+v, %v", report, err)
		}
		if got, want := requestTimes(c, "delete"), 3*time.Minute-30*time.Second; len(got) != 1 || got[0] != want {
			t.Errorf("deleted after %v, want once, after %v", got, want)
		}
	})
}

// TestDeletionsThatAlwaysFailEndAtTheDeadline: a broken admission webhook answers
// 500 to whoever asks.
func TestDeletionsThatAlwaysFailEndAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, defaults, runningPod("a"), newPDB(0))
		c.answer = func(string) error { return apierrors.NewInternalError(errors.New("failed calling webhook")) }
		report, err := c.drain("n", time.Minute)()
		if err != nil || len(report.Left) != 1 || report.Took > 90*time.Second {
			t.Errorf("got %+v, %v", report, err)
		}
		if n := len(requestTimes(c, "delete")); n < 3 || n > 20 {
			t.Errorf("requested %d times", n)
		}
	})
}
