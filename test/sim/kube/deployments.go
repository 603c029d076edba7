package kube

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubectl/pkg/util/podutils"
)

// revisionAnnotation is the number of a template (k8s.io/kubernetes/pkg/controller/deployment/util).
const revisionAnnotation = "deployment.kubernetes.io/revision"

const deploymentController = "Deployment controller"

// deployments is the controller of Deployments.
type deployments struct{ *workloads }

// reconcile replaces the pods of other templates, one more at a time than the Deployment is to have: when a
// new pod is Ready, an old one ends. Other strategies are not modeled.
func (c deployments) reconcile(name types.NamespacedName) {
	d, ok := find[*appsv1.Deployment](c.loop, name)
	if !ok {
		return
	}
	current, sets := c.setOf(d), c.setsOf(d)
	want, ready, pods := scale(d.Spec.Replicas), 0, 0
	for _, s := range sets {
		pods += len(c.active(s.UID))
	}
	updated := c.active(current.UID)
	for _, p := range updated {
		if podutils.IsPodReady(p) {
			ready++
		}
	}
	old := 0
	for _, s := range sets {
		if s.UID != current.UID {
			left := min(scale(s.Spec.Replicas), max(0, want-ready))
			c.scaleSet(s, left)
			old += left
		}
	}
	c.scaleSet(current, max(scale(current.Spec.Replicas), min(want, want+1-old)))
	update(&c.server.store, deploymentController, name, func(d *appsv1.Deployment) {
		if d.Annotations == nil {
			d.Annotations = map[string]string{}
		}
		d.Annotations[revisionAnnotation] = current.Annotations[revisionAnnotation]
		d.Status.ObservedGeneration, d.Status.Replicas = d.Generation, int32(pods)
		d.Status.UpdatedReplicas, d.Status.ReadyReplicas = int32(len(updated)), int32(ready)
	})
}

// setsOf returns the ReplicaSets of a Deployment.
func (c deployments) setsOf(d *appsv1.Deployment) []*appsv1.ReplicaSet {
	return slices.DeleteFunc(all[*appsv1.ReplicaSet](c.server.tables["replicasets"]), func(s *appsv1.ReplicaSet) bool {
		owner := metav1.GetControllerOfNoCopy(s)
		return owner == nil || owner.UID != d.UID
	})
}

// setOf returns the ReplicaSet for the template of a Deployment, which it creates without pods if there is none.
func (c deployments) setOf(d *appsv1.Deployment) *appsv1.ReplicaSet {
	h := fnv.New32a()
	text, _ := marshal(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: d.Spec.Template}})
	_, _ = h.Write(text)
	name := types.NamespacedName{Namespace: d.Namespace, Name: fmt.Sprintf("%s-%08x", d.Name, h.Sum32())}
	if set, ok := find[*appsv1.ReplicaSet](c.loop, name); ok {
		return set
	}
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name.Namespace, Name: name.Name,
			Annotations: map[string]string{revisionAnnotation: strconv.Itoa(len(c.setsOf(d)) + 1)},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment")),
			},
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(0)), Template: *d.Spec.Template.DeepCopy()},
	}
	set.Spec.Template.Labels = maps.Clone(set.Spec.Template.Labels)
	if set.Spec.Template.Labels == nil {
		set.Spec.Template.Labels = map[string]string{}
	}
	set.Spec.Template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = name.Name
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: set.Spec.Template.Labels}
	_, _ = c.server.create(deploymentController, resourceFor[*appsv1.ReplicaSet](&c.server.store), set) // There is none.
	return set
}

func (c deployments) scaleSet(set *appsv1.ReplicaSet, replicas int) {
	update(&c.server.store, deploymentController, nameOf(set), func(s *appsv1.ReplicaSet) {
		s.Spec.Replicas = new(int32(replicas))
	})
}
