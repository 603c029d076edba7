package rollout

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// TestSuspend: processes are suspended for as long as the rollout runs.
func TestSuspend(t *testing.T) {
	earlier := map[string]string{"node-drainer.io/suspended": "AZRebalance"}
	// holds has another trigger hold the group, which suspends the process and renews its lease.
	holds := func(a *fakeAWS, _ int) {
		l := refresh.Lease{Holder: "ci-2/7", Expires: time.Now().Add(time.Minute).Truncate(time.Second)}
		a.group.Tags = map[string]string{refresh.SuspendedTag: "AZRebalance", refresh.LeaseTag: l.String()}
	}
	suspended := []string{"still suspended: AZRebalance; the next run", "trigger resume --asg workers"}
	for name, s := range map[string]scenario{
		"until the end": {
			script: succeedAt(4), want: report.Done, calls: "Suspend AZRebalance Start Release AZRebalance",
		},
		"until it has failed": {
			script: statusAt(4, refresh.StatusFailed),
			want:   report.Failed, calls: "Suspend AZRebalance Start Release AZRebalance",
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
			change: func(c *plan.Config) { c.Timeout = time.Minute },
			script: func(a *fakeAWS, reads int) {
				if succeedAt(4)(a, reads); reads == 4 {
					a.group.Instances = append(a.group.Instances, draining("i-1"))
				}
			},
			want: report.TimedOut, calls: "Suspend AZRebalance Start Release AZRebalance",
		},
		"timed out, and the refresh continues": {
			change: func(c *plan.Config) { c.Timeout = time.Minute }, want: report.TimedOut, words: suspended,
			calls: "Suspend AZRebalance Start",
		},
		"detached": {
			change: func(c *plan.Config) { c.Wait = false }, want: report.Detached, words: suspended, calls: "Suspend AZRebalance Start",
		},
		"detached, and AWS does not list the refresh yet": {
			change: func(c *plan.Config) { c.Wait = false }, before: func(a *fakeAWS) { a.hidden = true },
			want: report.Detached, words: suspended, calls: "Suspend AZRebalance Start",
		},
		"interrupted while it is rolled back": {
			script: statusAt(4, refresh.StatusRollbackInProgress), stop: time.Minute, want: report.Interrupted, words: suspended,
			calls: "Suspend AZRebalance Start",
		},
		"interrupted while it is cancelled: nothing more is replaced": {
			script: statusAt(4, refresh.StatusCancelling), stop: time.Minute, want: report.Interrupted,
			calls: "Suspend AZRebalance Start Release AZRebalance",
		},
		"another refresh continues, for which it was suspended": {
			before: func(a *fakeAWS) {
				a.begin("r-9", &refresh.Source{Template: template("1")})
				a.group.Tags = earlier
			},
			want: report.Conflict, words: suspended, calls: "",
		},
		"interrupted, and the refresh is cancelled": {
			change: func(c *plan.Config) { c.OnInterrupt = plan.Cancel }, stop: time.Minute, want: report.Interrupted,
			calls: "Suspend AZRebalance Start Cancel Release AZRebalance",
		},
		"another trigger holds the group": {script: holds, want: report.Conflict, words: []string{"ci-2/7"}, calls: ""},
		"another trigger holds the group, and its refresh is followed": {
			before: func(a *fakeAWS) { a.begin("r-1", nil) },
			script: func(a *fakeAWS, reads int) {
				if holds(a, reads); reads > 9 {
					a.status(refresh.StatusSuccessful, "")
					a.replaceAll("2")
				}
			},
			want: report.Done, calls: "",
		},
		"a killed run has suspended it, and its refresh is followed": {
			before: func(a *fakeAWS) {
				a.begin("r-1", nil)
				holds(a, 0)
			},
			script: succeedAt(30), want: report.Done, calls: "Release AZRebalance",
		},
		"a killed run has suspended it, and this one suspends nothing": {
			change: func(c *plan.Config) { c.Suspend = nil },
			before: func(a *fakeAWS) { a.replaceAll("2"); a.group.Tags = earlier },
			want:   report.Nothing, calls: "Release AZRebalance",
		},
	} {
		runInBubble(t, name, func(t *testing.T) {
			cfg := defaults()
			cfg.Suspend = []string{"AZRebalance"}
			s.run(t, cfg)
		})
	}
}

