package rollout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

func newWatcher(cfg plan.Config, a *fakeAWS, out io.Writer) *Watcher {
	cfg.Interval = 5 * time.Minute
	return NewWatcher(cfg, a, a, nil, WatchEnvironment{
		NewReporter: func() report.Reporter { return report.New(report.Options{Out: out}) }, Observer: &facts{},
	})
}

// TestWatchSaysWhatItDoes: a watch that finds nothing to do says once that it watches.
func TestWatchSaysWhatItDoes(t *testing.T) {
	t.Parallel()
	a, out := newFakeAWS(2), &strings.Builder{}
	a.replaceAll("2")
	w := newWatcher(defaults(), a, out)
	for range 2 {
		if err := w.round(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if n := strings.Count(out.String(), "watching 1 group every 5m0s: 0 outdated instances"); n != 1 {
		t.Errorf("the watch says %d times what it does:\n%s", n, out)
	}
}

// TestWhatIsNotTriedAgain: a target is kept in the tag if the rollout to it ended badly, and not for what may end in
// another way next time.
func TestWhatIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	follows := func(status string, change func(a *fakeAWS)) func(a *fakeAWS) {
		return func(a *fakeAWS) {
			a.script = func(int) {
				if len(a.refreshes) > 0 && a.refreshes[0].Active() {
					a.status(status, "")
					change(a)
				}
			}
		}
	}
	nothing := func(*fakeAWS) {}
	for name, tt := range map[string]struct {
		prepare func(a *fakeAWS)
		calls   string // in two rounds
	}{
		"it succeeds":         {follows(refresh.StatusSuccessful, func(a *fakeAWS) { a.replaceAll("2") }), "Start"},
		"it fails":            {follows(refresh.StatusFailed, nothing), "Start WriteFailed lt-1/2"},
		"it is cancelled":     {follows(refresh.StatusCancelled, nothing), "Start WriteFailed lt-1/2"},
		"it is rolled back":   {follows(refresh.StatusRollbackSuccessful, nothing), "Start WriteFailed lt-1/2"},
		"it replaces nothing": {follows(refresh.StatusSuccessful, nothing), "Start WriteFailed lt-1/2"},
		"a newer version appears": {follows(refresh.StatusSuccessful, func(a *fakeAWS) {
			a.replaceAll("2")
			a.latest = 3
		}), "Start Start WriteFailed lt-1/3"},
		"what is left is kept": {follows(refresh.StatusSuccessful, func(a *fakeAWS) {
			a.replaceAll("2")
			a.group.Instances[0] = instance("i-1", "1")
			a.group.Instances[0].State = "Standby"
		}), "Start"},
		"AWS refuses it": {func(a *fakeAWS) { a.errs["Start"] = []error{errors.New("throttled"), errors.New("denied")} }, "Start Start"},
		"the tag cannot be written at first": {func(a *fakeAWS) {
			follows(refresh.StatusFailed, nothing)(a)
			a.errs["WriteFailed lt-1/2"] = []error{errors.New("denied")}
		}, "Start WriteFailed lt-1/2 WriteFailed lt-1/2"},
		"a target that failed before was reached": {func(a *fakeAWS) {
			a.group.Tags = map[string]string{refresh.FailedTag: "lt-1/1 failed"}
			follows(refresh.StatusSuccessful, func(a *fakeAWS) { a.replaceAll("2") })(a)
		}, "Start RemoveFailed"},
		"somebody else has reached a target that failed": {func(a *fakeAWS) {
			a.group.Tags = map[string]string{refresh.FailedTag: "lt-1/2 failed"}
			a.replaceAll("2")
		}, "RemoveFailed"},
		"a gate that does not pass says not now, and not never": {func(a *fakeAWS) { a.errs["Gate"] = []error{nil} }, ""},
		"the watch was restarted": {func(a *fakeAWS) {
			a.group.Tags = map[string]string{refresh.FailedTag: "lt-1/2 failed"}
		}, ""},
	} {
		runInBubble(t, name, func(t *testing.T) {
			a := newFakeAWS(2)
			tt.prepare(a)
			cfg, out := defaults(), &strings.Builder{}
			cfg.Pin = refresh.PinNever
			if len(a.errs["Gate"]) > 0 {
				cfg.Gate, cfg.GateTimeout = &fakeGate{fails: from(1)}, time.Minute
			}
			w := newWatcher(cfg, a, out)
			for range 2 {
				if err := w.round(t.Context()); err != nil {
					t.Error(err)
				}
			}
			a.expectCalls(t, tt.calls)
			if t.Failed() {
				t.Log(out.String())
			}
		})
	}
}

// facts records what an observer is notified of.
type facts []string

func (f *facts) Looked(groups []refresh.Watched, open bool) {
	*f = append(*f, fmt.Sprintf("looked %v %v", groups, open))
}

func (f *facts) RoundEnded(err error) { *f = append(*f, fmt.Sprint("round ", err)) }

func (f *facts) RolloutStarted(group string, outdated int, _ string) {
	*f = append(*f, fmt.Sprint("started ", group, " ", outdated))
}

func (f *facts) RolloutEnded(group, outcome, _ string, started, failed bool) {
	*f = append(*f, fmt.Sprint("ended ", group, " ", outcome, " ", started, " ", failed))
}

// TestWatchIsObserved: the observer is notified of each round, and of each rollout once.
func TestWatchIsObserved(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		prepare func(a *fakeAWS)
		want    string // in two rounds
	}{
		"it succeeds": {
			func(a *fakeAWS) {
				a.script = func(int) {
					if len(a.refreshes) > 0 {
						a.status(refresh.StatusSuccessful, "")
						a.replaceAll("2")
					}
				}
			},
			"looked [{workers 2 false false}] true, started workers 2, ended workers done true false, round <nil>, " +
				"looked [{workers 0 false false}] true, round <nil>",
		},
		"it fails": {
			func(a *fakeAWS) {
				a.script = func(int) {
					if len(a.refreshes) > 0 {
						a.status(refresh.StatusFailed, "")
					}
				}
			},
			"looked [{workers 2 false false}] true, started workers 2, ended workers failed true true, round <nil>, " +
				"looked [{workers 2 true false}] true, round <nil>",
		},
		"it is refused": {
			func(a *fakeAWS) { a.hooks = nil },
			"looked [{workers 2 false true}] true, round <nil>, looked [{workers 2 false true}] true, round <nil>",
		},
		"AWS does not answer": {
			func(a *fakeAWS) { a.errs["Group"] = []error{errors.New("no answer")} },
			"round no answer, looked [{workers 2 false false}] true, started workers 2, ended workers timed-out true true, round <nil>",
		},
	} {
		runInBubble(t, name, func(t *testing.T) {
			a := newFakeAWS(2)
			tt.prepare(a)
			var seen facts
			cfg := defaults()
			cfg.Timeout = time.Hour
			w := NewWatcher(cfg, a, a, nil, WatchEnvironment{
				NewReporter: func() report.Reporter { return report.New(report.Options{Out: io.Discard}) }, Observer: &seen,
			})
			for range 2 {
				if err := w.round(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if got := strings.Join(seen, ", "); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestWatchHandsOver: a rollout is left to another process that leads, although an interrupt would cancel it. No round
// begins while it is not certain which process leads.
func TestWatchHandsOver(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cause error
		calls string
	}{
		"another leads": {loop.ErrNotLeading, "Start"},
		"interrupted":   {nil, "Start Cancel"},
	} {
		runInBubble(t, name, func(t *testing.T) {
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			a := newFakeAWS(2)
			cfg, rounds := defaults(), 0
			cfg.OnInterrupt, cfg.Interval = plan.Cancel, time.Minute
			w := NewWatcher(cfg, a, a, nil, WatchEnvironment{
				NewReporter: func() report.Reporter { return report.New(report.Options{Out: io.Discard}) },
				Observer:    &facts{},
				Gate: func(context.Context) {
					rounds++
					time.Sleep(time.Minute)
				},
			})
			time.AfterFunc(2*time.Minute, func() { stop(tt.cause) })
			if err := w.Run(ctx); err != nil || rounds != 1 {
				t.Errorf("%d rounds began, %v", rounds, err)
			}
			a.expectCalls(t, tt.calls)
		})
	}
}

// TestWatchLeavesOthersAlone: a group on which another trigger works is left to that, and what a trigger has left that
// was killed is taken back.
func TestWatchLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lease refresh.Lease
		says  string
		calls string
	}{
		"another works": {refresh.Lease{Holder: "ci/1", Expires: time.Date(2000, 1, 1, 0, 0, 30, 0, time.UTC)}, "the trigger ci/1 replaces", ""},
		"it was killed": {refresh.Lease{Holder: "ci/1"}, "nothing", ""},
	} {
		runInBubble(t, name, func(t *testing.T) {
			a := newFakeAWS(2)
			a.replaceAll("2")
			a.group.Tags = map[string]string{refresh.LeaseTag: tt.lease.String()}
			cfg, out := defaults(), &strings.Builder{}
			cfg.Mode, cfg.Holder = refresh.ModeUnhealthy, "watch/1"
			if err := newWatcher(cfg, a, out).round(t.Context()); err != nil {
				t.Error(err)
			}
			a.expectCalls(t, tt.calls)
			if _, left := refresh.LeaseOf(a.group); !strings.Contains(out.String(), tt.says) || left != (name == "another works") {
				t.Errorf("the lease is left: %v, the output is %s", left, out.String())
			}
		})
	}
}

// TestWatchInWaves: a group begins only if no outdated one of an earlier wave is held back.
func TestWatchInWaves(t *testing.T) {
	t.Parallel()
	in := func(name, wave string) refresh.Group {
		return refresh.Group{Name: name, Tags: map[string]string{refresh.WaveTag: wave}}
	}
	starts := []refresh.Group{in("a", "1"), in("b", "2"), in("c", "3"), {Name: "d"}}
	for name, tt := range map[string]struct {
		held  []refresh.Group
		order []string
		want  string
	}{
		"none is held back":          {nil, nil, "a b c d"},
		"one of the last wave":       {[]refresh.Group{{Name: "x"}}, nil, "a b c d"},
		"one of the second":          {[]refresh.Group{in("x", "2"), in("y", "3")}, nil, "a b"},
		"one, and groups are named":  {[]refresh.Group{in("x", "2")}, []string{"x", "d", "c", "b", "a"}, "a b c d"},
		"one of a wave before first": {[]refresh.Group{in("x", "0")}, nil, ""},
	} {
		due, later := inWaves(tt.order, starts, tt.held)
		if got := strings.Join(due, " "); got != tt.want || len(due)+len(later) != len(starts) {
			t.Errorf("%s: %q and later %q, want %q", name, got, later, tt.want)
		}
	}
}

// brokenPipe is what a program reads no more.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// TestWatchEnds: a watch ends when it is interrupted, and when nobody reads its output.
func TestWatchEnds(t *testing.T) {
	t.Parallel()
	runInBubble(t, "interrupted", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
		defer cancel()
		a := newFakeAWS(2)
		a.replaceAll("2")
		if err := newWatcher(defaults(), a, io.Discard).Run(ctx); err != nil || a.reads != 3 {
			t.Errorf("it ended with %v after %d looks", err, a.reads)
		}
	})
	runInBubble(t, "nobody reads", func(t *testing.T) {
		a := newFakeAWS(2)
		a.hooks = nil
		if err := newWatcher(defaults(), a, brokenPipe{}).Run(t.Context()); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("it ended with %v", err)
		}
	})
}

// TestWatchNotesAConflictOnce: while somebody else's refresh has another target, the watch starts nothing, and says so
// once. It follows one with its own target.
func TestWatchNotesAConflictOnce(t *testing.T) {
	t.Parallel()
	for conflict, want := range map[plan.Conflict]int{plan.Attach: 1, plan.Fail: 1} {
		runInBubble(t, string(conflict), func(t *testing.T) {
			a := newFakeAWS(2)
			a.begin("r-1", &refresh.Source{Template: template("1")})
			cfg, out := defaults(), &strings.Builder{}
			cfg.OnConflict = conflict
			w := newWatcher(cfg, a, out)
			round := func() {
				if err := w.round(t.Context()); err != nil {
					t.Error(err)
				}
			}
			round()
			round()
			if n := strings.Count(out.String(), "r-1"); n != want {
				t.Errorf("the refresh is named %d times, want %d: %s", n, want, out)
			}
			a.status(refresh.StatusCancelled, "")
			a.script = func(int) {
				if a.refreshes[0].ID != "r-1" && a.refreshes[0].Active() {
					a.status(refresh.StatusSuccessful, "")
					a.replaceAll("2")
				}
			}
			round()
			a.expectCalls(t, "Start")
		})
	}
}
