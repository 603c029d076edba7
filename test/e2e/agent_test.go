//go:build e2e

package e2e

import (
	"context"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

// agentProcess is a running agent.
type agentProcess struct {
	*harness.Process
	t testing.TB
}

// startAgent runs the agent with env on top of the test's own settings, and waits until it is ready.
func (f *fixture) startAgent(env ...string) *agentProcess {
	f.t.Helper()
	p := f.startUnreadyAgent(env...)
	p.waitReadyz(http.StatusOK, "ready")
	return p
}

// startUnreadyAgent is startAgent without the wait.
func (f *fixture) startUnreadyAgent(env ...string) *agentProcess {
	f.t.Helper()
	f.limit(harness.Agent, agentKey, f.aws.QueueARN(f.queue))
	all := append(harness.Environ(f.t.TempDir(), f.aws.URL(), agentKey),
		"KUBECONFIG="+f.kubeconfig, "CLUSTER_NAME=demo", "QUEUE_URL="+f.queue, "LISTEN_ADDRESS=127.0.0.1:0",
		"LOG_LEVEL=debug", "QUEUE_VISIBILITY_TIMEOUT=3s", "DRAIN_SETTLE=1s", "DRAIN_BLOCKED_AFTER=1s",
		"HOOK_CONFIRM_TIMEOUT=3s", "LEADER_ELECTION=false", "NODE_SELECTOR="+cluster.PoolLabel+"="+f.namespace)
	return startAgentProcess(f.t, f.program, append(all, env...))
}

// startAgentProcess runs a program that is an agent with env and nothing else, until the test ends.
func startAgentProcess(t testing.TB, program string, env []string) *agentProcess {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Env = env
	p := &agentProcess{Process: harness.NewProcess(cmd), t: t}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	endWithTest(t, p.Process)
	return p
}

// endWithTest kills the process when the test ends, and logs its output if the test has failed.
func endWithTest(t testing.TB, p *harness.Process) {
	t.Cleanup(func() {
		p.Kill()
		if err := p.Race(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("%s:\n%s", strings.Join(p.Cmd.Args, " "), p.Output())
		}
	})
}

// waitLog waits for a line with the message and the fields, given as pairs.
func (p *agentProcess) waitLog(message string, fields ...string) {
	p.t.Helper()
	p.waitCount(1, message, fields...)
}

// waitCount waits for n such lines.
func (p *agentProcess) waitCount(n int, message string, fields ...string) {
	p.t.Helper()
	if _, err := p.WaitLine(waits(p.t), n, message, fields...); err != nil {
		p.t.Fatal(err)
	}
}

// logs waits for n such lines, and expects that there are no more.
func (p *agentProcess) logs(n int, message string, fields ...string) {
	p.t.Helper()
	if p.waitCount(n, message, fields...); p.Count(message, fields...) != n {
		p.t.Errorf("the agent has logged %q %q %d times, want %d", message, fields, p.Count(message, fields...), n)
	}
}

// stop ends the process as Kubernetes does, and expects the exit code 0.
func (p *agentProcess) stop() {
	p.t.Helper()
	if code, err := p.Stop(waits(p.t)); err != nil || code != 0 {
		p.t.Fatalf("the agent stopped with code %d: %v", code, err)
	}
}

// assertHealthy expects that the agent answers its liveness probe.
func (p *agentProcess) assertHealthy() {
	p.t.Helper()
	if code, body, err := p.Get(waits(p.t), "/healthz"); err != nil || code != http.StatusOK {
		p.t.Errorf("/healthz is %d: %s, %v", code, body, err)
	}
}

// metric returns the value of a counter or gauge, with its only label if it has one.
func (p *agentProcess) metric(name, label string) float64 {
	p.t.Helper()
	value, err := p.Metric(waits(p.t), name, label)
	if err != nil {
		p.t.Fatal(err)
	}
	return value
}

// waitMetric waits until a counter or gauge has the value.
func (p *agentProcess) waitMetric(name, label string, want float64) {
	p.t.Helper()
	eventually(p.t, waitTimeout, func() string {
		if p.metric(name, label) != want {
			return name + " has another value"
		}
		return ""
	})
}

// waitReadyz waits until the agent's readiness probe is answered with the status and the text.
func (p *agentProcess) waitReadyz(status int, text string) {
	p.t.Helper()
	if err := p.WaitReadyz(waits(p.t), status, text); err != nil {
		p.t.Fatal(err)
	}
}

// waits returns a context that bounds one wait.
func waits(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	t.Cleanup(cancel)
	return ctx
}

// eventually calls wrong until it returns "", for what cannot be watched.
func eventually(t testing.TB, timeout time.Duration, wrong func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	if err := harness.Eventually(ctx, wrong); err != nil {
		t.Fatal(err)
	}
}
