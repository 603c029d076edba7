package rollout_test

import (
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// TestRefresh rolls out by an Instance Refresh.
func TestRefresh(t *testing.T) {
	const describe, start = "DescribeAutoScalingGroups", "StartInstanceRefresh"
	runAll(t, map[string]scenario{
		"it succeeds, and old instances drain for an hour": {
			before: func(w *world) { w.hook("drain", time.Hour); w.cfg.PollInterval = time.Minute }, want: report.Done, words: "3 instances replaced", calls: "Start",
		},
		"until replaced: drains are not waited for": {
			before: func(w *world) { w.hook("drain", 0); w.cfg.Until = plan.Replaced }, want: report.Done, calls: "Start",
		},
		"drains were under way when an earlier trigger was killed": {
			before: func(w *world) {
				w.hook("drain", 0)
				w.otherRefresh("2")
				w.release()
				w.succeeds()
				w.after(time.Minute, func() { w.complete("drain", "CONTINUE") })
			},
			want: report.Done, words: "3 instances replaced",
		},
		"a retained instance remains, and is named": {
			group: awsim.Group{RetainOnAbandon: true},
			before: func(w *world) {
				w.hook("drain", 0)
				w.after(2*time.Minute, func() { w.complete("drain", "ABANDON") })
			},
			want: report.Incomplete, words: "3 instances are retained | i-1", calls: "Start",
		},
		"a newer version appears during the drains, without --pin": {
			before: func(w *world) {
				w.hook("drain", 5*time.Minute)
				w.cfg.Pin = refresh.PinNever
				w.after(2*time.Minute, w.newVersion)
			},
			want: report.Incomplete, words: "3 instances are still outdated | trigger plan", calls: "Start",
		},
		"another was started at the same moment, with the same target": {
			before: func(w *world) {
				w.upon(start, func() { w.otherRefresh("2"); w.after(time.Minute, w.release) })
			},
			want: report.Done, calls: "Start",
		},
		"the answer of the start was lost, and another one would be a conflict": {
			before: func(w *world) {
				w.cfg.OnConflict = plan.Fail
				w.Inject(awsim.Fault{Action: start, Code: "InstanceRefreshInProgress", AfterApply: true, Times: 1})
			},
			want: report.Done, calls: "Start",
		},
		"another one is being cancelled": {
			before: func(w *world) { w.otherRefresh("2"); w.operator("CancelInstanceRefresh") },
			want:   report.Conflict, words: "Cancelling | when that has ended",
		},
		"AWS does not answer for a while": {
			before: func(w *world) { w.after(12*time.Second, func() { w.fails(describe, "InternalFailure", 4) }) },
			want:   report.Done, calls: "Start",
		},
		"AWS stops answering": {
			before: func(w *world) { w.after(12*time.Second, func() { w.fails(describe, "InternalFailure", 0) }) },
			want:   report.Error, words: "InternalFailure | continues", calls: "Start",
		},
		"bake time exceeds the stall timeout": {
			before: func(w *world) { w.cfg.StallTimeout, w.cfg.Preferences.Bake = time.Minute, new(3*time.Minute) },
			want:   report.Done, calls: "Start",
		},
		"checkpoint delay exceeds the stall timeout": {
			before: func(w *world) {
				w.cfg.PollInterval = time.Minute
				w.cfg.StallTimeout, w.cfg.Preferences.Checkpoints = 10*time.Minute, []int{50, 100}
			},
			want: report.Done, calls: "Start",
		},
		"the group's warmup exceeds the stall timeout": {
			group:  awsim.Group{GracePeriod: 20 * time.Minute},
			before: func(w *world) { w.cfg.PollInterval, w.cfg.StallTimeout = time.Minute, 10*time.Minute }, want: report.Done, calls: "Start",
		},
		"paused and never resumed": {
			before: func(w *world) {
				w.cfg.StallTimeout = 2 * time.Minute
				w.after(12*time.Second, func() { w.suspend("InstanceRefresh") })
			},
			want: report.Stalled, words: "suspended: InstanceRefresh", calls: "Start",
		},
		"timed out": {
			before: func(w *world) { w.hook("ready", 0); w.cfg.Timeout = time.Minute },
			want:   report.TimedOut, words: "--timeout | r continues | run the same command again", calls: "Start",
		},
		"another one is cancelled, and then the rollout is refused": {
			before: func(w *world) {
				w.cfg.OnConflict = plan.CancelActive
				w.otherRefresh("1")
				w.upon("CancelInstanceRefresh", func() { w.suspend("InstanceRefresh") })
			},
			want: report.Refused, words: "nothing was started: suspended", calls: "Cancel",
		},
		"waits for another, which replaced everything": {
			before: func(w *world) {
				w.cfg.OnConflict = plan.Wait
				w.hook("drain", time.Second)
				w.otherRefresh("2")
				w.after(31*time.Second, w.release) // not when the group is described
			},
			want: report.Nothing,
		},
		"a refresh is in progress that AWS does not list": {
			before: func(w *world) { w.fails(start, "InstanceRefreshInProgress", 0) },
			want:   report.Error, words: "in progress", calls: "Start, Start, Start, Start, Start",
		},
		"interrupted while waiting for another, which is not cancelled": {
			before: func(w *world) { w.cfg.OnConflict, w.cfg.OnInterrupt = plan.Wait, plan.Cancel; w.otherRefresh("1") },
			stop:   time.Minute, want: report.Interrupted, words: "no instance refresh was started",
		},
		"another is being rolled back": {
			group: awsim.Group{LaunchTemplateVersion: "1"},
			before: func(w *world) {
				w.cfg.Version = "2"
				w.otherRefresh("2")
				w.release()
				w.await("i-4", "InService")
				w.hook("ready", 0)
				w.operator("RollbackInstanceRefresh")
			},
			want: report.Conflict, words: "r is under way | --on-conflict",
		},
	})
}

// TestInterrupted: --on-interrupt decides what happens to the refresh, and the message describes it.
func TestInterrupted(t *testing.T) {
	interrupted := func(how plan.Interrupt, words, calls string, before func(w *world)) scenario {
		return scenario{
			group: awsim.Group{LaunchTemplateVersion: "1"}, stop: time.Minute, want: report.Interrupted, words: words, calls: calls,
			before: func(w *world) {
				w.cfg.OnInterrupt, w.cfg.Version = how, "2"
				w.hook("ready", 0)
				before(w)
			},
		}
	}
	fails := func(action, code string) func(w *world) { return func(w *world) { w.fails(action, code, 1) } }
	nothing := func(*world) {}
	const cancel, rollback = "CancelInstanceRefresh", "RollbackInstanceRefresh"
	runAll(t, map[string]scenario{
		"detach":                   interrupted(plan.Detach, "instance refresh r continues; run the same command again", "Start", nothing),
		"cancel":                   interrupted(plan.Cancel, "r is cancelled", "Start, Cancel", nothing),
		"cancel, but it has ended": interrupted(plan.Cancel, "had ended already", "Start, Cancel", fails(cancel, "ActiveInstanceRefreshNotFound")),
		"cancel, but AWS refuses":  interrupted(plan.Cancel, "could not be cancelled and continues", "Start, Cancel", fails(cancel, "AccessDenied")),
		"roll back":                interrupted(plan.Rollback, "r is rolled back", "Start, Rollback", nothing),
		"roll back, which cannot be done": interrupted(plan.Rollback, "could not be rolled back and continues", "Start, Rollback",
			fails(rollback, "IrreversibleInstanceRefresh")),
		"roll back, before it has begun": interrupted(plan.Rollback, "r is cancelled: it had not begun, so that nothing was replaced",
			"Start, Rollback, Cancel", func(w *world) { w.SetDelays(awsim.Delays{RefreshStart: time.Hour}) }),
		"roll back, which it does already": interrupted(plan.Rollback, "or is being stopped", "Start, Rollback, Rollback",
			func(w *world) {
				w.hook("ready", 10*time.Second)
				w.after(12*time.Second, func() { w.hook("ready", 0) })
				w.upon(rollback, func() { w.operator(rollback) })
			}),
		"while old instances drain, and another refresh has begun": {
			group: awsim.Group{LaunchTemplateVersion: "1"}, stop: 3 * time.Minute, want: report.Interrupted,
			before: func(w *world) {
				w.cfg.OnInterrupt, w.cfg.Version = plan.Cancel, "2"
				w.hook("drain", 0)
				w.after(2*time.Minute, func() { w.otherRefresh("1") })
			},
			words: "r has ended | 3 old instances", calls: "Start",
		},
	})
}

// TestAttachedRefreshIsChecked: a refresh that is followed is checked like one that is started, by its own preferences,
// and the findings become warnings. Preferences that differ from the requested ones are listed.
func TestAttachedRefreshIsChecked(t *testing.T) {
	inWorld(t, "", awsim.Group{}, func(w *world) {
		w.operator("DeleteLifecycleHook", "LifecycleHookName=drain")
		w.otherRefresh("2")
		w.after(time.Minute, w.release)
		notes := w.notes(w.play(scenario{want: report.Done}))
		for _, want := range []string{
			"warn: no-terminating-hook: the group has no terminating hook",
			"warn: instance refresh r has other preferences than requested: MaxHealthyPercentage is unset, not 134; " +
				"SkipMatching is false, not true",
		} {
			if !strings.Contains(notes, want) {
				t.Errorf("the notes lack %q:\n%s", want, notes)
			}
		}
	})
}
