//go:build e2e

package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/harness"
)

// TestPlay: each command that is printed works, in the order in which they are printed, and nothing is left behind.
func TestPlay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, end := context.WithTimeout(t.Context(), 5*time.Minute)
	defer end()
	if _, err := harness.Build(ctx, dir+"/bin", harness.Trigger, harness.Options{}); err != nil {
		t.Fatal(err)
	}
	read, write := io.Pipe()
	playing, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- write.CloseWithError(play(playing, write)) }()
	printed := ""
	for !strings.Contains(printed, "Ctrl-C") {
		part := make([]byte, 4096)
		n, err := read.Read(part)
		if err != nil {
			t.Fatal(err)
		}
		printed += string(part[:n])
	}
	variables := regexp.MustCompile(`(?m)^  (\. /.*)$`).FindStringSubmatch(printed)
	commands := regexp.MustCompile(`(?m)^  (bin/trigger [^#\n]*)`).FindAllStringSubmatch(printed, -1)
	if variables == nil || len(commands) < 5 {
		t.Fatalf("it prints no commands:\n%s", printed)
	}
	for _, command := range commands {
		cmd := exec.CommandContext(ctx, "sh", "-c", variables[1]+" && "+command[1])
		cmd.Dir = dir
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", command[1], err, output)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	file := strings.TrimPrefix(variables[1], ". ")
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", file, err)
	}
}
