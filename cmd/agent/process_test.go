package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain runs the agent instead of the tests in the processes that a test starts.
func TestMain(m *testing.M) {
	if os.Getenv("TEST_AS_AGENT") != "" {
		environ := os.Environ()
		os.Exit(run(nil, environ, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// TestUnreachableAPIServer: the agent says so in its log and in a metric, from its start, and stops at once.
func TestUnreachableAPIServer(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]func(t *testing.T) string{
		"it refuses connections": closedPort, "it accepts and never answers": silentPort,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startAgent(t, address(t))
			started := a.await(t, `"message":"agent started"`, 10*time.Second)
			a.await(t, `"message":"the API server does not answer"`, 20*time.Second)
			var listen struct{ Listen string }
			if err := json.Unmarshal([]byte(started), &listen); err != nil {
				t.Fatal(err)
			}
			metrics := read(t, "http://"+listen.Listen+"/metrics")
			if !strings.Contains(metrics, "\nnode_drainer_kubernetes_unanswered_seconds 1") {
				t.Error("the metric does not show more than 10 s")
			}
			a.stop(t, 3*time.Second)
		})
	}
}

func closedPort(t *testing.T) string {
	t.Helper()
	l := listen(t)
	_ = l.Close()
	return l.Addr().String()
}

func silentPort(t *testing.T) string {
	t.Helper()
	l := listen(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
		}
	}()
	return l.Addr().String()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// process is an agent that runs.
type process struct {
	command *exec.Cmd
	lines   chan string // of its log; closed at its end
}

// startAgent starts an agent whose API server, and whose AWS, are at the address.
func startAgent(t *testing.T, address string) *process {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"a","contexts":[{"name":"a","context":`+
		`{"cluster":"a","user":"a"}}],"clusters":[{"name":"a","cluster":{"server":"https://%s"}}],"users":[{"name":"a"}]}`, address)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program)
	command.Env = []string{
		"TEST_AS_AGENT=1", "KUBECONFIG=" + kubeconfig, "CLUSTER_NAME=demo", "LISTEN_ADDRESS=127.0.0.1:0",
		"QUEUE_URL=https://sqs.eu-central-1.amazonaws.com/123456789012/node-drainer", "POD_NAMESPACE=default",
		"AWS_REGION=eu-central-1", "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b", "AWS_ENDPOINT_URL=http://" + address,
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stderr = command.Stdout
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{command, make(chan string, 1000)}
	go func() {
		defer close(p.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.lines <- lines.Text()
		}
	}()
	return p
}

// await returns the next line of the log with the text.
func (p *process) await(t *testing.T, text string, timeout time.Duration) string {
	t.Helper()
	end := time.After(timeout)
	for {
		select {
		case line, ok := <-p.lines:
			if strings.Contains(line, text) {
				return line
			} else if !ok {
				t.Fatalf("the agent ended without %q", text)
			}
			t.Log(line)
		case <-end:
			t.Fatalf("the agent did not log %q within %v", text, timeout)
		}
	}
}

// stop sends SIGTERM, and waits for the end of the process.
func (p *process) stop(t *testing.T, most time.Duration) {
	t.Helper()
	began := time.Now()
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	dump := time.AfterFunc(most, func() { _ = p.command.Process.Signal(syscall.SIGQUIT) })
	defer dump.Stop()
	for line := range p.lines {
		t.Log(line)
	}
	err := p.command.Wait()
	t.Logf("the agent ended after %v", time.Since(began))
	if err != nil || time.Since(began) > most {
		t.Errorf("that is too late, or an error: %v", err)
	}
}

func read(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
