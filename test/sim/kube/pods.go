package kube

import (
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubectl/pkg/util/podutils"
)

// maxDisruptedPods is how many pods may be in the status of a budget (MaxDisruptedPodSize of the API server).
const maxDisruptedPods = 2000

// delete deletes an object. A pod that is bound to a node has its grace period, and stays until Remove or a deletion
// without grace; a further deletion can only shorten that. Source: registry/rest/delete.go and
// registry/core/pod/strategy.go of the API server. It needs mu.
func (s *store) delete(r resource, before Object, o metav1.DeleteOptions) (runtime.Object, error) {
	if p := o.Preconditions; p != nil {
		if p.UID != nil && *p.UID != before.GetUID() {
			return nil, conflict(r, before.GetName(), "the UID in the precondition is not "+string(before.GetUID()))
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != before.GetResourceVersion() {
			return nil, conflict(r, before.GetName(), "the object has been modified")
		}
	}
	pod, isPod := before.(*corev1.Pod)
	if !isPod {
		s.put(r, before, nil)
		return &metav1.Status{Status: metav1.StatusSuccess}, nil
	}
	grace := gracePeriod(pod, o)
	if grace == 0 {
		s.put(r, before, nil)
		return pod, nil
	}
	began := time.Now()
	if pod.DeletionTimestamp != nil {
		if grace >= *pod.DeletionGracePeriodSeconds {
			return pod, nil
		}
		began = pod.DeletionTimestamp.Add(-seconds(*pod.DeletionGracePeriodSeconds))
	}
	after := pod.DeepCopy()
	after.DeletionTimestamp = &metav1.Time{Time: began.Add(seconds(grace)).Truncate(time.Second)}
	after.DeletionGracePeriodSeconds = &grace
	s.put(r, before, after)
	return after, nil
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// gracePeriod returns the grace period that a deletion gives a pod, in seconds.
func gracePeriod(pod *corev1.Pod, o metav1.DeleteOptions) int64 {
	grace := int64(corev1.DefaultTerminationGracePeriodSeconds)
	switch {
	case pod.Spec.NodeName == "", isTerminal(pod):
		return 0
	case o.GracePeriodSeconds != nil:
		grace = *o.GracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	return max(grace, 0)
}

func isTerminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// evict deletes a pod if its PodDisruptionBudget allows that. Source: registry/core/pod/storage/eviction.go of the API
// server. It needs mu.
func (s *store) evict(c call) (runtime.Object, error) {
	options, err := c.evictionOptions()
	if err != nil {
		return nil, err
	}
	found, ok := s.objects[c.resource.name][c.object()].(*corev1.Pod)
	if !ok {
		return nil, apierrors.NewNotFound(c.resource.group(), c.Name)
	}
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != found.UID {
		return nil, conflict(c.resource, c.Name, "the UID in the precondition is not "+string(found.UID))
	}
	pod := Object(found)
	if found.DeletionTimestamp == nil && found.Status.Phase == corev1.PodRunning {
		if err := s.disrupt(found); err != nil {
			return nil, err
		}
		condemned := found.DeepCopy()
		condemned.Status.Conditions = append(condemned.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI",
			LastTransitionTime: metav1.Now(),
		})
		s.put(c.resource, found, condemned)
		pod = condemned
	}
	if _, err := s.delete(c.resource, pod, options); err != nil {
		return nil, err
	}
	return &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated}, nil
}

// evictionOptions returns how the pod of an eviction is to be deleted.
func (c call) evictionOptions() (metav1.DeleteOptions, error) {
	eviction := &policyv1.Eviction{}
	if err := c.read(eviction); err != nil || eviction.DeleteOptions == nil {
		return metav1.DeleteOptions{}, err
	}
	return *eviction.DeleteOptions, nil
}

// disrupt counts the eviction of a running pod against its budget, or returns why the budget refuses it. It needs mu.
func (s *store) disrupt(pod *corev1.Pod) error {
	budgets, err := s.budgetsOf(pod)
	switch {
	case err != nil:
		return err
	case len(budgets) > 1:
		return apierrors.NewInternalError(
			reason("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."))
	case len(budgets) == 0 || !podutils.IsPodReady(pod) && ignoresUnhealthy(budgets[0]):
		return nil
	}
	budget := budgets[0].DeepCopy()
	if err := refusal(budget); err != nil {
		return err
	}
	budget.Status.DisruptionsAllowed--
	if budget.Status.DisruptedPods == nil {
		budget.Status.DisruptedPods = map[string]metav1.Time{}
	}
	budget.Status.DisruptedPods[pod.Name] = metav1.Now()
	r, err := resourceOf(budget)
	if err != nil {
		return err
	}
	s.put(r, budgets[0], budget)
	return nil
}

// budgetsOf returns the budgets that select a pod. It needs mu.
func (s *store) budgetsOf(pod *corev1.Pod) ([]*policyv1.PodDisruptionBudget, error) {
	var out []*policyv1.PodDisruptionBudget
	for _, o := range sorted(s.objects["poddisruptionbudgets"]) {
		budget, ok := o.(*policyv1.PodDisruptionBudget)
		if !ok || budget.Namespace != pod.Namespace {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err != nil {
			return nil, err
		}
		if selector.Matches(labels.Set(pod.Labels)) {
			out = append(out, budget)
		}
	}
	return out, nil
}

// ignoresUnhealthy reports whether a budget lets a running pod go that is not Ready.
func ignoresUnhealthy(b *policyv1.PodDisruptionBudget) bool {
	if p := b.Spec.UnhealthyPodEvictionPolicy; p != nil && *p == policyv1.AlwaysAllow {
		return true
	}
	return b.Status.CurrentHealthy >= b.Status.DesiredHealthy && b.Status.DesiredHealthy > 0
}

// refusal returns why a budget allows no disruption now, or nil.
func refusal(b *policyv1.PodDisruptionBudget) error {
	switch {
	case b.Status.ObservedGeneration < b.Generation:
		return tooManyRequests(10, "Cannot evict pod as it would violate the pod's disruption budget.",
			fmt.Sprintf("The disruption budget %s is still being processed by the server.", b.Name))
	case b.Status.DisruptionsAllowed < 0:
		return apierrors.NewForbidden(policyv1.Resource("poddisruptionbudget"), b.Name,
			reason("pdb disruptions allowed is negative"))
	case len(b.Status.DisruptedPods) > maxDisruptedPods:
		return apierrors.NewForbidden(policyv1.Resource("poddisruptionbudget"), b.Name,
			reason("DisruptedPods map too big - too many evictions not confirmed by PDB controller"))
	case b.Status.DisruptionsAllowed == 0:
		return tooManyRequests(0, "Cannot evict pod as it would violate the pod's disruption budget.",
			fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently",
				b.Name, b.Status.DesiredHealthy, b.Status.CurrentHealthy))
	}
	return nil
}

func tooManyRequests(retryAfter int, message, cause string) error {
	err := apierrors.NewTooManyRequests(message, retryAfter)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: policyv1.DisruptionBudgetCause, Message: cause,
	})
	return err
}
