package rollout

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// expect holds if the group ended so, with all of the words in its message.
func expect(t *testing.T, g report.Group, want report.Outcome, words ...string) {
	t.Helper()
	if g.Outcome != want {
		t.Errorf("it ended with %q (%s), want %q", g.Outcome, g.Message, want)
	}
	for _, word := range words {
		if !strings.Contains(g.Message, word) {
			t.Errorf("the message does not say %q: %s", word, g.Message)
		}
	}
}

// TestRefresh is the rollout by an Instance Refresh. A script plays AWS: it is told how often the group was
// looked at.
func TestRefresh(t *testing.T) {
	broken := errors.New("connection refused")
	for name, tt := range map[string]struct {
		change func(*Config)
		script func(a *amazon, looks int)
		before func(a *amazon)
		want   report.Outcome
		words  []string
		calls  string
	}{
		"all are replaced": {
			script: succeed(3), want: report.Done, words: []string{"3 instances replaced"}, calls: "Start",
		},
		"nothing is outdated": {
			before: func(a *amazon) { a.renew("2") }, want: report.Nothing,
		},
		"it is successful, but an old instance drains for an hour": {
			script: func(a *amazon, looks int) {
				succeed(3)(a, looks)
				old := instance("i-1", "1")
				old.State = "Terminating:Wait"
				if looks >= 3 && looks < 720 {
					a.group.Instances = append(a.group.Instances[:3], old)
				} else if looks == 720 {
					a.group.Instances = a.group.Instances[:3]
				}
			},
			want: report.Done, calls: "Start",
		},
		"until replaced: drains are not waited for": {
			change: func(c *Config) { c.Until = Replaced },
			script: func(a *amazon, looks int) {
				succeed(3)(a, looks)
				if old := instance("i-1", "1"); looks >= 3 {
					old.State = "Terminating:Wait"
					a.group.Instances = append(a.group.Instances[:3], old)
				}
			},
			want: report.Done, calls: "Start",
		},
		"a drain was under way when a trigger before was killed": {
			before: func(a *amazon) {
				a.renew("2")
				old := instance("i-1", "1")
				old.State = "Terminating:Wait"
				a.group.Instances = append(a.group.Instances, old)
			},
			script: func(a *amazon, looks int) {
				if looks == 4 {
					a.group.Instances = a.group.Instances[:3]
				}
			},
			want: report.Done, words: []string{"1 instance replaced"},
		},
		"a retained instance is left, and named": {
			script: func(a *amazon, looks int) {
				succeed(3)(a, looks)
				if old := instance("i-1", "1"); looks >= 3 {
					old.State = "Terminating:Retained"
					a.group.Instances = append(a.group.Instances[:3], old)
				}
			},
			want: report.Incomplete, words: []string{"1 instance is retained", "i-1"}, calls: "Start",
		},
		"a newer version came while it ran, and it was not pinned": {
			change: func(c *Config) { c.Pin = false },
			script: func(a *amazon, looks int) {
				succeed(3)(a, looks)
				a.latest = 3
			},
			want: report.Incomplete, words: []string{"3 instances are still outdated", "trigger plan"}, calls: "Start",
		},
		"another was started at the same moment, with the same aim": {
			before: func(a *amazon) { a.errs["Start"] = []error{refresh.ErrInProgress} },
			script: func(a *amazon, looks int) {
				if looks == 2 { // after it was asked whether one is under way
					a.begin("r-9", &refresh.Source{Template: template("2")})
				}
				succeed(3)(a, looks)
			},
			want: report.Done, calls: "Start",
		},
		"AWS does not answer for a while": {
			before: func(a *amazon) { a.errs["Group"] = []error{nil, nil, broken, broken, broken, broken} },
			script: succeed(8), want: report.Done, calls: "Start",
		},
		"AWS does not answer any more": {
			before: func(a *amazon) { a.errs["Group"] = []error{nil, nil, broken, broken, broken, broken, broken} },
			want:   report.Error, words: []string{"connection refused", "continues"}, calls: "Start",
		},
		"starting is not allowed": {
			before: func(a *amazon) { a.errs["Start"] = []error{errors.New("AccessDenied")} },
			want:   report.Error, words: []string{"AccessDenied"}, calls: "Start",
		},
		"nothing moves": {
			change: func(c *Config) { c.StallTimeout = time.Hour }, want: report.Stalled,
			words: []string{"nothing has changed for 1h0m0s", "r-1", "continues"}, calls: "Start",
		},
		"it bakes for longer than it may stall": {
			change: func(c *Config) { c.StallTimeout = time.Minute },
			script: func(a *amazon, looks int) {
				if looks == 3 {
					a.renew("2")
					a.status(refresh.StatusBaking, "")
				}
				if looks == 100 {
					a.status(refresh.StatusSuccessful, "")
				}
			},
			want: report.Done, calls: "Start",
		},
		"it waits at a checkpoint for longer than it may stall": {
			change: func(c *Config) { c.StallTimeout = time.Hour },
			script: func(a *amazon, looks int) {
				if looks == 3 {
					a.refreshes[0].Preferences.Checkpoints, a.refreshes[0].Percent = []int{50, 100}, 50
				}
				succeed(750)(a, looks) // After an hour, which AWS waits if nothing is said, and some.
			},
			want: report.Done, calls: "Start",
		},
		"its instances warm up for longer than it may stall": {
			change: func(c *Config) { c.StallTimeout = 10 * time.Minute },
			before: func(a *amazon) { a.group.Warmup = time.Hour },
			script: succeed(720), want: report.Done, calls: "Start",
		},
		"it is paused, and never resumed": {
			change: func(c *Config) { c.StallTimeout = time.Hour },
			script: func(a *amazon, looks int) {
				if looks == 3 {
					a.group.Suspended = []string{"InstanceRefresh"}
				}
			},
			want: report.Stalled, words: []string{"suspended: InstanceRefresh"}, calls: "Start",
		},
		"the group is deleted while it runs": {
			before: func(a *amazon) {
				gone := fmt.Errorf("group workers: %w", refresh.ErrNoGroup)
				a.errs["Group"] = []error{nil, nil, gone, gone, gone, gone, gone, gone}
			},
			want: report.Error, words: []string{"deleted"}, calls: "Start",
		},
		"the time is over": {
			change: func(c *Config) { c.Timeout = time.Minute }, want: report.TimedOut,
			words: []string{"--timeout", "r-1 continues", "run the same command again"}, calls: "Start",
		},
		"it fails": {
			script: func(a *amazon, looks int) { a.fails(looks, refresh.StatusFailed) }, want: report.Failed,
			words: []string{"r-1 is Failed: no progress", "run the same command again"}, calls: "Start",
		},
		"it is rolled back": {
			script: func(a *amazon, looks int) { a.fails(looks, refresh.StatusRollbackSuccessful) }, want: report.RolledBack,
			words: []string{"RollbackSuccessful"}, calls: "Start",
		},
		"another is waited for, and did all": {
			change: func(c *Config) { c.OnConflict = Wait },
			before: func(a *amazon) { a.begin("r-9", &refresh.Source{Template: template("1")}) },
			script: succeed(4), want: report.Nothing,
		},
		"another is rolled back already": {
			before: func(a *amazon) {
				a.begin("r-9", &refresh.Source{Template: template("2")})
				a.status(refresh.StatusRollbackInProgress, "")
			},
			want: report.Conflict, words: []string{"r-9", "--on-conflict"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, cfg := newAmazon(3), defaults()
				if tt.before != nil {
					tt.before(a)
				}
				if tt.script != nil {
					a.script = func(looks int) { tt.script(a, looks) }
				}
				if tt.change != nil {
					tt.change(&cfg)
				}
				expect(t, outcome(t.Context(), t, cfg, a, nil), tt.want, tt.words...)
				if got := strings.Join(a.calls, " "); got != tt.calls {
					t.Errorf("it called %q, want %q", got, tt.calls)
				}
			})
		})
	}
}

