package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Volume creates a claim, and a volume that it is bound to: a folder that all nodes have. It returns the name of the
// volume, which the caller removes.
func (c *Cluster) Volume(ctx context.Context, namespace, claim, folder string) (name string, err error) {
	var o metav1.CreateOptions
	name = namespace + "-" + claim
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	_, err = c.Client().CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: folder}},
		},
	}, o)
	if err != nil {
		return name, err
	}
	_, err = c.Client().CoreV1().PersistentVolumeClaims(namespace).Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: claim}, Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: name, StorageClassName: new(string), AccessModes: modes,
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}, o)
	return name, err
}

// Attach attaches a volume, which need not exist, to a node, until the returned function is called.
func (c *Cluster) Attach(ctx context.Context, volume, node string) (detach func(context.Context) error, err error) {
	attachments := c.Client().StorageV1().VolumeAttachments()
	_, err = attachments.Create(ctx, &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: volume}, Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "ebs.csi.aws.com", NodeName: node,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume},
		},
	}, metav1.CreateOptions{})
	return func(ctx context.Context) error {
		return attachments.Delete(ctx, volume, metav1.DeleteOptions{})
	}, err
}
