package restart_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/node-drainer/node-drainer/internal/handover/restart"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

const shop = "shop"

// workload is a pod with its ReplicaSet and its Deployment.
type workload struct {
	pod        handover.Pod
	set        *appsv1.ReplicaSet
	deployment *appsv1.Deployment
	claim      *corev1.PersistentVolumeClaim
}

func controlledBy(kind, name string) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{Kind: kind, Name: name, UID: types.UID("uid-of-" + name), Controller: &yes}}
}

// newWorkload returns a Deployment with one replica that has the annotation and is complete, changed as given.
func newWorkload(changes ...func(*workload)) *workload {
	numbered := map[string]string{"deployment.kubernetes.io/revision": "3"}
	w := &workload{
		pod: handover.Pod{
			Namespace: shop, Name: "web-1", Controller: "ReplicaSet/web-a", ControllerUID: "uid-of-web-a",
			Labels:      map[string]string{"app": "web", "pod-template-hash": "a"},
			Annotations: map[string]string{handover.DrainAnnotation: handover.Restart},
		},
		set: &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: shop, Name: "web-a", UID: "uid-of-web-a", OwnerReferences: controlledBy("Deployment", "web"),
			Annotations: numbered,
		}, Spec: appsv1.ReplicaSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"pod-template-hash": "a"}},
		}},
		deployment: &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "web", UID: "uid-of-web", Annotations: numbered, Generation: 5},
			Status:     appsv1.DeploymentStatus{ObservedGeneration: 5, Replicas: 1, UpdatedReplicas: 1},
		},
	}
	for _, change := range changes {
		change(w)
	}
	return w
}

// release asks about the pod, and returns the answer and how often the Deployment was restarted.
func (w *workload) release(t *testing.T, patched func() error) (handover.Answer, int, error) {
	t.Helper()
	client := fake.NewClientset(w.set, w.deployment)
	if w.claim != nil {
		if err := client.Tracker().Add(w.claim); err != nil {
			t.Fatal(err)
		}
	}
	restarts := 0
	client.PrependReactor("patch", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		restarts++
		err := patched()
		return err != nil, nil, err
	})
	a, err := restart.New(client).Release(t.Context(), handover.Request{Pod: w.pod})
	if err != nil || a.Go {
		return a, restarts, err
	}
	d, err := client.AppsV1().Deployments(shop).Get(context.WithoutCancel(t.Context()), "web", metav1.GetOptions{})
	if isRestarted := d.Spec.Template.Annotations[restart.RestartedAt] != ""; err != nil || isRestarted != (restarts == 1 && patched() == nil) {
		t.Errorf("template annotations %q after %d restarts, error %v", d.Spec.Template.Annotations, restarts, err)
	}
	return a, restarts, nil
}

func rolling(surge, unavailable intstr.IntOrString) func(*workload) {
	return func(w *workload) {
		w.deployment.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{
			MaxSurge: &surge, MaxUnavailable: &unavailable,
		}
	}
}

func replicas(n int32) func(*workload) {
	return func(w *workload) {
		w.deployment.Spec.Replicas = &n
		w.deployment.Status.Replicas, w.deployment.Status.UpdatedReplicas = n, n
	}
}

// mounts gives the workload a volume with these access modes.
func mounts(modes ...corev1.PersistentVolumeAccessMode) func(*workload) {
	return func(w *workload) {
		w.claim = &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{AccessModes: modes},
		}
		w.deployment.Spec.Template.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
	}
}

func notChosen(w *workload) { w.pod.Annotations = nil }

