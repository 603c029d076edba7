package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

// reconciling has work left for so many calls.
func reconciling(left int) func(context.Context) (handover.Answer, error) {
	return func(context.Context) (handover.Answer, error) {
		left--
		return handover.Answer{Go: left < 0}, nil
	}
}

// TestGroupIsReconciled with a pod that stays, after the released one has gone, until nothing is left.
func TestGroupIsReconciled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, member("a"), member("b"), member("c", annotated(workload.SecretAnnotation, "other")),
			member("unready", func(p *workload.Pod) { p.Ready = false }),
			member("deleted", func(p *workload.Pod) { p.Deleting = true }),
			member("d", annotated(workload.PreferAnnotation, "true")), member("e", annotated(workload.SurgeAnnotation, "true")))
		f.reconcile = reconciling(2)
		f.start()
		start := time.Now()
		f.ask("a", leaving("node-of-a", "node-of-b"))
		elapse(time.Minute)
		if calls := f.done("reconcile"); len(calls) > 0 {
			t.Errorf("got calls %q while the pod was there", calls)
		}
		f.remove("a")
		elapse(time.Hour)
		calls := f.at("reconcile")
		if want := []string{"reconcile d", "reconcile d", "reconcile d"}; !slices.Equal(f.done("reconcile"), want) {
			t.Fatalf("got calls %q, want %q", f.done("reconcile"), want)
		}
		var peers []string
		for _, p := range calls[0].request.Peers {
			peers = append(peers, p.Name)
		}
		if want := []string{"b", "c", "unready", "deleted", "e"}; !slices.Equal(peers, want) {
			t.Errorf("the peers are %q, want %q", peers, want)
		}
		if until := calls[0].request.Deadline; !until.Equal(start.Add(reconcileTimeout)) {
			t.Errorf("the deadline is %v after the release", until.Sub(start))
		}
		f.expectIdle()
	})
}

// expectIdle expects that nothing is read while there is nothing to do.
func (f *fixture) expectIdle() {
	f.t.Helper()
	before, calls := f.surgeLists, len(f.calls)
	elapse(time.Hour)
	if f.surgeLists > before || len(f.calls) > calls {
		f.t.Errorf("%d reads of the records, and calls %v, without work", f.surgeLists-before, f.calls[calls:])
	}
}

// TestGroupWaitsForAllReleasedPods, however many were released.
func TestGroupWaitsForAllReleasedPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, member("a"), member("b"), member("c"))
		f.start()
		f.ask("a")
		f.ask("b")
		f.remove("a")
		elapse(time.Minute)
		if calls := f.done("reconcile"); len(calls) > 0 {
			t.Errorf("got calls %q", calls)
		}
		f.remove("b")
		elapse(time.Minute)
		if want := []string{"reconcile c"}; !slices.Equal(f.done("reconcile"), want) {
			t.Errorf("got calls %q, want %q", f.done("reconcile"), want)
		}
	})
}

// TestGroupIsGivenUp after five minutes, whatever the reason is that there is work left.
func TestGroupIsGivenUp(t *testing.T) {
	for name, tt := range map[string]struct {
		reconcile func(context.Context) (handover.Answer, error)
		ended     []string // pods, after the release
		least     int      // calls
	}{
		"there is always work left": {reconciling(1000), []string{"a"}, 20},
		"it fails": {
			func(context.Context) (handover.Answer, error) {
				return handover.Answer{Go: true}, errors.New("no answer")
			}, []string{"a"}, 20,
		},
		"the pod does not leave": {reconciling(0), nil, 0},
		"no pod stays":           {reconciling(0), []string{"a", "b"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, member("a"), member("b"))
				f.reconcile = tt.reconcile
				f.start()
				f.ask("a")
				f.remove(tt.ended...)
				elapse(time.Hour)
				calls := f.at("reconcile")
				if len(calls) < tt.least || len(calls) > int(reconcileTimeout/shortestPause) || tt.least == 0 && len(calls) > 0 {
					t.Fatalf("%d calls", len(calls))
				}
				if n := len(calls); n > 0 && calls[n-1].after > reconcileTimeout+longestPause {
					t.Errorf("the last call was after %v", calls[n-1].after)
				}
				f.expectIdle()
			})
		})
	}
}

