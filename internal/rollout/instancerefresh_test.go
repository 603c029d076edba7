package rollout

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// TestRefresh rolls out by an Instance Refresh. A script plays AWS: its argument is how often the group was
// read.
func TestRefresh(t *testing.T) {
	broken := errors.New("connection refused")
	for name, s := range map[string]scenario{
		"all are replaced": {
			script: succeedAt(3), want: report.Done, words: []string{"3 instances replaced"}, calls: "Start",
		},
		"succeeds, and an old instance drains for an hour": {
			script: func(a *fakeAWS, reads int) {
				succeedAt(3)(a, reads)
				if reads >= 3 && reads < 720 {
					a.group.Instances = append(a.group.Instances[:3], draining("i-1"))
				} else if reads == 720 {
					a.group.Instances = a.group.Instances[:3]
				}
			},
			want: report.Done, calls: "Start",
		},
		"until replaced: drains are not waited for": {
			change: func(c *plan.Config) { c.Until = plan.Replaced },
			script: func(a *fakeAWS, reads int) {
				succeedAt(3)(a, reads)
				if reads >= 3 {
					a.group.Instances = append(a.group.Instances[:3], draining("i-1"))
				}
			},
			want: report.Done, calls: "Start",
		},
		"a drain was under way when an earlier trigger was killed": {
			before: func(a *fakeAWS) {
				a.replaceAll("2")
				a.group.Instances = append(a.group.Instances, draining("i-1"))
			},
			script: func(a *fakeAWS, reads int) {
				if reads == 4 {
					a.group.Instances = a.group.Instances[:3]
				}
			},
			want: report.Done, words: []string{"1 instance replaced"},
		},
		"a retained instance remains, and is named": {
			script: func(a *fakeAWS, reads int) {
				succeedAt(3)(a, reads)
				if old := instance("i-1", "1"); reads >= 3 {
					old.State = "Terminating:Retained"
					a.group.Instances = append(a.group.Instances[:3], old)
				}
			},
			want: report.Incomplete, words: []string{"1 instance is retained", "i-1"}, calls: "Start",
		},
		"a newer version appears during the refresh, without --pin": {
			change: func(c *plan.Config) { c.Pin = refresh.PinNever },
			script: func(a *fakeAWS, reads int) {
				succeedAt(3)(a, reads)
				a.latest = 3
			},
			want: report.Incomplete, words: []string{"3 instances are still outdated", "trigger plan"}, calls: "Start",
		},
		"another was started at the same moment, with the same target": {
			before: func(a *fakeAWS) { a.errs["Start"] = []error{refresh.ErrInProgress} },
			script: func(a *fakeAWS, reads int) {
				if reads == 2 { // after the active refresh was read
					a.begin("r-9", &refresh.Source{Template: template("2")})
				}
				succeedAt(3)(a, reads)
			},
			want: report.Done, calls: "Start",
		},
		"the answer of the start was lost, and another one would be a conflict": {
			change: func(c *plan.Config) { c.OnConflict = plan.Fail },
			before: func(a *fakeAWS) { a.errs["Start"] = []error{refresh.ErrInProgress} },
			script: func(a *fakeAWS, reads int) {
				if reads == 2 { // after the active refresh was read
					a.begin("r-9", &refresh.Source{Template: template("2")})
					a.refreshes[0].Started, a.refreshes[0].Preferences = time.Now(), requested()
				}
				succeedAt(3)(a, reads)
			},
			want: report.Done, calls: "Start",
		},
		"another one is being cancelled": {
			before: func(a *fakeAWS) {
				a.begin("r-9", &refresh.Source{Template: template("2")})
				a.status(refresh.StatusCancelling, "")
			},
			want: report.Conflict, words: []string{"Cancelling", "when that has ended"},
		},
		"AWS does not answer for a while": {
			before: func(a *fakeAWS) { a.errs["Group"] = []error{nil, nil, broken, broken, broken, broken} },
			script: succeedAt(8), want: report.Done, calls: "Start",
		},
		"AWS stops answering": {
			before: func(a *fakeAWS) { a.errs["Group"] = []error{nil, nil, broken, broken, broken, broken, broken} },
			want:   report.Error, words: []string{"connection refused", "continues"}, calls: "Start",
		},
		"bake time exceeds the stall timeout": {
			change: func(c *plan.Config) { c.StallTimeout = time.Minute },
			script: func(a *fakeAWS, reads int) {
				if reads == 3 {
					a.replaceAll("2")
					a.status(refresh.StatusBaking, "")
				}
				if reads == 100 {
					a.status(refresh.StatusSuccessful, "")
				}
			},
			want: report.Done, calls: "Start",
		},
		"checkpoint delay exceeds the stall timeout": {
			change: func(c *plan.Config) { c.StallTimeout = time.Hour },
			script: func(a *fakeAWS, reads int) {
				if reads == 3 {
					a.refreshes[0].Preferences.Checkpoints, a.refreshes[0].Percent = []int{50, 100}, 50
				}
				succeedAt(750)(a, reads) // later than the default checkpoint delay of an hour
			},
			want: report.Done, calls: "Start",
		},
		"warmup exceeds the stall timeout": {
			change: func(c *plan.Config) { c.StallTimeout = 10 * time.Minute },
			before: func(a *fakeAWS) { a.group.Warmup = time.Hour },
			script: succeedAt(720), want: report.Done, calls: "Start",
		},
		"paused and never resumed": {
			change: func(c *plan.Config) { c.StallTimeout = time.Hour },
			script: func(a *fakeAWS, reads int) {
				if reads == 3 {
					a.group.Suspended = []string{"InstanceRefresh"}
				}
			},
			want: report.Stalled, words: []string{"suspended: InstanceRefresh"}, calls: "Start",
		},
		"timed out": {
			change: func(c *plan.Config) { c.Timeout = time.Minute }, want: report.TimedOut,
			words: []string{"--timeout", "r-1 continues", "run the same command again"}, calls: "Start",
		},
		"another one is cancelled, and then the rollout is refused": {
			change: func(c *plan.Config) { c.OnConflict = plan.CancelActive },
			before: func(a *fakeAWS) { a.begin("r-9", &refresh.Source{Template: template("1")}) },
			script: func(a *fakeAWS, _ int) {
				if !a.refreshes[0].Active() {
					a.group.Suspended = []string{refresh.ProcessInstanceRefresh}
				}
			},
			want: report.Refused, words: []string{"nothing was started: suspended"}, calls: "Cancel",
		},
		"waits for another, which replaced everything": {
			change: func(c *plan.Config) { c.OnConflict = plan.Wait },
			before: func(a *fakeAWS) { a.begin("r-9", &refresh.Source{Template: template("1")}) },
			script: succeedAt(4), want: report.Nothing,
		},
		"a refresh is in progress that AWS does not list": {
			before: func(a *fakeAWS) { a.errs["Start"] = slices.Repeat([]error{refresh.ErrInProgress}, 100) },
			want:   report.Error, words: []string{"in progress"}, calls: "Start Start Start Start Start",
		},
		"interrupted while waiting for another, which is not cancelled": {
			change: func(c *plan.Config) { c.OnConflict, c.OnInterrupt = plan.Wait, plan.Cancel },
			before: func(a *fakeAWS) { a.begin("r-9", &refresh.Source{Template: template("1")}) },
			stop:   time.Minute, want: report.Interrupted, words: []string{"no instance refresh was started"},
		},
		"another is being rolled back": {
			before: func(a *fakeAWS) {
				a.begin("r-9", &refresh.Source{Template: template("2")})
				a.status(refresh.StatusRollbackInProgress, "")
			},
			want: report.Conflict, words: []string{"r-9", "--on-conflict"},
		},
	} {
		runInBubble(t, name, func(t *testing.T) { s.run(t, defaults()) })
	}
}

