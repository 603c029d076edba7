package rollout

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// scenario is a rollout of three instances, and what is expected of it. Only want must be set.
type scenario struct {
	do     Action // instead of a rollout
	nodes  plan.Cluster
	change func(*plan.Config)
	before func(*fakeAWS)
	script func(a *fakeAWS, reads int) // runs before each read of the group
	stop   time.Duration               // until the interrupt
	want   report.Outcome
	words  []string // in the message
	calls  string
}

func (s scenario) run(t *testing.T, cfg plan.Config) {
	t.Helper()
	a := newFakeAWS(3)
	if s.before != nil {
		s.before(a)
	}
	if s.script != nil {
		a.script = func(reads int) { s.script(a, reads) }
	}
	if s.change != nil {
		s.change(&cfg)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if s.stop > 0 {
		defer time.AfterFunc(s.stop, cancel).Stop()
	}
	trigger := New(cfg, a, a, s.nodes, nil)
	run := trigger.Run
	if s.do != "" {
		run = func(ctx context.Context) (report.Rollout, error) { return trigger.Act(ctx, s.do) }
	}
	r, err := run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, r.Groups[0], s.want, s.words...)
	a.expectCalls(t, s.calls)
}

// TestStalledDrainSaysWhy: a drain that makes progress does not stall; a stalled one is named with what its
// node waits for.
func TestStalledDrainSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, cfg := newFakeAWS(1), defaults()
		cfg.StallTimeout = 10 * time.Minute
		nodes := &fakeCluster{drains: map[string]string{}}
		a.script = func(reads int) {
			succeedAt(3)(a, reads)
			if reads >= 3 {
				a.group.Instances = append(a.group.Instances[:1], draining("i-1"))
			}
			nodes.mu.Lock()
			defer nodes.mu.Unlock()
			if left := 500 - reads; left > 3 { // 40 minutes
				nodes.drains["i-1"] = strings.Repeat("x", left) + " pods left"
			} else {
				nodes.drains["i-1"] = "3 pods left: 3 wait for budget shop/api"
			}
		}
		started := time.Now()
		expect(t, runGroup(t.Context(), t, cfg, a, nodes), report.Stalled,
			"nothing has changed for 10m0s", "i-1 (node node-i-1: 3 pods left: 3 wait for budget shop/api)")
		if took := time.Since(started); took < 50*time.Minute {
			t.Errorf("stalled after %v, although the drain made progress for 41 minutes", took)
		}
	})
}

// TestQueuedGroupsAreReadAgain: what was read of a group when the run began is stale when its turn comes,
// hours later.
func TestQueuedGroupsAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFakeAWS(1)
		a.script = func(reads int) {
			if reads == 10 { // group a is done, and there is a new version
				a.status(refresh.StatusSuccessful, "")
				a.replaceAll("2")
				a.latest = 3
			}
		}
		cfg := defaults()
		cfg.Timeout = time.Hour
		runGroup(t.Context(), t, cfg, manyGroups{a, []string{"a", "b"}}, nil)
		if got := len(a.targets); got != 2 || a.targets[1].Template.Version != "3" {
			t.Errorf("%d refreshes were started, to %+v; want two, the second to version 3", got, a.targets)
		}
	})
}

