package rollout

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// TestStalledDrainSaysWhy: a drain that makes progress does not stall; a stalled one is named with what its
// node waits for.
func TestStalledDrainSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, cfg := newFakeAWS(1), defaults()
		cfg.StallTimeout = 10 * time.Minute
		view := &fakeCluster{drains: map[string]string{}}
		a.script = func(reads int) {
			succeedAt(3)(a, reads)
			if old := instance("i-1", "1"); reads >= 3 {
				old.State = "Terminating:Wait"
				a.group.Instances = append(a.group.Instances[:1], old)
			}
			view.mu.Lock()
			defer view.mu.Unlock()
			if left := 500 - reads; left > 3 { // 40 minutes
				view.drains["i-1"] = strings.Repeat("x", left) + " pods left"
			} else {
				view.drains["i-1"] = "3 pods left: 3 wait for budget shop/api"
			}
		}
		begun := time.Now()
		expect(t, runGroup(t.Context(), t, cfg, a, view), report.Stalled,
			"nothing has changed for 10m0s", "i-1 (node node-i-1: 3 pods left: 3 wait for budget shop/api)")
		if took := time.Since(begun); took < 50*time.Minute {
			t.Errorf("stalled after %v, although the drain made progress for 41 minutes", took)
		}
	})
}

// TestQueuedGroupsAreReadAgain: what was read of a group when the run began is stale when its turn comes,
// hours later.
func TestQueuedGroupsAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, told := newFakeAWS(1), &recorder{}
		s := manyGroups{a, []string{"a", "b"}}
		a.script = func(reads int) {
			if reads == 10 { // group a is done, and there is a new version
				a.status(refresh.StatusSuccessful, "")
				a.replaceAll("2")
				a.latest = 3
			}
		}
		cfg := defaults()
		cfg.Timeout = time.Hour
		if _, err := New(cfg, s, a, nil, told).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := len(a.targets); got != 2 || a.targets[1].Template.Version != "3" {
			t.Errorf("%d refreshes were started, to %+v; want two, the second to version 3", got, a.targets)
		}
	})
}

// TestInterruptedWhileWaitingForAnother: the refresh of another client is not cancelled.
func TestInterruptedWhileWaitingForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, cfg := newFakeAWS(3), defaults()
		cfg.OnConflict, cfg.OnInterrupt = Wait, Cancel
		a.begin("r-9", &refresh.Source{Template: template("1")})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		expect(t, runGroup(ctx, t, cfg, a, nil), report.Interrupted, "no instance refresh was started")
		if len(a.calls) > 0 {
			t.Errorf("unexpected calls %q", a.calls)
		}
	})
}

// TestInterruptedWhileDraining: the refresh has ended, and one that was started after it is not cancelled.
func TestInterruptedWhileDraining(t *testing.T) {
	for _, how := range []Interrupt{Cancel, Rollback, Detach} {
		runInBubble(t, string(how), func(t *testing.T) {
			a, cfg := newFakeAWS(3), defaults()
			cfg.OnInterrupt, cfg.Version = how, "2"
			a.group.Source.Template.Version = "1"
			a.script = func(reads int) {
				if succeedAt(3)(a, reads); reads == 3 {
					old := instance("i-1", "1")
					old.State = "Terminating:Wait"
					a.group.Instances = append(a.group.Instances, old)
					a.begin("r-9", &refresh.Source{Template: template("1")})
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			g := runGroup(ctx, t, cfg, a, nil)
			expect(t, g, report.Interrupted, "r-1 has ended", "1 old instance")
			if strings.Contains(g.Message, "r-1 continues") {
				t.Errorf("the message says that a refresh continues: %s", g.Message)
			}
			if got := strings.Join(a.calls, " "); got != "Start" {
				t.Errorf("unexpected calls %q", got)
			}
		})
	}
}

// TestRefreshInProgressButNotListed: AWS refuses a start because a refresh is in progress, but lists none
// yet. The start is retried a few times.
func TestRefreshInProgressButNotListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, cfg := newFakeAWS(3), defaults()
		cfg.Timeout = time.Minute
		for range 100 {
			a.errs["Start"] = append(a.errs["Start"], refresh.ErrInProgress)
		}
		expect(t, runGroup(t.Context(), t, cfg, a, nil), report.Error, "in progress")
		if n := len(a.calls); n > maxFailures {
			t.Errorf("%d attempts to start", n)
		}
	})
}

