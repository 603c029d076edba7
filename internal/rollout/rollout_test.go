package rollout_test

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// TestStalledDrainSaysWhy: a drain that makes progress does not stall; a stalled one is named with what its
// node waits for.
func TestStalledDrainSaysWhy(t *testing.T) {
	inWorld(t, "", awsim.Group{Desired: 1}, func(w *world) {
		w.hook("drain", 0)
		w.cfg.StallTimeout, w.cfg.PollInterval = 10*time.Minute, time.Minute
		for pods := range 40 {
			w.after(time.Duration(43-pods)*time.Minute, func() {
				message := strconv.Itoa(pods+3) + " pods left: 3 wait for budget shop/api"
				w.nodes.set(func() { w.nodes.drains["i-1"] = cluster.Drain{Message: message} })
			})
		}
		started := time.Now()
		w.play(scenario{
			want: report.Stalled, calls: "Start",
			words: "nothing has changed for 10m0s | i-1 (node node-i-1: 3 pods left: 3 wait for budget shop/api)",
		})
		if took := time.Since(started); took < 50*time.Minute {
			w.Errorf("stalled after %v, although the drain made progress for 43 minutes", took)
		}
	})
}

// TestQueuedGroupsAreReadAgain: what was read of a group when the run began is stale when its turn comes, hours later.
func TestQueuedGroupsAreReadAgain(t *testing.T) {
	inWorld(t, "", awsim.Group{}, func(w *world) {
		w.addGroups("z")
		w.must(w.Resize("z", 0, 2, 1))
		w.cfg.Version, w.cfg.PollInterval = "$Latest", time.Minute
		w.hook("ready", 5*time.Minute)
		w.after(10*time.Minute, w.newVersion)
		end, err := w.run(w.Context(), "")
		w.must(err)
		if last := w.Instances("z"); end.Groups[1].Outcome != report.Done || last[0].Version != 3 {
			w.Errorf("the second group has ended with %s, and has version %d", end.Groups[1].Outcome, last[0].Version)
		}
	})
}

// TestAllAfterKill: a trigger with --all was killed and is started again. Instances that were launched for it are
// neither replaced again nor counted as left, also if the refresh ends between two reads.
func TestAllAfterKill(t *testing.T) {
	drains := func(w *world) {
		w.hook("drain", 0)
		w.otherRefresh("2")
		w.release()
	}
	all := map[string]scenario{
		"while the refresh runs": {
			before: func(w *world) { w.replacesOne(); w.after(time.Minute, w.release) }, words: "3 instances replaced",
		},
		"while old instances drain": {before: func(w *world) {
			drains(w)
			w.succeeds()
			w.after(time.Minute, func() { w.complete("drain", "CONTINUE") })
		}, words: "3 instances replaced"},
		"when the refresh ends between two reads": {group: awsim.Group{Desired: 1}, before: func(w *world) {
			w.hook("drain", 0)
			w.otherRefresh("2")
			w.await("i-2", "Pending:Wait")
			w.upon("DescribeInstanceRefreshes", func() {
				w.complete("ready", "CONTINUE")
				w.succeeds()
			})
			w.after(time.Minute, func() { w.complete("drain", "CONTINUE") })
		}, words: "1 instance replaced"},
		"before it had started one": {calls: "Start", words: "3 instances replaced"},
	}
	for name, s := range all {
		before := s.before
		s.want = report.Done
		s.before = func(w *world) {
			w.cfg.All, w.cfg.Preferences.SkipMatching, w.cfg.Timeout = true, false, time.Hour
			w.SetDelays(awsim.Delays{Appear: 2 * time.Second})
			if before != nil {
				before(w)
			}
		}
		all[name] = s
	}
	runAll(t, all)
}

// TestCheckReadsRefreshesOnce: AWS limits that call, so that it decides how long the check of many groups takes.
func TestCheckReadsRefreshesOnce(t *testing.T) {
	for name, all := range map[string]bool{"what is outdated": false, "all": true} {
		inWorld(t, name, awsim.Group{}, func(w *world) {
			w.cfg.All = all
			read := func() int { return w.RequestsBy(triggerKey)["autoscaling.DescribeInstanceRefreshes"] }
			before := 0
			w.upon("StartInstanceRefresh", func() { before = read() })
			if w.play(scenario{want: report.Done, calls: "Start"}); before != 1 {
				w.Errorf("the refreshes were read %d times before one was started", before)
			}
		})
	}
}

