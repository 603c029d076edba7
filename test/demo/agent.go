package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	agentPackage = "github.com/node-drainer/node-drainer/cmd/agent"
	agentKey     = "agent" // Its AWS access key, by which its calls are told apart.
	// stopTimeout is how long the agent may take to leave when it is asked to.
	stopTimeout = 10 * time.Second
)

// agent is the agent's process. Everything of it lies in the control plane's folder, which goes
// with this process, even if that is killed.
type agent struct {
	binary string
	cmd    *exec.Cmd
	lines  chan logLine  // Closed when the process has ended.
	ended  chan struct{} // As well.
	listen chan string   // Its address, once.

	mu   sync.Mutex
	tail []string // The last lines of both outputs, for when it fails.
	url  string
}

// logLine is one line of the agent's log.
type logLine struct {
	At       time.Time `json:"-"` // When it was read: the agent's own time is in whole seconds.
	Message  string    `json:"message"`
	Instance string    `json:"instance"`
	Event    string    `json:"event"`
	Pod      string    `json:"pod"`
	Budgets  []string  `json:"budgets"`
	Listen   string    `json:"listen"`
	Deadline time.Time `json:"deadline"`
	Level    string    `json:"level"`
	Doing    string    `json:"operation"`
	Error    string    `json:"error"`
	Forced   int       `json:"forced"`
}

func buildAgent(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "agent")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, agentPackage)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // So that it removes its work folder.
	cmd.WaitDelay = stopTimeout
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, output)
	}
	return binary, nil
}

// start runs the agent in a process group of its own: Ctrl-C is for the demo, which then stops the agent.
func (a *agent) start(dir string, env []string) error {
	a.cmd = exec.Command(a.binary)
	a.cmd.Env = env
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	a.cmd.Stderr = writer(a.remember)
	log, err := os.Create(filepath.Join(dir, "agent.log"))
	if err != nil {
		return err
	}
	if err := a.cmd.Start(); err != nil {
		return errors.Join(err, log.Close())
	}
	a.lines, a.ended, a.listen = make(chan logLine, 1024), make(chan struct{}), make(chan string, 1)
	go func() {
		a.read(io.TeeReader(out, log))
		_ = log.Close()
		_ = a.cmd.Wait()
		close(a.lines)
		close(a.ended)
	}()
	// The control plane's reaper ends what has left its number there, if this process is killed.
	return os.WriteFile(filepath.Join(dir, "agent.pid"), fmt.Append(nil, a.cmd.Process.Pid), 0o600)
}

func (a *agent) read(r io.Reader) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		a.remember(scanner.Bytes())
		l := logLine{At: time.Now()}
		if json.Unmarshal(scanner.Bytes(), &l) != nil {
			continue
		}
		if l.Message == "agent started" {
			a.listen <- l.Listen
		}
		a.lines <- l
	}
}

// writer makes an io.Writer of a function.
type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

func (a *agent) remember(text []byte) {
	const most = 5
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tail = append(a.tail, strings.TrimSpace(string(text)))
	a.tail = a.tail[max(0, len(a.tail)-most):]
}

// failure says that the agent ended by itself, and what it said last.
func (a *agent) failure() error {
	<-a.ended
	a.mu.Lock()
	defer a.mu.Unlock()
	words := strings.Join(a.tail, "\n  ")
	return fmt.Errorf("the agent exited (%s); its last words:\n  %s", a.cmd.ProcessState, words)
}

// ready returns when the agent says that it is.
func (a *agent) ready(ctx context.Context) error {
	select {
	case address := <-a.listen:
		a.url = "http://" + address
	case <-a.ended:
		return a.failure()
	case <-ctx.Done():
		return ctx.Err()
	}
	last := ""
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		select {
		case <-a.ended:
			return false, a.failure()
		default:
		}
		var ok bool
		ok, last = a.get(ctx, "/readyz")
		return ok, nil
	})
	if err != nil && last != "" {
		return fmt.Errorf("%w (the agent: %s)", err, last)
	}
	return err
}

func (a *agent) get(ctx context.Context, path string) (ok bool, body string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+path, nil)
	if err != nil {
		return false, err.Error()
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return err == nil && response.StatusCode == http.StatusOK, strings.TrimSpace(string(text))
}

// stop ends the agent as Kubernetes does. It fails if the agent does not leave as it should.
func (a *agent) stop() error {
	go func() {
		for range a.lines { // Nobody reads any more, and a full pipe would hold it.
			continue
		}
	}()
	select {
	case <-a.ended:
		return nil // Whoever waited for it has told.
	default:
	}
	_ = a.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-a.ended:
		if !a.cmd.ProcessState.Success() {
			return fmt.Errorf("stop the agent: %w", a.failure())
		}
		return nil
	case <-time.After(stopTimeout):
		_ = a.cmd.Process.Kill()
		<-a.ended
		return fmt.Errorf("the agent had not stopped %v after SIGTERM", stopTimeout)
	}
}
