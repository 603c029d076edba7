package rollout

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// TestSuspend: processes are suspended for as long as the rollout runs.
func TestSuspend(t *testing.T) {
	earlier := map[string]string{"node-drainer.io/suspended": "AZRebalance"}
	stays := []string{"still suspended: AZRebalance;", "trigger resume --asg workers"}
	for name, tt := range map[string]struct {
		change func(*Config)
		before func(*fakeAWS)
		script func(*fakeAWS, int)
		stop   time.Duration
		want   report.Outcome
		words  []string
		calls  string
	}{
		"until the end": {
			script: succeedAt(4), want: report.Done, calls: "Suspend AZRebalance Start Release AZRebalance",
		},
		"until it has failed": {
			script: func(a *fakeAWS, reads int) {
				if reads == 4 {
					a.status(refresh.StatusFailed, "no progress")
				}
			},
			want: report.Failed, calls: "Suspend AZRebalance Start Release AZRebalance",
		},
		"not allowed: the rollout continues": {
			before: func(a *fakeAWS) { a.errs["Suspend AZRebalance"] = []error{errors.New("AccessDenied")} },
			script: succeedAt(4), want: report.Done, calls: "Suspend AZRebalance Start",
		},
		"refused by the preflight: nothing is suspended": {
			before: func(a *fakeAWS) { a.hooks = nil }, want: report.Refused, calls: "",
		},
		"AWS refuses to start it": {
			before: func(a *fakeAWS) { a.errs["Start"] = []error{errors.New("AccessDenied")} },
			want:   report.Error, calls: "Suspend AZRebalance Start Release AZRebalance",
		},
		"timed out while waiting for drains": {
			change: func(c *Config) { c.Timeout = time.Minute },
			script: func(a *fakeAWS, reads int) {
				if succeedAt(4)(a, reads); reads == 4 {
					old := instance("i-1", "1")
					old.State = "Terminating:Wait"
					a.group.Instances = append(a.group.Instances, old)
				}
			},
			want: report.TimedOut, calls: "Suspend AZRebalance Start Release AZRebalance",
		},
		"timed out, and the refresh continues": {
			change: func(c *Config) { c.Timeout = time.Minute }, want: report.TimedOut, words: stays,
			calls: "Suspend AZRebalance Start",
		},
		"detached": {
			change: func(c *Config) { c.Wait = false }, want: report.Detached, words: stays, calls: "Suspend AZRebalance Start",
		},
		"detached, and AWS does not list the refresh yet": {
			change: func(c *Config) { c.Wait = false }, before: func(a *fakeAWS) { a.hidden = true },
			want: report.Detached, words: stays, calls: "Suspend AZRebalance Start",
		},
		"interrupted, and the refresh continues": {
			stop: time.Minute, want: report.Interrupted, words: stays, calls: "Suspend AZRebalance Start",
		},
		"interrupted while it is rolled back": {
			script: setStatus(refresh.StatusRollbackInProgress), stop: time.Minute, want: report.Interrupted, words: stays,
			calls: "Suspend AZRebalance Start",
		},
		"interrupted while it is cancelled: nothing more is replaced": {
			script: setStatus(refresh.StatusCancelling), stop: time.Minute, want: report.Interrupted,
			calls: "Suspend AZRebalance Start Release AZRebalance",
		},
		"another refresh continues, for which it was suspended": {
			before: func(a *fakeAWS) {
				a.begin("r-9", &refresh.Source{Template: template("1")})
				a.group.Tags = earlier
			},
			want: report.Conflict, words: stays, calls: "",
		},
		"interrupted, and the refresh is cancelled": {
			change: func(c *Config) { c.OnInterrupt = Cancel }, stop: time.Minute, want: report.Interrupted,
			calls: "Suspend AZRebalance Start Cancel Release AZRebalance",
		},
		"a killed run has suspended it, and this one suspends nothing": {
			change: func(c *Config) { c.Suspend = nil },
			before: func(a *fakeAWS) { a.replaceAll("2"); a.group.Tags = earlier },
			want:   report.Nothing, calls: "Release AZRebalance",
		},
	} {
		runInBubble(t, name, func(t *testing.T) {
			a, cfg := newFakeAWS(3), defaults()
			cfg.Suspend = []string{"AZRebalance"}
			if tt.before != nil {
				tt.before(a)
			}
			if tt.change != nil {
				tt.change(&cfg)
			}
			if tt.script != nil {
				a.script = func(reads int) { tt.script(a, reads) }
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.stop > 0 {
				defer time.AfterFunc(tt.stop, cancel).Stop()
			}
			expect(t, runGroup(ctx, t, cfg, a, nil), tt.want, tt.words...)
			if got := strings.Join(a.calls, " "); got != tt.calls {
				t.Errorf("calls %q, want %q", got, tt.calls)
			}
		})
	}
}

// setStatus is the script of a refresh that has the status from the fourth read.
func setStatus(status string) func(*fakeAWS, int) {
	return func(a *fakeAWS, reads int) {
		if reads == 4 {
			a.status(status, "")
		}
	}
}

// TestCancelAndRollbackRelease: processes are resumed when trigger cancel or rollback has seen the end of
// the refresh.
func TestCancelAndRollbackRelease(t *testing.T) {
	for name, tt := range map[string]struct {
		do    Action
		wait  bool
		calls string
		words []string
	}{
		"cancelled":                   {ActCancel, true, "Cancel Release AZRebalance", nil},
		"rolled back":                 {ActRollback, true, "Rollback Release AZRebalance", nil},
		"without waiting for the end": {ActRollback, false, "Rollback", []string{"still suspended: AZRebalance;"}},
	} {
		runInBubble(t, name, func(t *testing.T) {
			a, cfg, told := newFakeAWS(1), defaults(), &recorder{}
			cfg.Wait = tt.wait
			a.begin("r-1", &refresh.Source{Template: template("2")})
			a.group.Tags = map[string]string{"node-drainer.io/suspended": "AZRebalance"}
			if _, err := New(cfg, a, a, nil, told).Act(t.Context(), tt.do); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(a.calls, " "); got != tt.calls {
				t.Errorf("calls %q, want %q", got, tt.calls)
			}
			expect(t, told.last.Groups[0], told.last.Groups[0].Outcome, tt.words...)
		})
	}
}

// TestResumeReleases: trigger resume resumes what a killed or detached run has suspended.
func TestResumeReleases(t *testing.T) {
	a := newFakeAWS(1)
	a.begin("r-1", nil)
	a.group.Tags = map[string]string{"node-drainer.io/suspended": "AZRebalance ScheduledActions"}
	if got, err := New(defaults(), a, a, nil, &recorder{}).Act(t.Context(), ActResume); got != report.Done || err != nil {
		t.Errorf("outcome %q, %v", got, err)
	}
	if got := strings.Join(a.calls, " "); got != "Resume Release AZRebalance,ScheduledActions" {
		t.Errorf("unexpected calls %q", got)
	}
}
