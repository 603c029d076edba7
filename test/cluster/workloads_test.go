//go:build e2e

package cluster_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/node-drainer/node-drainer/test/cluster"
)

// TestPodThatChangesStopsNoSooner: kwok starts a delay again with every change, and subtracts the time that has passed.
// The time of the deletion, from which it reads that, is cut to whole seconds: here by nearly one.
func TestPodThatChangesStopsNoSooner(t *testing.T) {
	t.Parallel()
	c, ctx := cluster.Shared(t), bounded(t)
	ns, stop := c.Namespace(t), 3*time.Second
	c.Node(t, cluster.Node{Pool: ns})
	must(t, c.Pod(ctx, ns, "p", cluster.Pods{Pool: ns, Stop: stop}))
	must(t, c.WaitReady(ctx, ns, "", 1))

	now := time.Now()
	<-time.After(now.Truncate(time.Second).Add(1900 * time.Millisecond).Sub(now))
	pods, began := c.Client().CoreV1().Pods(ns), time.Now()
	must(t, pods.Delete(ctx, "p", metav1.DeleteOptions{}))
	eventually(ctx, t, "it has stopped", func() bool {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"changed":%q}}}`, time.Now())
		_, err := pods.Patch(ctx, "p", types.MergePatchType, patch, metav1.PatchOptions{})
		return apierrors.IsNotFound(err)
	})
	if took := time.Since(began); took < stop-50*time.Millisecond {
		t.Errorf("it stopped after %v, want %v", took, stop)
	}
}

func TestSecondDeletionShortensTheStop(t *testing.T) {
	t.Parallel()
	c, ctx := cluster.Shared(t), bounded(t)
	ns := c.Namespace(t)
	c.Node(t, cluster.Node{Pool: ns})
	must(t, c.Pod(ctx, ns, "p", cluster.Pods{Pool: ns, Stop: time.Hour, GracePeriod: 2 * time.Hour}))
	must(t, c.WaitReady(ctx, ns, "", 1))

	pods := c.Client().CoreV1().Pods(ns)
	must(t, pods.Delete(ctx, "p", metav1.DeleteOptions{}))
	grace := int64(1)
	must(t, pods.Delete(ctx, "p", metav1.DeleteOptions{GracePeriodSeconds: &grace}))
	must(t, c.WaitPods(ctx, ns, "", func(pods []*corev1.Pod) bool { return len(pods) == 0 }))
}

// TestTerminatedMachineKillsItsPods: also when the API server was stopped between the node's deletion and its pods'. The
// pods of DaemonSets and those that have ended do not count.
func TestTerminatedMachineKillsItsPods(t *testing.T) {
	t.Parallel()
	c, ctx := cluster.Shared(t), bounded(t)
	ns, id := c.Namespace(t), cluster.NewInstanceID()
	machines := c.Machines(cluster.Node{Pool: ns})
	must(t, machines.Launch(ctx, id, "eu-central-1c"))
	here := cluster.Pods{Pool: ns}
	must(t, c.DaemonSet(ctx, ns, "daemon", here))
	must(t, c.Job(ctx, ns, "done", 1, here))
	must(t, c.StatefulSet(ctx, ns, "db", 1, here))
	must(t, c.Pod(ctx, ns, "bare", here))
	must(t, c.Pod(ctx, ns, "leaving", cluster.Pods{Pool: ns, Stop: time.Hour, GracePeriod: time.Hour}))
	must(t, c.WaitReady(ctx, ns, "app notin (done)", 4))
	must(t, c.WaitPods(ctx, ns, cluster.Selector("done"), func(pods []*corev1.Pod) bool {
		return len(pods) == 1 && pods[0].Status.Phase == corev1.PodSucceeded
	}))
	must(t, c.Client().CoreV1().Pods(ns).Delete(ctx, "leaving", metav1.DeleteOptions{}))

	want := []string{ns + "/bare", ns + "/db-0", ns + "/leaving"}
	got, err := machines.Pods(ctx, id)
	must(t, err)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("drainable: %v, want %v", got, want)
	}
	must(t, c.Client().CoreV1().Nodes().Delete(ctx, cluster.NodeName(id), metav1.DeleteOptions{}))
	killed, err := machines.Terminate(ctx, id)
	must(t, err)
	if slices.Sort(killed); !slices.Equal(killed, want) {
		t.Errorf("killed: %v, want %v", killed, want)
	}
}
