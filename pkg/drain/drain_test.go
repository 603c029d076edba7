package drain

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/node-drainer/node-drainer/internal/retry"
)

var errUnavailable = apierrors.NewServiceUnavailable("the API server is starting")

func TestDrainEvictsPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finished := runningPod("finished")
		finished.Status.Phase = corev1.PodSucceeded
		w := newFixture(t, defaults, runningPod("a"), runningPod("b"), finished)
		report := w.expectDrained(w.drain(time.Hour), 2)
		if report.Forced > 0 || report.Took.Round(time.Second) != 10*time.Second {
			t.Errorf("got %+v, want no forced pod after the grace period of 10s", report)
		}
		got := w.requests()
		slices.Sort(got)
		if diff := cmp.Diff([]string{"evict a uid-a", "evict b uid-b"}, got); diff != "" {
			t.Error(diff)
		}
		w.expect(t, "evicted a after 0s", "0 of 2 left []", "ended n: drained")
	})
}

func TestDrainWaitsForTheSettleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, defaults)
		wait := w.drain(time.Hour)
		elapse(3 * time.Second)
		w.add(runningPod("late"))
		w.expectDrained(wait, 1)
		w.expectRequests("evict late uid-late")
	})
}

func TestDrainEndsWithTheCauseOfItsContext(t *testing.T) {
	for name, failure := range map[string]error{"during the drain": nil, "before the pods have been listed": errUnavailable} {
		virtual(t, name, func(t *testing.T) {
			w := newFixture(t, defaults, runningPod("a"), newPDB(0))
			w.failRequests("list", "pods", func() error { return failure })
			wait := w.drain(time.Hour)
			elapse(time.Minute)
			cause, before := errors.New("leaving"), time.Now()
			w.cancel(cause)
			_, err := wait()
			// client-go's backoff after a failed list runs on the real clock.
			if took := time.Since(before); !errors.Is(err, cause) || failure == nil && took > 100*time.Millisecond {
				t.Errorf("got %v after %v, want %v", err, took, cause)
			}
			w.expectRequests()
		})
	}
}

// TestDrainWithoutAListOfBudgets waits for the list for a part of its time, and then leaves it to the API server to
// check the budgets.
func TestDrainWithoutAListOfBudgets(t *testing.T) {
	a := []runtime.Object{runningPod("a")}
	for _, tt := range []struct {
		name    string
		pods    []runtime.Object
		listed  time.Duration // when they are
		tighter time.Duration // a deadline that arrives after a second
		guarded bool          // the API server refuses evictions
		begins  time.Duration
		want    string // requests, without repetitions
	}{
		{name: "listed in time: the drain starts then", pods: a, listed: 2 * time.Second, begins: 2 * time.Second, want: "evict a uid-a"},
		{
			name: "not listed: it starts after a tenth of the time until the first latest deletion", pods: a, listed: time.Hour,
			begins: 59 * time.Second, want: "evict a uid-a",
		},
		{
			name: "not listed, and the API server refuses the eviction: deleted at its latest deletion", pods: a, listed: time.Hour,
			guarded: true, begins: 59 * time.Second, want: "evict a uid-a, delete a uid-a in 10s",
		},
		{
			name: "not listed, and an earlier deadline arrives: a tenth of that", pods: a, listed: time.Hour,
			tighter: 110 * time.Second, begins: 10 * time.Second, want: "evict a uid-a",
		},
		{name: "not listed, and no pod must leave: over after the settle time", listed: time.Hour},
	} {
		virtual(t, tt.name, func(t *testing.T) {
			w := newFixture(t, defaults, tt.pods...)
			began := time.Duration(-1)
			w.answer = func(string) error {
				if began < 0 {
					began = time.Since(w.since)
				}
				if tt.guarded {
					return blockedError(0)
				}
				return nil
			}
			late, err := New(w.client, defaults, Environment{Taint: ourTaint}, w)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(w.ctx, 11*time.Minute)
			var running sync.WaitGroup
			running.Go(func() {
				if retry.Sleep(ctx, tt.listed) {
					late.Run(ctx)
				}
			})
			defer running.Wait()
			defer cancel()
			tighter := make(chan time.Time, 1)
			if tt.tighter > 0 {
				time.AfterFunc(time.Second, func() { tighter <- w.since.Add(tt.tighter) })
			}
			report, err := late.Drain(ctx, Target{
				Name: "n", UID: "uid-n", Since: w.since, Deadline: w.since.Add(10 * time.Minute), Tighter: tighter,
			})
			if err != nil || len(report.Left) > 0 || report.Total != len(tt.pods) {
				t.Errorf("got %+v, %v", report, err)
			}
			requests := w.requests()
			if len(tt.pods) == 0 {
				if len(requests) > 0 || report.Took > 6*time.Second {
					t.Errorf("requested %q in %v", requests, report.Took)
				}
				return
			}
			if began.Round(time.Second) != tt.begins {
				t.Errorf("began after %v, want %v", began, tt.begins)
			}
			if got := strings.Join(slices.Compact(requests), ", "); got != tt.want {
				t.Errorf("requested %q, want %q", got, tt.want)
			}
		})
	}
}

