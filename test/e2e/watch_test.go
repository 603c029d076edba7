//go:build e2e

package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/harness"
)

// watch starts a replica of trigger watch, which elects a leader by a Lease of the fixture.
func (f *fleet) watch(kubeconfig, name string, env ...string) *triggerRun {
	f.t.Helper()
	provoke(watchingAccount, "get nodes")
	return f.runTrigger(append([]string{
		"KUBECONFIG=" + kubeconfig, "POD_NAMESPACE=" + f.namespace, "POD_NAME=" + name, "TRIGGER_POLL_INTERVAL=500ms",
		"TRIGGER_ASG=" + group, "TRIGGER_ALLOW=hook-timeout", "TRIGGER_LEASE=" + f.namespace + "-watching-watch",
		"TRIGGER_LISTEN=127.0.0.1:0", "TRIGGER_INTERVAL=1s",
	}, env...), "watch")
}

// waitPage waits until a page of the watch has the text.
func (r *triggerRun) waitPage(path, text string) {
	r.t.Helper()
	r.waitOutput(`listening on`)
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

// TestWatch: of two replicas one replaces the nodes, and says so in metrics and Events. When it is killed, the other one
// rolls out the next version.
func TestWatch(t *testing.T) {
	t.Parallel()
	f := newFleet(t, latest(2))
	f.install(renderWatching)
	f.startAgent()
	kubeconfig := f.token(watchingAccount)
	first := f.watch(kubeconfig, "one")
	first.waitPage("/readyz", "ready: leading")
	second := f.watch(kubeconfig, "two")
	second.waitPage("/readyz", "ready: standing by; one_")
	f.outdate()
	first.waitOutput(`workers: done`)
	first.waitPage("/metrics", "node_drainer_watch_leader 1")
	first.waitPage("/metrics", `node_drainer_watch_outdated_instances{group="`+group+`"} 0`)
	f.waitEvent("RolloutStarted")
	f.waitEvent("RolloutFinished")
	second.waitPage("/metrics", "node_drainer_watch_leader 0")
	first.Kill()
	f.outdate()
	second.waitOutput(`workers: done`)
	second.waitPage("/readyz", "ready: leading")
	if n := f.changes()["StartInstanceRefresh"]; n != 2 {
		t.Errorf("%d refreshes were started", n)
	}
	second.Signal(syscall.SIGTERM)
	second.waitExit(0)
}

// TestWatchWaits: a watch starts nothing outside its window, and does not try a version again whose nodes are not ready.
func TestWatchWaits(t *testing.T) {
	t.Parallel()
	f := newFleet(t, latest(2))
	f.install(renderWatching)
	f.startAgent()
	f.launchHook(hookTimeout)
	f.outdate()
	kubeconfig := f.token(watchingAccount)
	day := time.Now().UTC().AddDate(0, 0, 3).Weekday().String()[:3]
	closed := f.watch(kubeconfig, "one", "TRIGGER_WINDOW="+day+" 01:00-05:00 UTC")
	closed.waitOutput(`the window is closed until `)
	closed.Signal(syscall.SIGTERM)
	closed.waitExit(0)
	f.machines.SetUnready(2, true)
	f.aws.SetDelays(awsim.Delays{RefreshGiveUp: time.Second})
	open := f.watch(kubeconfig, "two")
	open.waitOutput(`not tried again: lt-`)
	open.waitPage("/metrics", `node_drainer_watch_failed_target{group="`+group+`"} 1`)
	open.Signal(syscall.SIGTERM)
	open.waitExit(0)
	if n := f.changes()["StartInstanceRefresh"]; n != 1 {
		t.Errorf("%d refreshes were started, want one", n)
	}
}
