package harness

import (
	"context"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"
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

func TestProcess(t *testing.T) {
	t.Parallel()
	p := start(t, `echo '{"message":"one","n":1}'; echo text >&2; echo '{"message":"one","n":2}'; printf rest; exec sleep 60`)
	line, err := p.WaitLine(t.Context(), 2, "one")
	if err != nil || line["n"] != 2.0 {
		t.Errorf("the second line is %v, %v", line, err)
	}
	if err := p.WaitOutput(t.Context(), regexp.MustCompile(`rest$`)); err != nil {
		t.Error(err)
	}
	if p.Count("one", "n", "1") != 1 || p.Count("not JSON", "text", "text") != 1 || len(p.Lines()) != 3 {
		t.Errorf("the lines are %v", p.Lines())
	}
	if code, err := p.Stop(t.Context()); code != -1 || err != nil {
		t.Errorf("SIGTERM ended it with %d, %v", code, err)
	}
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

func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	p := start(t, "exec sleep 60")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, line := p.WaitLine(ctx, 1, "one")
	_, end := p.WaitEnd(ctx)
	for _, err := range []error{line, end, Eventually(ctx, func() string { return "wrong" })} {
		if err == nil || !strings.Contains(err.Error(), "context canceled") {
			t.Errorf("got %v", err)
		}
	}
}
