package drain

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

func annotatedWait(p *corev1.Pod) { p.Annotations = map[string]string{DrainAnnotation: Wait} }

func clusterCritical(p *corev1.Pod) { p.Spec.Priority = new(int32(2_000_000_000)) }

// TestPodsThatWaitLeaveWithinTheirBudget: the two pods of a budget are on two nodes that are drained at the same time,
// and wait for the whole drain if nothing else is decided. The budget allows one disruption all the time.
func TestPodsThatWaitLeaveWithinTheirBudget(t *testing.T) {
	check := func(name string, job bool, change func(*corev1.Pod)) {
		t.Helper()
		virtual(t, name, func(t *testing.T) {
			c := newCluster(t)
			c.starts = constant(3 * time.Second)
			c.addBudget("dns", 2, 1)
			for _, node := range []string{"n", "o"} {
				c.addPod(node, "dns-"+node, "dns", change)
				if job {
					c.addPod(node, "job-"+node, "", annotatedWait)
				}
			}
			c.start(defaults)
			ends := []func() (Report, error){c.drain("n", time.Hour), c.drain("o", time.Hour)}
			for _, end := range ends {
				if report, err := end(); err != nil || len(report.Left) > 0 {
					t.Errorf("got %+v, %v", report, err)
				}
			}
			if deleted := requestTimes(c, "delete"); len(deleted) > 0 || c.apps["dns"].least < 2 {
				t.Errorf("pods were deleted after %v, only %d were healthy, and 2 are required: %v",
					deleted, c.apps["dns"].least, c.requestLog())
			}
		})
	}
	check("behind the tier of pods that have opted out", true, clusterCritical)
	check("opted out", false, annotatedWait)
}

// TestTheLastCall of a pod that nothing but its own annotation protects: it is evicted, so that a Job need not
// count it as a failure, and deleted only if the eviction is refused.
func TestTheLastCall(t *testing.T) {
	check := func(name string, evictions error, want ...string) {
		t.Helper()
		virtual(t, name, func(t *testing.T) {
			c := newCluster(t)
			c.addPod("n", "job", "", annotatedWait)
			c.answer = func(verb string) error {
				if verb == "evict" {
					return evictions
				}
				return nil
			}
			c.start(defaults)
			report, err := c.drain("n", time.Hour)()
			if err != nil || len(report.Left) > 0 || report.Forced != 1 || report.Took.Round(time.Second) != time.Hour {
				t.Errorf("got %+v, %v", report, err)
			}
			c.expectRequests(want...)
			for verb, at := range map[string][]time.Duration{"evict": requestTimes(c, "evict"), "delete": requestTimes(c, "delete")} {
				if len(at) > 0 && at[0] != time.Hour-10*time.Second {
					t.Errorf("%s after %v", verb, at)
				}
			}
			if n := c.countRecords("forced job in 10s: deadline"); n != 1 {
				t.Errorf("%d records: %s", n, strings.Join(c.log, "\n"))
			}
		})
	}
	check("evicted", nil, "evict n/job in 10s")
	check("a webhook refuses", errForbidden, "evict n/job in 10s refused", "delete n/job in 10s")
	check("the API server is busy", errUnavailable, "evict n/job in 10s refused", "delete n/job in 10s")
	check("a budget that the watch does not show", blockedError(0), "evict n/job in 10s refused", "delete n/job in 10s")
}

// TestALastCallDoesNotWaitForASlowEviction: a webhook that does not answer costs a few seconds of the grace period.
func TestALastCallDoesNotWaitForASlowEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.addPod("n", "job", "", annotatedWait, gracePeriod(30))
		c.webhooks = func(verb string) time.Duration { return map[string]time.Duration{"evict": time.Minute}[verb] }
		c.start(defaults)
		report, err := c.drain("n", time.Hour)()
		if err != nil || len(report.Left) > 0 || report.Took.Round(time.Second) != time.Hour {
			t.Errorf("got %+v, %v", report, err)
		}
		if diff := cmp.Diff([]time.Duration{time.Hour - 25*time.Second}, requestTimes(c, "delete")); diff != "" {
			t.Error(diff)
		}
	})
}

// TestLastEvictionsOfOneBudgetAreConcurrent: what a budget allows is not lost because another eviction is in flight.
func TestLastEvictionsOfOneBudgetAreConcurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.answers = constant(time.Second)
		c.addBudget("web", 2, 2)
		for _, name := range []string{"a", "b"} {
			c.addPod("n", name, "web", annotatedWait)
		}
		c.start(defaults)
		report, err := c.drain("n", time.Hour)()
		if err != nil || len(report.Left) > 0 || len(requestTimes(c, "delete")) > 0 {
			t.Errorf("got %+v, %v; %v", report, err, c.requestLog())
		}
		if evicted := requestTimes(c, "evict"); len(evicted) != 2 || evicted[1] > time.Hour-9*time.Second {
			t.Errorf("evicted at %v", evicted)
		}
	})
}

// TestABudgetAllowsOneOfTwoLastEvictions: both pods must be removed at the same instant, since their grace periods are
// longer than half of the drain. The deletion of one does not take what the budget allows the other.
func TestABudgetAllowsOneOfTwoLastEvictions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.webhooks = func(verb string) time.Duration { // the requests are sent at once, the eviction arrives first
			return map[string]time.Duration{"delete": time.Millisecond}[verb]
		}
		c.addBudget("web", 3, 1)
		for _, name := range []string{"a", "b"} {
			c.addPod("n", name, "web", annotatedWait, gracePeriod(7200))
		}
		c.start(defaults)
		time.AfterFunc(29*time.Minute, func() { c.setDesired("web", 2) })
		if report, err := c.drain("n", time.Hour)(); err != nil || report.Forced != 2 {
			t.Errorf("got %+v, %v", report, err)
		}
		log := c.requestLog()
		slices.Sort(log)
		if diff := cmp.Diff([]string{"delete n/b in 1800s", "evict n/a in 1800s"}, log); diff != "" {
			t.Errorf("evictions and deletions (-want +got):\n%s", diff)
		}
	})
}

// TestCallReservesNothingFromLastEviction: a pod that must leave at once is evicted within its budget, although it was
// being asked when its deadline came.
func TestCallReservesNothingFromLastEviction(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		c, _ := startAsking(t, func(ctx context.Context, _ handover.Request) (handover.Answer, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			return handover.Answer{}, ctx.Err()
		})
		c.addBudget("db", 1, 1)
		c.addPod("n", "db-0", "db", func(p *corev1.Pod) {
			p.Annotations = map[string]string{handover.KindAnnotation: "test"}
		})
		target, tighter := c.target("n", time.Hour), make(chan time.Time, 1)
		target.Tighter = tighter
		wait := c.drainTarget(c.ctx, target)
		elapse(5 * time.Second)
		tighter <- time.Now().Add(time.Second)
		if report, err := wait(); err != nil || report.Forced > 0 {
			t.Errorf("got %+v, %v", report, err)
		}
		c.expectRequests("evict n/db-0 in 1s")
	})
}
