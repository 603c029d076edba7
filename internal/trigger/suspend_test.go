package trigger

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
	for name, tt := range map[string]struct {
		change func(*Config)
		before func(*amazon)
		script func(*amazon, int)
		stop   time.Duration
		want   report.Outcome
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
		"interrupted, and what runs goes on": {
			stop: time.Minute, want: report.Interrupted, calls: "Suspend AZRebalance Start",
		},
		"interrupted, and what runs is cancelled": {
			change: func(c *Config) { c.OnInterrupt = CancelAll }, stop: time.Minute, want: report.Interrupted,
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
				expect(t, outcome(ctx, t, cfg, a, nil), tt.want)
				if got := strings.Join(a.calls, " "); got != tt.calls {
					t.Errorf("it called %q, want %q", got, tt.calls)
				}
			})
		})
	}
}

// TestResumeReleases: trigger resume takes back what a run that was killed has suspended.
func TestResumeReleases(t *testing.T) {
	a := newAmazon(1)
	a.group.Tags = map[string]string{"node-drainer.io/suspended": "AZRebalance ScheduledActions"}
	if got, err := New(defaults(), a, a, nil, &teller{}).Act(t.Context(), ActResume); got != report.Done || err != nil {
		t.Errorf("it ended with %q, %v", got, err)
	}
	if got := strings.Join(a.calls, " "); got != "Resume Release AZRebalance,ScheduledActions" {
		t.Errorf("it called %q", got)
	}
}