// TestProtect: the instances that the rollout excludes are protected from scale in while it runs, except for those that
// a user has protected.
func TestProtect(t *testing.T) {
	labels := map[string]map[string]string{"i-1": {"job": "long"}, "i-2": {"job": "long"}, "i-3": {"job": "short"}}
	protected := func(a *fakeAWS) { a.group.Instances[1].Protected = true }
	for name, tt := range map[string]struct {
		mode    refresh.Mode
		exclude string
		before  func(*fakeAWS)
		calls   string
	}{
		"excluded":                      {refresh.ModeUnhealthy, "job=long", nil, "Protect i-1,i-2 Mark i-3 Unprotect i-1,i-2"},
		"one of them protected already": {refresh.ModeUnhealthy, "job=long", protected, "Protect i-1 Mark i-3 Unprotect i-1"},
		"none excluded":                 {refresh.ModeUnhealthy, "job=none", nil, "Mark i-1 Mark i-2 Mark i-3"},
		"left by a run that was killed, in mode refresh": {
			refresh.ModeRefresh, "", func(a *fakeAWS) {
				a.replaceAll("2")
				a.group.Tags = map[string]string{refresh.ProtectedTag: "11"}
			}, "Unprotect i-11",
		},
	} {
		runInBubble(t, name, func(t *testing.T) {
			a, cfg := newFakeAWS(3), unhealthyDefaults()
			if tt.mode == refresh.ModeRefresh {
				cfg = defaults()
			}
			if tt.exclude != "" {
				cfg.Exclude = []string{tt.exclude}
			}
			if tt.before != nil {
				tt.before(a)
			}
			a.script = replaceUnhealthy(a)
			runGroup(t.Context(), t, cfg, a, &fakeCluster{labels: labels})
			a.expectCalls(t, tt.calls)
		})
	}
}

// TestRaiseMax: the maximum is raised if a rollout needs that, and restored where the desired capacity allows it.
func TestRaiseMax(t *testing.T) {
	started := "RaiseMax 6 Start"
	for name, s := range map[string]scenario{
		"until the end": {script: succeedAt(6), want: report.Done, calls: started + " RestoreMax 3"},
		"until it has failed": {
			script: statusAt(6, refresh.StatusFailed), want: report.Failed, calls: started + " RestoreMax 3",
		},
		"not asked for": {
			change: func(c *plan.Config) { c.RaiseMax = false }, script: succeedAt(4), want: report.Done, calls: "Start",
		},
		"large enough": {
			before: func(a *fakeAWS) { a.group.Max = 6 }, script: succeedAt(6), want: report.Done, calls: "Start",
		},
		"not allowed: the rollout continues": {
			before: func(a *fakeAWS) { a.errs["RaiseMax 6"] = []error{errors.New("AccessDenied")} },
			script: succeedAt(6), want: report.Done, calls: started,
		},
		"an autoscaler has used it": {
			script: func(a *fakeAWS, reads int) {
				if succeedAt(6)(a, reads); reads == 6 {
					a.group.Desired = 4
				}
			},
			want: report.Done, words: []string{"stays raised from 3 to 4", "trigger resume --asg workers"}, calls: started,
		},
		"detached": {
			change: func(c *plan.Config) { c.Wait = false }, want: report.Detached,
			words: []string{"still maximum size raised from 3 to 6; the next run"}, calls: started,
		},
		"a killed run has raised it": {
			change: func(c *plan.Config) { c.RaiseMax = false },
			before: func(a *fakeAWS) {
				a.replaceAll("2")
				a.group.Max, a.group.Tags = 6, map[string]string{refresh.MaxTag: "3-6"}
			},
			want: report.Nothing, calls: "RestoreMax 3",
		},
		"resumed after a killed run": {
			do: ActResume, before: func(a *fakeAWS) {
				a.group.Max, a.group.Tags = 6, map[string]string{refresh.MaxTag: "3-6", refresh.SuspendedTag: "AZRebalance"}
			},
			want: report.Done, calls: "Resume RestoreMax 3 Release AZRebalance",
		},
	} {
		runInBubble(t, name, func(t *testing.T) {
			cfg, before := defaults(), s.before
			cfg.RaiseMax, cfg.Surge = true, &refresh.Amount{N: 100, Percent: true}
			s.before = func(a *fakeAWS) {
				if a.group.Max = 3; before != nil {
					before(a)
				}
			}
			s.run(t, cfg)
		})
	}
}

func (a fakeWrites) Protect(ctx context.Context, _ refresh.Group, ids []string) ([]string, error) {
	tags, rest := refresh.ListProtected(ids)
	a.tag(refresh.ProtectedTag, tags[refresh.ProtectedTag])
	return rest, a.call(ctx, "Protect ", strings.Join(ids, ","))
}

func (a fakeWrites) Unprotect(ctx context.Context, g refresh.Group) ([]string, error) {
	ids := refresh.ProtectedBy(g)
	if len(ids) == 0 {
		return nil, nil
	}
	a.tag(refresh.ProtectedTag, "")
	return ids, a.call(ctx, "Unprotect ", strings.Join(ids, ","))
}

func (a fakeWrites) RaiseMax(ctx context.Context, g refresh.Group, to int) (refresh.RaisedMax, error) {
	m := refresh.RaiseMax(g, to)
	a.tag(refresh.MaxTag, m.String())
	if err := a.call(ctx, "RaiseMax ", to); err != nil {
		return m, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.group.Max = to
	return m, nil
}

func (a fakeWrites) RestoreMax(ctx context.Context, g refresh.Group) (bool, error) {
	m, ok := refresh.RaisedMaxOf(g)
	if !ok || m.Kept(g) != "" {
		return false, nil
	}
	a.tag(refresh.MaxTag, "")
	if !m.IsRaised(g) {
		return false, nil
	}
	return true, a.call(ctx, "RestoreMax ", m.From)
}
