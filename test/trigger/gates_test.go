package trigger

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestGateFails: a gate that does not pass stops the rollout, and its output says why. The same command continues when
// it passes.
func TestGateFails(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "3 of 5 shards", http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	for name, tt := range map[string]struct {
		args []string
		gate []string
		says string
		call string // is made once before
	}{
		"a command": {
			[]string{"--mode", "unhealthy"},
			[]string{"--gate-command", `echo "$GATE_GROUP lost its quorum"; test $GATE_REPLACED = 0`},
			`workers .*the gate did not pass \(batch of workers\) in 2s .*exit status 1: workers lost its quorum; nothing further`,
			"SetInstanceHealth",
		},
		"a URL": {
			[]string{"--mode", "unhealthy"},
			[]string{"--gate-url", server.URL + "/ready"},
			` answered 503 Service Unavailable: 3 of 5 shards`, "",
		},
		"a command at a checkpoint": {
			[]string{"--surge", "2", "--checkpoints", "50,100", "--checkpoint-delay", "20s"},
			[]string{"--gate-command", "test $GATE_PHASE = start"},
			`exit status 1; .*; instance refresh \S+ is paused`, "SuspendProcesses",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t, launchFirst(4))
			args := append(tt.args, "--gate-timeout", "2s")
			a.trigger(append(args, tt.gate...)...).waitExit(3, tt.says)
			if calls := a.changes(); tt.call != "" && calls[tt.call] != 1 || calls["SetInstanceHealth"] > 1 {
				t.Errorf("the trigger called %v", calls)
			}
			a.trigger(append(args, "--gate-command", "true")...).waitExit(0, `the gate has passed`, `instances replaced`)
			if tags := a.tags(); len(tags) > 1 {
				t.Errorf("the group has the tags %v", tags)
			}
		})
	}
}

// TestGateIsInterrupted: the command of a gate does not keep the trigger from ending, and what it has started ends too.
func TestGateIsInterrupted(t *testing.T) {
	t.Parallel()
	a, pipe := newAccount(t, launchFirst(2)), filepath.Join(t.TempDir(), "pipe")
	a.must(syscall.Mkfifo(pipe, 0o600))
	started, err := os.OpenFile(pipe, os.O_RDWR, 0)
	a.must(err)
	r := a.trigger("--mode", "unhealthy", "--gate-timeout", "1h", "--gate-command",
		"exec >"+pipe+"; trap '' INT TERM; sleep 1000 & echo started; wait")
	a.must(started.SetReadDeadline(time.Now().Add(waitTimeout)))
	_, err = started.Read(make([]byte, 100))
	a.must(err)
	left, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	a.must(err)
	a.must(started.Close())
	r.Signal(syscall.SIGINT)
	r.waitExit(130)
	a.must(left.SetReadDeadline(time.Now().Add(10 * time.Second)))
	if _, err := left.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a process has the pipe open: %v", err)
	}
	a.must(left.Close())
}