// succeed is the script of a refresh that replaces all at one look, and is successful then.
func succeed(at int) func(*amazon, int) {
	return func(a *amazon, looks int) {
		if looks == at {
			a.renew("2")
			a.status(refresh.StatusSuccessful, "")
		}
	}
}

func (a *amazon) fails(looks int, status string) {
	if looks == 3 {
		a.status(status, "no progress")
	}
}

// TestInterrupted: what becomes of the refresh is as asked for, and the message says it.
func TestInterrupted(t *testing.T) {
	for name, tt := range map[string]struct {
		how   Interrupt
		err   error
		calls string
		words string
	}{
		"detach":                          {Detach, nil, "Start", "instance refresh r-1 continues; run the same command again"},
		"cancel":                          {Cancel, nil, "Start Cancel", "r-1 is cancelled"},
		"cancel, but it has ended":        {Cancel, refresh.ErrNoRefresh, "Start Cancel", "had ended already"},
		"cancel, but AWS refuses":         {Cancel, errors.New("AccessDenied"), "Start Cancel", "could not be cancelled and continues"},
		"roll back":                       {Rollback, nil, "Start Rollback", "r-1 is rolled back"},
		"roll back, which cannot be done": {Rollback, refresh.ErrIrreversible, "Start Rollback", "could not be rolled back and continues"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, cfg := newAmazon(3), defaults()
				cfg.OnInterrupt, cfg.Version = tt.how, "2"
				a.group.Source.Template.Version = "1"
				a.errs["Cancel"], a.errs["Rollback"] = []error{tt.err}, []error{tt.err}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				g := outcome(ctx, t, cfg, a, nil)
				expect(t, g, report.Interrupted, tt.words)
				if got := strings.Join(a.calls, " "); got != tt.calls {
					t.Errorf("it called %q, want %q", got, tt.calls)
				}
			})
		})
	}
}

