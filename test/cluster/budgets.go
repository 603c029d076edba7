package cluster

import (
	"context"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
)

// Budgets creates and removes PodDisruptionBudgets, and waits for their status.
type Budgets struct{ client kubernetes.Interface }

// MinAvailable creates a PodDisruptionBudget for the workload of the same name; least is a number or a
// percentage. It returns when the disruption controller has processed the budget.
func (b Budgets) MinAvailable(ctx context.Context, namespace, name, least string) error {
	value := intstr.Parse(least)
	return b.create(ctx, namespace, name, policyv1.PodDisruptionBudgetSpec{MinAvailable: &value})
}

// MaxUnavailable creates a PodDisruptionBudget for the workload of the same name; most is a number or a
// percentage. It returns when the disruption controller has processed the budget.
func (b Budgets) MaxUnavailable(ctx context.Context, namespace, name, most string) error {
	value := intstr.Parse(most)
	return b.create(ctx, namespace, name, policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &value})
}

// create creates a budget and waits until the disruption controller has counted the pods: before that, every
// eviction is refused, whatever the budget says.
func (b Budgets) create(
	ctx context.Context, namespace, name string, spec policyv1.PodDisruptionBudgetSpec,
) error {
	spec.Selector = matching(name)
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	budgets := b.client.PolicyV1().PodDisruptionBudgets(namespace)
	created, err := budgets.Create(ctx, budget, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return b.WaitBudget(ctx, namespace, name, func(status policyv1.PodDisruptionBudgetStatus) bool {
		return status.ObservedGeneration >= created.Generation
	})
}

// RemoveBudget removes the budget of that name.
func (b Budgets) RemoveBudget(ctx context.Context, namespace, name string) error {
	return b.client.PolicyV1().PodDisruptionBudgets(namespace).Delete(ctx, name, metav1.DeleteOptions{})
}

// WaitBudget returns when done is true of the status of the budget of that name, which the disruption
// controller keeps.
func (b Budgets) WaitBudget(
	ctx context.Context, namespace, name string, done func(policyv1.PodDisruptionBudgetStatus) bool,
) error {
	s := selection{
		rest: b.client.PolicyV1().RESTClient(), resource: "poddisruptionbudgets", namespace: namespace,
		field: fields.OneTermEqualSelector(metav1.ObjectNameField, name),
	}
	return until(ctx, s, &policyv1.PodDisruptionBudget{}, func(budgets []*policyv1.PodDisruptionBudget) bool {
		return len(budgets) == 1 && done(budgets[0].Status)
	})
}
