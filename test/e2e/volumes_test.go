//go:build e2e

package e2e

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/test/cluster"
)

// TestVolumes: the instance is held until the volumes of the pods that left are detached, for as long as is
// configured.
func TestVolumes(t *testing.T) {
	t.Parallel()
	for name, detached := range map[string]bool{"until they are detached": true, "for no longer than configured": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureWithHook(t)
			old, instance := f.node()
			f.pod("db", old, cluster.Pods{})
			volume, attacher := "pv-"+f.namespace, f.namespace
			attachments := f.cluster.Client().StorageV1().VolumeAttachments()
			_, err := attachments.Create(f.ctx, &storagev1.VolumeAttachment{
				ObjectMeta: metav1.ObjectMeta{Name: attacher},
				Spec: storagev1.VolumeAttachmentSpec{
					Attacher: "test", NodeName: old, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume},
				},
			}, metav1.CreateOptions{})
			f.must(err)
			remove := func() {
				ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
				defer cancel()
				_ = attachments.Delete(ctx, attacher, metav1.DeleteOptions{})
			}
			t.Cleanup(remove)
			timeout := map[bool]string{true: "30m", false: "3s"}[detached]
			agent := f.startAgent("DRAIN_VOLUME_TIMEOUT=" + timeout)
			f.terminate(instance)
			if detached {
				agent.waitLog("draining", "left", "0", "waiting", "1 volumes are still attached")
				if n := agent.Count("node drained"); n > 0 {
					t.Errorf("the drain ended while a volume was attached")
				}
				remove()
			}
			f.waitCompleted(instance)
			if logged := agent.Count("volumes are still attached") > 0; logged == detached {
				t.Errorf("volumes that are left attached were logged: %v", logged)
			}
		})
	}
}

// TestVolumeOfAPodThatStays: the drain does not wait for the volume of a DaemonSet's pod to be detached, which it finds by
// the pod's claim.
func TestVolumeOfAPodThatStays(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	old, instance := f.node()
	f.node()
	f.volume("data", old)
	f.must(f.cluster.DaemonSet(f.ctx, f.namespace, "logs", cluster.Pods{
		Pool: f.namespace, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Change: func(p *corev1.PodTemplateSpec) {
			p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}}
		},
	}))
	f.must(f.cluster.WaitReady(f.ctx, f.namespace, cluster.Selector("logs"), 2))
	f.deploy("api", old, 2, cluster.Pods{})
	agent := f.startAgent()
	f.terminate(instance)
	f.waitCompleted(instance)
	if agent.Count("volumes are still attached") > 0 || len(f.requests("get", "persistentvolumeclaims")) == 0 {
		t.Error("the drain did not read the claim of the volume's pod")
	}
}

// volume makes a claim of that name, a volume that it is bound to, and its attachment to the node.
func (f *fixture) volume(claim, node string) {
	f.t.Helper()
	var o metav1.CreateOptions
	meta := metav1.ObjectMeta{Name: f.namespace}
	room := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	client := f.cluster.Client()
	_, err := client.CoreV1().PersistentVolumes().Create(f.ctx, &corev1.PersistentVolume{
		ObjectMeta: meta, Spec: corev1.PersistentVolumeSpec{
			Capacity: room, AccessModes: modes,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
		},
	}, o)
	f.must(err)
	_, err = client.CoreV1().PersistentVolumeClaims(f.namespace).Create(f.ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: claim}, Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: meta.Name, StorageClassName: new(string), AccessModes: modes,
			Resources: corev1.VolumeResourceRequirements{Requests: room},
		},
	}, o)
	f.must(err)
	_, err = client.StorageV1().VolumeAttachments().Create(f.ctx, &storagev1.VolumeAttachment{
		ObjectMeta: meta, Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "ebs.csi.aws.com", NodeName: node,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &meta.Name},
		},
	}, o)
	f.must(err)
}
