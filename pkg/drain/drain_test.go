package drain

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

var errUnavailable = apierrors.NewServiceUnavailable("the API server is starting")

func TestDrainEvictsPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finished := runningPod("finished")
		finished.Status.Phase = corev1.PodSucceeded
		c := startCluster(t, defaults, runningPod("a"), runningPod("b"), finished)
		if report := c.expectDrained(c.drain("n", time.Hour), 2); report.Took.Round(time.Second) != 10*time.Second {
			t.Errorf("got %+v, want the grace period of 10s", report)
		}
		if diff := cmp.Diff([]string{"evict n/a", "evict n/b"}, slices.Sorted(slices.Values(c.requestLog()))); diff != "" {
			t.Error(diff)
		}
		c.expect(t, "evicted a after 0s", "0 of 2 left []", "ended n: drained")
	})
}

// TestPodsOfDaemonSetsLeaveLast: a Job that runs on keeps its log shipper.
func TestPodsOfDaemonSetsLeaveLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.addPod("n", "job", "", annotatedWait)
		c.addPod("n", "logs", "", func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{*owners["DaemonSet"]} })
		c.start(defaults)
		wait := c.drain("n", time.Hour)
		time.AfterFunc(50*time.Minute, func() { c.end(runningPod("job")) })
		c.expectDrained(wait, 2)
		c.expectRequests("evict n/logs")
		if at := requestTimes(c, "evict"); at[0] != 50*time.Minute {
			t.Errorf("the pod of the DaemonSet left after %v", at)
		}
	})
}

// TestPodsOfDaemonSetsOfAnUntaintedNode: their DaemonSet creates them again there, so they stay until the node has the
// taint. A watch that does not show yet what the agent has written is not believed.
func TestPodsOfDaemonSetsOfAnUntaintedNode(t *testing.T) {
	check := func(name string, failed bool, taintedAfter, watched time.Duration, want ...string) {
		t.Helper()
		virtual(t, name, func(t *testing.T) {
			c, start := newCluster(t), time.Now()
			daemon := func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{*owners["DaemonSet"]} }
			c.addPod("n", "logs", "", daemon)
			c.addPod("n", "job", "", annotatedWait)
			c.ended = func(pod string) {
				if strings.HasPrefix(pod, "logs") && time.Since(start) < taintedAfter {
					c.addPod("n", pod+"+", "", daemon)
				}
			}
			c.untainted.Store(true)
			time.AfterFunc(watched, func() { c.untainted.Store(false) })
			c.start(defaults)
			target := c.target("n", time.Hour)
			target.Untainted = failed
			time.AfterFunc(20*time.Second, func() { c.end(runningPod("job")) })
			if report, err := c.drainTarget(c.ctx, target)(); err != nil || len(report.Left) > 0 || report.Took > time.Minute {
				t.Errorf("got %+v, %v", report, err)
			}
			c.expectRequests(want...)
		})
	}
	check("never tainted", true, time.Hour, time.Hour)
	check("tainted during the drain", true, 10*time.Second, 10*time.Second, "evict n/logs")
	check("tainted before the drain, and the watch is behind", false, 0, 30*time.Second, "evict n/logs")
	for name, tt := range map[string]struct{ removed, job time.Duration }{
		"the taint is removed before the watch shows it": {0, 20 * time.Minute},
		"the taint is removed early":                     {5 * time.Second, 20 * time.Second},
	} {
		virtual(t, name, func(t *testing.T) {
			c := newCluster(t)
			c.addPod("n", "job", "", annotatedWait)
			c.addPod("n", "logs", "", func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{*owners["DaemonSet"]} })
			c.untainted.Store(tt.removed == 0)
			time.AfterFunc(tt.removed, func() { c.untainted.Store(true) })
			c.start(defaults)
			time.AfterFunc(tt.job, func() { c.end(runningPod("job")) })
			if report, err := c.drain("n", time.Hour)(); err != nil || len(report.Left) > 0 {
				t.Errorf("got %+v, %v", report, err)
			}
			c.expectRequests()
		})
	}
}

func TestDrainWaitsForTheSettleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, defaults)
		wait := c.drain("n", time.Hour)
		elapse(3 * time.Second)
		c.add(runningPod("late"))
		c.expectDrained(wait, 1)
		c.expectRequests("evict n/late")
	})
}

