package realnodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/node-drainer/node-drainer/test/chart"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

// programsVariable is set in the namespaces to the folder of what Main has built: there are no downloads.
const programsVariable = "NODE_DRAINER_PROGRAMS"

// Main runs the tests of a package in namespaces of their own, and returns the exit code for TestMain. Where containers
// cannot run it says why, and runs none.
func Main(m *testing.M) int {
	if Isolated() != "" {
		if err := prepare(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}
	if why := lacking(); why != "" {
		fmt.Printf("SKIP: real nodes cannot run here: %s\n", why)
		return 0
	}
	dir, err := os.MkdirTemp("", "node-drainer-programs-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	if _, err = cluster.Binaries(ctx, os.Stderr, programNames...); err == nil {
		err = build(ctx, dir)
	}
	code := 1
	if err == nil {
		code, err = Isolate(programsVariable + "=" + dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// Programs returns the folder of what Main has built.
func Programs() string { return os.Getenv(programsVariable) }

// Binary returns the path of a program of this repository, which Main has built.
func Binary(program string) string { return filepath.Join(Programs(), program) }

// build builds the programs of this repository into a folder, and images of them.
func build(ctx context.Context, dir string) error {
	if _, err := chart.Helm(ctx, nil, "version"); err != nil { // Here it can be built.
		return err
	}
	for _, program := range []string{harness.Agent, harness.Trigger} {
		if _, err := harness.Build(ctx, dir, program, harness.Options{}); err != nil {
			return err
		}
	}
	workload := filepath.Join(dir, "workload")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", workload,
		"github.com/node-drainer/node-drainer/test/realnodes/workload")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the workload: %w\n%s", err, output)
	}
	return errors.Join(
		writeImage(filepath.Join(dir, "pause.tar"), pauseImage, "", workload),
		writeImage(filepath.Join(dir, "workload.tar"), workloadImage, "", workload),
		writeImage(filepath.Join(dir, "product.tar"), Registry+"/"+Repository+":"+Tag, "65532:65532",
			filepath.Join(dir, harness.Agent), filepath.Join(dir, harness.Trigger)))
}
