package drain

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// systemCritical is the lowest priority of the system priority classes, system-cluster-critical and
// system-node-critical (k8s.io/kubernetes/pkg/apis/scheduling: SystemCriticalPriority).
const systemCritical = 2_000_000_000

// defaultGrace is the grace of a pod that names none (corev1.DefaultTerminationGracePeriodSeconds).
const defaultGrace = corev1.DefaultTerminationGracePeriodSeconds * time.Second

// toPod returns what a decision needs to know of a pod. Its budgets and tries are the caller's to add.
func toPod(p *corev1.Pod) Pod {
	out := Pod{
		Namespace: p.Namespace,
		Name:      p.Name,
		UID:       string(p.UID),
		Stays:     stays(p),
		Critical:  p.Spec.Priority != nil && *p.Spec.Priority >= systemCritical,
		Grace:     defaultGrace,
	}
	if g := p.Spec.TerminationGracePeriodSeconds; g != nil {
		out.Grace = time.Duration(*g) * time.Second
	}
	if p.DeletionTimestamp != nil {
		out.GoneBy = p.DeletionTimestamp.Time
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			out.Ready = c.Status == corev1.ConditionTrue
		}
	}
	return out
}

// stays tells why a pod need not leave its node; empty if it must.
func stays(p *corev1.Pod) Stays {
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return Mirror
	}
	if owner := metav1.GetControllerOf(p); owner != nil && owner.Kind == "DaemonSet" {
		return DaemonSet
	}
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return Finished
	}
	return ""
}

// strip keeps of a pod what this package reads.
func strip(obj any) (any, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	kept := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion,
			Labels: p.Labels, DeletionTimestamp: p.DeletionTimestamp,
		},
		Spec: corev1.PodSpec{
			NodeName: p.Spec.NodeName, Priority: p.Spec.Priority,
			TerminationGracePeriodSeconds: p.Spec.TerminationGracePeriodSeconds,
		},
		Status: corev1.PodStatus{Phase: p.Status.Phase},
	}
	if v, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		kept.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: v}
	}
	if owner := metav1.GetControllerOf(p); owner != nil {
		kept.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			kept.Status.Conditions = []corev1.PodCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	return kept, nil
}