// TestDrainWaitsForALateScheduler: a pod that the scheduler binds to a cordoned node shows how old its view is, and all
// drains wait for longer than such a pod may wait for its eviction, which is twice as long.
func TestDrainWaitsForALateScheduler(t *testing.T) {
	everything := corev1.Toleration{Operator: corev1.TolerationOpExists}
	for _, tt := range []struct {
		name  string
		after time.Duration // between the late pod and the second drain
		late  func(*corev1.Pod)
		want  time.Duration // that the second drain takes
	}{
		{"soon after", time.Minute, func(*corev1.Pod) {}, 10 * time.Second},
		{"a pod that tolerates the taint", time.Minute, func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{everything}
		}, 5 * time.Second},
		{"long after", 11 * time.Minute, func(*corev1.Pod) {}, 5 * time.Second},
	} {
		virtual(t, tt.name, func(t *testing.T) {
			c := startCluster(t, defaults)
			wait := c.drain("n", time.Hour)
			elapse(4 * time.Second)
			late := runningPod("late")
			tt.late(late)
			c.add(late)
			c.expectDrained(wait, 1)
			elapse(tt.after)
			if report, err := c.drain("m", time.Hour)(); err != nil || report.Took != tt.want {
				t.Errorf("the second drain took %v, want %v; %v", report.Took, tt.want, err)
			}
		})
	}
}

func TestDrainEndsWithTheCauseOfItsContext(t *testing.T) {
	for name, failure := range map[string]error{"during the drain": nil, "before the pods have been listed": errUnavailable} {
		virtual(t, name, func(t *testing.T) {
			c := newCluster(t, runningPod("a"), newPDB(0))
			c.onList = func() error { return failure }
			c.start(defaults)
			wait := c.drain("n", time.Hour)
			elapse(time.Minute)
			cause, before := errors.New("leaving"), time.Now()
			c.cancel(cause)
			_, err := wait()
			if took := time.Since(before); !errors.Is(err, cause) || took > 100*time.Millisecond {
				t.Errorf("got %v after %v, want %v", err, took, cause)
			}
			c.expectRequests()
			time.Sleep(2 * time.Minute) // until client-go's pauses have ended
		})
	}
}

// TestEvictionsEndAfterTheirDrain: an eviction that is in flight when its drain is canceled has a second to end, since
// one that the client cancels may have been counted against its budget already.
func TestEvictionsEndAfterTheirDrain(t *testing.T) {
	check := func(name string, webhook, ends time.Duration, want ...string) {
		virtual(t, name, func(t *testing.T) {
			c := newCluster(t)
			c.answers, c.webhooks = constant(400*time.Millisecond), func(string) time.Duration { return webhook }
			c.addBudget("web", 1, 1)
			c.addPod("n", "a", "web")
			c.start(defaults)
			wait := c.drain("n", time.Hour)
			elapse(100 * time.Millisecond)
			cause, before := errors.New("leaving"), time.Now()
			c.cancel(cause)
			report, err := wait()
			if took := time.Since(before); !errors.Is(err, cause) || took != ends {
				t.Errorf("got %v after %v, want %v after %v", err, took, cause, ends)
			}
			c.expectRequests(want...)
			if evicted := slices.ContainsFunc(report.Pods, func(p PodReport) bool { return p.How == Evicted }); evicted != (len(want) > 0) {
				t.Errorf("the report has the pods %+v", report.Pods)
			}
		})
	}
	check("the API server answers", 0, 300*time.Millisecond, "evict n/a")
	check("a webhook does not answer", time.Minute, time.Second)
}

