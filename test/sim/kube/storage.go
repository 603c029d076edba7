package kube

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// storage attaches the volumes of claims to the nodes of pods, and detaches them when the pods have left. That two
// nodes cannot have one volume is not modeled. A claim is bound to the volume of its own name.
type storage struct{ *loop }

// forceDetach is how long volumes stay attached to a node without a kubelet.
const forceDetach = 6 * time.Minute

// follow follows a change of a pod.
func (c storage) follow(pod *corev1.Pod, gone bool) {
	if pod.Spec.NodeName == "" {
		return
	}
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		claim, node := v.PersistentVolumeClaim.ClaimName, pod.Spec.NodeName
		name := types.NamespacedName{Name: claim + "-" + node}
		if !gone && !isTerminal(pod) {
			c.attach(name, claim, node)
			continue
		}
		wait := annotated(pod, DetachAnnotation, time.Second)
		if n := c.server.node(node); n == nil || nodeReady(n) == corev1.ConditionUnknown {
			wait = max(wait, forceDetach)
		}
		c.after(wait, func() { c.detach(name, claim, node) })
	}
}

func (c storage) attach(name types.NamespacedName, claim, node string) {
	r := resourceFor[*storagev1.VolumeAttachment](&c.server.store)
	if c.server.get(r.name, name) == nil {
		_, _ = c.server.create("attach detach controller", r, &storagev1.VolumeAttachment{ // There is none.
			ObjectMeta: metav1.ObjectMeta{Name: name.Name},
			Spec: storagev1.VolumeAttachmentSpec{
				NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &claim},
			},
		})
	}
}

// detach detaches a volume, unless another pod on the node has it.
func (c storage) detach(name types.NamespacedName, claim, node string) {
	for _, p := range c.server.podsOn(node) {
		for _, v := range p.Spec.Volumes {
			if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim && !isTerminal(p) {
				return
			}
		}
	}
	r := resourceFor[*storagev1.VolumeAttachment](&c.server.store)
	if e := c.server.get(r.name, name); e != nil {
		c.server.put("attach detach controller", r, e, nil)
	}
}
