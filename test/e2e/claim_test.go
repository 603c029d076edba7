//go:build e2e

package e2e

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/test/cluster"
)

// TestVolumeOfAPodThatStays: the drain does not wait for the volume of a DaemonSet's pod to be detached, which it finds by
// the pod's claim.
func TestVolumeOfAPodThatStays(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	old, instance := w.node()
	w.node()
	w.volume("data", old)
	w.must(w.cluster.DaemonSet(w.ctx, w.namespace, "logs", cluster.Pods{
		Pool: w.namespace, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Change: func(p *corev1.PodTemplateSpec) {
			p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}}
		},
	}))
	w.must(w.cluster.WaitReady(w.ctx, w.namespace, cluster.Selector("logs"), 2))
	w.deploy("api", old, 2, cluster.Pods{})
	agent := w.startAgent()
	w.terminate(instance)
	w.waitCompleted(instance)
	if agent.count("volumes are still attached") > 0 || len(w.requests("get", "persistentvolumeclaims")) == 0 {
		t.Error("the drain did not ask whose the volume is")
	}
}

// volume makes a claim of that name, a volume that it is bound to, and its attachment to the node.
func (w *world) volume(claim, node string) {
	w.t.Helper()
	var o metav1.CreateOptions
	meta := metav1.ObjectMeta{Name: w.namespace}
	room := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	client := w.cluster.Client()
	_, err := client.CoreV1().PersistentVolumes().Create(w.ctx, &corev1.PersistentVolume{
		ObjectMeta: meta, Spec: corev1.PersistentVolumeSpec{
			Capacity: room, AccessModes: modes,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
		},
	}, o)
	w.must(err)
	_, err = client.CoreV1().PersistentVolumeClaims(w.namespace).Create(w.ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: claim}, Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: meta.Name, StorageClassName: new(string), AccessModes: modes,
			Resources: corev1.VolumeResourceRequirements{Requests: room},
		},
	}, o)
	w.must(err)
	_, err = client.StorageV1().VolumeAttachments().Create(w.ctx, &storagev1.VolumeAttachment{
		ObjectMeta: meta, Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "ebs.csi.aws.com", NodeName: node,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &meta.Name},
		},
	}, o)
	w.must(err)
}
