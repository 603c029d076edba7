package rollout

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// readyAt makes all nodes ready at a read of the group.
func readyAt(nodes *fakeCluster, reads, at int) {
	nodes.mu.Lock()
	defer nodes.mu.Unlock()
	if reads == at {
		nodes.unready = nil
	}
}

// TestReadyTimeoutOfARefresh: a refresh is cancelled or rolled back if the node of a new instance is not ready in time.
func TestReadyTimeoutOfARefresh(t *testing.T) {
	refused := errors.New("AccessDenied")
	for name, tt := range map[string]struct {
		change func(*plan.Config)
		before func(*fakeAWS)
		ready  int // the read from which on the node is ready; 0 is never
		done   int // the read at which the refresh succeeds; 0 is never
		want   report.Outcome
		words  []string
		calls  string
	}{
		"cancelled": {
			want: report.Failed, calls: "Start Cancel",
			words: []string{"10m0s", "i-9 (node node-i-9)", "r-1 is Cancelled", "replaced instances are kept"},
		},
		"rolled back": {
			change: func(c *plan.Config) { c.Preferences.AutoRollback, c.Version = true, "2" },
			before: func(a *fakeAWS) { a.group.Source.Template = template("1") },
			want:   report.RolledBack, words: []string{"i-9 (node node-i-9)", "r-1 is RollbackSuccessful"}, calls: "Start Rollback",
		},
		"without a limit": {
			change: func(c *plan.Config) { c.ReadyTimeout, c.Timeout = 0, time.Hour }, want: report.TimedOut, calls: "Start",
		},
		"ready in time":               {ready: 100, done: 300, want: report.Done, calls: "Start"},
		"succeeds before it is ready": {done: 100, want: report.Done, calls: "Start"},
		"it cannot be cancelled": {
			before: func(a *fakeAWS) { a.errs["Cancel"] = []error{refused} }, want: report.Error,
			words: []string{"i-9 (node node-i-9)", "r-1 could not be cancelled", "AccessDenied", "r-1 continues"}, calls: "Start Cancel",
		},
		"the nodes cannot be watched": {
			change: func(c *plan.Config) { c.Timeout = time.Hour }, want: report.TimedOut, calls: "Start",
			before: func(a *fakeAWS) { a.begins = "stale" },
		},
	} {
		runInBubble(t, name, func(t *testing.T) {
			a, cfg, nodes := newFakeAWS(3), defaults(), &fakeCluster{unready: map[string]bool{"i-9": true}}
			cfg.ReadyTimeout, cfg.Timeout = 10*time.Minute, 2*time.Hour
			if tt.change != nil {
				tt.change(&cfg)
			}
			if tt.before != nil {
				tt.before(a)
			}
			if a.begins == "stale" {
				a.begins, nodes.stale = "", errors.New("watch nodes: forbidden")
			}
			a.script = func(reads int) {
				if reads == 3 {
					a.group.Instances[0] = instance("i-9", "2")
				}
				if reads == tt.done {
					succeedAt(reads)(a, reads)
				}
				if reads == tt.ready {
					readyAt(nodes, reads, reads)
				}
			}
			expect(t, runGroup(t.Context(), t, cfg, a, nodes), tt.want, tt.words...)
			a.expectCalls(t, tt.calls)
		})
	}
}

// TestReadyTimeoutStartsAgain: a node that was ready meanwhile has the whole time again.
func TestReadyTimeoutStartsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, cfg, nodes := newFakeAWS(3), defaults(), &fakeCluster{}
		cfg.ReadyTimeout, cfg.Timeout = 10*time.Minute, time.Hour
		a.script = func(reads int) {
			if reads == 3 {
				a.group.Instances[0] = instance("i-9", "2")
			}
			nodes.mu.Lock()
			defer nodes.mu.Unlock()
			nodes.unready = map[string]bool{"i-9": reads%100 != 0} // ready each 500 s
		}
		expect(t, runGroup(t.Context(), t, cfg, a, nodes), report.TimedOut, "instance refresh r-1 continues")
		if a.refreshes[0].Status != refresh.StatusInProgress {
			t.Errorf("the refresh is %s", a.refreshes[0].Status)
		}
	})
}
