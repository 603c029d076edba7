package kube

import (
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kubectl/pkg/util/podutils"
)

// deletionTimeout is how long a pod that was evicted counts as disrupted if it is not deleted.
const deletionTimeout = 2 * time.Minute

// disruption is the disruption controller.
type disruption struct{ *loop }

// count writes the status of a PodDisruptionBudget. Source: controller/disruption/disruption.go of Kubernetes.
func (c *disruption) count(name types.NamespacedName) {
	budget, ok := find[*policyv1.PodDisruptionBudget](c.loop, name)
	if !ok {
		return
	}
	var pods []*corev1.Pod
	for _, e := range *c.server.tables["pods"] {
		if p := e.Object.(*corev1.Pod); c.server.selectsPod(budget, p) { //nolint:forcetypeassert // The table has pods.
			pods = append(pods, p)
		}
	}
	expected, desired, err := c.expected(budget, pods)
	if err != nil {
		c.failSync(name, err)
		return
	}
	disrupted := c.disrupted(budget, pods)
	healthy := 0
	for _, p := range pods {
		_, leaves := disrupted[p.Name]
		if p.DeletionTimestamp == nil && !leaves && podutils.IsPodReady(p) {
			healthy++
		}
	}
	update(&c.server.store, disruptionController, name, func(b *policyv1.PodDisruptionBudget) {
		b.Status = policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: b.Generation, ExpectedPods: int32(expected), CurrentHealthy: int32(healthy),
			DesiredHealthy: int32(desired), DisruptedPods: disrupted, Conditions: b.Status.Conditions,
		}
		if expected > 0 {
			b.Status.DisruptionsAllowed = int32(max(0, healthy-desired))
		}
		setAllowed(b)
	})
}

const disruptionController = "disruption controller"

// failSync writes that the pods of a budget cannot be counted. The generation counts as not observed.
func (c *disruption) failSync(name types.NamespacedName, err error) {
	update(&c.server.store, disruptionController, name, func(b *policyv1.PodDisruptionBudget) {
		b.Status.DisruptionsAllowed = 0
		meta.SetStatusCondition(&b.Status.Conditions, metav1.Condition{
			Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason,
			Message: err.Error(), ObservedGeneration: b.Status.ObservedGeneration,
		})
	})
}

// disrupted returns the pods that were evicted and are not deleted yet, and counts again when they are given up.
func (c *disruption) disrupted(b *policyv1.PodDisruptionBudget, pods []*corev1.Pod) map[string]metav1.Time {
	var out map[string]metav1.Time
	for _, p := range pods {
		at, evicted := b.Status.DisruptedPods[p.Name]
		if !evicted || p.DeletionTimestamp != nil || at.Add(deletionTimeout).Before(time.Now()) {
			continue
		}
		if out == nil {
			out = map[string]metav1.Time{}
			c.after(time.Until(at.Add(deletionTimeout))+1, func() { c.enqueue("disruption", b, 0, c.count) })
		}
		out[p.Name] = at
	}
	return out
}

// expected returns how many pods a budget protects, and how many of them must be healthy.
func (c *disruption) expected(b *policyv1.PodDisruptionBudget, pods []*corev1.Pod) (expected, desired int, err error) {
	if b.Spec.MinAvailable != nil && b.Spec.MinAvailable.Type == intstr.Int {
		return len(pods), b.Spec.MinAvailable.IntValue(), nil
	}
	if expected, err = c.expectedScale(pods); err != nil {
		return 0, 0, err
	}
	switch {
	case b.Spec.MaxUnavailable != nil:
		most, err := intstr.GetScaledValueFromIntOrPercent(b.Spec.MaxUnavailable, expected, true)
		return expected, max(0, expected-most), err
	case b.Spec.MinAvailable != nil:
		desired, err = intstr.GetScaledValueFromIntOrPercent(b.Spec.MinAvailable, expected, true)
		return expected, desired, err
	}
	return 0, 0, nil
}

// expectedScale adds the scales of the controllers of pods. Pods without a controller do not count; a controller
// without a scale is an error.
func (c *disruption) expectedScale(pods []*corev1.Pod) (sum int, err error) {
	seen := map[types.UID]bool{}
	for _, p := range pods {
		owner := metav1.GetControllerOfNoCopy(p)
		if owner == nil || seen[owner.UID] {
			continue
		}
		seen[owner.UID] = true
		if d := c.deploymentOf(p.Namespace, owner); d != nil {
			if !seen[d.UID] {
				sum += scale(d.Spec.Replicas)
			}
			seen[d.UID] = true
			continue
		}
		name := types.NamespacedName{Namespace: p.Namespace, Name: owner.Name}
		switch owner.Kind {
		case "ReplicaSet":
			set, ok := find[*appsv1.ReplicaSet](c.loop, name)
			if !ok {
				return 0, errors.New("found no controllers for pod \"" + p.Name + "\"")
			}
			sum += scale(set.Spec.Replicas)
		case "StatefulSet":
			set, ok := find[*appsv1.StatefulSet](c.loop, name)
			if !ok {
				return 0, errors.New("found no controllers for pod \"" + p.Name + "\"")
			}
			sum += scale(set.Spec.Replicas)
		default:
			return 0, fmt.Errorf("%s does not implement the scale subresource", groupOf(owner.Kind))
		}
	}
	return sum, nil
}

// deploymentOf returns the Deployment of a ReplicaSet, or nil.
func (c *disruption) deploymentOf(namespace string, owner *metav1.OwnerReference) *appsv1.Deployment {
	set, ok := find[*appsv1.ReplicaSet](c.loop, types.NamespacedName{Namespace: namespace, Name: owner.Name})
	if !ok || owner.Kind != "ReplicaSet" {
		return nil
	}
	above := metav1.GetControllerOfNoCopy(set)
	if above == nil {
		return nil
	}
	d, _ := find[*appsv1.Deployment](c.loop, types.NamespacedName{Namespace: namespace, Name: above.Name})
	return d
}

// groupOf returns the resource of a kind with its group, as in messages.
func groupOf(kind string) string {
	for _, r := range resources() {
		if r.kind.Kind == kind {
			return r.group().String()
		}
	}
	return kind
}
