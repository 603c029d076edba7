//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// TestUsage: what is asked for is told, and mistakes are refused before anything is asked of AWS.
func TestUsage(t *testing.T) {
	for name, tt := range map[string]struct {
		env, args []string
		code      int
		says      []string
	}{
		"help":                  {nil, []string{"--help"}, 0, []string{`--asg`, `TRIGGER_MAX_AGE`, `(?m)^ +130 +interrupted`}},
		"help of a command":     {nil, []string{"plan", "--help"}, 0, []string{`--detailed-exitcode`}},
		"version":               {nil, []string{"--version"}, 0, []string{`trigger`}},
		"an unknown flag":       {nil, []string{"--agg", "workers"}, 1, []string{`--agg`}},
		"an unknown command":    {nil, []string{"paln", "--asg", "workers"}, 1, []string{`paln`, `plan`}},
		"an unknown variable":   {[]string{"TRIGGER_AGS=workers"}, []string{"plan"}, 1, []string{`TRIGGER_AGS`}},
		"a value that is none":  {nil, []string{"--asg", "workers", "--timeout", "1"}, 1, []string{`--timeout`}},
		"a variable's value":    {[]string{"TRIGGER_TIMEOUT=soon"}, []string{"--asg", "workers"}, 1, []string{`TRIGGER_TIMEOUT`}},
		"no group":              {nil, nil, 1, []string{`--asg`, `--cluster`}},
		"flags that do not fit": {nil, []string{"--asg", "workers", "--max-age", "1h"}, 1, []string{`--max-age`, `unhealthy`}},
		"a summary for no folder": {
			nil, []string{"--asg", "workers", "--summary-file", "/nonexistent/summary"}, 1, []string{`--summary-file`},
		},
		"no region": {[]string{"AWS_REGION="}, []string{"--asg", "workers"}, 1, []string{`(?i)region`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := awsim.New(awsim.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			runTrigger(t, s, append(tt.env, "TRIGGER_NO_KUBERNETES=true"), tt.args...).ends(tt.code, tt.says...)
			if n := len(s.Requests()); n > 0 {
				t.Errorf("AWS was asked for %v", s.Requests())
			}
		})
	}
}

// TestCompletion: bash can read the completion, and the words are those of the flags.
func TestCompletion(t *testing.T) {
	t.Parallel()
	a := newAmazon(t, latest(1), false)
	run := runTrigger(t, a.Server, nil, "completion", "bash")
	run.ends(0)
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	file := filepath.Join(t.TempDir(), "completion")
	a.must(os.WriteFile(file, []byte(run.output()), 0o600))
	if out, err := exec.Command(bash, "-n", file).CombinedOutput(); err != nil {
		t.Errorf("bash does not understand the completion: %v: %s", err, out)
	}
	for _, shell := range []string{"zsh", "fish", "powershell"} {
		runTrigger(t, a.Server, nil, "completion", shell).ends(0, `trigger`)
	}
	runTrigger(t, a.Server, nil, "__complete", "--mode", "").ends(0, `(?m)^refresh`, `(?m)^unhealthy`)
	runTrigger(t, a.Server, nil, "__complete", "--on-c").ends(0, `--on-conflict`)
}

// TestWithoutKubernetes: a cluster that cannot be asked, or does not answer, is told of once, and the rollout goes on.
func TestWithoutKubernetes(t *testing.T) {
	for name, tt := range map[string]struct {
		kubeconfig func(w *world) string
		says       string
	}{
		"a ServiceAccount without any right": {func(w *world) string {
			file, err := w.cluster.ServiceAccount(w.ctx, w.namespace, "nobody", nil, nil)
			w.must(err)
			return file
		}, `nodes is forbidden`},
		"an API server that is not there": {func(w *world) string {
			text, err := os.ReadFile(w.viewer)
			w.must(err)
			lines := strings.Split(string(text), "\n")
			for n, l := range lines {
				if before, _, found := strings.Cut(l, "server:"); found {
					lines[n] = before + "server: https://127.0.0.1:1"
				}
			}
			file := filepath.Join(t.TempDir(), "kubeconfig")
			w.must(os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600))
			return file
		}, `connection refused`},
		"a file that is not there": {func(*world) string { return "/nonexistent/kubeconfig" }, `no cluster|no such file`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := newAmazon(t, latest(2), false)
			run := runTrigger(t, a.Server, []string{
				"KUBECONFIG=" + tt.kubeconfig(w), "TRIGGER_POLL_INTERVAL=200ms", "TRIGGER_ASG=" + group,
			})
			run.ends(0, `continuing without Kubernetes: .*`+tt.says, `2 instances replaced`)
			if n := strings.Count(run.output(), "without Kubernetes"); n != 1 {
				t.Errorf("it was told %d times", n)
			}
		})
	}
}

// TestTriggerInAPod: a trigger that runs on a node that it would replace finds that out by its pod, and says so.
func TestTriggerInAPod(t *testing.T) {
	t.Parallel()
	f := newFleetOf(t, latest(2))
	f.outdate()
	f.install(renderTainting)
	f.must(f.cluster.Pod(f.ctx, f.namespace, "self", cluster.Pods{Node: cluster.NodeName(f.old[0])}))
	f.must(f.cluster.WaitReady(f.ctx, f.namespace, cluster.Selector("self"), 1))
	for _, kubeconfig := range []string{f.viewer, f.token(taintingAccount)} {
		runTrigger(t, f.aws, []string{
			"KUBECONFIG=" + kubeconfig, "POD_NAMESPACE=" + f.namespace, "POD_NAME=self",
		}, "plan", "--asg", group).ends(0, `the trigger runs on `+f.old[0])
	}
}
