package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/test/harness"
)

// The script is an agent that gets SIGTERM.
func TestRecord(t *testing.T) {
	started := `{"level":"info","message":"agent started"}` + "\n"
	tests := []struct {
		name   string
		log    string
		script string // What the process does.
		want   string
	}{
		{"exit code 0", started, "exit 0", stopped},
		{"exit code 1", started, "exit 1", "exit status 1"},
		{"SIGTERM not handled after the start", started, "kill -TERM $$", "signal: terminated"},
		{"SIGTERM not handled before the start", "", "kill -TERM $$", stopped},
		{"failure before the start", "QUEUE_URL is missing\n", "exit 2", "exit status 2"},
		{"another signal before the start", "", "kill -ABRT $$", "signal: aborted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.Command("sh", "-c", tt.script)
			p := &process{log: filepath.Join(t.TempDir(), "agent.log"), Process: harness.NewProcess(cmd)}
			if err := os.WriteFile(p.log, []byte(tt.log), 0o600); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Run()
			f := &fleet{}
			(&agent{fleet: f}).record(p, stopped)
			if got := f.records[0].Ended; !strings.HasPrefix(got, tt.want) {
				t.Errorf("recorded %q, want %q", got, tt.want)
			}
		})
	}
}
