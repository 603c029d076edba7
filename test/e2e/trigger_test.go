//go:build e2e

package e2e

import (
	"context"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/harness"
)

// rolloutTimeout bounds the replacement of a whole group, which is one drain after the other.
const rolloutTimeout = 10 * time.Minute

// triggerRun is a run of the trigger.
type triggerRun struct {
	*harness.Process
	t testing.TB
}

// newTriggerRun returns a run that has not started.
func (f *fixture) newTriggerRun(env []string, args ...string) *triggerRun {
	f.t.Helper()
	f.limit(harness.Trigger, triggerKey, "")
	cmd := exec.Command(triggerBinary, args...)
	cmd.Env = append(harness.Environ(f.t.TempDir(), f.aws.URL(), triggerKey), env...)
	return &triggerRun{Process: harness.NewProcess(cmd), t: f.t}
}

// start runs the trigger until the test ends.
func (r *triggerRun) start() {
	r.t.Helper()
	if err := r.Start(); err != nil {
		r.t.Fatal(err)
	}
	endWithTest(r.t, r.Process)
}

// runTrigger runs the trigger with the variables alone.
func (f *fixture) runTrigger(env []string, args ...string) *triggerRun {
	f.t.Helper()
	r := f.newTriggerRun(env, args...)
	r.start()
	return r
}

// trigger runs the trigger with access to the cluster. It polls every half second. In a group without a launch hook it
// asks to patch new nodes, which it may not.
func (f *fixture) trigger(args ...string) *triggerRun {
	f.t.Helper()
	provoke(triggerAccount, "get nodes")
	return f.runTrigger([]string{"KUBECONFIG=" + f.viewer, "TRIGGER_POLL_INTERVAL=500ms"}, args...)
}

// withoutAWS returns a command of the trigger with the variables, and no access to AWS.
func (f *fixture) withoutAWS(env []string, command string, args ...string) *exec.Cmd {
	f.t.Helper()
	cmd := exec.Command(triggerBinary, append([]string{command}, args...)...)
	cmd.Env = append(env, "HOME="+f.t.TempDir(), "GORACE=halt_on_error=1")
	return cmd
}

// triggerNodes runs trigger nodes, with access to the cluster and none to AWS, and expects output that matches: with the
// rights of the trigger, and with those of the agent, in whose pods docs/runbook.md runs it.
func (f *fixture) triggerNodes(args []string, patterns ...string) {
	f.t.Helper()
	for _, kubeconfig := range []string{f.viewer, f.kubeconfig} {
		r := &triggerRun{Process: harness.NewProcess(f.withoutAWS([]string{"KUBECONFIG=" + kubeconfig}, "nodes", args...)), t: f.t}
		r.start()
		r.waitExit(0, patterns...)
	}
}

// waitOutput waits until the trigger has written something that matches.
func (r *triggerRun) waitOutput(pattern string) {
	r.t.Helper()
	if err := r.WaitOutput(waits(r.t), regexp.MustCompile(pattern)); err != nil {
		r.t.Fatal(err)
	}
}

// waitExit waits for the exit code, and expects output that matches.
func (r *triggerRun) waitExit(code int, patterns ...string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), rolloutTimeout)
	defer cancel()
	if got, err := r.WaitEnd(ctx); got != code || err != nil {
		r.t.Fatalf("the trigger exited with %d, want %d: %v", got, code, err)
	}
	for _, pattern := range patterns {
		if !regexp.MustCompile(pattern).MatchString(r.Output()) {
			r.t.Errorf("the output does not match %s", pattern)
		}
	}
}

// interrupt asks the trigger to stop, as Ctrl-C does.
func (r *triggerRun) interrupt() { r.Signal(syscall.SIGINT) }

// changes returns the calls by which the trigger has changed something, by their actions.
func (f *fixture) changes() map[string]int {
	calls := map[string]int{}
	for call, n := range f.aws.RequestsBy(triggerKey) {
		if _, action, _ := strings.Cut(call, "."); !strings.HasPrefix(action, "Describe") {
			calls[action] += n
		}
	}
	return calls
}