// TestEachFailureIsTold: what fails for one group is told, also if it does not for the next.
func TestEachFailureIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := annotated(workload.SecretAnnotation, "other")
		f := newFixture(t, member("a"), member("b"), member("c", other), member("d", other))
		calls := 0
		f.reconcile = func(context.Context) (handover.Answer, error) {
			if calls++; calls == 1 {
				return handover.Answer{}, errors.New("no answer")
			}
			return handover.Answer{Go: true}, nil
		}
		f.start()
		f.ask("a")
		f.ask("c")
		f.remove("a", "c")
		elapse(time.Hour)
		want := []string{"reconcile b", "reconcile d", "reconcile b"}
		if !slices.Equal(f.done("reconcile"), want) || !slices.Contains(f.told, "failed: no answer") {
			t.Errorf("got calls %q, want %q; the Observer was told %q", f.done("reconcile"), want, f.told)
		}
	})
}

// TestWhichReleasesMove: a group is reconciled after the answer that a pod may go, and after a last call, by which it
// goes anyhow.
func TestWhichReleasesMove(t *testing.T) {
	for name, tt := range map[string]struct {
		answer handover.Answer
		err    error
		last   bool
		want   int // calls
	}{
		"handed over":                 {handover.Answer{Go: true, Outcome: handover.HandedOver}, nil, false, 1},
		"not leading":                 {handover.Answer{Go: true, Outcome: handover.NotLeading}, nil, false, 1},
		"not yet":                     {handover.Answer{Outcome: handover.GroupBehind}, nil, false, 0},
		"not yet, at last":            {handover.Answer{Outcome: handover.GroupBehind}, nil, true, 1},
		"no answer":                   {handover.Answer{}, errors.New("no answer"), false, 0},
		"no answer to the last call":  {handover.Answer{}, errors.New("no answer"), true, 1},
		"an error with an answer too": {handover.Answer{Go: true}, errors.New("no answer"), false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, member("a"), member("b"))
				f.release = func(context.Context, workload.Request) (handover.Answer, error) { return tt.answer, tt.err }
				f.start()
				if tt.last {
					f.ask("a", last)
				} else {
					f.ask("a")
				}
				f.remove("a")
				elapse(time.Hour)
				if calls := f.done("reconcile"); len(calls) != tt.want {
					t.Errorf("got calls %q, want %d", calls, tt.want)
				}
			})
		})
	}
}

// TestGroupsAreLimited: what is kept is bounded, whatever annotations the pods have.
func TestGroupsAreLimited(t *testing.T) {
	f := newFixture(t)
	for i := range 3 * maxGroups {
		f.moved(member(fmt.Sprint("a", i), annotated(workload.SecretAnnotation, fmt.Sprint(i%(2*maxGroups)))))
	}
	if n := len(f.groups); n != maxGroups {
		t.Errorf("%d groups, want %d", n, maxGroups)
	}
	if n := len(f.groups[0].released); n != 2 {
		t.Errorf("%d pods of the first group, want 2", n)
	}
}

// TestRecordedSurgeEnds without any question, when the process has started, however long that takes. While the pod is
// still there it waits for a question first: nobody has said yet which nodes leave.
func TestRecordedSurgeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, member("a"))
		f.surges["redis"], f.surgesFail = 100, 2
		f.start()
		elapse(time.Hour)
		calls := f.at("end")
		if len(calls) != 100 || calls[99].what != "end redis" || calls[99].request.Peers[0].Name != "a" {
			t.Fatalf("got %d calls, want 100 with the pod", len(calls))
		}
		if first := calls[0].after; first < firstPause || first > firstPause+time.Minute {
			t.Errorf("the first call was after %v", first)
		}
		if took := calls[99].after - calls[0].after; took < 10*time.Minute || took > 40*time.Minute {
			t.Errorf("100 calls took %v, want growing pauses", took)
		}
		if want := []string{"failed: no answer", "failed: no answer", "redis: redis-0 has not moved yet"}; !slices.Equal(f.told, want) {
			t.Errorf("the Observer was told %q, want %q", f.told, want)
		}
		f.expectIdle()
	})
}

// TestSurgeOfAPodThatHasLeftEnds at once when the process has started.
func TestSurgeOfAPodThatHasLeftEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, member("a", func(p *workload.Pod) { p.UID = "another" }))
		f.surges["redis"] = 1
		f.start()
		elapse(time.Second)
		if calls := f.at("end"); len(calls) != 1 {
			t.Errorf("got calls %+v, want one", calls)
		}
	})
}

