package kube

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubectl/pkg/util/podutils"
)

// maxDisruptedPods is how many pods may be in the status of a budget (MaxDisruptedPodSize of the API server).
const maxDisruptedPods = 2000

// delete deletes an object. A pod that is bound to a node has its grace period, and stays until a deletion without
// grace; a further deletion can only shorten that. It returns the object as it is, or was last. Source:
// registry/rest/delete.go and registry/core/pod/strategy.go of the API server.
func (s *store) delete(actor string, before *entry, o metav1.DeleteOptions) (*entry, error) {
	if err := checkPreconditions(before, o.Preconditions); err != nil {
		return nil, err
	}
	pod, isPod := before.Object.(*corev1.Pod)
	if len(o.DryRun) > 0 {
		return before, nil
	}
	if !isPod {
		s.put(actor, before.kind, before, nil)
		return before, nil
	}
	ends, grace := deletion(pod, o.GracePeriodSeconds)
	if grace == 0 {
		s.remove(actor, before)
		return before, nil
	}
	if pod.DeletionTimestamp != nil && grace >= *pod.DeletionGracePeriodSeconds {
		return before, nil
	}
	after := pod.DeepCopy()
	after.DeletionTimestamp, after.DeletionGracePeriodSeconds = &ends, &grace
	return s.put(actor, before.kind, before, after), nil
}

// remove removes a pod at once, unless it has finalizers: then it stays, deleted, until they are gone.
func (s *store) remove(actor string, before *entry) {
	pod := before.Object.(*corev1.Pod) //nolint:forcetypeassert // Only pods have a grace period.
	if len(pod.Finalizers) == 0 {
		s.put(actor, before.kind, before, nil)
		return
	}
	if pod.DeletionTimestamp != nil && *pod.DeletionGracePeriodSeconds == 0 {
		return
	}
	after := pod.DeepCopy()
	if after.DeletionTimestamp == nil || after.DeletionTimestamp.After(time.Now()) {
		after.DeletionTimestamp = new(now())
	}
	after.DeletionGracePeriodSeconds = new(int64(0))
	s.put(actor, before.kind, before, after)
}

func checkPreconditions(e *entry, p *metav1.Preconditions) error {
	why := ""
	switch {
	case p == nil:
	case p.UID != nil && *p.UID != e.GetUID():
		why = fmt.Sprintf("the UID in the precondition (%s) does not match the UID in record (%s). "+
			"The object might have been deleted and then recreated", *p.UID, e.GetUID())
	case p.ResourceVersion != nil && *p.ResourceVersion != e.GetResourceVersion():
		why = fmt.Sprintf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record "+
			"(%s). The object might have been modified", *p.ResourceVersion, e.GetResourceVersion())
	}
	if why == "" {
		return nil
	}
	return conflict(schema.GroupResource{Group: e.kind.kind.Group, Resource: e.kind.kind.Kind}, e.GetName(), why)
}

// deletion returns when a deletion ends the pod, and its grace period in seconds.
func deletion(pod *corev1.Pod, asked *int64) (metav1.Time, int64) {
	if pod.DeletionTimestamp != nil {
		before := *pod.DeletionGracePeriodSeconds
		if asked == nil || *asked >= before {
			return *pod.DeletionTimestamp, before
		}
		ends := pod.DeletionTimestamp.Add(seconds(*asked - before))
		if ends.Before(now().Time) { // The new grace period has passed. One second is left of a period that is not 0.
			return now(), min(*asked, 1)
		}
		return metav1.NewTime(ends), *asked
	}
	grace := *pod.Spec.TerminationGracePeriodSeconds
	if asked != nil {
		grace = *asked
	}
	if grace < 0 {
		grace = 1
	}
	if pod.Spec.NodeName == "" || isTerminal(pod) {
		grace = 0
	}
	return metav1.NewTime(now().Add(seconds(grace))), grace
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

func isTerminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// evict deletes a pod if its PodDisruptionBudget allows that. Source: registry/core/pod/storage/eviction.go of the API
// server.
func (h handler) evict() ([]byte, error) {
	eviction := &policyv1.Eviction{}
	if err := h.read(eviction); err != nil {
		return nil, err
	}
	options := metav1.DeleteOptions{}
	if eviction.DeleteOptions != nil {
		options = *eviction.DeleteOptions
	}
	if h.dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	before := h.s.get(h.resource.name, h.object)
	if before == nil {
		return nil, apierrors.NewNotFound(h.resource.group(), h.object.Name)
	}
	h.Object = before.Object
	h.describe(options)
	pod := before.Object.(*corev1.Pod) //nolint:forcetypeassert // The table has pods.
	ignoresBudget := isTerminal(pod) || pod.Status.Phase == corev1.PodPending || pod.DeletionTimestamp != nil
	if !ignoresBudget {
		// The API server uses up the disruption before it checks the preconditions.
		if err := h.disrupt(pod); err != nil {
			return nil, err
		}
	}
	if h.Canceled { // The API server updates the budget all the same, and does not delete the pod.
		return nil, apierrors.NewTimeoutError("the client has canceled the request", 0)
	}
	return h.succeed(h.s.deleteWithCondition(h.Client, before, options, "EvictionByEvictionAPI",
		"Eviction API: evicting"))
}

// deleteWithCondition deletes a pod that says that it is disrupted.
func (s *store) deleteWithCondition(
	actor string, before *entry, o metav1.DeleteOptions, why, message string,
) error {
	if err := checkPreconditions(before, o.Preconditions); err != nil {
		return err
	}
	if len(o.DryRun) == 0 {
		pod := before.Object.(*corev1.Pod).DeepCopy() //nolint:forcetypeassert // Only pods are evicted.
		setCondition(pod, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: why, Message: message,
		})
		before = s.put(actor, before.kind, before, pod)
	}
	o.Preconditions = nil // They hold, and the pod has a new version.
	_, err := s.delete(actor, before, o)
	return err
}

