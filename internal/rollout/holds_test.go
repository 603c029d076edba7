package rollout_test

import (
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// givesUp has a refresh fail that launches nothing.
func (w *world) givesUp() {
	w.hook("ready", 0)
	w.SetDelays(awsim.Delays{RefreshGiveUp: time.Minute})
}

// TestSuspend: processes are suspended for as long as the rollout runs.
func TestSuspend(t *testing.T) {
	const suspended = "still suspended: AZRebalance; the next run | trigger resume --asg workers"
	const starts, resumes = "Suspend AZRebalance, Start", "Suspend AZRebalance, Start, Resume AZRebalance"
	blocked := func(w *world) { w.hook("ready", 0) }
	followed := func(w *world) { w.suspended(); w.otherRefresh("2"); w.after(2*time.Minute, w.release) }
	all := map[string]scenario{
		"until the end":       {want: report.Done, calls: resumes},
		"until it has failed": {before: (*world).givesUp, want: report.Failed, calls: resumes},
		"not allowed: the rollout continues": {
			before: func(w *world) { w.fails("SuspendProcesses", "AccessDenied", 0) }, want: report.Done, calls: resumes,
		},
		"refused by the preflight: nothing is suspended": {
			before: func(w *world) { w.operator("DeleteLifecycleHook", "LifecycleHookName=drain") }, want: report.Refused,
		},
		"AWS refuses to start it": {
			before: func(w *world) { w.fails("StartInstanceRefresh", "AccessDenied", 0) }, want: report.Error, calls: resumes,
		},
		"timed out while waiting for drains": {
			before: func(w *world) { w.cfg.Timeout = 2 * time.Minute; w.hook("drain", 0) }, want: report.TimedOut, calls: resumes,
		},
		"timed out, and the refresh continues": {
			before: func(w *world) { w.cfg.Timeout = time.Minute; blocked(w) },
			want:   report.TimedOut, words: suspended, calls: starts,
		},
		"detached": {before: func(w *world) { w.cfg.Wait = false }, want: report.Detached, words: suspended, calls: starts},
		"detached, and AWS does not list the refresh yet": {
			before: func(w *world) {
				w.cfg.Wait = false
				w.edit = func(action, body string) string {
					if action != "DescribeInstanceRefreshes" {
						return body
					}
					return strings.NewReplacer("<member>", "<!--", "</member>", "-->").Replace(body)
				}
			},
			want: report.Detached, words: suspended, calls: starts,
		},
		"interrupted while it is rolled back": {
			group: awsim.Group{LaunchTemplateVersion: "1"}, before: func(w *world) {
				w.cfg.Version = "2"
				w.after(30*time.Second, func() { blocked(w); w.operator("RollbackInstanceRefresh") })
			},
			stop: time.Minute, want: report.Interrupted, words: suspended, calls: starts,
		},
		"interrupted while it is cancelled: nothing more is replaced": {
			before: func(w *world) {
				blocked(w)
				w.after(30*time.Second, func() { w.operator("CancelInstanceRefresh") })
			},
			stop: time.Minute, want: report.Interrupted, calls: resumes,
		},
		"another refresh continues, for which it was suspended": {
			before: func(w *world) { w.suspended(); w.otherRefresh("1") }, want: report.Conflict, words: suspended,
		},
		"interrupted, and the refresh is cancelled": {
			before: func(w *world) { w.cfg.OnInterrupt = plan.Cancel; blocked(w) }, stop: time.Minute, want: report.Interrupted,
			calls: "Suspend AZRebalance, Start, Cancel, Resume AZRebalance",
		},
		"another trigger holds the group": {
			before: func(w *world) { w.suspended(); w.works() }, want: report.Conflict, words: other,
		},
		"another trigger holds the group, and its refresh is followed": {
			before: func(w *world) { followed(w); w.works() }, want: report.Done,
		},
		"a killed run has suspended it, and its refresh is followed": {
			before: func(w *world) { followed(w); w.leased(other, time.Minute) }, want: report.Done, calls: "Resume AZRebalance",
		},
		"a killed run has suspended it, and this one suspends nothing": {
			before: func(w *world) { w.cfg.Suspend, w.cfg.Version = nil, "1"; w.suspended() },
			want:   report.Nothing, calls: "Resume AZRebalance",
		},
	}
	for name, s := range all {
		before := s.before
		s.before = func(w *world) {
			if w.cfg.Suspend = []string{"AZRebalance"}; before != nil {
				before(w)
			}
		}
		all[name] = s
	}
	runAll(t, all)
}

// TestProtect: the instances that the rollout excludes are protected from scale in while it runs, except for those that
// a user has protected.
func TestProtect(t *testing.T) {
	excluded := func(protected ...string) func(w *world) {
		return func(w *world) {
			long := map[string]string{"job": "long"}
			w.nodes.labels = map[string]map[string]string{"i-1": long, "i-2": long, "i-3": {"job": "short"}}
			w.cfg.Exclude = []string{"job=long"}
			for _, name := range protected {
				w.must(w.SetProtection(w.id(name), true))
			}
		}
	}
	runAll(t, map[string]scenario{
		"excluded": {
			mode: refresh.ModeUnhealthy, before: excluded(), want: report.Done, calls: "Protect i-1,i-2, Mark i-3, Unprotect i-1,i-2",
		},
		"one of them protected already": {
			mode: refresh.ModeUnhealthy, before: excluded("i-2"), want: report.Done, calls: "Protect i-1, Mark i-3, Unprotect i-1",
		},
		"left by a run that was killed, in mode refresh": {
			before: func(w *world) {
				w.cfg.Version = "1"
				w.must(w.SetProtection(w.id("i-1"), true))
				w.tag(refresh.ProtectedTag, strings.TrimPrefix(w.id("i-1"), "i-"))
			},
			want: report.Nothing, calls: "Unprotect i-1",
		},
	})
}

// TestRaiseMax: the maximum is raised if a rollout needs that, and restored where the desired capacity allows it.
func TestRaiseMax(t *testing.T) {
	killed := func(w *world) {
		w.cfg.RaiseMax = false
		w.must(w.Resize(w.group, 0, 6, 3))
		w.tag(refresh.MaxTag, "3-6")
	}
	all := map[string]scenario{
		"until the end":       {want: report.Done, calls: "Max 6, Start, Max 3"},
		"until it has failed": {before: (*world).givesUp, want: report.Failed, calls: "Max 6, Start, Max 3"},
		"large enough": {
			before: func(w *world) { w.must(w.Resize(w.group, 0, 6, 3)) }, want: report.Done, calls: "Start",
		},
		"not allowed: the rollout continues": {
			before: func(w *world) { w.fails("UpdateAutoScalingGroup", "AccessDenied", 0) }, want: report.Done, calls: "Max 6, Start",
		},
		"an autoscaler has used it": {
			before: func(w *world) { w.after(10*time.Second, func() { w.resize(4) }) },
			want:   report.Done, words: "stays raised from 3 to 4 | trigger resume --asg workers", calls: "Max 6, Start, Max 4",
		},
		"detached": {
			before: func(w *world) { w.cfg.Wait = false }, want: report.Detached,
			words: "still maximum size raised from 3 to 6; the next run", calls: "Max 6, Start",
		},
		"a killed run has raised it": {
			before: func(w *world) { killed(w); w.cfg.Version = "1" }, want: report.Nothing, calls: "Max 3",
		},
		"resumed after a killed run": {
			do: rollout.ActResume, before: func(w *world) { killed(w); w.suspended() },
			want: report.Done, calls: "Resume InstanceRefresh, Max 3, Resume AZRebalance",
		},
	}
	for name, s := range all {
		before := s.before
		s.group.Max = 3
		s.before = func(w *world) {
			if w.cfg.RaiseMax, w.cfg.Surge.N = true, 100; before != nil {
				before(w)
			}
		}
		all[name] = s
	}
	runAll(t, all)
}
