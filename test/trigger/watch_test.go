package trigger

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"

	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/harness"
)

// TestWatchFollowsLatest: ten versions of a launch template are rolled out without anybody doing anything. The group
// still follows the template then, and is as it was.
func TestWatchFollowsLatest(t *testing.T) {
	t.Parallel()
	for mode, cfg := range configs() {
		watchedBubble(t, mode, 3, func(w *watched) {
			stop := w.start(cfg)
			for version := 2; version <= 11; version++ {
				elapse(17 * time.Minute)
				w.newVersion(version)
				w.waitVersion(version, 3)
			}
			elapse(time.Hour)
			stop()
			w.expectAsBefore(3)
			w.says(10, "3 of 3 old instances gone, took")
			if n := w.calls("StartInstanceRefresh"); mode == "refresh" && n != 10 {
				w.Errorf("%d refreshes were started", n)
			}
		})
	}
}

// TestWatchGivesUpATarget: a version that fails is not tried again, also not after a restart; the next version is.
func TestWatchGivesUpATarget(t *testing.T) {
	t.Parallel()
	const launch = "launch"
	starts := map[string]string{"refresh": "StartInstanceRefresh", "unhealthy": "SetDesiredCapacity"}
	for mode, cfg := range configs() {
		for name, release := range map[string]func(w *watched) (version int){
			"until the next version": func(w *watched) int { w.newVersion(3); return 3 },
			"until it is resumed": func(w *watched) int {
				if message := w.act(cfg, rollout.ActResume); !strings.Contains(message, "may try the target again that failed: lt-") {
					w.Errorf("resume says %s", message)
				}
				return 2
			},
		} {
			watchedBubble(t, mode+", "+name, 3, func(w *watched) {
				w.must(w.PutHook(group, awsim.Hook{Name: launch, Transition: awsim.Launching, HeartbeatTimeout: time.Hour}))
				w.newVersion(2)
				stop := w.start(cfg)
				elapse(20 * time.Hour)
				n := w.calls(starts[mode])
				stop()
				stop = w.start(cfg)
				elapse(20 * time.Hour)
				if again := w.calls(starts[mode]); n == 0 || again != n {
					w.Errorf("%s was called %d times before the restart, and %d in all", starts[mode], n, again)
				}
				w.says(1, group+": "+cmp.Or(map[string]string{"refresh": "failed"}[mode], "stalled"))
				w.says(2, "not tried again: lt-") // once by each process
				if failed := w.status(cfg).Failed; !strings.Contains(failed, "/2 ") {
					w.Errorf("the status says that %q failed", failed)
				}
				_, err := autoscaling.NewFromConfig(w.config("test")).DeleteLifecycleHook(w.Context(),
					&autoscaling.DeleteLifecycleHookInput{AutoScalingGroupName: aws.String(group), LifecycleHookName: aws.String(launch)})
				w.must(err)
				w.waitVersion(release(w), 3)
				elapse(time.Hour)
				stop()
				w.expectAsBefore(3)
			})
		}
	}
}

// TestWatchSurvivesAWS: while AWS does not answer, the watch goes on. A refusal is reported once, and the rollout starts
// when its reason is gone.
func TestWatchSurvivesAWS(t *testing.T) {
	t.Parallel()
	watchedBubble(t, "refresh", 3, func(w *watched) {
		remove := w.Inject(awsim.Fault{Service: "autoscaling", Unavailable: true})
		w.newVersion(2)
		stop := w.start(configs()["refresh"])
		elapse(time.Hour)
		w.says(13, "call failed, trying again in 5m0s: ")
		remove()
		suspend := &autoscaling.SuspendProcessesInput{AutoScalingGroupName: aws.String(group), ScalingProcesses: []string{"Launch"}}
		client := autoscaling.NewFromConfig(w.config("test"))
		_, err := client.SuspendProcesses(w.Context(), suspend)
		w.must(err)
		elapse(time.Hour)
		w.says(1, "refused by the preflight: suspended: ")
		_, err = client.ResumeProcesses(w.Context(), &autoscaling.ResumeProcessesInput{AutoScalingGroupName: aws.String(group)})
		w.must(err)
		w.waitVersion(2, 3)
		elapse(time.Hour)
		stop()
		w.expectAsBefore(3)
		w.says(13, "call failed")
	})
}

// TestWatchKeepsToWindows: an Instance Refresh is paused at the end of the window, and resumed in the next one; batches
// begin in the window only. A watch that is started again while the window is closed knows that.
func TestWatchKeepsToWindows(t *testing.T) {
	t.Parallel()
	for mode, cfg := range configs() {
		for name, down := range map[string][]time.Duration{ // since the beginning of the two hours
			"one process": nil, "restarted while they are closed": {30 * time.Minute, 30 * time.Minute},
			"stopped before the end, and started after it": {80 * time.Minute, 95 * time.Minute},
		} {
			watchedBubble(t, mode+", "+name, 3, func(w *watched) {
				w.must(w.PutHook(group, awsim.Hook{
					Name: "launch", Transition: awsim.Launching, HeartbeatTimeout: 20 * time.Minute, DefaultResult: "CONTINUE",
				}))
				w.newVersion(2)
				cfg := windowed(w.T, cfg, twoHourly()...)
				began := time.Now().Truncate(windowPeriod)
				stop := w.start(cfg)
				for n := range time.Duration(5) {
					at := began.Add(n * windowPeriod)
					if down != nil {
						elapse(time.Until(at.Add(down[0])))
						stop()
						elapse(time.Until(at.Add(down[1])))
						stop = w.start(cfg)
					}
					elapse(time.Until(at.Add(windowPeriod)))
				}
				stop()
				w.waitVersion(2, 3)
				w.expectTerminations()
				w.expectAsBefore(3)
				if n := w.calls("StartInstanceRefresh"); mode == "refresh" && n != 1 {
					w.Errorf("%d refreshes were started", n)
				}
				if n := w.calls("SuspendProcesses"); (mode == "refresh") != (n > 0) {
					w.Errorf("SuspendProcesses was called %d times", n)
				}
			})
		}
	}
}

