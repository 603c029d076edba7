package realnodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/node-drainer/node-drainer/test/chart"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
	"github.com/node-drainer/node-drainer/test/redisserver"
)

// Main runs the tests of a package in namespaces of their own, and returns the exit code for TestMain. Where containers
// cannot run it says why, and runs none.
func Main(m *testing.M) int {
	if why := Lacking(); why != "" {
		fmt.Printf("SKIP: containers cannot run here: %s\n", why)
		return 0
	}
	inside, code, err := Enter(context.Background(), os.Stderr, buildProduct)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	if !inside {
		return code
	}
	return m.Run()
}

// Enter makes this program run in namespaces of its own. There it returns inside, and the program goes on. In the
// process that was started first it builds the images of the nodes before, with what build adds in a folder, and
// returns the exit code when the namespaces have ended, with all that ran in them. There are no downloads in them.
func Enter(
	ctx context.Context, log io.Writer, build func(ctx context.Context, dir string) error,
) (inside bool, code int, err error) {
	if Isolated() != "" {
		return true, 0, prepare()
	}
	dir, err := os.MkdirTemp("", "node-drainer-nodes-")
	if err != nil {
		return false, 1, err
	}
	end, err := startReaper(dir)
	if err != nil {
		return false, 1, errors.Join(err, os.RemoveAll(dir))
	}
	defer func() { err = errors.Join(err, end()) }()
	programs := programsIn(dir)
	if _, err := cluster.Binaries(ctx, log, programNames()...); err != nil {
		return false, 1, err
	}
	if err := errors.Join(os.Mkdir(programs, 0o755), buildWorkload(ctx, programs), build(ctx, programs)); err != nil {
		return false, 1, err
	}
	code, err = isolate(dir)
	return false, code, err
}

// programsIn returns the folder of what Enter has built.
func programsIn(dir string) string { return filepath.Join(dir, "programs") }

// Binary returns the path of a program of this repository, which Main has built.
func Binary(program string) string { return filepath.Join(programsIn(Isolated()), program) }

// buildProduct builds the programs of this repository, and an image of them.
func buildProduct(ctx context.Context, dir string) error {
	if _, err := chart.Helm(ctx, nil, "version"); err != nil { // Here it can be built.
		return err
	}
	var programs []string
	for _, program := range []string{harness.Agent, harness.Trigger, harness.Handover} {
		path, err := harness.Build(ctx, dir, program, harness.Options{})
		if err != nil {
			return err
		}
		programs = append(programs, path)
	}
	image := filepath.Join(dir, "product.tar")
	return writeImage(image, Registry+"/"+Repository+":"+Tag, "65532:65532", inRoot(programs...))
}

// buildWorkload builds the program of the workloads, and images of it: that of Redis, if it is installed here, has the
// server, too.
func buildWorkload(ctx context.Context, dir string) error {
	workload, err := harness.Build(ctx, dir, "workload", harness.Options{Package: "test/realnodes/workload"})
	if err != nil {
		return err
	}
	err = errors.Join(
		writeImage(filepath.Join(dir, "pause.tar"), pauseImage, "", inRoot(workload)),
		writeImage(filepath.Join(dir, "workload.tar"), workloadImage, "", inRoot(workload)))
	server, missing := redisserver.Find()
	if err != nil || missing != nil {
		return err
	}
	programs, err := withLibraries("/redis-server", server)
	if err != nil {
		return err
	}
	return writeImage(filepath.Join(dir, "redis.tar"), redisImage, "", append(inRoot(workload), programs...))
}
