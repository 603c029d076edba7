package harness

import (
	"context"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
)

// start runs a shell script until the test ends.
func start(t *testing.T, script string) *Process {
	t.Helper()
	p := NewProcess(exec.Command("/bin/sh", "-c", script))
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func TestProcessThatExits(t *testing.T) {
	t.Parallel()
	p := start(t, "echo WARNING: DATA RACE; exit 3")
	if _, err := p.WaitLine(t.Context(), 1, "one"); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("a line that never comes: %v", err)
	}
	if code, err := p.WaitEnd(t.Context()); code != 3 || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
	if p.Race() == nil {
		t.Error("the data race was not found")
	}
}

func TestWaitReadyzFailsWhenTheAgentExits(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"before it listens":     "echo no queue; exit 3",
		"after it has listened": `echo '{"message":"agent started","listen":"127.0.0.1:1"}'; echo no queue; exit 3`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := start(t, script).WaitReadyz(t.Context(), http.StatusOK, "")
			if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no queue") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestStreamEnds: a reader can tell the end of its context from the exit of the process.
func TestStreamEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &Log{ended: make(chan struct{}), more: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		ofContext, ofProcess := l.Stream(ctx), l.Stream(t.Context())
		cancel()
		synctest.Wait()
		select {
		case <-ofContext:
			t.Error("closed when the context has ended, and the process runs")
		default:
		}
		close(l.ended)
		if _, ok := <-ofProcess; ok {
			t.Error("a line of a process that has written none")
		}
	})
}
