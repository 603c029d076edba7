package rollout

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// expect fails the test unless the group ended so, with all of the words in its message.
func expect(t *testing.T, g report.Group, want report.Outcome, words ...string) {
	t.Helper()
	if g.Outcome != want {
		t.Errorf("outcome %q (%s), want %q", g.Outcome, g.Message, want)
	}
	for _, word := range words {
		if !strings.Contains(g.Message, word) {
			t.Errorf("message lacks %q: %s", word, g.Message)
		}
	}
}

// TestRefresh rolls out by an Instance Refresh. A script plays AWS: its argument is how often the group was
// read.
func TestRefresh(t *testing.T) {
	broken := errors.New("connection refused")
	for name, tt := range map[string]struct {
		change func(*Config)
		script func(a *fakeAWS, reads int)
		before func(a *fakeAWS)
		want   report.Outcome
		words  []string
		calls  string
	}{
		"all are replaced": {
			script: succeedAt(3), want: report.Done, words: []string{"3 instances replaced"}, calls: "Start",
		},
		"nothing is outdated": {
			before: func(a *fakeAWS) { a.replaceAll("2") }, want: report.Nothing,
		},
		"succeeds, and an old instance drains for an hour": {
			script: func(a *fakeAWS, reads int) {
				succeedAt(3)(a, reads)
				old := instance("i-1", "1")
				old.State = "Terminating:Wait"
				if reads >= 3 && reads < 720 {
					a.group.Instances = append(a.group.Instances[:3], old)
				} else if reads == 720 {
					a.group.Instances = a.group.Instances[:3]
				}
			},
			want: report.Done, calls: "Start",
		},
		"until replaced: drains are not waited for": {
			change: func(c *Config) { c.Until = Replaced },
			script: func(a *fakeAWS, reads int) {
				succeedAt(3)(a, reads)
				if old := instance("i-1", "1"); reads >= 3 {
					old.State = "Terminating:Wait"
					a.group.Instances = append(a.group.Instances[:3], old)
				}
			},
			want: report.Done, calls: "Start",
		},
		"a drain was under way when an earlier trigger was killed": {
			before: func(a *fakeAWS) {
				a.replaceAll("2")
				old := instance("i-1", "1")
				old.State = "Terminating:Wait"
				a.group.Instances = append(a.group.Instances, old)
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
			change: func(c *Config) { c.Pin = false },
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
		"AWS does not answer for a while": {
			before: func(a *fakeAWS) { a.errs["Group"] = []error{nil, nil, broken, broken, broken, broken} },
			script: succeedAt(8), want: report.Done, calls: "Start",
		},
		"AWS stops answering": {
			before: func(a *fakeAWS) { a.errs["Group"] = []error{nil, nil, broken, broken, broken, broken, broken} },
			want:   report.Error, words: []string{"connection refused", "continues"}, calls: "Start",
		},
		"starting is not allowed": {
			before: func(a *fakeAWS) { a.errs["Start"] = []error{errors.New("AccessDenied")} },
			want:   report.Error, words: []string{"AccessDenied"}, calls: "Start",
		},
		"nothing changes": {
			change: func(c *Config) { c.StallTimeout = time.Hour }, want: report.Stalled,
			words: []string{"nothing has changed for 1h0m0s", "r-1", "continues"}, calls: "Start",
		},
		"bake time exceeds the stall timeout": {
			change: func(c *Config) { c.StallTimeout = time.Minute },
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
			change: func(c *Config) { c.StallTimeout = time.Hour },
			script: func(a *fakeAWS, reads int) {
				if reads == 3 {
					a.refreshes[0].Preferences.Checkpoints, a.refreshes[0].Percent = []int{50, 100}, 50
				}
				succeedAt(750)(a, reads) // later than the default checkpoint delay of an hour
			},
			want: report.Done, calls: "Start",
		},
		"warmup exceeds the stall timeout": {
			change: func(c *Config) { c.StallTimeout = 10 * time.Minute },
			before: func(a *fakeAWS) { a.group.Warmup = time.Hour },
			script: succeedAt(720), want: report.Done, calls: "Start",
		},
		"paused and never resumed": {
			change: func(c *Config) { c.StallTimeout = time.Hour },
			script: func(a *fakeAWS, reads int) {
				if reads == 3 {
					a.group.Suspended = []string{"InstanceRefresh"}
				}
			},
			want: report.Stalled, words: []string{"suspended: InstanceRefresh"}, calls: "Start",
		},
		"the group is deleted while it runs": {
			before: func(a *fakeAWS) {
				gone := fmt.Errorf("group workers: %w", refresh.ErrNoGroup)
				a.errs["Group"] = []error{nil, nil, gone, gone, gone, gone, gone, gone}
			},
			want: report.Error, words: []string{"deleted"}, calls: "Start",
		},
		"timed out": {
			change: func(c *Config) { c.Timeout = time.Minute }, want: report.TimedOut,
			words: []string{"--timeout", "r-1 continues", "run the same command again"}, calls: "Start",
		},
		"fails": {
			script: func(a *fakeAWS, reads int) { a.setStatusAtThird(reads, refresh.StatusFailed) }, want: report.Failed,
			words: []string{"r-1 is Failed: no progress", "run the same command again"}, calls: "Start",
		},
		"rolled back": {
			script: func(a *fakeAWS, reads int) { a.setStatusAtThird(reads, refresh.StatusRollbackSuccessful) }, want: report.RolledBack,
			words: []string{"RollbackSuccessful"}, calls: "Start",
		},
		"waits for another, which replaced everything": {
			change: func(c *Config) { c.OnConflict = Wait },
			before: func(a *fakeAWS) { a.begin("r-9", &refresh.Source{Template: template("1")}) },
			script: succeedAt(4), want: report.Nothing,
		},
		"another is being rolled back": {
			before: func(a *fakeAWS) {
				a.begin("r-9", &refresh.Source{Template: template("2")})
				a.status(refresh.StatusRollbackInProgress, "")
			},
			want: report.Conflict, words: []string{"r-9", "--on-conflict"},
		},
	} {
		runInBubble(t, name, func(t *testing.T) {
			a, cfg := newFakeAWS(3), defaults()
			if tt.before != nil {
				tt.before(a)
			}
			if tt.script != nil {
				a.script = func(reads int) { tt.script(a, reads) }
			}
			if tt.change != nil {
				tt.change(&cfg)
			}
			expect(t, runGroup(t.Context(), t, cfg, a, nil), tt.want, tt.words...)
			if got := strings.Join(a.calls, " "); got != tt.calls {
				t.Errorf("calls %q, want %q", got, tt.calls)
			}
		})
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

func (a *fakeAWS) setStatusAtThird(reads int, status string) {
	if reads == 3 {
		a.status(status, "no progress")
	}
}

// TestInterrupted: --on-interrupt decides what happens to the refresh, and the message describes it.
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
		runInBubble(t, name, func(t *testing.T) {
			a, cfg := newFakeAWS(3), defaults()
			cfg.OnInterrupt, cfg.Version = tt.how, "2"
			a.group.Source.Template.Version = "1"
			a.errs["Cancel"], a.errs["Rollback"] = []error{tt.err}, []error{tt.err}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			g := runGroup(ctx, t, cfg, a, nil)
			expect(t, g, report.Interrupted, tt.words)
			if got := strings.Join(a.calls, " "); got != tt.calls {
				t.Errorf("calls %q, want %q", got, tt.calls)
			}
		})
	}
}
