package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/test/harness"
)

// TestRecord: an agent that gets SIGTERM must exit with 0, unless it had not logged that it started.
func TestRecord(t *testing.T) {
	started := `{"level":"info","message":"agent started"}` + "\n"
	tests := []struct {
		log    string
		script string // What the process does.
		want   string
	}{
		{started, "exit 0", stopped},
		{started, "exit 1", "exit status 1"},
		{started, "kill -TERM $$", "signal: terminated"},
		{"", "kill -TERM $$", stopped},
		{"QUEUE_URL is missing\n", "exit 2", "exit status 2"},
		{"", "kill -ABRT $$", "signal: aborted"},
	}
	for _, tt := range tests {
		cmd := exec.Command("sh", "-c", tt.script)
		p := &process{log: filepath.Join(t.TempDir(), "agent.log"), Process: harness.NewProcess(cmd)}
		if err := os.WriteFile(p.log, []byte(tt.log), 0o600); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Run()
		f := &fleet{}
		(&agent{fleet: f}).record(p, stopped)
		if got := f.records[0].Ended; !strings.HasPrefix(got, tt.want) {
			t.Errorf("after %q, %s: recorded %q, want %q", tt.log, tt.script, got, tt.want)
		}
	}
}