// TestSurgeOfACallEnds: a call is a reason to read the records.
func TestSurgeOfACallEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, member("a"))
		f.start()
		elapse(time.Hour)
		f.release = func(context.Context, workload.Request) (handover.Answer, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.surges["redis"] = 2
			return handover.Answer{Outcome: handover.GroupBehind}, nil
		}
		f.ask("a")
		elapse(time.Minute)
		if calls := f.at("end"); len(calls) != 2 || calls[0].after > time.Hour+time.Minute/2 {
			t.Errorf("got calls %+v, want two soon", calls)
		}
		elapse(time.Hour)
		f.expectIdle()
	})
}

// TestFirstQuestionStarts the work that was left by the process before.
func TestFirstQuestionStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, member("a"))
		f.surges["redis"] = 1
		f.start()
		elapse(time.Second)
		f.ask("a", leaving("node-of-a"))
		elapse(2 * shortestPause)
		calls := f.at("end")
		if len(calls) != 1 || calls[0].request.Peers[0].Stays {
			t.Errorf("got calls %+v, want one that knows which nodes leave", calls)
		}
	})
}

// TestOwnPodIsNoMember: the pod of the process has the annotations of a group that has no others.
func TestOwnPodIsNoMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, member("handover-0"), member("a"), member("b"))
		f.start()
		f.ask("a")
		f.remove("a")
		elapse(time.Minute)
		if want := []string{"reconcile b"}; !slices.Equal(f.done("reconcile"), want) {
			t.Errorf("got calls %q, want %q", f.done("reconcile"), want)
		}
	})
}

// TestWorkTakesItsTurn: while a pod is asked, no surge ends, and no group is reconciled; both go on then.
func TestWorkTakesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, member("a"), member("b"))
		f.surges["redis"], f.reconcile = 1000, reconciling(1000)
		f.start()
		f.ask("a")
		f.remove("a")
		elapse(time.Minute)
		f.release = func(context.Context, workload.Request) (handover.Answer, error) {
			before := len(f.at(""))
			<-time.After(20 * time.Second)
			if meanwhile := f.at("")[before:]; len(meanwhile) > 0 {
				t.Errorf("meanwhile: %v", meanwhile)
			}
			return handover.Answer{Outcome: handover.GroupBehind}, nil
		}
		f.ask("b")
		elapse(time.Minute)
		if f.most != 1 || len(f.done("end")) < 5 || len(f.done("reconcile")) < 5 {
			t.Errorf("%d calls at once; %v", f.most, f.calls)
		}
	})
}

// TestWorkEnds: a call without an answer keeps pods from being asked for a bounded time, and not from being asked at all.
func TestWorkEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, member("a"), member("b"))
		f.reconcile = func(ctx context.Context) (handover.Answer, error) {
			<-ctx.Done()
			return handover.Answer{}, ctx.Err()
		}
		f.start()
		f.ask("a")
		f.remove("a")
		f.release = always(handover.Answer{Outcome: handover.HandingOver})
		var behind, asked int
		for range 60 {
			if _, reply := f.ask("b"); reply.Outcome == handover.HandingOver {
				asked++
			} else {
				behind++
			}
			elapse(time.Second)
		}
		if behind == 0 || asked < 5 {
			t.Errorf("%d questions were passed on, and %d had no turn", asked, behind)
		}
	})
}

// TestRunEnds when the call has ended that is under way.
func TestRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, member("a"), member("b"))
		f.reconcile = func(ctx context.Context) (handover.Answer, error) {
			<-ctx.Done()
			return handover.Answer{}, ctx.Err()
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.Run(ctx)
		}()
		f.ask("a")
		f.remove("a")
		elapse(10 * time.Second)
		start := time.Now()
		cancel()
		<-done
		if took := time.Since(start); took == 0 || took > callTimeout || len(f.done("reconcile")) != 1 {
			t.Errorf("it took %v; calls %v", took, f.calls)
		}
		if slices.ContainsFunc(f.told, func(s string) bool { return s == "failed: context canceled" }) {
			t.Errorf("the Observer was told %q", f.told)
		}
	})
}
