package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// after cuts the requests about pods down to when each was decided, in order.
func (c *cluster) after(verb string) (all []time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.requests {
		if r.verb == verb {
			all = append(all, r.after.Round(time.Second))
		}
	}
	return all
}

func (c *cluster) expect(want ...string) {
	c.t.Helper()
	if diff := cmp.Diff(want, c.requestLog()); diff != "" {
		c.t.Errorf("requests about pods:\n%s", diff)
	}
}

// TestForcedDeletionsOfOneBudgetKeepTheirDistance has a budget that allows nothing, a grace of 10 s, and so
// last calls at 9m50s.
func TestForcedDeletionsOfOneBudgetKeepTheirDistance(t *testing.T) {
	spaced := withConfig(func(c *Config) { c.ForceSpacing = time.Minute })
	slow := func() time.Duration { return 10 * time.Second }
	for _, tt := range []struct {
		name            string
		nodes           []string
		answers, starts func() time.Duration
		want            []time.Duration
	}{
		{
			name: "of one node, when replacements come at once", nodes: []string{"n", "n", "n"},
			answers: noDelay, starts: noDelay,
			want: []time.Duration{7*time.Minute + 50*time.Second, 8*time.Minute + 50*time.Second, 9*time.Minute + 50*time.Second},
		},
		{
			name: "when the API server takes its time to answer", nodes: []string{"n", "n", "n"},
			answers: slow, starts: noDelay,
			want: []time.Duration{7*time.Minute + 55*time.Second, 8*time.Minute + 55*time.Second, 9*time.Minute + 55*time.Second},
		},
		{
			name: "when replacements take longer than a spacing, the last call comes first", nodes: []string{"n", "n", "n"},
			answers: noDelay, starts: func() time.Duration { return 100 * time.Second },
			want: []time.Duration{7*time.Minute + 50*time.Second, 9*time.Minute + 30*time.Second, 9*time.Minute + 50*time.Second},
		},
		{
			name: "of two nodes with one deadline, as of one", nodes: []string{"n", "n", "o", "o"},
			answers: slow, starts: func() time.Duration { return 15 * time.Second },
			want: []time.Duration{
				6*time.Minute + 55*time.Second, 7*time.Minute + 55*time.Second,
				8*time.Minute + 55*time.Second, 9*time.Minute + 55*time.Second,
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				c.answers, c.starts = tt.answers, tt.starts
				c.addBudget("web", len(tt.nodes)+1, 1)
				for i, node := range tt.nodes {
					c.addPod(node, fmt.Sprint("web-", i), "web")
				}
				// Somebody comes and goes, so that the drain looks often.
				for i := range 20 {
					c.addPod("n", fmt.Sprint("job-", i), "", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(475 + 5*i)) })
				}
				c.start(spaced)
				var all []func() (Report, error)
				for _, node := range slices.Compact(slices.Clone(tt.nodes)) {
					all = append(all, c.drain(c.ctx, node, 10*time.Minute))
				}
				for _, wait := range all {
					if report, err := wait(); err != nil || len(report.Left) > 0 || report.Forced == 0 {
						t.Errorf("got %+v, %v", report, err)
					}
				}
				var forced []time.Duration
				for _, r := range c.requests {
					if r.verb == "delete" && strings.HasPrefix(r.pod, "web") {
						forced = append(forced, r.after.Round(time.Second))
					}
				}
				// A turn may find that the budget is being asked about just now, as it is now and then. It waits
				// for the answer.
				for i, want := range tt.want {
					if i >= len(forced) || forced[i] < want || forced[i] > want+tt.answers() {
						t.Fatalf("got %v, want %v", forced, tt.want)
					}
				}
				if len(forced) != len(tt.want) {
					t.Errorf("got %v, want %v", forced, tt.want)
				}
			})
		})
	}
}

func TestOneBudgetOverThreeDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.starts = func() time.Duration { return 3 * time.Second }
		c.addBudget("web", 6, 1)
		for i := range 6 {
			c.addPod(fmt.Sprint("node-", i%3), fmt.Sprint("web-", i), "web", gracePeriod(1))
		}
		c.start(defaults)
		var all []func() (Report, error)
		for i, timeout := range []time.Duration{50 * time.Minute, 40 * time.Minute, time.Hour} {
			all = append(all, c.drain(c.ctx, fmt.Sprint("node-", i), timeout))
			synctest.Wait() // The first of them is served before the others come.
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
		if diff := cmp.Diff(want, nodes); diff != "" {
			t.Errorf("the earliest deadline is not served first:\n%s", diff)
		}
		if diff := cmp.Diff([]time.Duration{0, 3e9, 6e9, 9e9, 12e9, 15e9}, c.after("evict")); diff != "" {
			t.Errorf("time passes between a replacement and the next eviction:\n%s", diff)
		}
	})
}

// TestABlockedPodCostsNextToNothing counts what is asked in an hour in which nothing changes.
func TestABlockedPodCostsNextToNothing(t *testing.T) {
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
		wait := c.drain(c.ctx, "n", 2*time.Hour)
		elapse(time.Hour)
		asked := c.requestLog()
		if n := len(asked); n < 60*60/150 || n > 60*60/120 {
			t.Errorf("an hour cost %d requests: %v", n, asked)
		}
		for _, what := range asked {
			if !strings.HasSuffix(what, " refused") {
				t.Errorf("asked: %s", what)
			}
		}
		c.with(func() {
			if len(c.blocked) != 10 || c.refused[Blocked] != len(asked) || len(c.failed) > 0 {
				t.Errorf("told: %v, %v, %v", c.blocked, c.refused, c.failed)
			}
		})
		c.cancel(errors.New("enough"))
		_, _ = wait()
	})
}

func TestWhatIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.addBudget("web", 2, 0)
		c.addBudget("rigid", 1, 0)
		c.addPod("n", "db", "rigid")
		c.addPod("n", "web-0", "web")
		c.addPod("n", "web-1", "web", func(p *corev1.Pod) { p.Status.Conditions = nil })
		c.addPod("n", "job", "", func(p *corev1.Pod) { p.Annotations = map[string]string{DrainAnnotation: "wait"} })
		c.start(defaults)
		wait := c.drain(c.ctx, "n", time.Hour)
		told := func(want ...string) {
			t.Helper()
			c.with(func() {
				slices.Sort(c.blocked)
				if diff := cmp.Diff(want, c.blocked); diff != "" {
					t.Errorf("after %v:\n%s", time.Since(c.since), diff)
				}
			})
		}
		elapse(time.Second)
		told("n/db misconfigured-budget x/rigid") // at once
		elapse(58 * time.Second)
		told("n/db misconfigured-budget x/rigid")
		elapse(2 * time.Second)
		all := []string{
			"n/db misconfigured-budget x/rigid", "n/job opted-out ", "n/web-0 blocked-by-budget x/web", "n/web-1 blocked-by-budget x/web",
		}
		told(all...)
		c.with(func() {
			want := []WaitCount{
				{Reason: BlockedByBudget, Budget: "x/web", Pods: 2}, {Reason: Misconfigured, Budget: "x/rigid", Pods: 1}, {Reason: OptedOut, Pods: 1},
			}
			if diff := cmp.Diff(want, c.last["n"].Waiting); diff != "" {
				t.Errorf("progress:\n%s", diff)
			}
		})
		elapse(40 * time.Minute)
		told(all...) // once for each thing
		c.setDesired("rigid", 0)
		synctest.Wait()
		if asked := c.requestLog(); asked[len(asked)-1] != "evict n/db" {
			t.Errorf("a budget that was mended lets nobody go: %v", asked)
		}
		c.cancel(errors.New("enough"))
		_, _ = wait()
	})
}

func TestADrainThatIsCalledOffLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.answers = func() time.Duration { return 4 * time.Second }
		c.addBudget("web", 5, 2)
		for i := range 4 {
			c.addPod("n", fmt.Sprint("web-", i), "web")
		}
		c.addPod("o", "web-o", "web")
		c.start(defaults)
		ctx, cancel := context.WithCancelCause(c.ctx)
		wait := c.drain(ctx, "n", time.Hour)
		elapse(time.Second) // Two requests are under way, and two pods wait.
		other := c.drain(c.ctx, "o", 2*time.Hour)
		synctest.Wait()
		called := time.Now()
		reason := errors.New("called off")
		cancel(reason)
		if _, err := wait(); !errors.Is(err, reason) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(called); took > time.Second {
			t.Errorf("it took %v", took)
		}
		c.with(func() {
			if c.results[Interrupted] != 1 {
				t.Errorf("told %v", c.results)
			}
		})
		// What it had asked for may come to be or not; for some seconds it counts. Then others get it.
		if report, err := other(); err != nil || report.Took > 30*time.Second || report.Forced > 0 {
			t.Errorf("the other: %+v, %v", report, err)
		}
		c.drainer.pdbs.mu.Lock()
		defer c.drainer.pdbs.mu.Unlock()
		if n := len(c.drainer.pdbs.pdbs["x"]["web"].demands); n > 0 {
			t.Errorf("%d claims are left", n)
		}
	})
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
		report, err := c.drain(c.ctx, "n", time.Hour)()
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

func TestAPodThatTheWatchDoesNotShowIsEvictedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.answers, c.watches = func() time.Duration { return 10 * time.Second }, func() time.Duration { return time.Minute }
		c.start(defaults)
		wait := c.drain(c.ctx, "n", time.Hour)
		elapse(time.Second)
		c.addPod("n", "late", "")
		report, err := wait()
		if err != nil || report.Total != 1 || len(report.Left) > 0 {
			t.Errorf("got %+v, %v", report, err)
		}
		c.expect("evict n/late")
	})
}

// TestANodeThatDoesNotAnswer has nobody to tell that its pod has ended.
func TestANodeThatDoesNotAnswer(t *testing.T) {
	for _, tt := range []struct {
		name string
		lost bool
		want time.Duration
	}{
		{"is not waited for", true, 12 * time.Second},
		{"while one that does is", false, 5*time.Minute + 10*time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t, defaults, running("a"))
				w.drainer.rules.Unreachable = func(node string) bool { return tt.lost && node == "n" }
				w.mu.Lock()
				w.podsEnd = false
				w.mu.Unlock()
				report, err := w.drain(time.Hour)()
				if err != nil || report.Took.Round(time.Second) != tt.want || len(report.Left) != 1 {
					t.Errorf("got %+v, %v, want %v", report, err, tt.want)
				}
				if !w.reported("ended n: left-behind") {
					t.Errorf("the observer was told %q", w.reports)
				}
			})
		})
	}
}

// TestTighterDeadline: an earlier deadline that comes amid a drain has its pods forced in time, and those that
// are being stopped stop sooner. A later one changes nothing.
func TestTighterDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.addBudget("web", 1, 0)
		c.addPod("n", "web-0", "web", gracePeriod(30))
		c.start(defaults)
		tighter := make(chan time.Time)
		began := time.Now()
		done := make(chan Report, 1)
		go func() {
			report, err := c.drainer.Drain(c.ctx, Target{
				Name: "n", UID: "uid-n", Since: began, Deadline: began.Add(time.Hour), Tighter: tighter,
			})
			if err != nil {
				t.Error(err)
			}
			done <- report
		}()
		elapse(time.Minute)
		tighter <- began.Add(3 * time.Minute)
		tighter <- began.Add(2 * time.Hour)
		report := <-done
		if len(report.Left) > 0 || report.Forced != 1 {
			t.Errorf("got %+v", report)
		}
		if got, want := c.after("delete"), 3*time.Minute-30*time.Second; len(got) != 1 || got[0] != want {
			t.Errorf("deleted after %v, want once, after %v", got, want)
		}
	})
}