// succeedAt is the script of a refresh that replaces everything and succeeds at one read.
func succeedAt(at int) func(*fakeAWS, int) {
	return func(a *fakeAWS, reads int) {
		if reads == at {
			a.replaceAll("2")
			a.status(refresh.StatusSuccessful, "")
		}
	}
}

// statusAt is the script of a refresh that has a status from one read on.
func statusAt(at int, status string) func(*fakeAWS, int) {
	return func(a *fakeAWS, reads int) {
		if reads == at {
			a.status(status, "no progress")
		}
	}
}

// TestInterrupted: --on-interrupt decides what happens to the refresh, and the message describes it.
func TestInterrupted(t *testing.T) {
	for name, tt := range map[string]struct {
		how    plan.Interrupt
		err    error
		calls  string
		words  string
		status string // of the refresh; InProgress if empty
	}{
		"detach":                           {plan.Detach, nil, "Start", "instance refresh r-1 continues; run the same command again", ""},
		"cancel":                           {plan.Cancel, nil, "Start Cancel", "r-1 is cancelled", ""},
		"cancel, but it has ended":         {plan.Cancel, refresh.ErrNoRefresh, "Start Cancel", "had ended already", ""},
		"cancel, but AWS refuses":          {plan.Cancel, errors.New("AccessDenied"), "Start Cancel", "could not be cancelled and continues", ""},
		"roll back":                        {plan.Rollback, nil, "Start Rollback", "r-1 is rolled back", ""},
		"roll back, which cannot be done":  {plan.Rollback, refresh.ErrIrreversible, "Start Rollback", "could not be rolled back and continues", ""},
		"roll back, before it has begun":   {plan.Rollback, nil, "Start Rollback Cancel", "r-1 is cancelled: it had not begun, so that nothing was replaced", refresh.StatusPending},
		"roll back, which it does already": {plan.Rollback, refresh.ErrNoRefresh, "Start Rollback Rollback", "or is being stopped", refresh.StatusRollbackInProgress},
	} {
		runInBubble(t, name, func(t *testing.T) {
			a, cfg := newFakeAWS(3), defaults()
			cfg.OnInterrupt, cfg.Version = tt.how, "2"
			a.begins = tt.status
			a.group.Source.Template.Version = "1"
			a.errs["Cancel"], a.errs["Rollback"] = []error{tt.err}, []error{tt.err}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			g := runGroup(ctx, t, cfg, a, nil)
			expect(t, g, report.Interrupted, tt.words)
			a.expectCalls(t, tt.calls)
		})
	}
}