func TestABlockedPodIsEvictedWhenItsBudgetChanges(t *testing.T) {
	for name, change := range map[string]func(w *fixture){
		"it allows a disruption": func(w *fixture) { w.update(newPDB(1)) },
		"it is deleted":          func(w *fixture) { _ = w.client.Tracker().Delete(pdbsResource, "x", "b") },
	} {
		virtual(t, name, func(t *testing.T) {
			w := newFixture(t, defaults, runningPod("a"), newPDB(0))
			wait := w.drain(time.Hour)
			elapse(90 * time.Second)
			w.expectRequests()
			w.expect(t, "1 of 1 left [1 wait for PodDisruptionBudget x/b]", "blocked a since 0s: blocked-by-budget x/b, "+
				"it allows 0 disruptions now: 2 of its 3 pods are healthy, and it requires 2")
			change(w)
			synctest.Wait() // no time passes
			w.expectRequests("evict a uid-a")
			w.expectDrained(wait, 1)
		})
	}
}

func TestDrainSendsNoRequestsWhileNothingChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := runningPod("a")
		*a.Spec.TerminationGracePeriodSeconds = 1200
		w := newFixture(t, defaults, a)
		wait := w.drain(time.Hour)
		elapse(time.Second)
		before := len(w.client.Actions())
		elapse(15 * time.Minute)
		if after := w.client.Actions(); len(after) > before {
			t.Errorf("requested %v", after[before:])
		}
		w.expectDrained(wait, 1)
	})
}

func TestDrainRetriesTheVerification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, defaults)
		w.failRequests("list", "pods", func() error {
			if since := time.Since(w.since); since < time.Second || since > time.Minute {
				return nil
			}
			return errUnavailable
		})
		report := w.expectDrained(w.drain(10*time.Second), 0)
		if report.Took < time.Minute {
			t.Errorf("got %+v without a list", report)
		}
		w.expect(t, "failed verify that node n is empty")
	})
}

func TestAtTheDeadline(t *testing.T) {
	for _, tt := range []struct {
		name, at string
		forced   int
		left     []string
		want     []string
	}{
		{name: "delete", at: Delete, forced: 1, want: []string{"delete a uid-a in 10s"}},
		{name: "leave", at: Leave, left: []string{"x/a"}},
	} {
		virtual(t, tt.name, func(t *testing.T) {
			w := newFixture(t, withConfig(func(c *Config) { c.AtDeadline, c.Settle = tt.at, 0 }), runningPod("a"), newPDB(0))
			report, err := w.drain(time.Minute)()
			if err != nil {
				t.Fatal(err)
			}
			want := Report{Total: 1, Forced: tt.forced, Left: tt.left, Took: time.Minute}
			report.Took = report.Took.Round(time.Second)
			if diff := cmp.Diff(want, report); diff != "" {
				t.Error(diff)
			}
			w.expectRequests(tt.want...)
			if got := w.countRecords("forced a in 10s: deadline"); got != tt.forced {
				t.Errorf("forced %d times, want %d", got, tt.forced)
			}
		})
	}
}

func TestEvictionsSetAGracePeriodOnlyToShortenIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, withConfig(func(c *Config) { c.Settle = 0 }), runningPod("a"))
		long := runningPod("long")
		*long.Spec.TerminationGracePeriodSeconds = 3600
		w.add(long)
		if _, err := w.drain(time.Minute)(); err != nil {
			t.Fatal(err)
		}
		got := w.requests()
		slices.Sort(got)
		if diff := cmp.Diff([]string{"evict a uid-a", "evict long uid-long in 60s"}, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestEvictionsAreRetriedAfterErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, defaults, runningPod("a"))
		w.answer = func(string) error {
			if len(w.requested) <= 3 {
				return errUnavailable
			}
			return nil
		}
		w.expectDrained(w.drain(time.Hour), 1)
		w.expectRequests("evict a uid-a", "evict a uid-a", "evict a uid-a", "evict a uid-a")
		w.expect(t, "failed remove pod x/a")
	})
}

func TestDryRunOnlyReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, defaults, runningPod("a"), newPDB(0))
		target := Target{Name: "n", UID: "uid-n", Since: w.since, Deadline: w.since.Add(time.Hour), DryRun: true}
		w.expectDrained(startDrain(w.ctx, w.drainer, target), 1)
		w.expectRequests()
		w.expect(t, "1 of 1 left [1 wait for PodDisruptionBudget x/b]")
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
		{"eviction", 1, 0, "evict a uid-a"},
		{"early deletion", 0, 10 * time.Minute, "delete a uid-a in 10s"},
	} {
		virtual(t, tt.name, func(t *testing.T) {
			w := newFixture(t, withConfig(func(c *Config) { c.ForceSpacing = time.Hour }), newPDB(tt.allowed))
			elapse(tt.passed)
			w.update(newPDB(tt.allowed)) // the next probe is far away
			synctest.Wait()
			runs, steps := map[string]*run{}, map[string]Step{}
			for _, name := range []string{"a", "b", "c"} {
				w.add(runningPod(name))
				r, err := newRun(w.drainer, Target{Name: name, Since: w.since, Deadline: w.since.Add(20 * time.Minute)})
				if err != nil {
					t.Fatal(err)
				}
				runs[name] = r
				r.act(w.ctx, Step{Wait: r.decide(w.ctx, []*record{w.drainer.rules.record(runningPod(name))}).Wait})
			}
			for name, r := range runs {
				steps[name] = r.decide(w.ctx, []*record{w.drainer.rules.record(runningPod(name))})
			}
			for _, name := range []string{"a", "b"} {
				runs[name].act(w.ctx, steps[name])
			}
			synctest.Wait()
			w.expectRequests(tt.want)
			if got := time.Until(runs["b"].wakeAt); got <= 0 || got > contentionPause {
				t.Errorf("the second drain decides again after %v, want %v at most", got, contentionPause)
			}
			runs["a"].stop()
		})
	}
}