// TestStallInAnyOrder: that AWS describes the instances in another order is no progress.
func TestStallInAnyOrder(t *testing.T) {
	one := regexp.MustCompile(`(?s)<member>\s*<AvailabilityZone>.*?</member>|<member>\s*<InstanceId>.*?</member>`)
	inWorld(t, "", awsim.Group{}, func(w *world) {
		w.setMode(refresh.ModeUnhealthy)
		w.cfg.StallTimeout = 3 * time.Minute
		w.hook("ready", 0)
		reads := 0
		w.edit = func(action, body string) string {
			if reads++; action != "DescribeAutoScalingGroups" || reads%2 == 0 {
				return body
			}
			all := one.FindAllString(body, -1)
			return one.ReplaceAllStringFunc(body, func(string) string {
				last := all[len(all)-1]
				all = all[:len(all)-1]
				return last
			})
		}
		w.play(scenario{want: report.Stalled, words: "nothing has changed for 3m0s", calls: "Mark i-1"})
	})
}

// TestAlarmsThatCannotBeRead: AWS decides.
func TestAlarmsThatCannotBeRead(t *testing.T) {
	inWorld(t, "", awsim.Group{}, func(w *world) {
		w.cfg.Preferences.Alarms = []string{"errors"}
		w.SetAlarm("errors", awsim.AlarmOK)
		w.fails("DescribeAlarms", "AccessDenied", 0)
		notes := w.notes(w.play(scenario{want: report.Done, calls: "Start"}))
		if !strings.Contains(notes, "warn: alarms: AWS starts a refresh only when") {
			w.Errorf("the notes are\n%s", notes)
		}
	})
}

// TestReadyTimeoutOfARefresh: a refresh is cancelled or rolled back if the node of a new instance is not ready in time.
func TestReadyTimeoutOfARefresh(t *testing.T) {
	ready := func(at time.Duration, ready bool) func(w *world) {
		return func(w *world) {
			w.after(at, func() { w.nodes.set(func() { w.nodes.unready["i-4"] = !ready }) })
		}
	}
	slow := func(w *world) { w.hook("ready", 50*time.Second) }
	all := map[string]scenario{
		"cancelled": {
			before: slow, want: report.Failed, calls: "Start, Cancel",
			words: "1m0s | i-4 (node node-i-4) | r is Cancelled | replaced instances are kept",
		},
		"rolled back": {
			before: func(w *world) { slow(w); w.cfg.Preferences.AutoRollback = true },
			want:   report.RolledBack, words: "i-4 (node node-i-4) | r is RollbackSuccessful", calls: "Start, Rollback",
		},
		"without a limit":             {before: func(w *world) { slow(w); w.cfg.ReadyTimeout = 0 }, want: report.Done, calls: "Start"},
		"ready in time":               {before: func(w *world) { slow(w); ready(80*time.Second, true)(w) }, want: report.Done, calls: "Start"},
		"succeeds before it is ready": {want: report.Done, calls: "Start"},
		"it cannot be cancelled": {
			before: func(w *world) { slow(w); w.fails("CancelInstanceRefresh", "AccessDenied", 0) }, want: report.Error,
			words: "i-4 (node node-i-4) | r could not be cancelled | AccessDenied | r continues", calls: "Start, Cancel",
		},
		"the nodes cannot be watched": {
			before: func(w *world) { slow(w); w.nodes.stale = errors.New("watch nodes: forbidden") }, want: report.Done, calls: "Start",
		},
		"a node that was ready meanwhile has the whole time again": {
			before: func(w *world) { slow(w); ready(100*time.Second, true)(w); ready(105*time.Second, false)(w) },
			want:   report.Done, calls: "Start",
		},
	}
	for name, s := range all {
		before := s.before
		s.group.LaunchTemplateVersion = "1"
		s.before = func(w *world) {
			w.cfg.Version, w.cfg.ReadyTimeout, w.nodes.unready["i-4"] = "2", time.Minute, true
			if before != nil {
				before(w)
			}
		}
		all[name] = s
	}
	runAll(t, all)
}
