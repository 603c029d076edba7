package kube

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubectl/pkg/util/podutils"
)

// workloads is the controllers that create pods.
type workloads struct {
	*loop
	jobs map[types.UID]*jobState
}

// createPod creates a pod of a workload.
func (c *workloads) createPod(owner Object, kind schema.GroupVersionKind, name string, template corev1.PodTemplateSpec,
	change func(*corev1.Pod),
) {
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = owner.GetNamespace(), name
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)}
	change(pod)
	pods := resourceFor[*corev1.Pod](&c.server.store)
	_, _ = c.server.create(kind.Kind+" controller", pods, pod) // It fails if there is one.
}

// newName returns a name of a pod that has not been used before.
func (c *workloads) newName(owner Object) string {
	c.server.serial++
	return fmt.Sprintf("%s-%d", owner.GetName(), c.server.serial)
}

func find[T Object](c *loop, name types.NamespacedName) (found T, ok bool) {
	if e := c.server.get(resourceFor[T](&c.server.store).name, name); e != nil {
		return e.Object.(T), true //nolint:forcetypeassert // A table has one type.
	}
	return found, false
}

// active returns the pods that a workload counts: they have not ended, and are not deleted.
func (c *workloads) active(owner types.UID) []*corev1.Pod {
	return slices.DeleteFunc(c.server.podsOf(owner), func(p *corev1.Pod) bool {
		return p.DeletionTimestamp != nil || isTerminal(p)
	})
}

// scale returns how many pods a workload wants.
func scale(replicas *int32) int {
	if replicas == nil {
		return 1
	}
	return int(*replicas)
}

// reconcileReplicaSet creates the pods that a ReplicaSet lacks, and deletes those that are too many.
func (c *workloads) reconcileReplicaSet(name types.NamespacedName) {
	set, ok := find[*appsv1.ReplicaSet](c.loop, name)
	if !ok {
		return
	}
	pods, want := c.active(set.UID), scale(set.Spec.Replicas)
	for range want - len(pods) {
		c.createPod(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), c.newName(set), set.Spec.Template,
			func(*corev1.Pod) {})
	}
	for i := want; i < len(pods); i++ {
		c.deletePod("ReplicaSet controller", pods[i])
	}
}

func (c *workloads) deletePod(actor string, pod *corev1.Pod) {
	if e := c.server.get("pods", nameOf(pod)); e != nil && e.GetUID() == pod.UID {
		_, _ = c.server.delete(actor, e, metav1.DeleteOptions{}) // It has no precondition that could fail.
	}
}

// reconcileStatefulSet creates the first pod that a StatefulSet lacks when those before it are Ready, or all with the
// policy Parallel. A pod that is not gone keeps its name.
func (c *workloads) reconcileStatefulSet(name types.NamespacedName) {
	set, ok := find[*appsv1.StatefulSet](c.loop, name)
	if !ok {
		return
	}
	for i := range scale(set.Spec.Replicas) {
		pod := c.server.pod(types.NamespacedName{Namespace: set.Namespace, Name: fmt.Sprintf("%s-%d", set.Name, i)})
		switch {
		case pod == nil:
			c.createPod(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"), fmt.Sprintf("%s-%d", set.Name, i),
				set.Spec.Template, func(*corev1.Pod) {})
		case isTerminal(pod):
			c.deletePod("StatefulSet controller", pod)
		case pod.DeletionTimestamp == nil && podutils.IsPodReady(pod):
			continue
		}
		if set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
			return
		}
	}
}

// reconcileDaemonSet creates a pod on each node that has none and whose taints the pods tolerate. Pods whose node
// they do not tolerate any more stay, unless the taint has the effect NoExecute.
func (c *workloads) reconcileDaemonSet(name types.NamespacedName) {
	set, ok := find[*appsv1.DaemonSet](c.loop, name)
	if !ok {
		return
	}
	has := map[string]bool{}
	for _, p := range c.server.podsOf(set.UID) {
		if isTerminal(p) && p.DeletionTimestamp == nil {
			c.deletePod("DaemonSet controller", p)
		}
		if !isTerminal(p) {
			has[daemonNode(p)] = true
		}
	}
	for _, node := range all[*corev1.Node](c.server.tables["nodes"]) {
		tolerations := append(daemonTolerations(), set.Spec.Template.Spec.Tolerations...)
		if has[node.Name] || !fits(&set.Spec.Template.Spec, tolerations, node) {
			continue
		}
		c.createPod(set, daemonKind(set), c.newName(set), set.Spec.Template,
			func(p *corev1.Pod) {
				p.Spec.Tolerations = tolerations
				pin(p, node.Name)
			})
	}
}

// KindAnnotation of a DaemonSet is another kind, as APIVERSION/KIND, that the owner of its pods has: an operator's own
// sort of DaemonSet.
const KindAnnotation = "sim/kind"

// daemonKind returns the kind of the owner of the pods of a DaemonSet.
func daemonKind(set *appsv1.DaemonSet) schema.GroupVersionKind {
	if kind := set.Annotations[KindAnnotation]; kind != "" {
		i := strings.LastIndexByte(kind, '/')
		return schema.FromAPIVersionAndKind(kind[:i], kind[i+1:])
	}
	return appsv1.SchemeGroupVersion.WithKind("DaemonSet")
}

// ownerOf has the controller of a pod look at the owner.
func (c *workloads) ownerOf(namespace string, owner *metav1.OwnerReference) {
	isKnown := false
	for _, r := range resources() {
		if r.kind.Kind == owner.Kind {
			isKnown = true
			c.reconcileOwner(r.name, namespace, owner)
		}
	}
	if !isKnown {
		c.reconcileOwner("daemonsets", namespace, owner)
	}
}

func (c *workloads) reconcileOwner(resource, namespace string, owner *metav1.OwnerReference) {
	e := c.server.get(resource, types.NamespacedName{Namespace: namespace, Name: owner.Name})
	if e != nil && e.GetUID() == owner.UID {
		c.reconcile(e.Object)
	}
}

// reconcile has a controller look at a workload.
func (c *workloads) reconcile(o Object) {
	switch o := o.(type) {
	case *appsv1.Deployment:
		c.enqueue("deployment", o, c.timing.Replace, deployments{c}.reconcile)
	case *appsv1.ReplicaSet:
		c.enqueue("replicaset", o, c.timing.Replace, c.reconcileReplicaSet)
		if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
			c.ownerOf(o.Namespace, owner)
		}
	case *appsv1.StatefulSet:
		c.enqueue("statefulset", o, c.timing.Replace, c.reconcileStatefulSet)
	case *appsv1.DaemonSet:
		c.enqueue("daemonset", o, c.timing.Replace, c.reconcileDaemonSet)
	case *batchv1.Job:
		c.enqueue("job", o, c.timing.Replace, c.reconcileJob)
	}
}
