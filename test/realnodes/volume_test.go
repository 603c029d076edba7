//go:build e2e

package realnodes_test

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
	"github.com/node-drainer/node-drainer/test/realnodes"
)

// detachLate drains the node of a pod whose volume is detached some seconds after the pod has left: an instance that ends
// before keeps its volume from others for minutes.
func (f faultFixture) detachLate() {
	const late = 6 * time.Second
	f.must(f.volume("data"))
	f.must(f.cluster.StatefulSet(f.t.Context(), f.namespace, "db", 1, cluster.Pods{
		Prefer: cluster.NodeName(f.spare()[0]), Change: func(t *corev1.PodTemplateSpec) {
			realnodes.End("-after=2s")(t)
			t.Spec.Volumes = append(t.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}})
			c := &t.Spec.Containers[0]
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "data", MountPath: "/data"})
		},
	}))
	f.ready("db", 1)
	pod, err := f.cluster.Client().CoreV1().Pods(f.namespace).Get(f.t.Context(), "db-0", metav1.GetOptions{})
	f.must(err)
	detached := f.attach("data", pod.Spec.NodeName, late)
	id := harness.InstanceOf(pod.Spec.NodeName)
	f.must(f.aws.Terminate(id, false))
	a := f.checkCompleted(id)
	if at := <-detached; a.ClosedAt.Before(at) {
		f.t.Errorf("the hook was completed at %v, before the volume was detached at %v", a.ClosedAt, at)
	}
	f.t.Logf("the hook was completed after %v", a.ClosedAt.Sub(a.StartedAt))
	f.must(f.cluster.Client().AppsV1().StatefulSets(f.namespace).Delete(f.t.Context(), "db", metav1.DeleteOptions{}))
}

// volume makes a volume that all nodes have, and a claim of the same name.
func (f *fixture) volume(name string) error {
	f.t.Helper()
	var o metav1.CreateOptions
	client, size := f.cluster.Client(), corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	volume := f.namespace + "-" + name
	_, err := client.CoreV1().PersistentVolumes().Create(f.t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: volume},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: realnodes.Disks()},
			},
		},
	}, o)
	if err != nil {
		return err
	}
	f.t.Cleanup(func() {
		_ = client.CoreV1().PersistentVolumes().Delete(context.Background(), volume, metav1.DeleteOptions{})
	})
	_, err = client.CoreV1().PersistentVolumeClaims(f.namespace).Create(f.t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: volume, StorageClassName: new(string), AccessModes: modes,
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}, o)
	return err
}

// attach attaches a volume to a node, until so long after the pods of the workload db have left it. detached returns when
// that was.
func (f faultFixture) attach(name, node string, late time.Duration) (detached <-chan time.Time) {
	f.t.Helper()
	volume := f.namespace + "-" + name
	attachments := f.cluster.Client().StorageV1().VolumeAttachments()
	_, err := attachments.Create(f.t.Context(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: volume},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "test", NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume},
		},
	}, metav1.CreateOptions{})
	f.must(err)
	at, ctx := make(chan time.Time, 1), f.waits()
	go func() {
		isThere := func(p *corev1.Pod) bool { return p.Spec.NodeName == node }
		_ = f.cluster.WaitPods(ctx, f.namespace, cluster.Selector("db"), func(pods []*corev1.Pod) bool {
			return !slices.ContainsFunc(pods, isThere)
		})
		<-time.After(late)
		at <- time.Now()
		_ = attachments.Delete(context.WithoutCancel(ctx), volume, metav1.DeleteOptions{})
	}()
	return at
}
