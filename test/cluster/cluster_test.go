//go:build e2e

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

func TestFailedStartLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	binaries, err := cluster.Binaries(ctx, nil)
	must(t, err)
	t.Setenv("KUBE_BINARIES", binaries) // Nothing but the start takes its time.
	go func() {
		defer cancel()
		_ = wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) {
			started, err := filepath.Glob(filepath.Join(dir, "*", "logs", "*.log"))
			return len(started) > 0, err
		})
	}()
	if _, err := cluster.Start(ctx, cluster.Options{}); err == nil || ctx.Err() == nil {
		t.Fatalf("it was not broken off: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 || processesOf(t, dir) > 0 {
		t.Errorf("left: %v and %d processes", left, processesOf(t, dir))
	}
}

// TestStartAndClose: the controller manager and kwok exit when they cannot reach the API server for some ten seconds, as
// on a slow machine. Start runs them again. Here they exit at once. Close leaves nothing of the control plane, and does
// not touch another one.
func TestStartAndClose(t *testing.T) {
	other, ctx := cluster.Shared(t), bounded(t)
	binaries, err := cluster.Binaries(ctx, nil)
	must(t, err)
	dir := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver", "kube-scheduler", "kubectl"} {
		must(t, os.Symlink(filepath.Join(binaries, name), filepath.Join(dir, name)))
	}
	for _, name := range []string{"kube-controller-manager", "kwok"} {
		must(t, os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, `#!/bin/sh
mkdir "$0.d" && exit 1
exec %q "$@"
`, filepath.Join(binaries, name)), 0o755))
	}
	t.Setenv("KUBE_BINARIES", dir)

	c, err := cluster.Start(ctx, cluster.Options{})
	must(t, err)
	folder := c.Dir()
	if n := processesOf(t, folder); n != 5 {
		t.Errorf("%d processes run, want 5", n)
	}
	_, err = c.Client().CoreV1().Namespaces().Get(ctx, "kube-system", metav1.GetOptions{})
	must(t, err)

	must(t, c.Close())
	must(t, c.Close())
	if n := processesOf(t, folder); n != 0 {
		t.Errorf("%d processes were left", n)
	}
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s was left: %v", folder, err)
	}
	must(t, other.Ready(ctx))
}

// TestKilledOwnerLeavesNothing starts this test binary again, which starts a cluster and is killed.
func TestKilledOwnerLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if os.Getenv("CLUSTER_TEST_OWNER") != "" {
		c, err := cluster.Start(t.Context(), cluster.Options{})
		must(t, err)
		must(t, os.WriteFile(filepath.Join(os.Getenv("CLUSTER_TEST_OWNER"), "up"), []byte(c.Dir()), 0o600))
		<-t.Context().Done()
		return
	}
	owner := exec.Command(os.Args[0], "-test.run", "^TestKilledOwnerLeavesNothing$", "-test.timeout", "20m")
	owner.Env = append(os.Environ(), "TMPDIR="+dir, "CLUSTER_TEST_OWNER="+dir)
	owner.Stdout, owner.Stderr = t.Output(), t.Output()
	must(t, owner.Start())
	alive, ended := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { _ = owner.Wait(); ended() }()
	kill := func() { _ = owner.Process.Kill(); <-alive.Done() }
	t.Cleanup(kill)
	up := func() bool { _, err := os.Stat(filepath.Join(dir, "up")); return err == nil }
	eventually(alive, t, "the cluster is up", up)

	kill()
	ctx := bounded(t)
	eventually(ctx, t, "its processes are gone", func() bool { return processesOf(t, dir) == 0 })
	eventually(ctx, t, "its folder is gone", func() bool {
		left, _ := filepath.Glob(filepath.Join(dir, "node-drainer-cluster-*"))
		return len(left) == 0
	})
}

// eventually asks until it is so: other processes' ends cannot be watched.
func eventually(ctx context.Context, t *testing.T, what string, is func() bool) {
	t.Helper()
	must(t, harness.Eventually(ctx, func() string {
		if is() {
			return ""
		}
		return "never came: " + what
	}))
}

// processesOf returns how many components run with a file of the folder in their flags.
func processesOf(t *testing.T, dir string) int {
	t.Helper()
	output, err := exec.Command("ps", "-axwwo", "args=").Output()
	must(t, err)
	n := 0
	for line := range strings.Lines(string(output)) {
		if strings.Contains(line, "="+dir+"/") {
			n++
		}
	}
	return n
}
