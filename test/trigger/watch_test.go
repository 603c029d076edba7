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
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/harness"
)

// watches are the flags of a watch in two modes.
func watches() map[string]plan.Config {
	all := map[string]plan.Config{}
	for _, mode := range []refresh.Mode{refresh.ModeRefresh, refresh.ModeUnhealthy} {
		cfg := flags(mode)
		cfg.Selection = refresh.Selection{Names: []string{group}}
		all[string(mode)] = cfg
	}
	return all
}

// TestWatchFollowsLatest: ten versions of a launch template are rolled out without anybody doing anything. The group
// still follows the template then, and is as it was.
func TestWatchFollowsLatest(t *testing.T) {
	t.Parallel()
	for mode, cfg := range watches() {
		inWorld(t, mode, 3, untagged(group), func(w *world) {
			stop := w.start(cfg)
			for version := 2; version <= 11; version++ {
				elapse(17 * time.Minute)
				w.newVersion(version)
				w.waitVersion(group, version)
			}
			elapse(time.Hour)
			stop()
			w.expectAsBefore(0)
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
	for mode, cfg := range watches() {
		for name, release := range map[string]func(w *world) (version int){
			"until the next version": func(w *world) int { w.newVersion(3); return 3 },
			"until it is resumed": func(w *world) int {
				if message := w.act(cfg, rollout.ActResume); !strings.Contains(message, "may try the target again that failed: lt-") {
					w.Errorf("resume says %s", message)
				}
				return 2
			},
		} {
			inWorld(t, mode+", "+name, 3, untagged(group), func(w *world) {
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
				_, err := w.autoScaling().DeleteLifecycleHook(w.Context(),
					&autoscaling.DeleteLifecycleHookInput{AutoScalingGroupName: aws.String(group), LifecycleHookName: aws.String(launch)})
				w.must(err)
				w.waitVersion(group, release(w))
				elapse(time.Hour)
				stop()
				w.expectAsBefore(0)
			})
		}
	}
}

// TestWatchSurvivesAWS: while AWS does not answer, the watch goes on. A refusal is reported once, and the rollout starts
// when its reason is gone.
func TestWatchSurvivesAWS(t *testing.T) {
	t.Parallel()
	inWorld(t, "refresh", 3, untagged(group), func(w *world) {
		remove := w.Inject(awsim.Fault{Service: "autoscaling", Unavailable: true})
		w.newVersion(2)
		stop := w.start(watches()["refresh"])
		elapse(time.Hour)
		w.says(13, "call failed, trying again in 5m0s: ")
		remove()
		suspend := &autoscaling.SuspendProcessesInput{AutoScalingGroupName: aws.String(group), ScalingProcesses: []string{"Launch"}}
		client := w.autoScaling()
		_, err := client.SuspendProcesses(w.Context(), suspend)
		w.must(err)
		elapse(time.Hour)
		w.says(1, "refused by the preflight: suspended: ")
		_, err = client.ResumeProcesses(w.Context(), &autoscaling.ResumeProcessesInput{AutoScalingGroupName: aws.String(group)})
		w.must(err)
		w.waitVersion(group, 2)
		elapse(time.Hour)
		stop()
		w.expectAsBefore(0)
		w.says(13, "call failed")
	})
}

// TestWatchKeepsToWindows: an Instance Refresh is paused at the end of the window, and resumed in the next one; batches
// begin in the window only. A watch that is started again while the window is closed knows that.
func TestWatchKeepsToWindows(t *testing.T) {
	t.Parallel()
	for mode, cfg := range watches() {
		for name, down := range map[string][]time.Duration{ // since the beginning of the two hours
			"one process": nil, "restarted while they are closed": {30 * time.Minute, 30 * time.Minute},
			"stopped before the end, and started after it": {80 * time.Minute, 95 * time.Minute},
		} {
			inWorld(t, mode+", "+name, 3, untagged(group), func(w *world) {
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
				w.waitVersion(group, 2)
				w.expectTerminations()
				w.expectAsBefore(0)
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
	inWorld(t, "started outside", 3, untagged(group), func(w *world) {
		w.newVersion(2)
		stop := w.start(windowed(w.T, watches()["refresh"], "22:00-23:00 UTC"))
		elapse(time.Hour)
		_, err := w.StartRefresh(group, awsim.RefreshSpec{MinHealthy: 50})
		w.must(err)
		w.waitVersion(group, 2)
		elapse(40 * time.Hour)
		stop()
		w.expectAsBefore(0)
		if n := w.calls("SuspendProcesses"); n > 0 {
			w.Errorf("SuspendProcesses was called %d times", n)
		}
	})
	inWorld(t, "paused by a user", 3, untagged(group), func(w *world) {
		cfg := windowed(w.T, watches()["refresh"], "01:00-05:00 UTC")
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

// windowed adds windows to the flags of a watch.
func windowed(t *testing.T, cfg plan.Config, texts ...string) plan.Config {
	t.Helper()
	for _, text := range texts {
		window, err := refresh.ParseWindow(text)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Windows = append(cfg.Windows, window)
	}
	return cfg
}

// Every two hours there is a window, which is open for half an hour.
const (
	windowPeriod = 2 * time.Hour
	windowOpens  = time.Hour
	windowCloses = 90 * time.Minute
)

// twoHourly are the windows of half a day.
func twoHourly() (texts []string) {
	for hour := 1; hour < 12; hour += 2 {
		texts = append(texts, fmt.Sprintf("%02d:00-%02d:30 UTC", hour, hour))
	}
	return texts
}

// expectTerminations checks that the instances of the group were terminated in the windows, and in more than one. A
// refresh is paused a few seconds after the end.
func (w *world) expectTerminations() {
	w.Helper()
	windows := map[time.Time]bool{}
	for _, a := range w.Ledger() {
		if a.Transition != awsim.Terminating {
			continue
		}
		began := a.StartedAt.Truncate(windowPeriod)
		if since := a.StartedAt.Sub(began); since < windowOpens || since > windowCloses+30*time.Second {
			w.Errorf("an instance was terminated at %v", a.StartedAt.UTC())
		}
		windows[began] = true
	}
	if len(windows) < 2 {
		w.Errorf("the instances were terminated in %d windows: want more than one", len(windows))
	}
}