// TestStalledDrainSaysWhy: a drain that moves does not stall; one that does not is named with what its node
// waits for.
func TestStalledDrainSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, cfg := newAmazon(1), defaults()
		cfg.StallTimeout = 10 * time.Minute
		view := &nodes{drains: map[string]string{}}
		a.script = func(looks int) {
			succeed(3)(a, looks)
			if old := instance("i-1", "1"); looks >= 3 {
				old.State = "Terminating:Wait"
				a.group.Instances = append(a.group.Instances[:1], old)
			}
			view.mu.Lock()
			defer view.mu.Unlock()
			if left := 500 - looks; left > 3 { // 40 minutes
				view.drains["i-1"] = strings.Repeat("x", left) + " pods left"
			} else {
				view.drains["i-1"] = "3 pods left: 3 wait for budget shop/api"
			}
		}
		begun := time.Now()
		expect(t, outcome(t.Context(), t, cfg, a, view), report.Stalled,
			"nothing has changed for 10m0s", "i-1 (node node-i-1: 3 pods left: 3 wait for budget shop/api)")
		if took := time.Since(begun); took < 50*time.Minute {
			t.Errorf("it stalled after %v, though the drain moved for 41 minutes", took)
		}
	})
}

// TestQueuedGroupsAreLookedAtAnew: what a group was when the run began is old when its turn comes, hours
// later.
func TestQueuedGroupsAreLookedAtAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, told := newAmazon(1), &teller{}
		s := several{a, []string{"a", "b"}}
		a.script = func(looks int) {
			if looks == 10 { // group a is done, and a version has come meanwhile
				a.status(refresh.StatusSuccessful, "")
				a.renew("2")
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

// TestInterruptedWhileWaitingForAnother: a refresh of somebody else's is let alone.
func TestInterruptedWhileWaitingForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, cfg := newAmazon(3), defaults()
		cfg.OnConflict, cfg.OnInterrupt = Wait, Cancel
		a.begin("r-9", &refresh.Source{Template: template("1")})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		expect(t, outcome(ctx, t, cfg, a, nil), report.Interrupted, "no instance refresh was started")
		if len(a.calls) > 0 {
			t.Errorf("it called %q", a.calls)
		}
	})
}

// TestInterruptedWhileDraining: the refresh is over, and one that was started after it is somebody else's.
func TestInterruptedWhileDraining(t *testing.T) {
	for _, how := range []Interrupt{Cancel, Rollback, Detach} {
		t.Run(string(how), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, cfg := newAmazon(3), defaults()
				cfg.OnInterrupt, cfg.Version = how, "2"
				a.group.Source.Template.Version = "1"
				a.script = func(looks int) {
					if succeed(3)(a, looks); looks == 3 {
						old := instance("i-1", "1")
						old.State = "Terminating:Wait"
						a.group.Instances = append(a.group.Instances, old)
						a.begin("r-9", &refresh.Source{Template: template("1")})
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				g := outcome(ctx, t, cfg, a, nil)
				expect(t, g, report.Interrupted, "r-1 has ended", "1 old instance")
				if strings.Contains(g.Message, "r-1 continues") {
					t.Errorf("the message says that a refresh goes on: %s", g.Message)
				}
				if got := strings.Join(a.calls, " "); got != "Start" {
					t.Errorf("it called %q", got)
				}
			})
		})
	}
}