// TestRefreshEndsBetweenTwoReads: a refresh was under way when the group was described, and had ended when
// the refreshes were read. What it has replaced is not replaced again.
func TestRefreshEndsBetweenTwoReads(t *testing.T) {
	for name, all := range map[string]bool{"what is outdated": false, "all": true} {
		runInBubble(t, name, func(t *testing.T) {
			a, cfg, told := newFakeAWS(3), defaults(), &recorder{}
			cfg.All, cfg.Preferences.SkipMatching, cfg.Timeout = all, !all, time.Hour
			begun := time.Now().Add(-time.Hour)
			for n := range a.group.Instances {
				a.group.Instances[n].Launched = begun.Add(-time.Hour)
			}
			a.begin("r-1", &refresh.Source{Template: template("2")})
			a.refreshes[0].Started = begun
			a.script = func(reads int) {
				if reads == 5 {
					a.group.Instances = a.group.Instances[:3] // the last old instance has drained
				}
			}
			s := &endingAWS{fakeAWS: a}
			if _, err := New(cfg, s, a, nil, told).Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			expect(t, told.last.Groups[0], report.Done, "1 instance replaced")
			if len(a.calls) > 0 {
				t.Errorf("unexpected calls %q", a.calls)
			}
		})
	}
}

// endingAWS is an AWS whose refresh ends just before refreshes are read for the first time. One old instance
// is still draining.
type endingAWS struct {
	*fakeAWS
	ended bool
}

func (h *endingAWS) Refreshes(ctx context.Context, group string) ([]refresh.Refresh, error) {
	if h.mu.Lock(); !h.ended {
		old := h.group.Instances[0]
		old.State = "Terminating:Wait"
		h.replaceAll("2")
		for n := range h.group.Instances {
			h.group.Instances[n].Launched = time.Now()
		}
		h.group.Instances = append(h.group.Instances, old)
		h.status(refresh.StatusSuccessful, "")
		h.ended = true
	}
	h.mu.Unlock()
	return h.fakeAWS.Refreshes(ctx, group)
}

// TestAllAfterKill: a trigger with --all was killed and is started again. Instances that were launched for
// it are neither replaced again nor counted as left.
func TestAllAfterKill(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(a *fakeAWS, begun time.Time)
		calls  string
		words  []string
	}{
		"while the refresh runs": {
			before: func(a *fakeAWS, begun time.Time) {
				a.begin("r-1", &refresh.Source{Template: template("2")})
				a.refreshes[0].Started = begun
			},
			words: []string{"2 instances replaced"},
		},
		"while old instances drain": {
			before: func(a *fakeAWS, begun time.Time) {
				a.begin("r-1", &refresh.Source{Template: template("2")})
				a.refreshes[0].Started = begun
				a.status(refresh.StatusSuccessful, "")
				for n := range a.group.Instances {
					if a.group.Instances[n].Launched.Before(begun) {
						a.group.Instances[n].State = "Terminating:Wait"
					}
				}
			},
			words: []string{"2 instances replaced"},
		},
		"before it had started one": {
			before: func(*fakeAWS, time.Time) {}, calls: "Start", words: []string{"3 instances replaced"},
		},
	} {
		runInBubble(t, name, func(t *testing.T) {
			a, cfg := newFakeAWS(3), defaults()
			cfg.All, cfg.Preferences.SkipMatching, cfg.Timeout = true, false, time.Hour
			begun := time.Now().Add(-time.Hour)
			a.replaceAll("2")
			for n := range a.group.Instances {
				a.group.Instances[n].Launched = begun.Add(-24 * time.Hour)
			}
			a.group.Instances[0].Launched = begun.Add(time.Minute)
			tt.before(a, begun)
			a.script = func(reads int) {
				if reads < 4 {
					return
				}
				for n := range a.group.Instances {
					if i := &a.group.Instances[n]; tt.calls != "" || i.Launched.Before(begun) {
						*i = instance(i.ID+"-new", "2")
						i.Launched = time.Now()
					}
				}
				a.status(refresh.StatusSuccessful, "")
			}
			expect(t, runGroup(t.Context(), t, cfg, a, nil), report.Done, tt.words...)
			if got := strings.Join(a.calls, " "); got != tt.calls {
				t.Errorf("calls %q, want %q", got, tt.calls)
			}
		})
	}
}
