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
)

func TestStoppedServerKeepsItsDataAndTheClusterWorksOn(t *testing.T) {
	c, ctx := cluster.Shared(t), bounded(t)
	ns := c.Namespace(t)
	c.Node(t, cluster.Node{Pool: ns})
	must(t, c.Deploy(ctx, web(ns, 1)))
	must(t, c.WaitReady(ctx, ns, "", 1))

	must(t, c.Stop(ctx))
	if _, err := c.Client().CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{}); err == nil {
		t.Error("the API server answers though it is stopped")
	}
	must(t, c.StartAgain(ctx))
	if _, err := c.Client().AppsV1().Deployments(ns).Get(ctx, "web", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	// The controllers, the scheduler and kwok have come through it, or are started again.
	_, err := c.Kubectl(ctx, "scale", "deployment/web", "--replicas=2", "-n", ns)
	must(t, err)
	eventually(ctx, t, "two pods are Ready", func() bool {
		_, err := c.StartExited(ctx)
		must(t, err)
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return c.WaitReady(short, ns, "", 2) == nil
	})
}

func TestStartExited(t *testing.T) {
	c, ctx := cluster.Shared(t), bounded(t)
	_, err := c.StartExited(ctx) // What has ended in a test before.
	must(t, err)
	if started, err := c.StartExited(ctx); started || err != nil {
		t.Errorf("everything runs, and it says %v, %v", started, err)
	}
	scheduler := func() int { return processesOf(t, filepath.Join(c.Dir(), "clusters")) }
	before := scheduler()
	must(t, c.Restart(ctx, "kube-controller-manager"))
	if scheduler() != before {
		t.Errorf("%d processes run after a restart, before it were %d", scheduler(), before)
	}
	files, err := filepath.Glob(filepath.Join(c.Dir(), "clusters", "*", "pids", "kube-scheduler.pid"))
	must(t, err)
	id, err := os.ReadFile(files[0])
	must(t, err)
	must(t, exec.Command("kill", "-9", strings.TrimSpace(string(id))).Run())
	eventually(ctx, t, "it has ended", func() bool { return scheduler() < before })
	if started, err := c.StartExited(ctx); !started || err != nil || scheduler() != before {
		t.Errorf("it says %v, %v; %d processes run, before it were %d", started, err, scheduler(), before)
	}
}

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
			started, err := filepath.Glob(filepath.Join(dir, "*", "clusters", "*", "pids", "*.pid"))
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

// TestStartAndClose: the controller manager and kwok exit when they have waited for the API server for some ten seconds,
// which a slow machine may need to start it. Start runs them again. Here they exit at once. Close leaves nothing of the
// control plane, and does not touch another one.
func TestStartAndClose(t *testing.T) {
	other, ctx := cluster.Shared(t), bounded(t)
	binaries, err := cluster.Binaries(ctx, nil)
	must(t, err)
	dir := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver", "kube-scheduler", "kubectl", "kwokctl"} {
		must(t, os.Symlink(filepath.Join(binaries, name), filepath.Join(dir, name)))
	}
	for _, name := range []string{"kube-controller-manager", "kwok"} {
		must(t, os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, `#!/bin/sh
[ "$1" = --version ] && exec %[1]q "$@"
mkdir "$0.d" && exit 1
ln -s %[1]q "$0.d/${0##*/}"
exec "$0.d/${0##*/}" "$@"
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
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never came: %s", what)
		}
	}
}

func processesOf(t *testing.T, dir string) int {
	t.Helper()
	output, err := exec.Command("ps", "-axo", "args=").Output()
	must(t, err)
	n := 0
	for line := range strings.Lines(string(output)) {
		if strings.HasPrefix(line, dir+"/") {
			n++
		}
	}
	return n
}

func TestUsersBinariesAreCheckedFirst(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "etcd"), nil, 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "kwok"), nil, 0o644))
	t.Setenv("KUBE_BINARIES", dir)

	_, err := cluster.Start(t.Context(), cluster.Options{})
	if err == nil {
		t.Fatal("it started")
	}
	for _, want := range []string{"kube-apiserver", " kwok,", "kwokctl", "unset KUBE_BINARIES", dir} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not contain %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "etcd,") {
		t.Errorf("%q names etcd, which exists", err)
	}
}

func TestPreferredNodeComesFirst(t *testing.T) {
	c, ctx := cluster.Shared(t), bounded(t)
	ns := c.Namespace(t)
	first, second := c.Node(t, cluster.Node{Pool: ns}), c.Node(t, cluster.Node{Pool: ns})
	must(t, c.Deploy(ctx, cluster.Deployment{
		Namespace: ns, Name: "web", Replicas: 6, Pods: cluster.Pods{Pool: ns, Prefer: first},
	}))
	must(t, c.WaitReady(ctx, ns, "", 6))
	if pods, err := c.DrainablePods(ctx, first); err != nil || len(pods) != 6 {
		t.Fatalf("on the preferred node are %v, error %v", pods, err)
	}
	_, err := c.Kubectl(ctx, "cordon", first)
	must(t, err)
	eventually(ctx, t, "all have moved", func() bool {
		// Until the scheduler sees the cordon, some may come back.
		must(t, c.Client().CoreV1().Pods(ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{
			FieldSelector: "spec.nodeName=" + first,
		}))
		pods, err := c.DrainablePods(ctx, second)
		must(t, err)
		return len(pods) == 6
	})
	must(t, c.WaitReady(ctx, ns, "", 6))
}