// TestStartedButNotSeen: AWS says that a refresh is in progress, and does not show it yet. It is asked again
// in its time.
func TestStartedButNotSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, cfg := newAmazon(3), defaults()
		cfg.Timeout = time.Minute
		for range 100 {
			a.errs["Start"] = append(a.errs["Start"], refresh.ErrInProgress)
		}
		expect(t, outcome(t.Context(), t, cfg, a, nil), report.Error, "in progress")
		if n := len(a.calls); n > maxFailures {
			t.Errorf("it tried to start %d times", n)
		}
	})
}

// TestEndsBetweenTwoReads: a refresh was under way when the group was described, and had ended when AWS was
// asked for it. What it has replaced is not replaced again.
func TestEndsBetweenTwoReads(t *testing.T) {
	for name, all := range map[string]bool{"what is outdated": false, "all": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, cfg, told := newAmazon(3), defaults(), &teller{}
				cfg.All, cfg.Preferences.SkipMatching, cfg.Timeout = all, !all, time.Hour
				begun := time.Now().Add(-time.Hour)
				for n := range a.group.Instances {
					a.group.Instances[n].Launched = begun.Add(-time.Hour)
				}
				a.begin("r-1", &refresh.Source{Template: template("2")})
				a.refreshes[0].Started = begun
				a.script = func(looks int) {
					if looks == 5 {
						a.group.Instances = a.group.Instances[:3] // The last old one has drained.
					}
				}
				s := &hasty{amazon: a}
				if _, err := New(cfg, s, a, nil, told).Run(t.Context()); err != nil {
					t.Fatal(err)
				}
				expect(t, told.last.Groups[0], report.Done, "1 instance replaced")
				if len(a.calls) > 0 {
					t.Errorf("it called %q", a.calls)
				}
			})
		})
	}
}

// hasty is an AWS whose refresh ends just before it is asked for refreshes the first time. One old instance
// drains yet.
type hasty struct {
	*amazon
	ended bool
}

func (h *hasty) Refreshes(ctx context.Context, group string) ([]refresh.Refresh, error) {
	if h.mu.Lock(); !h.ended {
		old := h.group.Instances[0]
		old.State = "Terminating:Wait"
		h.renew("2")
		for n := range h.group.Instances {
			h.group.Instances[n].Launched = time.Now()
		}
		h.group.Instances = append(h.group.Instances, old)
		h.status(refresh.StatusSuccessful, "")
		h.ended = true
	}
	h.mu.Unlock()
	return h.amazon.Refreshes(ctx, group)
}

// TestAllAndKilled: a trigger that is to replace all, whatever they are, was killed and is started again.
// What it has launched since is not replaced again, and not taken for what was left.
func TestAllAndKilled(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(a *amazon, begun time.Time)
		calls  string
		words  []string
	}{
		"while the refresh runs": {
			before: func(a *amazon, begun time.Time) {
				a.begin("r-1", &refresh.Source{Template: template("2")})
				a.refreshes[0].Started = begun
			},
			words: []string{"2 instances replaced"},
		},
		"while old instances drain": {
			before: func(a *amazon, begun time.Time) {
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
			before: func(*amazon, time.Time) {}, calls: "Start", words: []string{"3 instances replaced"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, cfg := newAmazon(3), defaults()
				cfg.All, cfg.Preferences.SkipMatching, cfg.Timeout = true, false, time.Hour
				begun := time.Now().Add(-time.Hour)
				a.renew("2")
				for n := range a.group.Instances {
					a.group.Instances[n].Launched = begun.Add(-24 * time.Hour)
				}
				a.group.Instances[0].Launched = begun.Add(time.Minute)
				tt.before(a, begun)
				a.script = func(looks int) {
					if looks < 4 {
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
				expect(t, outcome(t.Context(), t, cfg, a, nil), report.Done, tt.words...)
				if got := strings.Join(a.calls, " "); got != tt.calls {
					t.Errorf("it called %q, want %q", got, tt.calls)
				}
			})
		})
	}
}