// TestWatchLeavesOthersOutsideWindows: a refresh that somebody starts while the window is closed is not paused, and one
// that somebody has paused is not resumed.
func TestWatchLeavesOthersOutsideWindows(t *testing.T) {
	t.Parallel()
	watchedBubble(t, "started outside", 3, func(w *watched) {
		w.newVersion(2)
		stop := w.start(windowed(w.T, configs()["refresh"], "22:00-23:00 UTC"))
		elapse(time.Hour)
		_, err := w.StartRefresh(group, awsim.RefreshSpec{MinHealthy: 50})
		w.must(err)
		w.waitVersion(2, 3)
		elapse(40 * time.Hour)
		stop()
		w.expectAsBefore(3)
		if n := w.calls("SuspendProcesses"); n > 0 {
			w.Errorf("SuspendProcesses was called %d times", n)
		}
	})
	watchedBubble(t, "paused by a user", 3, func(w *watched) {
		cfg := windowed(w.T, configs()["refresh"], "01:00-05:00 UTC")
		w.act(cfg, rollout.ActPause)
		w.newVersion(2)
		stop := w.start(cfg)
		elapse(40 * time.Hour)
		stop()
		if n := w.calls("StartInstanceRefresh") + w.calls("ResumeProcesses"); n > 0 {
			w.Errorf("the watch has made %d calls", n)
		}
		w.says(1, "refused by the preflight: suspended: ")
	})
}

// TestWatchProcess: the program serves metrics and probes, and exits with 0 when it is stopped during a rollout, which AWS
// continues.
func TestWatchProcess(t *testing.T) {
	t.Parallel()
	a := newAccount(t, latest(2))
	r := a.trigger("watch", "--interval", "1s", "--listen", "127.0.0.1:0")
	r.waitOutput(`2 instances replaced`)
	r.waitPage("/readyz", "ready: watching")
	r.waitPage("/healthz", "ok")
	r.waitPage("/metrics", "node_drainer_watch_leader 1")
	r.waitPage("/metrics", `node_drainer_watch_rollouts_total{group="workers",outcome="done"} 1`)
	r.waitPage("/metrics", `node_drainer_watch_outdated_instances{group="workers"} 0`)
	a.holdLaunches()
	a.addVersion(template, "ami-3")
	a.waitRefresh("InProgress")
	r.Signal(syscall.SIGTERM)
	r.waitExit(0, `instance refresh .* continues`)
}

// TestWatchProcessKeepsToWindows: the program starts nothing on another day than those of its window.
func TestWatchProcessKeepsToWindows(t *testing.T) {
	t.Parallel()
	a := newAccount(t, latest(2))
	day := time.Now().UTC().AddDate(0, 0, 3).Weekday().String()[:3]
	r := a.trigger("watch", "--interval", "1s", "--listen", "127.0.0.1:0", "--window", day+" 01:00-05:00 UTC")
	r.waitOutput(`the window is closed until `)
	r.waitPage("/metrics", `node_drainer_watch_outdated_instances{group="workers"} 2`)
	r.Signal(syscall.SIGTERM)
	r.waitExit(0)
	if calls := a.changes(); len(calls) > 0 {
		t.Errorf("the watch called %v", calls)
	}
}

// TestWatchProcessGivesUpATarget: the program starts no second refresh to a version that failed, not even when it is
// started again, until trigger resume permits it.
func TestWatchProcessGivesUpATarget(t *testing.T) {
	t.Parallel()
	a := newAccount(t, latest(2))
	a.SetDelays(awsim.Delays{RefreshGiveUp: time.Second})
	a.holdLaunches()
	watch := func() *run { return a.trigger("watch", "--interval", "1s", "--listen", "127.0.0.1:0") }
	for range 2 {
		r := watch()
		r.waitOutput(`not tried again: lt-.*/2 `)
		r.waitPage("/metrics", `node_drainer_watch_failed_target{group="workers"} 1`)
		r.Signal(syscall.SIGTERM)
		r.waitExit(0)
	}
	a.trigger("status").waitExit(0, `does not try this target again: lt-.*/2 failed`)
	if n := a.changes()["StartInstanceRefresh"]; n != 1 {
		t.Errorf("%d refreshes were started, want one", n)
	}
	a.releaseLaunches()
	a.SetDelays(awsim.Delays{})
	a.trigger("resume").waitExit(0, `may try the target again that failed`)
	r := watch()
	r.waitOutput(`2 instances replaced`)
	r.Signal(syscall.SIGTERM)
	r.waitExit(0)
}

// waitPage waits until a page of the watch has the text.
func (r *run) waitPage(path, text string) {
	r.t.Helper()
	address := regexp.MustCompile(`listening on (\S+)`).FindStringSubmatch(r.Output())[1]
	err := harness.Eventually(waits(r.t), func() string {
		if _, body, err := harness.Page(waits(r.t), address, path); err != nil || !strings.Contains(body, text) {
			return fmt.Sprintf("%s lacks %q: %v\n%s", path, text, err, body)
		}
		return ""
	})
	if err != nil {
		r.t.Error(err)
	}
}
