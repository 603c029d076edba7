package rollout_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// tainted has an earlier run have tainted nodes.
func (w *world) tainted(names ...string) {
	for _, name := range names {
		w.nodes.taints[name] = cluster.SoftTaint
	}
}

// TestTaints: outdated nodes are tainted when a rollout begins, and untainted when it ends, unless AWS continues without
// the trigger. One instance is replaced before that.
func TestTaints(t *testing.T) {
	const all, two, says = "i-1 i-2 i-3", "i-2 i-3", "; still tainted node-drainer.io/outdated: 2 nodes; the next run"
	one := func(before ...func(w *world)) func(w *world) {
		return func(w *world) {
			w.after(5*time.Second, func() { w.hook("ready", 0) })
			w.hook("drain", time.Second)
			for _, do := range before {
				do(w)
			}
		}
	}
	changed := func(change func(c *plan.Config)) func(w *world) { return one(func(w *world) { change(&w.cfg) }) }
	cancels := func(w *world) { w.cfg.OnInterrupt = plan.Cancel }
	fails := one((*world).givesUpLater)
	current := func(w *world) { w.cfg.Version = "1"; w.tainted("i-2") }
	for name, tt := range map[string]struct {
		scenario
		added, remain string
		note          string
	}{
		"fails: remaining nodes are untainted": {
			scenario{before: fails, want: report.Failed, calls: "Start"}, all, "", "2 nodes: untainted",
		},
		"fails before the watch shows the taints": {
			scenario{before: func(w *world) { fails(w); w.nodes.hidden = true }, want: report.Failed, calls: "Start"},
			all, "", "2 nodes: untainted",
		},
		"rolled back": {scenario{group: awsim.Group{LaunchTemplateVersion: "1"}, before: func(w *world) {
			w.cfg.Version = "2"
			w.after(15*time.Second, func() { w.operator("RollbackInstanceRefresh") })
		}, want: report.RolledBack, calls: "Start"}, all, "", ""},
		"ends, and instances remain": {scenario{before: func(w *world) {
			w.cfg.Pin = refresh.PinNever
			w.hook("drain", 5*time.Minute)
			w.after(2*time.Minute, w.newVersion)
		}, want: report.Incomplete, calls: "Start"}, all, "", ""},
		"interrupted and detached": {
			scenario{before: one(), stop: time.Minute, want: report.Interrupted, words: says, calls: "Start"}, all, two, "",
		},
		"interrupted and cancelled": {
			scenario{before: one(cancels), stop: time.Minute, want: report.Interrupted, calls: "Start, Cancel"}, all, "", "",
		},
		"interrupted in mode unhealthy": {scenario{
			mode: refresh.ModeUnhealthy, before: changed(func(c *plan.Config) { c.Taint = cluster.HardTaint }),
			stop: time.Minute, want: report.Interrupted, calls: "Mark i-1, Mark i-2",
		}, all, "", ""},
		"timed out": {scenario{
			before: changed(func(c *plan.Config) { c.Timeout = time.Minute }), want: report.TimedOut, calls: "Start",
		}, all, two, ""},
		"nothing changes": {scenario{
			before: changed(func(c *plan.Config) { c.StallTimeout = time.Minute }), want: report.Stalled, calls: "Start",
		}, all, two, ""},
		"AWS stops answering": {scenario{before: one(func(w *world) {
			w.after(40*time.Second, func() { w.fails("DescribeAutoScalingGroups", "InternalFailure", 0) })
		}), want: report.Error, calls: "Start"}, all, two, ""},
		"without waiting": {scenario{
			before: func(w *world) { w.cfg.Wait = false }, want: report.Detached, calls: "Start",
			words: "; still tainted node-drainer.io/outdated: 3 nodes; the next run",
		}, all, all, ""},
		"attached to another refresh": {
			scenario{before: func(w *world) { w.otherRefresh("2"); w.after(time.Minute, w.release) }, want: report.Done}, all, "", "",
		},
		"conflict with another refresh": {
			scenario{before: func(w *world) { w.tainted("i-1"); w.otherRefresh("1") }, want: report.Conflict}, "", "i-1", "",
		},
		"the preflight refuses": {scenario{before: (*world).noHook, want: report.Refused}, "", "", ""},
		"starting is not allowed": {scenario{
			before: func(w *world) { w.fails("StartInstanceRefresh", "AccessDenied", 0) }, want: report.Error, calls: "Start",
		}, all, "", ""},
		"nothing is outdated, and an old taint remains": {scenario{before: current, want: report.Nothing}, "", "", "untainted"},
		"none, and an old taint remains": {
			scenario{before: func(w *world) { current(w); w.cfg.Taint = cluster.NoTaint }, want: report.Nothing}, "", "", "untainted",
		},
		"unset: nothing is tainted": {
			scenario{before: func(w *world) { w.cfg.Taint = "" }, want: report.Done, calls: "Start"}, "", "", "",
		},
		"without Kubernetes": {scenario{before: func(w *world) { w.view = nil }, want: report.Done, calls: "Start"}, "", "", ""},
		"another trigger has taken the lease": {scenario{mode: refresh.ModeUnhealthy, before: one(func(w *world) {
			w.cfg.Pace.Between = time.Hour
			w.after(40*time.Second, func() { w.leased(other, time.Hour) })
		}), want: report.Conflict, calls: "Mark i-1"}, all, two, "left to the trigger ci-2/7: tainted node-drainer.io/outdated: 2 nodes"},
		"a kept instance is not tainted": {scenario{before: func(w *world) {
			w.tainted("i-2")
			w.must(w.SetProtection(w.id("i-2"), true))
			w.cfg.Wait = false
		}, want: report.Detached, calls: "Start"}, "i-1 i-3", "i-1 i-3", ""},
		"a terminating instance is left alone": {scenario{before: func(w *world) {
			w.tainted("i-2")
			w.hook("drain", 0)
			w.hook("ready", 0)
			w.operator("TerminateInstanceInAutoScalingGroup", "InstanceId="+w.id("i-2"), "ShouldDecrementDesiredCapacity=true")
			cancels(w)
		}, stop: time.Minute, want: report.Interrupted, calls: "Start, Cancel"}, "i-1 i-3", "i-2", ""},
	} {
		inWorld(t, name, tt.group, func(w *world) {
			w.setMode(tt.mode)
			w.cfg.Taint = cluster.SoftTaint
			end := w.play(tt.scenario)
			slices.Sort(w.nodes.added)
			w.expectNodes("tainted", tt.added, w.nodes.added)
			w.expectNodes("left", tt.remain, left(w, w.nodes.taints))
			if !strings.Contains(w.notes(end), tt.note) {
				w.Errorf("notes lack %q:\n%s", tt.note, w.notes(end))
			}
		})
	}
}

