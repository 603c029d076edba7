//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/node-drainer/node-drainer/test/cluster"
)

// process is a running agent.
type process struct {
	t    testing.TB
	cmd  *exec.Cmd
	done chan struct{} // closed when it has exited

	mu    sync.Mutex
	lines []line
	more  chan struct{} // closed and renewed at each line
}

// line is one log line.
type line map[string]any

func (l line) text(key string) string {
	s, _ := l[key].(string)
	return s
}

// startAgent runs the agent with env on top of the test's own settings, and waits until it is ready. It is killed when
// the test ends.
func (w *world) startAgent(env ...string) *process {
	w.t.Helper()
	p := w.beginAgent(env...)
	p.waitReady()
	return p
}

// beginAgent is startAgent for an agent that nobody waits for.
func (w *world) beginAgent(env ...string) *process {
	w.t.Helper()
	limit(w.t, w.aws, agentKey, agentKey, w.aws.QueueARN(w.queue))
	return startProcess(w.t, append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.t.TempDir(), "GORACE=halt_on_error=1",
		"AWS_REGION=eu-central-1", "AWS_ACCESS_KEY_ID=" + agentKey, "AWS_SECRET_ACCESS_KEY=test",
		"AWS_ENDPOINT_URL=" + w.aws.URL(), "KUBECONFIG=" + w.kubeconfig,
		"CLUSTER_NAME=demo", "QUEUE_URL=" + w.queue, "LISTEN_ADDRESS=127.0.0.1:0", "LOG_LEVEL=debug",
		"QUEUE_VISIBILITY_TIMEOUT=3s", "DRAIN_SETTLE=1s", "DRAIN_BLOCKED_AFTER=1s", "HOOK_CONFIRM_TIMEOUT=3s",
		"LEADER_ELECTION=false", "NODE_SELECTOR=" + cluster.PoolLabel + "=" + w.namespace,
	}, env...))
}

// startProcess runs the agent with env and nothing else. It is killed when the test ends.
func startProcess(t testing.TB, env []string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(agentBinary), done: make(chan struct{}), more: make(chan struct{})}
	p.cmd.Env = env
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errs := &strings.Builder{}
	p.cmd.Stderr = errs
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.read(out)
		err := p.cmd.Wait()
		if errs.Len() > 0 {
			p.append(line{"message": "stderr", "text": errs.String(), "exit": fmt.Sprint(err)})
		}
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if strings.Contains(errs.String(), "DATA RACE") {
			t.Errorf("the agent has a data race:\n%s", errs)
		}
		if t.Failed() {
			p.dump()
		}
	})
	return p
}

func (p *process) read(r io.Reader) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var l line
		if json.Unmarshal(scanner.Bytes(), &l) != nil {
			l = line{"message": "not JSON", "text": scanner.Text()}
		}
		p.append(l)
	}
}

func (p *process) append(l line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, l)
	close(p.more)
	p.more = make(chan struct{})
}

// count returns how many lines have the message and the fields, given as pairs.
func (p *process) count(message string, fields ...string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, l := range p.lines {
		if l.matches(message, fields) {
			n++
		}
	}
	return n
}

func (l line) matches(message string, fields []string) bool {
	if l.text("message") != message {
		return false
	}
	for i := 0; i+1 < len(fields); i += 2 {
		if fmt.Sprint(l[fields[i]]) != fields[i+1] {
			return false
		}
	}
	return true
}

// waitLog returns the first line with the message and the fields, given as pairs, as soon as there is one.
func (p *process) waitLog(message string, fields ...string) line {
	p.t.Helper()
	return p.waitCount(1, message, fields...)
}

// waitCount is waitLog for the n-th such line.
func (p *process) waitCount(n int, message string, fields ...string) line {
	p.t.Helper()
	deadline := time.After(patience)
	read, found, ended := 0, 0, false
	for {
		p.mu.Lock()
		lines, more := p.lines[read:], p.more
		p.mu.Unlock()
		for _, l := range lines {
			if l.matches(message, fields) {
				if found++; found == n {
					return l
				}
			}
		}
		if read += len(lines); ended {
			p.t.Fatalf("the agent exited before it logged %q %q %d times", message, fields, n)
		}
		select {
		case <-more:
		case <-p.done: // All that it has logged has been read by then.
			ended = true
		case <-deadline:
			p.t.Fatalf("the agent has logged %q %q %d times within %v, want %d", message, fields, found, patience, n)
		}
	}
}

// logs waits for n such lines, and holds if there are no more.
func (p *process) logs(n int, message string, fields ...string) {
	p.t.Helper()
	if p.waitCount(n, message, fields...); p.count(message, fields...) != n {
		p.t.Errorf("the agent has logged %q %q %d times, want %d", message, fields, p.count(message, fields...), n)
	}
}

// kill ends the process as kill -9 does, and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.done
}

// stop ends the process as Kubernetes does, and returns its exit code.
func (p *process) stop() int {
	p.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("the agent has not stopped within %v of SIGTERM", patience)
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) dump() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		text, _ := json.Marshal(l)
		p.t.Log(string(text))
	}
}

// get returns the status and the body of one of the agent's pages.
func (p *process) get(path string) (int, string) {
	p.t.Helper()
	address := p.waitLog("agent started").text("listen")
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// metric returns the value of a counter or gauge, with its only label if it has one.
func (p *process) metric(name, label string) float64 {
	p.t.Helper()
	_, body := p.get("/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, m := range families[name].GetMetric() {
		if label == "" || (len(m.Label) == 1 && m.Label[0].GetValue() == label) {
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	p.t.Fatalf("there is no metric %s %s", name, strconv.Quote(label))
	return 0
}

// waitReady waits until the agent says that it is ready.
func (p *process) waitReady() {
	p.t.Helper()
	p.waitReadyz(http.StatusOK, "ready")
}

// waitReadyz waits until the agent's readiness has the code, and says what.
func (p *process) waitReadyz(code int, what string) {
	p.t.Helper()
	eventually(p.t, patience, func() string {
		if got, body := p.get("/readyz"); got != code || !strings.Contains(body, what) {
			return fmt.Sprintf("/readyz is %d: %s; want %d and %q", got, body, code, what)
		}
		return ""
	})
}
