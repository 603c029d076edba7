// Package surge adds one pod to a StatefulSet for the time in which another pod of it moves. It keeps a record of each
// surge in a ConfigMap: written before the StatefulSet is scaled, and removed when nothing is left of the surge.
package surge

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/node-drainer/node-drainer/internal/handover/workload"
)

// Observer is notified of what happens.
type Observer interface {
	SurgeStarted(s workload.Surge)
	SurgeEnded(s workload.Surge, reason string)
}

// Scaler is a workload.Scaler. It needs to get statefulsets, to update statefulsets/scale, and to get and update the
// ConfigMap.
type Scaler struct {
	client   kubernetes.Interface
	records  records
	observer Observer
}

// New returns a Scaler for StatefulSets. It keeps its records in a ConfigMap, which must exist.
func New(client kubernetes.Interface, configMap types.NamespacedName, o Observer) *Scaler {
	return &Scaler{client: client, records: records{client, configMap}, observer: o}
}

// Surges is that of workload.Scaler.
func (s *Scaler) Surges(ctx context.Context) ([]workload.Surge, error) { return s.records.list(ctx) }

// Start is that of workload.Scaler.
func (s *Scaler) Start(ctx context.Context, pod workload.Pod) (workload.Surge, error) {
	name, ok := strings.CutPrefix(pod.Controller, "StatefulSet/")
	if !ok {
		return workload.Surge{}, workload.NoSurge("the pod is not one of a StatefulSet")
	}
	surge, err := s.start(ctx, pod, name)
	if apierrors.IsForbidden(err) {
		err = workload.NoSurge(fmt.Sprintf("%v (grant to get statefulsets and update statefulsets/scale in %s, "+
			"and to get and update the ConfigMap %s)", err, pod.Namespace, s.records.at))
	}
	return surge, err
}

func (s *Scaler) start(ctx context.Context, pod workload.Pod, name string) (workload.Surge, error) {
	set, err := s.client.AppsV1().StatefulSets(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return workload.Surge{}, err
	}
	if string(set.UID) != pod.ControllerUID {
		return workload.Surge{}, workload.NoSurge("the pod is not one of the StatefulSet " + name)
	}
	replicas, first := replicasOf(set), int32(0)
	if set.Spec.Ordinals != nil {
		first = set.Spec.Ordinals.Start
	}
	surge, err := s.records.add(ctx, workload.Surge{
		Namespace: pod.Namespace, StatefulSet: name, UID: string(set.UID), Replicas: replicas,
		Pod: fmt.Sprintf("%s-%d", name, first+replicas), For: pod.Name, ForUID: pod.UID, Since: time.Now().UTC(),
	})
	switch {
	case err != nil || surge.For != pod.Name:
		return surge, err
	case phaseOf(surge, set) == workload.SurgeOver:
		return surge, workload.NoSurge(fmt.Sprintf("the StatefulSet %s has %d replicas now, and had %d before the surge",
			name, replicas, surge.Replicas))
	case surge.Scaled:
		return surge, nil
	}
	err = s.scaleUp(ctx, &surge, set)
	return surge, err
}

// scaleUp adds the replica, unless that was done, and records it.
func (s *Scaler) scaleUp(ctx context.Context, surge *workload.Surge, set *appsv1.StatefulSet) error {
	if phaseOf(*surge, set) == workload.SurgeAbsent {
		if err := s.scale(ctx, set, surge.Replicas+1); err != nil {
			return err
		}
		s.observer.SurgeStarted(*surge)
	}
	surge.Scaled = true
	return s.records.put(ctx, *surge)
}

// scale sets the replicas of a StatefulSet. It fails with a conflict if that has changed since it was read.
func (s *Scaler) scale(ctx context.Context, set *appsv1.StatefulSet, replicas int32) error {
	_, err := s.client.AppsV1().StatefulSets(set.Namespace).UpdateScale(ctx, set.Name, &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: set.Name, UID: set.UID, ResourceVersion: set.ResourceVersion,
		},
		Spec: autoscalingv1.ScaleSpec{Replicas: replicas},
	}, metav1.UpdateOptions{FieldManager: "node-drainer"})
	if err != nil {
		return fmt.Errorf("scale StatefulSet %s/%s to %d: %w", set.Namespace, set.Name, replicas, err)
	}
	return nil
}

// Phase is that of workload.Scaler.
func (s *Scaler) Phase(ctx context.Context, surge workload.Surge) (workload.SurgePhase, error) {
	_, phase, err := s.read(ctx, surge)
	return phase, err
}

func (s *Scaler) read(
	ctx context.Context, surge workload.Surge,
) (*appsv1.StatefulSet, workload.SurgePhase, error) {
	set, err := s.client.AppsV1().StatefulSets(surge.Namespace).Get(ctx, surge.StatefulSet, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, workload.SurgeOver, nil
	case err != nil:
		return nil, workload.SurgeOver, fmt.Errorf("get StatefulSet %s/%s: %w", surge.Namespace, surge.StatefulSet, err)
	}
	return set, phaseOf(surge, set), nil
}

// Shrink is that of workload.Scaler.
func (s *Scaler) Shrink(ctx context.Context, surge workload.Surge) error {
	set, phase, err := s.read(ctx, surge)
	if err != nil || phase != workload.SurgePresent {
		return err
	}
	return s.scale(ctx, set, surge.Replicas)
}

// Forget is that of workload.Scaler.
func (s *Scaler) Forget(ctx context.Context, surge workload.Surge, reason string) error {
	if err := s.records.remove(ctx, surge); err != nil {
		return err
	}
	s.observer.SurgeEnded(surge, reason)
	return nil
}

func phaseOf(s workload.Surge, set *appsv1.StatefulSet) workload.SurgePhase {
	switch {
	case string(set.UID) != s.UID || set.DeletionTimestamp != nil:
		return workload.SurgeOver
	case replicasOf(set) == s.Replicas+1:
		return workload.SurgePresent
	case replicasOf(set) == s.Replicas:
		return workload.SurgeAbsent
	}
	return workload.SurgeOver
}

func replicasOf(set *appsv1.StatefulSet) int32 {
	if set.Spec.Replicas == nil {
		return 1
	}
	return *set.Spec.Replicas
}
