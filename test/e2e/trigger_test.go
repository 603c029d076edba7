//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// triggering is a run of the trigger.
type triggering struct {
	t    testing.TB
	cmd  *exec.Cmd
	done chan struct{} // closed when it has exited

	mu   sync.Mutex
	out  bytes.Buffer  // standard output and standard error
	more chan struct{} // closed and renewed when something is written
}

// Write takes what the trigger writes.
func (r *triggering) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.more)
	r.more = make(chan struct{})
	return r.out.Write(p)
}

// runTrigger starts the trigger against an AWS, which is all that it is told of the world. It is killed when the test
// ends.
func runTrigger(t testing.TB, aws *awsim.Server, env []string, args ...string) *triggering {
	t.Helper()
	r := newTriggering(t, aws, env, args...)
	r.start()
	return r
}

// start begins the run, and takes all that it writes.
func (r *triggering) start() {
	r.t.Helper()
	r.cmd.Stdout, r.cmd.Stderr = r, r
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.await(func() {})
}

// newTriggering is a run that has not begun.
func newTriggering(t testing.TB, aws *awsim.Server, env []string, args ...string) *triggering {
	t.Helper()
	limit(t, aws, triggerKey, triggerKey, "")
	r := &triggering{t: t, cmd: exec.Command(triggerBinary, args...), done: make(chan struct{}), more: make(chan struct{})}
	r.cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GORACE=halt_on_error=1",
		"AWS_REGION=eu-central-1", "AWS_ACCESS_KEY_ID=" + triggerKey, "AWS_SECRET_ACCESS_KEY=test",
		"AWS_ENDPOINT_URL=" + aws.URL(), "AWS_EC2_METADATA_DISABLED=true",
	}, env...)
	return r
}

// await waits for the end of the trigger, and of what reads its output. It is killed when the test ends.
func (r *triggering) await(read func()) {
	go func() {
		_ = r.cmd.Wait()
		read()
		close(r.done)
	}()
	r.t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.done
		if strings.Contains(r.output(), "DATA RACE") {
			r.t.Error("the trigger has a data race")
		}
		if r.t.Failed() {
			r.t.Logf("trigger %q:\n%s", r.cmd.Args[1:], r.output())
		}
	})
}

// trigger starts the trigger with access to AWS and to the cluster, looking every half second.
func (w *world) trigger(args ...string) *triggering {
	w.t.Helper()
	return runTrigger(w.t, w.aws, []string{"KUBECONFIG=" + w.viewer, "TRIGGER_POLL_INTERVAL=500ms"}, args...)
}

func (r *triggering) output() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.String()
}

// waitOutput waits until the trigger has written something that matches.
func (r *triggering) waitOutput(pattern string) {
	r.t.Helper()
	wanted := regexp.MustCompile(pattern)
	deadline := time.After(patience)
	for {
		r.mu.Lock()
		found, more := wanted.Match(r.out.Bytes()), r.more
		r.mu.Unlock()
		if found {
			return
		}
		select {
		case <-more:
		case <-r.done:
			if !wanted.MatchString(r.output()) {
				r.t.Fatalf("the trigger ended with %d and never wrote %s", r.cmd.ProcessState.ExitCode(), pattern)
			}
		case <-deadline:
			r.t.Fatalf("the trigger has not written %s within %v", pattern, patience)
		}
	}
}

// ends waits until the trigger has ended, with the exit code, and having written what matches, and nothing that only a
// terminal would understand.
func (r *triggering) ends(code int, patterns ...string) {
	r.t.Helper()
	r.exits(code, patterns...)
	if control := regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f]`).FindString(r.output()); control != "" {
		r.t.Errorf("the trigger wrote the control character %q, and its output is no terminal", control)
	}
}

// exits is ends for a trigger on a terminal.
func (r *triggering) exits(code int, patterns ...string) {
	r.t.Helper()
	r.waitEnd(patience)
	if got := r.cmd.ProcessState.ExitCode(); got != code {
		r.t.Errorf("the trigger ended with %d, want %d", got, code)
	}
	for _, pattern := range patterns {
		if !regexp.MustCompile(pattern).MatchString(r.output()) {
			r.t.Errorf("the trigger did not write %s", pattern)
		}
	}
}

// waitEnd waits until the trigger has ended.
func (r *triggering) waitEnd(most time.Duration) {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(most):
		r.t.Fatalf("the trigger has not ended within %v", most)
	}
}

// kill ends the trigger as kill -9 does.
func (r *triggering) kill() {
	_ = r.cmd.Process.Kill()
	<-r.done
}

// interrupt asks the trigger to stop, as Ctrl-C does.
func (r *triggering) interrupt() { _ = r.cmd.Process.Signal(syscall.SIGINT) }

// lines are the objects of an output in ndjson.
func (r *triggering) lines() (lines []line) {
	r.t.Helper()
	for text := range strings.Lines(r.output()) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			r.t.Fatalf("no JSON: %v: %s", err, text)
		}
		lines = append(lines, l)
	}
	return lines
}

// changing are the calls by which the trigger changes something, by their names.
func changing(aws *awsim.Server) map[string]int {
	calls := map[string]int{}
	for call, n := range aws.RequestsBy("trigger") {
		_, action, _ := strings.Cut(call, ".")
		if !strings.HasPrefix(action, "Describe") {
			calls[action] += n
		}
	}
	return calls
}

// desiredIs holds if nobody has changed the group's desired capacity, or set any.
func (w *world) assertDesired(name string, want int) {
	w.t.Helper()
	got := len(slices.DeleteFunc(w.aws.Instances(name), func(i awsim.Instance) bool { return i.State != "InService" }))
	if got != want {
		w.t.Errorf("%d instances of %s are in service, want %d", got, name, want)
	}
	for _, action := range []string{"SetDesiredCapacity", "UpdateAutoScalingGroup", "TerminateInstanceInAutoScalingGroup"} {
		if n := changing(w.aws)[action]; n > 0 {
			w.t.Errorf("the trigger called %s %d times", action, n)
		}
	}
}

func ids(instances []awsim.Instance) (all []string) {
	for _, i := range instances {
		all = append(all, i.ID)
	}
	return all
}