// TestAttachedRefreshIsChecked: a refresh that is followed is checked like one that is started, by its own preferences,
// and the findings become warnings. Preferences that differ from the requested ones are listed.
func TestAttachedRefreshIsChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, cfg := newFakeAWS(3), defaults()
		a.hooks = a.hooks[1:]
		a.group.Instances[2] = instance("i-3", "2")
		a.begin("r-9", &refresh.Source{Template: template("2")})
		a.refreshes[0].Preferences = refresh.Preferences{MinHealthy: new(50), Protected: "Ignore", Standby: "Ignore"}
		a.script = func(reads int) { succeedAt(4)(a, reads) }
		g := runGroup(t.Context(), t, cfg, a, nil)
		expect(t, g, report.Done)
		for _, want := range []string{
			"warn: no-terminating-hook: the group has no terminating hook", "warn: skip-matching: all instances are replaced",
			"warn: instance refresh r-9 has other preferences than requested: MinHealthyPercentage is 50, not 100; " +
				"MaxHealthyPercentage is unset, not 134; SkipMatching is false, not true",
		} {
			if !strings.Contains(notes(g), want) {
				t.Errorf("the notes lack %q:\n%s", want, notes(g))
			}
		}
		a.expectCalls(t, "")
	})
}

// requested are the preferences of the refresh that a run with the defaults starts in a group of three.
func requested() refresh.Preferences {
	cfg := defaults()
	p := cfg.Preferences
	p.MinHealthy, p.MaxHealthy = new(100), new(refresh.MaxHealthy(3, *cfg.Surge))
	return p
}