func TestRelease(t *testing.T) {
	t.Parallel()
	zero, one := intstr.FromInt32(0), intstr.FromInt32(1)
	for _, tt := range []struct {
		name     string
		workload *workload
		outcome  handover.Outcome
		message  string // a part of it
		restarts int
	}{
		{"one replica", newWorkload(), handover.Restarting, "rolling restart of Deployment web", 1},
		{"one replica of which the user has said nothing", newWorkload(notChosen), handover.Restarting, "Deployment web", 1},
		{"three replicas", newWorkload(replicas(3)), handover.Restarting, "Deployment web", 1},
		{"three replicas of which the user has said nothing", newWorkload(replicas(3), notChosen), handover.Unfit, "", 0},
		{"it surges by one", newWorkload(rolling(one, zero)), handover.Restarting, "Deployment web", 1},
		{"a volume of one node", newWorkload(mounts(corev1.ReadWriteOnce)), handover.Unfit, "PersistentVolumeClaim data", 0},
		{"a volume of one pod", newWorkload(mounts(corev1.ReadWriteOncePod), notChosen), handover.Unfit, "", 0},
		{"a volume of many nodes", newWorkload(mounts(corev1.ReadWriteOnce, corev1.ReadWriteMany)), handover.Restarting, "Deployment web", 1},
		{"a quota has no room for another pod", newWorkload(func(w *workload) {
			w.deployment.Status.Conditions = []appsv1.DeploymentCondition{{
				Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota",
			}}
		}), handover.Unfit, "exceeded quota", 0},
		{"the template is newer than the pod", newWorkload(func(w *workload) {
			w.deployment.Annotations = map[string]string{"deployment.kubernetes.io/revision": "4"}
		}), handover.Restarting, "Deployment web", 0},
		{"the controller has not seen the last change", newWorkload(func(w *workload) {
			w.deployment.Generation++
		}), handover.Restarting, "Deployment web", 0},
		{"a rollout that brought this pod goes on", newWorkload(replicas(3), func(w *workload) {
			w.deployment.Status.UpdatedReplicas = 1
		}), handover.Restarting, "Deployment web", 0},
		{"the rollout fails", newWorkload(func(w *workload) {
			w.deployment.Generation++
			w.deployment.Status.Conditions = []appsv1.DeploymentCondition{{
				Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Message: "it has timed out progressing.",
			}}
		}), handover.Restarting, "it has timed out progressing.", 0},
		{"a ReplicaSet of another UID", newWorkload(func(w *workload) { w.pod.ControllerUID = "x" }), handover.Unfit, "not a pod of a Dep", 0},
		{"a Deployment of another UID", newWorkload(func(w *workload) { w.deployment.UID = "x" }), handover.Unfit, "not a pod of a Dep", 0},
		{"labels of another ReplicaSet", newWorkload(func(w *workload) { w.pod.Labels = nil }), handover.Unfit, "not a pod of a Dep", 0},
		{"no owner", newWorkload(func(w *workload) { w.pod.Controller = "" }), handover.Unfit, "not a pod of a Dep", 0},
		{"a StatefulSet", newWorkload(func(w *workload) {
			w.pod.Controller = "StatefulSet/web"
		}), handover.Unfit, "not a pod of a Deployment", 0},
		{"a ReplicaSet of its own", newWorkload(func(w *workload) {
			w.set.OwnerReferences = nil
		}), handover.Unfit, "not a pod of a Deployment", 0},
		{"paused", newWorkload(func(w *workload) { w.deployment.Spec.Paused = true }), handover.Unfit, "is paused", 0},
		{"scaled down", newWorkload(replicas(0)), handover.Unfit, "has no replicas", 0},
		{"Recreate", newWorkload(func(w *workload) {
			w.deployment.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
		}), handover.Unfit, "Recreate", 0},
		{"Recreate, and the user has said nothing", newWorkload(notChosen, func(w *workload) {
			w.deployment.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
		}), handover.Unfit, "", 0},
		{"no surge", newWorkload(rolling(zero, one)), handover.Unfit, "maxSurge", 0},
		{"all at once", newWorkload(rolling(one, one)), handover.Unfit, "maxUnavailable", 0},
		{"values that are none", newWorkload(rolling(intstr.FromString("x"), zero)), handover.Unfit, "maxSurge", 0},
		{"being deleted", newWorkload(func(w *workload) {
			now := metav1.Now()
			w.deployment.DeletionTimestamp, w.deployment.Finalizers = &now, []string{"x/y"}
		}), handover.Unfit, "is being deleted", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, restarts, err := tt.workload.release(t, func() error { return nil })
			if err != nil || a.Outcome != tt.outcome || restarts != tt.restarts || a.Go != (tt.outcome == handover.Unfit) {
				t.Fatalf("answer %+v after %d restarts, error %v", a, restarts, err)
			}
			if !strings.Contains(a.Message, tt.message) || tt.message == "" && a.Message != "" {
				t.Errorf("message %q, want %q", a.Message, tt.message)
			}
		})
	}
}

// TestRestartOnce: of two who restart the Deployment at once, one fails, and asks again.
func TestRestartOnce(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Group: "apps", Resource: "deployments"}
	a, _, err := newWorkload().release(t, func() error {
		return apierrors.NewConflict(resource, "web", errors.New("it has changed"))
	})
	if err != nil || a.Outcome != handover.Restarting || a.Again == 0 {
		t.Errorf("answer %+v, error %v, want to ask again", a, err)
	}
	_, _, err = newWorkload().release(t, func() error { return apierrors.NewForbidden(resource, "web", nil) })
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "restart Deployment shop/web") {
		t.Errorf("error %v, want that the patch is forbidden", err)
	}
}

func TestReplicaSetIsGone(t *testing.T) {
	t.Parallel()
	a, err := restart.New(fake.NewClientset()).Release(t.Context(), handover.Request{Pod: newWorkload().pod})
	if diff := cmp.Diff(handover.Answer{}, a); diff != "" || !apierrors.IsNotFound(err) {
		t.Errorf("answer %s, error %v", diff, err)
	}
}
