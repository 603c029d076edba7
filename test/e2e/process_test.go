//go:build e2e

package e2e

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/test/awsim"
)

func TestConfigurationMistakes(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(agentBinary)
	cmd.Env = []string{
		"QUEUE_URL=node-drainer", "CLUSTER_NAME=demo", "DRAIN_TIMEOUT=100h", "NODE_TAINT_EFFECT=Sometimes", "LOG_LEVEL=loud",
	}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("the agent ended with %v, want exit code 2", err)
	}
	for _, name := range []string{"QUEUE_URL", "DRAIN_TIMEOUT", "NODE_TAINT_EFFECT", "LOG_LEVEL"} {
		if !strings.Contains(string(out), name+" is ") {
			t.Errorf("%s is not among the mistakes:\n%s", name, out)
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"--help", "--version"} {
		out, err := exec.Command(agentBinary, arg).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "agent") {
			t.Errorf("%s: %v: %s", arg, err, out)
		}
	}
	if out, err := exec.Command(agentBinary, "drain").CombinedOutput(); err == nil || !strings.Contains(string(out), "--help") {
		t.Errorf("an unknown argument: %v: %s", err, out)
	}
}

// TestReadiness: a wrong queue is not ready, and says so; it becomes ready without a restart.
func TestReadiness(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	missing := w.aws.Inject(awsim.Fault{Action: "GetQueueAttributes", Code: "AccessDenied", Status: 403})
	agent := w.beginAgent()
	agent.waitLog("call failed, retrying", "api", "sqs")
	if code, _ := agent.get("/healthz"); code != http.StatusOK {
		t.Errorf("/healthz is %d", code)
	}
	agent.waitReadyz(http.StatusServiceUnavailable, "QUEUE_URL") // the caches are filled meanwhile
	missing()
	agent.waitReady()
}
