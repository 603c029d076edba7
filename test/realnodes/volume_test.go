//go:build e2e

package realnodes_test

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
	"github.com/node-drainer/node-drainer/test/realnodes"
)

// detachLate drains the node of a pod whose volume is detached some seconds after the pod has left: an instance that ends
// before keeps its volume from others for minutes.
func (f faultFixture) detachLate() {
	const late = 6 * time.Second
	volume, err := f.cluster.Volume(f.t.Context(), f.namespace, "data", realnodes.Disks())
	f.must(err)
	f.t.Cleanup(func() {
		volumes := f.cluster.Client().CoreV1().PersistentVolumes()
		_ = volumes.Delete(context.Background(), volume, metav1.DeleteOptions{})
	})
	f.must(f.cluster.StatefulSet(f.t.Context(), f.namespace, "db", 1, cluster.Pods{
		Prefer: cluster.NodeName(f.spare()[0]), Change: func(t *corev1.PodTemplateSpec) {
			realnodes.End("-after=2s")(t)
			realnodes.Mount(t, "data", corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}, "/data")
		},
	}))
	f.ready("db", 1)
	pod, err := f.cluster.Client().CoreV1().Pods(f.namespace).Get(f.t.Context(), "db-0", metav1.GetOptions{})
	f.must(err)
	detached := f.attach(volume, pod.Spec.NodeName, late)
	id := harness.InstanceOf(pod.Spec.NodeName)
	f.must(f.aws.Terminate(id, false))
	a := f.checkCompleted(id)
	if at := <-detached; a.ClosedAt.Before(at) {
		f.t.Errorf("the hook was completed at %v, before the volume was detached at %v", a.ClosedAt, at)
	}
	f.t.Logf("the hook was completed after %v", a.ClosedAt.Sub(a.StartedAt))
	f.must(f.cluster.Client().AppsV1().StatefulSets(f.namespace).Delete(f.t.Context(), "db", metav1.DeleteOptions{}))
}

// attach attaches a volume to a node, until so long after the pods of the workload db have left it. detached returns when
// that was.
func (f faultFixture) attach(volume, node string, late time.Duration) (detached <-chan time.Time) {
	f.t.Helper()
	detach, err := f.cluster.Attach(f.t.Context(), volume, node)
	f.must(err)
	at, ctx := make(chan time.Time, 1), f.waits()
	go func() {
		isThere := func(p *corev1.Pod) bool { return p.Spec.NodeName == node }
		_ = f.cluster.WaitPods(ctx, f.namespace, cluster.Selector("db"), func(pods []*corev1.Pod) bool {
			return !slices.ContainsFunc(pods, isThere)
		})
		<-time.After(late)
		at <- time.Now()
		_ = detach(context.WithoutCancel(ctx))
	}()
	return at
}
