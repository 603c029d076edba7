// Package e2e runs the built agent as a process against a real control plane and a simulated AWS.
package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/node-drainer/node-drainer/test/cluster"
)

// agentBinary is the agent that the tests run, built with the race detector.
var agentBinary string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil { // the tests wait more than they work
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "node-drainer-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	agentBinary = filepath.Join(dir, "agent")
	build := exec.Command("go", "build", "-race", "-o", agentBinary, "../../cmd/agent")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build the agent:", err)
		return 1
	}
	return cluster.Main(m)
}
