package restart

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// unfitness returns why a rolling restart of the Deployment, which may be nil, would not have a new pod Ready before an
// old one ends; empty if it would.
func unfitness(d *appsv1.Deployment) string {
	switch {
	case d == nil:
		return "it is not a pod of a Deployment"
	case d.DeletionTimestamp != nil:
		return "its Deployment is being deleted"
	case d.Spec.Paused:
		return "its Deployment is paused (spec.paused)"
	case replicasOf(d) == 0:
		return "its Deployment has no replicas"
	case d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType:
		return "its Deployment has the strategy Recreate, not RollingUpdate"
	}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return "its Deployment cannot create a pod: " + c.Message // a quota, for example
		}
	}
	surge, unavailable := fenceposts(d.Spec.Strategy.RollingUpdate, replicasOf(d))
	switch {
	case surge == 0:
		return "its Deployment adds no pod before it ends one (spec.strategy.rollingUpdate.maxSurge)"
	case unavailable >= replicasOf(d):
		return "its Deployment may end all pods at once (spec.strategy.rollingUpdate.maxUnavailable)"
	}
	return ""
}

// replicasOf returns how many pods the Deployment is to have: one if it does not say.
func replicasOf(d *appsv1.Deployment) int {
	if d.Spec.Replicas == nil {
		return 1
	}
	return int(*d.Spec.Replicas)
}

// fenceposts returns how many pods a rolling update may add and miss. Without values both are 25 %, of which the first
// is rounded up and the second down (k8s.io/api/apps/v1: RollingUpdateDeployment). A value that cannot be read rules
// out a restart.
func fenceposts(u *appsv1.RollingUpdateDeployment, replicas int) (surge, unavailable int) {
	quarter := intstr.FromString("25%")
	maxSurge, maxUnavailable := &quarter, &quarter
	if u != nil {
		maxSurge = intstr.ValueOrDefault(u.MaxSurge, quarter)
		maxUnavailable = intstr.ValueOrDefault(u.MaxUnavailable, quarter)
	}
	surge, err := intstr.GetScaledValueFromIntOrPercent(maxSurge, replicas, true)
	if err != nil {
		return 0, replicas
	}
	unavailable, err = intstr.GetScaledValueFromIntOrPercent(maxUnavailable, replicas, false)
	if err != nil {
		return 0, replicas
	}
	return surge, unavailable
}
