// Package restart replaces pods of Deployments by a rolling restart, as `kubectl rollout restart` does: the new pod is
// Ready before the old one ends. An eviction works the other way round, so that a Deployment with one replica has no
// Ready pod for a while, or a PodDisruptionBudget never lets that pod go.
package restart

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

const (
	// RestartedAt is the annotation of the pod template that `kubectl rollout restart` sets.
	RestartedAt = "kubectl.kubernetes.io/restartedAt"
	// callTimeout bounds the calls to the API server about one pod. It is longer than the API server takes for all
	// admission webhooks of a request together (kube-apiserver --request-timeout, which is 1m0s).
	callTimeout = 65 * time.Second
	// conflictPause is when to try again if the Deployment has changed meanwhile.
	conflictPause = time.Second
	// rolloutPause is when to look again at a rollout that has to end before the restart, and replacedPause at one that
	// replaces the pod: it may fail, or be undone.
	rolloutPause, replacedPause = 5 * time.Second, time.Minute
	// revision is the annotation by which the controller of Deployments numbers their templates
	// (k8s.io/kubernetes/pkg/controller/deployment/util: RevisionAnnotation).
	revision = "deployment.kubernetes.io/revision"
)

// Restarter is the Releaser of pods that are to be replaced by a rolling restart. Its methods need to get replicasets,
// deployments and persistentvolumeclaims, and to patch deployments.
type Restarter struct{ client kubernetes.Interface }

// New returns a Restarter that uses the client.
func New(client kubernetes.Interface) *Restarter { return &Restarter{client} }

// Release restarts the Deployment of the pod, unless a rollout is replacing the pod already: the pods of one
// Deployment, on any number of nodes, cause one restart. The answer is not to go, because the rollout ends the pod,
// except for a pod that no rolling restart can replace. A pod that does not ask for this by its annotation is replaced
// if it is the only replica of its Deployment.
func (r *Restarter) Release(ctx context.Context, q handover.Request) (handover.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	set, deployment, err := r.owners(ctx, q.Pod)
	if err != nil {
		return handover.Answer{}, fmt.Errorf("find the Deployment of pod %s/%s: %w", q.Pod.Namespace, q.Pod.Name, err)
	}
	chosen := q.Pod.Annotations[handover.DrainAnnotation] == handover.Restart
	why := unfitness(deployment)
	if why == "" {
		if why, err = r.singleNodeVolume(ctx, deployment); err != nil {
			return handover.Answer{}, err
		}
	}
	switch {
	case why == "" && (chosen || replicasOf(deployment) == 1):
		return r.replace(ctx, set, deployment)
	case !chosen:
		return handover.Answer{Go: true, Outcome: handover.Unfit}, nil
	}
	return handover.Answer{
		Go: true, Outcome: handover.Unfit, Message: "a rolling restart cannot replace the pod: " + why,
	}, nil
}

// replace restarts the Deployment if that is necessary to replace the pods of the ReplicaSet.
func (r *Restarter) replace(
	ctx context.Context, set *appsv1.ReplicaSet, d *appsv1.Deployment,
) (handover.Answer, error) {
	switch {
	case isBeingReplaced(set, d):
		return restarting(d, replacedPause), nil
	case isRollingOut(d):
		return restarting(d, rolloutPause), nil
	}
	err := r.restart(ctx, d)
	switch {
	case apierrors.IsConflict(err):
		return restarting(d, conflictPause), nil
	case err != nil:
		return handover.Answer{}, fmt.Errorf("restart Deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	return restarting(d, replacedPause), nil
}

// restarting says what the pod waits for. A rollout that fails is reported, and goes on: its Deployment may recover.
func restarting(d *appsv1.Deployment, again time.Duration) handover.Answer {
	a := handover.Answer{
		Outcome: handover.Restarting, Again: again,
		Message: "the rolling restart of Deployment " + d.Name + " has not replaced the pod yet",
	}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse {
			a.Message += ": " + c.Message
		}
	}
	return a
}

// singleNodeVolume returns why a volume keeps a new pod from starting before the old one has ended; empty if none does.
// A claim that can only be mounted by one node, or by one pod, is attached to that of the old pod
// (https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes).
func (r *Restarter) singleNodeVolume(ctx context.Context, d *appsv1.Deployment) (why string, err error) {
	for _, v := range d.Spec.Template.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		name := v.PersistentVolumeClaim.ClaimName
		claim, err := r.client.CoreV1().PersistentVolumeClaims(d.Namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return "", fmt.Errorf("read PersistentVolumeClaim %s/%s: %w", d.Namespace, name, err)
		}
		modes := claim.Spec.AccessModes
		if !slices.Contains(modes, corev1.ReadWriteMany) && !slices.Contains(modes, corev1.ReadOnlyMany) {
			return "its PersistentVolumeClaim " + name + " can be mounted on one node only (spec.accessModes)", nil
		}
	}
	return "", nil
}

// owners returns the ReplicaSet and the Deployment that control the pod; nil without one. Whoever may create pods may
// name any controller in them, so the pod must be one that the ReplicaSet selects, and the UIDs must agree.
func (r *Restarter) owners(ctx context.Context, p handover.Pod) (*appsv1.ReplicaSet, *appsv1.Deployment, error) {
	name, ok := strings.CutPrefix(p.Controller, "ReplicaSet/")
	if !ok {
		return nil, nil, nil
	}
	set, err := r.client.AppsV1().ReplicaSets(p.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	owner := metav1.GetControllerOf(set)
	selects, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	isOfSet := err == nil && string(set.UID) == p.ControllerUID && selects.Matches(labels.Set(p.Labels))
	if !isOfSet || owner == nil || owner.Kind != "Deployment" {
		return nil, nil, nil
	}
	deployment, err := r.client.AppsV1().Deployments(p.Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	if err == nil && !metav1.IsControlledBy(set, deployment) {
		return nil, nil, nil
	}
	return set, deployment, err
}

// isBeingReplaced reports whether the pods of the ReplicaSet have another template than the Deployment, or the
// controller has not looked at the Deployment since its last change.
func isBeingReplaced(set *appsv1.ReplicaSet, d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration < d.Generation || set.Annotations[revision] != d.Annotations[revision]
}

// isRollingOut reports whether pods of earlier templates are left.
func isRollingOut(d *appsv1.Deployment) bool { return d.Status.UpdatedReplicas < d.Status.Replicas }

// restart starts a rollout of the template as it is. It fails with a conflict if the Deployment has changed since it
// was read, so that two agents start one rollout.
func (r *Restarter) restart(ctx context.Context, d *appsv1.Deployment) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": d.UID, "resourceVersion": d.ResourceVersion},
		"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]string{
			RestartedAt: time.Now().UTC().Format(time.RFC3339),
		}}}},
	})
	if err != nil {
		return err
	}
	_, err = r.client.AppsV1().Deployments(d.Namespace).Patch(ctx, d.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{FieldManager: "node-drainer"})
	return err
}
