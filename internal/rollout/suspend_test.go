package rollout

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// TestSuspend: processes are suspended for as long as the rollout runs, and no longer.
func TestSuspend(t *testing.T) {
	earlier := map[string]string{"node-drainer.io/suspended": "AZRebalance"}
	stays := []string{"still suspended: AZRebalance;", "trigger resume --asg workers"}
	for name, tt := range map[string]struct {
		change func(*Config)
		before func(*amazon)
		script func(*amazon, int)
		stop   time.Duration
		want   report.Outcome
		words  []string
		calls  string
	}{
		"until the end": {
			script: succeed(4), want: report.Done, calls: "Suspend AZRebalance Start Release AZRebalance",
		},
		"until it has failed": {
			script: func(a *amazon, looks int) {
				if looks == 4 {
					a.status(refresh.StatusFailed, "no progress")
				}
			},
			want: report.Failed, calls: "Suspend AZRebalance Start Release AZRebalance",
		},
		"it may not: the rollout goes on": {
			before: func(a *amazon) { a.errs["Suspend AZRebalance"] = []error{errors.New("AccessDenied")} },
			script: succeed(4), want: report.Done, calls: "Suspend AZRebalance Start",
		},
		"refused by the preflight: nothing is suspended": {
			before: func(a *amazon) { a.hooks = nil }, want: report.Refused, calls: "",
		},
		"AWS refuses to start it": {
			before: func(a *amazon) { a.errs["Start"] = []error{errors.New("AccessDenied")} },
			want:   report.Error, calls: "Suspend AZRebalance Start Release AZRebalance",
		},
		"the time is over, and only drains are awaited": {
			change: func(c *Config) { c.Timeout = time.Minute },
			script: func(a *amazon, looks int) {
				if succeed(4)(a, looks); looks == 4 {
					old := instance("i-1", "1")
					old.State = "Terminating:Wait"
					a.group.Instances = append(a.group.Instances, old)
				}
			},
			want: report.TimedOut, calls: "Suspend AZRebalance Start Release AZRebalance",
		},
		"the time is over, and the refresh goes on": {
			change: func(c *Config) { c.Timeout = time.Minute }, want: report.TimedOut, words: stays,
			calls: "Suspend AZRebalance Start",
		},
		"left to AWS": {
			change: func(c *Config) { c.Wait = false }, want: report.Detached, words: stays, calls: "Suspend AZRebalance Start",
		},
		"left to AWS, which does not show it yet": {
			change: func(c *Config) { c.Wait = false }, before: func(a *amazon) { a.hidden = true },
			want: report.Detached, words: stays, calls: "Suspend AZRebalance Start",
		},
		"interrupted, and what runs goes on": {
			stop: time.Minute, want: report.Interrupted, words: stays, calls: "Suspend AZRebalance Start",
		},
		"interrupted, and it is being rolled back": {
			script: becomes(refresh.StatusRollbackInProgress), stop: time.Minute, want: report.Interrupted, words: stays,
			calls: "Suspend AZRebalance Start",
		},
		"interrupted, and it is being cancelled: nothing more is replaced": {
			script: becomes(refresh.StatusCancelling), stop: time.Minute, want: report.Interrupted,
			calls: "Suspend AZRebalance Start Release AZRebalance",
		},
		"another one goes on, for which it was suspended": {
			before: func(a *amazon) {
				a.begin("r-9", &refresh.Source{Template: template("1")})
				a.group.Tags = earlier
			},
			want: report.Conflict, words: stays, calls: "",
		},
		"interrupted, and what runs is cancelled": {
			change: func(c *Config) { c.OnInterrupt = Cancel }, stop: time.Minute, want: report.Interrupted,
			calls: "Suspend AZRebalance Start Cancel Release AZRebalance",
		},
		"a run that was killed has left it, and this one asks for none": {
			change: func(c *Config) { c.Suspend = nil },
			before: func(a *amazon) { a.renew("2"); a.group.Tags = earlier },
			want:   report.Nothing, calls: "Release AZRebalance",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, cfg := newAmazon(3), defaults()
				cfg.Suspend = []string{"AZRebalance"}
				if tt.before != nil {
					tt.before(a)
				}
				if tt.change != nil {
					tt.change(&cfg)
				}
				if tt.script != nil {
					a.script = func(looks int) { tt.script(a, looks) }
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.stop > 0 {
					defer time.AfterFunc(tt.stop, cancel).Stop()
				}
				expect(t, outcome(ctx, t, cfg, a, nil), tt.want, tt.words...)
				if got := strings.Join(a.calls, " "); got != tt.calls {
					t.Errorf("it called %q, want %q", got, tt.calls)
				}
			})
		})
	}
}

// becomes is the script of a refresh that has the status after some looks.
func becomes(status string) func(*amazon, int) {
	return func(a *amazon, looks int) {
		if looks == 4 {
			a.status(status, "")
		}
	}
}

// TestTurnReleases: when trigger cancel or rollback has seen the end of the refresh, what was suspended for
// it is resumed.
func TestTurnReleases(t *testing.T) {
	for name, tt := range map[string]struct {
		do    Action
		wait  bool
		calls string
		words []string
	}{
		"cancelled":                 {ActCancel, true, "Cancel Release AZRebalance", nil},
		"rolled back":               {ActRollback, true, "Rollback Release AZRebalance", nil},
		"its end is not waited for": {ActRollback, false, "Rollback", []string{"still suspended: AZRebalance;"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, cfg, told := newAmazon(1), defaults(), &teller{}
				cfg.Wait = tt.wait
				a.begin("r-1", &refresh.Source{Template: template("2")})
				a.group.Tags = map[string]string{"node-drainer.io/suspended": "AZRebalance"}
				if _, err := New(cfg, a, a, nil, told).Act(t.Context(), tt.do); err != nil {
					t.Fatal(err)
				}
				if got := strings.Join(a.calls, " "); got != tt.calls {
					t.Errorf("it called %q, want %q", got, tt.calls)
				}
				expect(t, told.last.Groups[0], told.last.Groups[0].Outcome, tt.words...)
			})
		})
	}
}

// TestResumeReleases: trigger resume takes back what a run has suspended that was killed, or that left its
// refresh to AWS.
func TestResumeReleases(t *testing.T) {
	a := newAmazon(1)
	a.begin("r-1", nil)
	a.group.Tags = map[string]string{"node-drainer.io/suspended": "AZRebalance ScheduledActions"}
	if got, err := New(defaults(), a, a, nil, &teller{}).Act(t.Context(), ActResume); got != report.Done || err != nil {
		t.Errorf("it ended with %q, %v", got, err)
	}
	if got := strings.Join(a.calls, " "); got != "Resume Release AZRebalance,ScheduledActions" {
		t.Errorf("it called %q", got)
	}
}