// TestInterruptedWhileDraining: the refresh has ended, and one that was started after it is not cancelled.
func TestInterruptedWhileDraining(t *testing.T) {
	for _, how := range []plan.Interrupt{plan.Cancel, plan.Rollback, plan.Detach} {
		runInBubble(t, string(how), func(t *testing.T) {
			a, cfg := newFakeAWS(3), defaults()
			cfg.OnInterrupt, cfg.Version = how, "2"
			a.group.Source.Template.Version = "1"
			a.script = func(reads int) {
				if succeedAt(3)(a, reads); reads == 3 {
					a.group.Instances = append(a.group.Instances, draining("i-1"))
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
			a.expectCalls(t, "Start")
		})
	}
}

// TestRefreshEndsBetweenTwoReads: a refresh was under way when the group was described, and had ended when
// the refreshes were read. What it has replaced is not replaced again.
func TestRefreshEndsBetweenTwoReads(t *testing.T) {
	for name, all := range map[string]bool{"what is outdated": false, "all": true} {
		runInBubble(t, name, func(t *testing.T) {
			a, cfg := newFakeAWS(3), defaults()
			cfg.All, cfg.Preferences.SkipMatching, cfg.Timeout = all, !all, time.Hour
			started := time.Now().Add(-time.Hour)
			for n := range a.group.Instances {
				a.group.Instances[n].Launched = started.Add(-time.Hour)
			}
			a.begin("r-1", &refresh.Source{Template: template("2")})
			a.refreshes[0].Started = started
			a.script = func(reads int) {
				if reads == 5 {
					a.group.Instances = a.group.Instances[:3] // the last old instance has drained
				}
			}
			g := runGroup(t.Context(), t, cfg, &endingAWS{fakeAWS: a}, nil)
			expect(t, g, report.Done, "1 instance replaced")
			a.expectCalls(t, "")
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
		before func(a *fakeAWS, started time.Time)
		calls  string
		want   string
	}{
		"while the refresh runs": {
			before: func(a *fakeAWS, started time.Time) {
				a.begin("r-1", &refresh.Source{Template: template("2")})
				a.refreshes[0].Started = started
			},
			want: "2 instances replaced",
		},
		"while old instances drain": {
			before: func(a *fakeAWS, started time.Time) {
				a.begin("r-1", &refresh.Source{Template: template("2")})
				a.refreshes[0].Started = started
				a.status(refresh.StatusSuccessful, "")
				for n := range a.group.Instances {
					if a.group.Instances[n].Launched.Before(started) {
						a.group.Instances[n].State = "Terminating:Wait"
					}
				}
			},
			want: "2 instances replaced",
		},
		"before it had started one": {
			before: func(*fakeAWS, time.Time) {}, calls: "Start", want: "3 instances replaced",
		},
	} {
		runInBubble(t, name, func(t *testing.T) {
			a, cfg := newFakeAWS(3), defaults()
			cfg.All, cfg.Preferences.SkipMatching, cfg.Timeout = true, false, time.Hour
			started := time.Now().Add(-time.Hour)
			a.replaceAll("2")
			for n := range a.group.Instances {
				a.group.Instances[n].Launched = started.Add(-24 * time.Hour)
			}
			a.group.Instances[0].Launched = started.Add(time.Minute)
			tt.before(a, started)
			a.script = func(reads int) {
				if reads < 4 {
					return
				}
				for n := range a.group.Instances {
					if i := &a.group.Instances[n]; tt.calls != "" || i.Launched.Before(started) {
						*i = instance(i.ID+"-new", "2")
						i.Launched = time.Now()
					}
				}
				a.status(refresh.StatusSuccessful, "")
			}
			expect(t, runGroup(t.Context(), t, cfg, a, nil), report.Done, tt.want)
			a.expectCalls(t, tt.calls)
		})
	}
}

// countingAWS counts how often the refreshes of the group are read, until one is started.
type countingAWS struct {
	*fakeAWS
	refreshReads *int
}

func (c countingAWS) Refreshes(ctx context.Context, group string) ([]refresh.Refresh, error) {
	if len(c.started) == 0 {
		*c.refreshReads++
	}
	return c.fakeAWS.Refreshes(ctx, group)
}

// TestCheckReadsRefreshesOnce: AWS limits that call, so that it decides how long the check of many groups takes.
func TestCheckReadsRefreshesOnce(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*plan.Config){
		"refresh": func(*plan.Config) {}, "a new one": func(c *plan.Config) { c.All = true },
	} {
		runInBubble(t, name, func(t *testing.T) {
			a, cfg := countingAWS{newFakeAWS(2), new(int)}, defaults()
			change(&cfg)
			a.script = func(reads int) { succeedAt(4)(a.fakeAWS, reads) }
			expect(t, runGroup(t.Context(), t, cfg, a, nil), report.Done)
			if *a.refreshReads != 1 {
				t.Errorf("the refreshes were read %d times before one was started", *a.refreshReads)
			}
		})
	}
}

// TestStallInAnyOrder: that AWS describes the instances in another order is no progress.
func TestStallInAnyOrder(t *testing.T) {
	runInBubble(t, "", func(t *testing.T) {
		a, cfg := newFakeAWS(3), unhealthyDefaults()
		cfg.StallTimeout = time.Hour
		a.script = func(int) { slices.Reverse(a.group.Instances) } // Nothing is replaced.
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		expect(t, runGroup(ctx, t, cfg, a, nil), report.Stalled, "nothing has changed for 1h0m0s")
	})
}