// givesUpLater has a refresh fail that launches nothing for a minute.
func (w *world) givesUpLater() { w.SetDelays(awsim.Delays{RefreshGiveUp: time.Minute}) }

// TestTaintsBeforeTheRefresh: no new node is launched before the old ones are tainted.
func TestTaintsBeforeTheRefresh(t *testing.T) {
	inWorld(t, "", awsim.Group{}, func(w *world) {
		w.cfg.Taint, w.cfg.Wait = cluster.SoftTaint, false
		w.upon("StartInstanceRefresh", func() { w.expectNodes("tainted", "i-1 i-2 i-3", left(w, w.nodes.taints)) })
		w.play(scenario{want: report.Detached, calls: "Start"})
	})
}

// TestTaintFailures: nodes that cannot be tainted become one note, and the rollout continues.
func TestTaintFailures(t *testing.T) {
	inWorld(t, "", awsim.Group{Desired: 20}, func(w *world) {
		w.cfg.Taint, w.cfg.Surge, w.nodes.fails = cluster.SoftTaint, nil, errors.New("forbidden: nodes")
		w.cfg.Preferences.MinHealthy, w.cfg.Preferences.MaxHealthy = new(0), new(100)
		got := w.notes(w.play(scenario{want: report.Done, calls: "Start"}))
		if strings.Count(got, "forbidden: nodes") != 1 ||
			!strings.Contains(got, "warn: the rollout continues without it: 20 nodes could not be tainted") {
			w.Errorf("the notes are\n%s", got)
		}
		if w.nodes.most != plan.Concurrency {
			w.Errorf("%d nodes were tainted at a time, want %d", w.nodes.most, plan.Concurrency)
		}
	})
}

