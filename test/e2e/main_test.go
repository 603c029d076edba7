//go:build e2e

// Package e2e runs the built programs as processes against a real control plane and a simulated AWS.
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

// agentBinary and triggerBinary are the programs that the tests run, built with the race detector.
var agentBinary, triggerBinary string

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
	agentBinary, triggerBinary = filepath.Join(dir, "agent"), filepath.Join(dir, "trigger")
	build := exec.Command("go", "build", "-race", "-o", dir, "../../cmd/agent", "../../cmd/trigger")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build the programs:", err)
		return 1
	}
	return judgePermissions(cluster.Main(m, judgeAccess))
}