// TestDrainWithoutAListOfBudgets waits for the list for a part of its time, and then leaves it to the API server to
// check the budgets.
func TestDrainWithoutAListOfBudgets(t *testing.T) {
	// check has the budgets listed after some time, and an earlier deadline arrive after a second.
	check := func(
		name string, listed, tighter time.Duration, guarded bool, begins time.Duration, want string, pods ...runtime.Object,
	) {
		t.Helper()
		virtual(t, name, func(t *testing.T) {
			c := newCluster(t, pods...)
			c.budgetLists = constant(listed)
			c.answer = func(verb string) error {
				if guarded && verb == "evict" {
					return blockedError(0)
				}
				return nil
			}
			c.launch(defaults)
			deadlines, target := make(chan time.Time, 1), c.target("n", 10*time.Minute)
			if tighter > 0 {
				time.AfterFunc(time.Second, func() { deadlines <- c.since.Add(tighter) })
			}
			target.Tighter = deadlines
			report, err := c.drainTarget(c.ctx, target)()
			if err != nil || len(report.Left) > 0 || report.Total != len(pods) {
				t.Errorf("got %+v, %v", report, err)
			}
			if len(pods) == 0 && report.Took > 6*time.Second {
				t.Errorf("it took %v", report.Took)
			}
			if got := strings.Join(slices.Compact(c.requestLog()), ", "); got != want {
				t.Errorf("requested %q, want %q", got, want)
			}
			if want != "" && c.requests[0].after.Round(time.Second) != begins {
				t.Errorf("began after %v, want %v", c.requests[0].after, begins)
			}
		})
	}
	a := runningPod("a")
	check("listed in time: the drain starts then", 2*time.Second, 0, false, 2*time.Second, "evict n/a", a)
	check("never listed: the drain starts after a tenth of the time until the first latest deletion",
		time.Hour, 0, false, 59*time.Second, "evict n/a", a)
	check("never listed, and the API server refuses the eviction: deleted at its latest deletion",
		time.Hour, 0, true, 59*time.Second, "evict n/a refused, delete n/a in 10s", a)
	check("never listed, and an earlier deadline arrives: a tenth of that",
		time.Hour, 110*time.Second, false, 10*time.Second, "evict n/a", a)
	check("never listed, and no pod must leave: over after the settle time", time.Hour, 0, false, 0, "")
}

func TestABlockedPodIsEvictedWhenItsBudgetChanges(t *testing.T) {
	for name, change := range map[string]func(c *cluster){
		"it allows a disruption": func(c *cluster) { c.setStatus(newPDB(1)) },
		"it is deleted":          func(c *cluster) { c.deleteBudget("web") },
	} {
		virtual(t, name, func(t *testing.T) {
			c := startCluster(t, defaults, runningPod("a"), newPDB(0))
			wait := c.drain("n", time.Hour)
			elapse(90 * time.Second)
			c.expectRequests()
			c.expect(t, "1 of 1 left [1 wait for PodDisruptionBudget x/b]", "blocked a since 0s: blocked-by-budget x/b, "+
				"it allows 0 disruptions now: 2 of its 3 pods are healthy, and it requires 2")
			change(c)
			synctest.Wait() // no time passes
			c.expectRequests("evict n/a")
			c.expectDrained(wait, 1)
		})
	}
}

func TestDrainSendsNoRequestsWhileNothingChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.addPod("n", "a", "", gracePeriod(1200))
		c.start(defaults)
		wait := c.drain("n", time.Hour)
		elapse(time.Second)
		reads := func() int { return c.reads + len(c.fake.Actions()) }
		before := reads()
		elapse(15 * time.Minute)
		if n := reads() - before; n > 0 {
			t.Errorf("sent %d requests", n)
		}
		c.expectRequests("evict n/a")
		c.expectDrained(wait, 1)
	})
}

func TestDrainRetriesTheVerification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.onList = func() error {
			if since := time.Since(c.since); since < time.Second || since > time.Minute {
				return nil
			}
			return errUnavailable
		}
		c.start(defaults)
		report := c.expectDrained(c.drain("n", 2*time.Minute), 0)
		if report.Took < time.Minute || report.Unverified {
			t.Errorf("got %+v without a list", report)
		}
		c.expect(t, "failed verify that node n is empty")
	})
}

func TestAtTheDeadline(t *testing.T) {
	check := func(at string, forced int, left []string, requests ...string) {
		t.Helper()
		virtual(t, at, func(t *testing.T) {
			c := newCluster(t, runningPod("a"), newPDB(0))
			c.addPod("n", "long", "", gracePeriod(3600))
			c.start(withConfig(func(c *Config) { c.AtDeadline, c.Settle = at, 0 }))
			report, err := c.drain("n", time.Minute)()
			report.Took = report.Took.Round(time.Second)
			report.Owners, report.Pods = nil, nil // see TestPodReports
			want := Report{Total: 2, Forced: forced, Left: left, Took: time.Minute}
			want.Expected = 2 * time.Second // if the third pod of the budget became Ready
			if len(left) > 0 {
				want.Why = []WaitCount{{Reason: BlockedByBudget, Budget: "x/b", Pods: 1}, {Reason: Terminating, Pods: 1}}
			}
			if diff := cmp.Diff(want, report); diff != "" || err != nil {
				t.Error(diff, err)
			}
			c.expectRequests(requests...)
			if cut := c.countRecords("cut long from 1h0m0s to 1m0s"); cut != forced {
				t.Errorf("%d grace periods were reported as cut, want %d", cut, forced)
			}
			if got := c.countRecords("forced a in 10s: deadline"); got != forced {
				t.Errorf("forced %d times, want %d", got, forced)
			}
		})
	}
	check(Delete, 1, nil, "evict n/long in 60s", "delete n/a in 10s")
	check(Leave, 0, []string{"x/a", "x/long"}, "evict n/long")
}

