package rollout_test

import (
	"errors"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/internal/rollout/hold"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// raising has a trigger be killed while it raises the desired capacity from 3 to 5.
func (w *world) raising() {
	w.tag(refresh.SurgeTag, refresh.RaisedBy(refresh.Group{Desired: 3}, 2, time.Now()).String())
}

// TestResumeOfARaiseInDoubt: a trigger was killed while it raised the desired capacity from 3 to 5, and an autoscaler
// has changed it to 6 since. The change of the trigger is known only when the instances are launched.
func TestResumeOfARaiseInDoubt(t *testing.T) {
	resize := func(to ...int) func(w *world) {
		return func(w *world) {
			w.raising()
			for _, to := range to {
				w.resize(to)
			}
		}
	}
	launched := func(tag string, to ...int) func(w *world) {
		return func(w *world) {
			resize(to...)(w)
			w.inService(w.desired(w.group))
			if tag != "" {
				w.tag(refresh.SurgeTag, tag)
			}
		}
	}
	all := map[string]scenario{
		"it was raised": {before: launched("", 5, 6), calls: "Resize 4"},
		"it was raised, and instances do not serve yet": {before: resize(5, 6), calls: "Terminate i-6, Terminate i-5"},
		"it was raised, and nothing is launched at first": {
			before: func(w *world) {
				w.suspend("Launch")
				resize(5, 6)(w)
				w.after(20*time.Second, func() { w.operator("ResumeProcesses", "ScalingProcesses.member.1=Launch") })
			}, calls: "Terminate i-6, Terminate i-5",
		},
		"another client has raised it": {before: resize(4, 6)},
		"nothing is launched":          {before: func(w *world) { w.suspend("Launch"); resize(4, 6)(w) }},
		"it is what the trigger meant it to be, and nothing is launched": {
			before: func(w *world) { w.suspend("Launch"); resize(4, 5)(w) },
		},
		"it was raised before, and is":            {before: launched("3-5", 5, 6), calls: "Resize 4"},
		"somebody has written a tag that says so": {before: launched("0-1000", 4), calls: "Resize 3"},
		"and nothing was ever raised":             {before: launched("0-1000")},
	}
	for name, s := range all {
		s.do, s.want = rollout.ActResume, report.Done
		if s.calls = "Resume InstanceRefresh, " + s.calls; s.calls == "Resume InstanceRefresh, " {
			s.calls = "Resume InstanceRefresh"
		}
		began := time.Time{}
		before := s.before
		s.before = func(w *world) { before(w); began = time.Now() }
		s.then = func(w *world, _ report.Group) {
			if _, is := w.Tags(w.group)[refresh.SurgeTag]; is || time.Since(began) > hold.ConfirmTakes+time.Minute {
				w.Errorf("it took %v, tags %v", time.Since(began), w.Tags(w.group))
			}
		}
		all[name] = s
	}
	runAll(t, all)
}

// TestInterruptOfASurge: what is left of it is taken back, or the user is told. While it is not known who has raised the
// desired capacity, nothing is lowered. Instances that do not serve yet are terminated first: Auto Scaling, which knows
// nothing of nodes, would terminate old ones.
func TestInterruptOfASurge(t *testing.T) {
	surged := func(before func(w *world)) func(w *world) {
		return func(w *world) {
			w.cfg.OnInterrupt, w.cfg.Pace.Surge = plan.Cancel, refresh.Amount{N: 2}
			before(w)
		}
	}
	unready := func(names ...string) func(w *world) {
		return surged(func(w *world) {
			w.raised(2)
			for _, name := range names {
				w.nodes.unready[name] = true
			}
		})
	}
	const lowered = "the desired capacity was lowered from 5 to 3"
	all := map[string]scenario{
		"it is not known who has raised it": {
			before: surged(func(w *world) {
				w.upon("CreateOrUpdateTags", func() { w.suspend("Launch"); w.raising(); w.resize(6) })
			}),
			words: "stays raised from 3 to 5 | run the same command",
		},
		"a run was killed that was about to terminate an instance with a part of it, which the group replaces": {
			before: func(w *world) {
				w.cfg.Pace.Surge.N = 1
				w.raised(1)
				w.tag(refresh.SurgeTag, "3-4 "+w.id("i-1"))
			},
			stop: 20 * time.Second, words: "stays raised from 3 to 4", calls: "Mark i-1",
		},
		"no new node is ready":  {before: unready("i-4", "i-5"), words: lowered, calls: "Terminate i-5, Terminate i-4"},
		"one new node is ready": {before: unready("i-5"), words: lowered, calls: "Terminate i-5, Resize 3"},
		"one is being launched": {
			before: surged(func(w *world) {
				w.raised(1)
				w.hook("ready", 0)
				w.resize(5)
				w.tag(refresh.SurgeTag, "3-5")
			}),
			words: lowered, calls: "Terminate i-5, Resize 3",
		},
		"one is terminating by itself": {
			before: func(w *world) {
				unready("i-4", "i-5")(w)
				w.upon("TerminateInstanceInAutoScalingGroup", func() {
					w.operator("TerminateInstanceInAutoScalingGroup", "InstanceId="+w.id("i-4"), "ShouldDecrementDesiredCapacity=false")
				})
			},
			words: lowered, calls: "Terminate i-5, Terminate i-4, Resize 3",
		},
		"it is not known which nodes are ready": {
			before: func(w *world) { unready()(w); w.nodes.stale = errors.New("the nodes are not read") },
			words:  lowered, calls: "Resize 3",
		},
	}
	for name, s := range all {
		if s.mode, s.want = refresh.ModeUnhealthy, report.Interrupted; s.stop == 0 {
			s.stop = 3 * time.Second // The lease settles, and nothing is marked yet.
		}
		s.group.Max = 9
		all[name] = s
	}
	runAll(t, all)
}

// desired returns the desired capacity of a group.
func (w *world) desired(group string) int {
	_, _, desired := w.Sizes(group)
	return desired
}