// TestInterruptWhileTainting: an interrupt ends the tainting of many nodes, and untaints those that are tainted.
func TestInterruptWhileTainting(t *testing.T) {
	inWorld(t, "", awsim.Group{Desired: 24}, func(w *world) {
		w.cfg.Taint, w.cfg.OnInterrupt = cluster.SoftTaint, plan.Cancel
		w.play(scenario{stop: 150 * time.Millisecond, want: report.Interrupted})
		if n := len(w.nodes.added); n == 0 || n == 24 || len(w.nodes.taints) > 0 {
			w.Errorf("%d nodes were tainted, and in the end %v are", n, w.nodes.taints)
		}
	})
}

// TestUntaint: trigger resume untaints the nodes that a killed run has tainted, and so does the next run. That nodes
// cannot be untainted is tried again, and a rollout that would succeed says so.
func TestUntaint(t *testing.T) {
	inWorld(t, "resume", awsim.Group{}, func(w *world) {
		w.tainted("i-1", "i-3")
		w.play(scenario{do: rollout.ActResume, want: report.Done, calls: "Resume InstanceRefresh"})
		w.expectNodes("left", "", left(w, w.nodes.taints))
	})
	inWorld(t, "it fails", awsim.Group{}, func(w *world) {
		w.tainted("i-2")
		w.cfg.Version, w.cfg.Taint, w.nodes.fails = "1", cluster.SoftTaint, errors.New("no answer")
		got := w.notes(w.play(scenario{want: report.Incomplete}))
		if w.nodes.tries != 1+loop.GiveBackTries || !strings.Contains(got, "run trigger resume: 1 node could not be untainted: node-i-2: no answer") {
			w.Errorf("it was tried %d times; the notes are\n%s", w.nodes.tries, got)
		}
	})
}

// TestHardTaintWarning: a hard taint that leaves no node for new pods causes a warning.
func TestHardTaintWarning(t *testing.T) {
	terminateFirst := func(w *world) {
		w.cfg.Surge, w.cfg.Preferences.MinHealthy, w.cfg.Preferences.MaxHealthy = nil, new(66), new(100)
	}
	atLeast := func(percent int) func(w *world) {
		return func(w *world) { w.cfg.Surge, w.cfg.Preferences.MinHealthy = nil, &percent }
	}
	noPolicy := awsim.Group{MaxHealthy: -1}
	for name, tt := range map[string]struct {
		group  awsim.Group
		mode   refresh.Mode
		before func(w *world)
		warns  bool
	}{
		"terminate first": {before: terminateFirst, warns: true},
		"soft taint":      {before: func(w *world) { terminateFirst(w); w.cfg.Taint = cluster.SoftTaint }},
		"launch first":    {before: func(*world) {}},
		"one instance is current": {before: func(w *world) {
			terminateFirst(w)
			w.resize(4)
			w.inService(4)
		}},
		"minimum below 100 %":             {group: noPolicy, before: atLeast(50), warns: true},
		"minimum of 100 %":                {group: noPolicy, before: atLeast(100)},
		"batches, launch-first policy":    {mode: refresh.ModeUnhealthy, before: func(*world) {}},
		"batches, no policy and no surge": {group: noPolicy, mode: refresh.ModeUnhealthy, before: func(w *world) { w.cfg.Allow = append(w.cfg.Allow, "maintenance-policy") }, warns: true},
	} {
		inWorld(t, name, tt.group, func(w *world) {
			w.setMode(tt.mode)
			w.cfg.Taint = cluster.HardTaint
			tt.before(w)
			calls := map[refresh.Mode]string{"": "Start", refresh.ModeUnhealthy: "Mark i-1"}[tt.mode]
			got := w.notes(w.play(scenario{stop: 3 * time.Second, want: report.Interrupted, calls: calls}))
			if strings.Contains(got, "stay pending") != tt.warns || len(w.nodes.added) != 3 {
				w.Errorf("tainted %v, notes\n%s", w.nodes.added, got)
			}
		})
	}
}
