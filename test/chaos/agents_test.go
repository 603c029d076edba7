package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBury: how the life of an agent that we asked to stop has ended.
func TestBury(t *testing.T) {
	started := `{"level":"info","message":"agent started"}` + "\n"
	tests := []struct {
		name   string
		log    string
		script string // What the process does.
		want   string
	}{
		{"it stops as asked", started, "exit 0", stopped},
		{"it fails to", started, "exit 1", "exit status 1"},
		{"it does not know the signal", started, "kill -TERM $$", "signal: terminated"},
		{"it did not know it yet", "", "kill -TERM $$", stopped},
		{"it failed before it had started", "QUEUE_URL is missing\n", "exit 2", "exit status 2"},
		{"it was killed by another signal before", "", "kill -ABRT $$", "signal: aborted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &process{log: filepath.Join(t.TempDir(), "agent.log"), cmd: exec.Command("sh", "-c", tt.script)}
			if err := os.WriteFile(p.log, []byte(tt.log), 0o600); err != nil {
				t.Fatal(err)
			}
			_ = p.cmd.Run()
			f := &fleet{}
			(&agent{fleet: f}).bury(p, stopped)
			if got := f.lives[0].Ended; !strings.HasPrefix(got, tt.want) {
				t.Errorf("it %q, want %q", got, tt.want)
			}
		})
	}
}
