package trigger

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/node-drainer/node-drainer/test/docs"
)

// The times that the runner of GitHub Actions gives the process of a step that is canceled, before and after SIGTERM.
// Source: "Workflow cancellation reference" in the documentation of GitHub Actions.
const (
	untilSIGTERM = 7500 * time.Millisecond
	untilSIGKILL = 2500 * time.Millisecond
)

// documentedStep returns the script of the step in the workflow of docs/ci.md that has --on-interrupt.
func documentedStep(t *testing.T) string {
	t.Helper()
	for _, block := range docs.Blocks(docs.Pages(t)["docs/ci.md"], "yaml") {
		var workflow struct {
			Jobs map[string]struct{ Steps []struct{ Run string } }
		}
		if err := yaml.Unmarshal([]byte(block.Text), &workflow); err != nil {
			t.Fatal(err)
		}
		for _, job := range workflow.Jobs {
			for _, step := range job.Steps {
				if strings.Contains(step.Run, "--on-interrupt") {
					return step.Run
				}
			}
		}
	}
	t.Fatal("docs/ci.md has no workflow with --on-interrupt")
	return ""
}

// step starts a step of a workflow as the runner does: a shell that runs the script of the step from a file.
func (a *account) step(script string) *run {
	a.t.Helper()
	r, dir := a.newRun([]string{"GITHUB_ACTIONS=true", "CI=true"}), a.t.TempDir()
	shell, err := exec.LookPath("bash")
	a.must(err)
	file := filepath.Join(dir, "step.sh")
	a.must(os.WriteFile(file, []byte(script), 0o600))
	a.must(os.Symlink(r.Cmd.Path, filepath.Join(dir, "trigger")))
	r.Cmd.Path, r.Cmd.Args = shell, []string{"bash", "-e", file}
	r.Cmd.Env = append(r.Cmd.Env, "PATH="+dir+":"+os.Getenv("PATH"))
	r.Cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	a.must(r.Start())
	r.killAtEnd()
	a.t.Cleanup(r.killTree)
	return r
}

// killTree kills the shell of a step, and what it has started.
func (r *run) killTree() { _ = syscall.Kill(-r.Cmd.Process.Pid, syscall.SIGKILL) }

// cancelStep ends a step as the runner does when the workflow is canceled. The signals are for the shell alone.
func (r *run) cancelStep() {
	r.t.Helper()
	for _, s := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGINT, untilSIGTERM}, {syscall.SIGTERM, untilSIGKILL}} {
		r.Signal(s.signal)
		ctx, cancel := context.WithTimeout(r.t.Context(), s.wait)
		_, err := r.WaitEnd(ctx)
		if cancel(); err == nil {
			return
		}
	}
	r.killTree()
	if _, err := r.WaitEnd(waits(r.t)); err != nil {
		r.t.Fatal(err)
	}
}

// TestWorkflowIsCanceled: when somebody cancels the workflow of docs/ci.md, the refresh is canceled. Without exec
// the trigger gets no signal, and the refresh continues, until a further step cancels it.
func TestWorkflowIsCanceled(t *testing.T) {
	t.Parallel()
	documented := documentedStep(t)
	for name, tt := range map[string]struct{ script, status, then string }{
		"as documented": {script: documented, status: "Cancelling"},
		"without exec": {
			script: strings.TrimPrefix(documented, "exec "), status: "InProgress", then: "trigger cancel --asg workers --no-wait",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t, latest(4))
			a.holdLaunches() // so that the refresh does not end
			r := a.step(tt.script)
			r.waitOutput(`InProgress`)
			r.cancelStep()
			a.waitRefresh(tt.status)
			if tt.then != "" {
				a.step(tt.then).waitExit(0)
				a.waitRefresh("Cancelling")
			}
		})
	}
}