func setCondition(pod *corev1.Pod, c corev1.PodCondition) {
	c.LastTransitionTime = now()
	for i := range pod.Status.Conditions {
		if old := &pod.Status.Conditions[i]; old.Type == c.Type {
			if old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
			*old = c
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, c)
}

// disrupt counts the eviction of a running pod against its budget, or returns why the budget refuses it.
func (h handler) disrupt(pod *corev1.Pod) error {
	switch {
	case len(h.Budgets) > 1:
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500, Message: "This " +
			"pod has more than one PodDisruptionBudget, which the eviction subresource does not support."}}
	case len(h.Budgets) == 0 || !podutils.IsPodReady(pod) && ignoresUnhealthy(h.Budgets[0]):
		return nil
	}
	if err := refusal(h.Budgets[0]); err != nil {
		return err
	}
	if h.DryRun {
		return nil
	}
	update(&h.s.store, h.Client, nameOf(h.Budgets[0]), func(b *policyv1.PodDisruptionBudget) {
		if b.Status.DisruptionsAllowed--; b.Status.DisruptionsAllowed == 0 {
			setAllowed(b)
		}
		if b.Status.DisruptedPods == nil {
			b.Status.DisruptedPods = map[string]metav1.Time{}
		}
		b.Status.DisruptedPods[pod.Name] = now()
	})
	return nil
}

// setAllowed sets the condition that says whether a budget allows a disruption.
func setAllowed(b *policyv1.PodDisruptionBudget) {
	c := metav1.Condition{
		Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionTrue, Reason: policyv1.SufficientPodsReason,
		ObservedGeneration: b.Status.ObservedGeneration,
	}
	if b.Status.DisruptionsAllowed <= 0 {
		c.Status, c.Reason = metav1.ConditionFalse, policyv1.InsufficientPodsReason
	}
	meta.SetStatusCondition(&b.Status.Conditions, c)
}

// budgetsOf returns the budgets that select a pod.
func (s *store) budgetsOf(pod *corev1.Pod) (out []*policyv1.PodDisruptionBudget) {
	for _, budget := range all[*policyv1.PodDisruptionBudget](s.tables["poddisruptionbudgets"]) {
		if s.selectsPod(budget, pod) {
			out = append(out, budget)
		}
	}
	return out
}

// selector is that of a budget, parsed.
type selector struct {
	generation int64
	selects    labels.Selector
}

// selectsPod reports whether a budget selects a pod.
func (s *store) selectsPod(b *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	if b.Namespace != pod.Namespace {
		return false
	}
	known, ok := s.selectors[b.UID]
	if !ok || known.generation != b.Generation {
		selects, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			selects = labels.Nothing()
		}
		known = selector{b.Generation, selects}
		s.selectors[b.UID] = known
	}
	return known.selects.Matches(labels.Set(pod.Labels))
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
		return tooManyRequests(10, fmt.Sprintf("The disruption budget %s is still being processed by the server.", b.Name))
	case b.Status.DisruptionsAllowed < 0:
		return apierrors.NewForbidden(policyv1.Resource("poddisruptionbudget"), b.Name,
			reason("pdb disruptions allowed is negative"))
	case len(b.Status.DisruptedPods) > maxDisruptedPods:
		return apierrors.NewForbidden(policyv1.Resource("poddisruptionbudget"), b.Name,
			reason("DisruptedPods map too big - too many evictions not confirmed by PDB controller"))
	case b.Status.DisruptionsAllowed == 0:
		return tooManyRequests(0, exhausted(b))
	}
	return nil
}

// exhausted says why a budget allows no disruption.
func exhausted(b *policyv1.PodDisruptionBudget) string {
	c := meta.FindStatusCondition(b.Status.Conditions, policyv1.DisruptionAllowedCondition)
	closed := c != nil && c.Status == metav1.ConditionFalse && c.Message != ""
	switch {
	case closed && c.Reason == policyv1.SyncFailedReason:
		return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently because it failed sync: %s",
			b.Name, c.Message)
	case b.Status.CurrentHealthy <= b.Status.DesiredHealthy:
		return fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently",
			b.Name, b.Status.DesiredHealthy, b.Status.CurrentHealthy)
	case closed:
		return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently (%s): %s",
			b.Name, c.Reason, c.Message)
	}
	return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently", b.Name)
}

func tooManyRequests(retryAfter int, cause string) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", retryAfter)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: policyv1.DisruptionBudgetCause, Message: cause,
	})
	return err
}