// TestAnEarlierDeadlineShortensAForcedGracePeriod: a pod is deleted with the 25 minutes that are left, and then a Spot
// warning leaves two minutes.
func TestAnEarlierDeadlineShortensAForcedGracePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := runningPod("a")
		pod.Spec.TerminationGracePeriodSeconds = new(int64(25 * 60))
		c := startCluster(t, defaults, pod, newPDB(0))
		deadlines, target := make(chan time.Time, 1), c.target("n", time.Hour)
		target.Tighter = deadlines
		time.AfterFunc(40*time.Minute, func() { deadlines <- c.since.Add(42 * time.Minute) })
		report, err := c.drainTarget(c.ctx, target)()
		if took := report.Took.Round(time.Second); err != nil || len(report.Left) > 0 || took != 42*time.Minute {
			t.Errorf("got %+v, %v; want an end after 42 minutes", report, err)
		}
		deleted := slices.DeleteFunc(c.requestLog(), func(r string) bool { return r == "evict n/a refused" })
		if diff := cmp.Diff([]string{"delete n/a in 1500s", "delete n/a in 1s"}, deleted); diff != "" {
			t.Error(diff)
		}
	})
}

func TestDryRunOnlyReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, defaults, runningPod("a"), newPDB(0))
		target := c.target("n", time.Hour)
		target.DryRun = true
		c.expectDrained(c.drainTarget(c.ctx, target), 1)
		c.expectRequests()
		c.expect(t, "1 of 1 left [1 wait for PodDisruptionBudget x/b]")
	})
}

// TestProgressWhileABudgetIsAsked: a budget that allows nothing is asked again and again, and the progress does not change.
func TestProgressWhileABudgetIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, runningPod("a"), newPDB(0))
		c.answers = constant(3 * time.Second)
		c.start(defaults)
		wait := c.drain("n", time.Hour)
		elapse(40 * time.Minute)
		if asked, n := len(c.requestLog()), c.countRecords("of 1 left"); asked < 10 || n != 1 {
			t.Errorf("%d reports of the progress after %d requests", n, asked)
		}
		c.expect(t, "1 of 1 left [1 wait for PodDisruptionBudget x/b]")
		if report, err := wait(); err != nil || len(report.Left) > 0 {
			t.Errorf("got %+v, %v", report, err)
		}
	})
}

// TestTwoDrainsThatDecideAtTheSameInstant by the same numbers do not both disrupt the budget: the second waits.
func TestTwoDrainsThatDecideAtTheSameInstant(t *testing.T) {
	for _, tt := range []struct {
		name    string
		allowed int32
		passed  time.Duration // of the 20 minutes of both drains
		want    string
	}{
		{"eviction", 1, 0, "evict n/a"},
		{"early deletion", 0, 10 * time.Minute, "delete n/a in 10s"},
	} {
		virtual(t, tt.name, func(t *testing.T) {
			c := startCluster(t, withConfig(func(c *Config) { c.ForceSpacing = time.Hour }), newPDB(tt.allowed))
			target := c.target("", 20*time.Minute)
			elapse(tt.passed)
			c.setStatus(newPDB(tt.allowed)) // the next probe is far away
			synctest.Wait()
			runs, steps := map[string]*run{}, map[string]Step{}
			for _, name := range []string{"a", "b", "c"} {
				c.add(runningPod(name))
				target.Name = name
				r, err := newRun(c.drainer, target)
				if err != nil {
					t.Fatal(err)
				}
				runs[name] = r
				r.act(c.ctx, Step{Wait: r.decide(c.ctx, []*record{c.drainer.rules.record(runningPod(name))}).Wait})
			}
			for name, r := range runs {
				steps[name] = r.decide(c.ctx, []*record{c.drainer.rules.record(runningPod(name))})
			}
			runs["a"].act(c.ctx, steps["a"])
			runs["b"].waiter.woken()
			runs["b"].act(c.ctx, steps["b"])
			if !runs["b"].waiter.woken() {
				t.Error("the second drain does not decide again")
			}
			synctest.Wait()
			c.expectRequests(tt.want)
			for _, r := range runs {
				r.stop(func() {})
			}
		})
	}
}
