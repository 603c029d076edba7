// Package surge adds one pod to a StatefulSet for the time in which another pod of it moves. It keeps a record of each
// surge in a ConfigMap: written before the StatefulSet is scaled, and removed when nothing is left of the surge.
package surge

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

// Observer is notified of what happens.
type Observer interface {
	SurgeStarted(s handover.Surge)
	SurgeEnded(s handover.Surge, reason string)
}

// Scaler is a handover.Scaler. It needs to get statefulsets and to update statefulsets/scale in the namespaces, and to
// create, get and update the ConfigMap.
type Scaler struct {
	client     kubernetes.Interface
	namespaces []string
	records    records
	observer   Observer
}

// New returns a Scaler for the StatefulSets of some namespaces. It keeps its records in a ConfigMap.
func New(client kubernetes.Interface, namespaces []string, configMap types.NamespacedName, o Observer) *Scaler {
	return &Scaler{client: client, namespaces: namespaces, records: records{client, configMap}, observer: o}
}

// Surges is that of handover.Scaler.
func (s *Scaler) Surges(ctx context.Context) ([]handover.Surge, error) { return s.records.list(ctx) }

// Start is that of handover.Scaler.
func (s *Scaler) Start(ctx context.Context, pod handover.Pod) (handover.Surge, error) {
	name, ok := strings.CutPrefix(pod.Controller, "StatefulSet/")
	switch {
	case !slices.Contains(s.namespaces, pod.Namespace):
		return handover.Surge{}, handover.NoSurge("DRAIN_SURGE_NAMESPACES does not list the namespace " + pod.Namespace)
	case !ok:
		return handover.Surge{}, handover.NoSurge("the pod is not one of a StatefulSet")
	}
	surge, err := s.start(ctx, pod, name)
	if apierrors.IsForbidden(err) {
		err = handover.NoSurge(fmt.Sprintf("%v (grant to get statefulsets and update statefulsets/scale in %s, "+
			"and to create, get and update the ConfigMap %s)", err, pod.Namespace, s.records.at))
	}
	return surge, err
}

func (s *Scaler) start(ctx context.Context, pod handover.Pod, name string) (handover.Surge, error) {
	set, err := s.client.AppsV1().StatefulSets(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return handover.Surge{}, err
	}
	replicas, first := replicasOf(set), int32(0)
	if set.Spec.Ordinals != nil {
		first = set.Spec.Ordinals.Start
	}
	surge, err := s.records.add(ctx, handover.Surge{
		Namespace: pod.Namespace, StatefulSet: name, UID: string(set.UID), Replicas: replicas,
		Pod: fmt.Sprintf("%s-%d", name, first+replicas), For: pod.Name, ForUID: pod.UID, Since: time.Now().UTC(),
	})
	switch {
	case err != nil || surge.For != pod.Name:
		return surge, err
	case phaseOf(surge, set) == handover.SurgeOver:
		return surge, handover.NoSurge(fmt.Sprintf("the StatefulSet %s has %d replicas now, and had %d before the surge",
			name, replicas, surge.Replicas))
	case surge.Scaled:
		return surge, nil
	}
	err = s.scaleUp(ctx, &surge, set)
	return surge, err
}

// scaleUp adds the replica, unless that was done, and records it.
func (s *Scaler) scaleUp(ctx context.Context, surge *handover.Surge, set *appsv1.StatefulSet) error {
	if phaseOf(*surge, set) == handover.SurgeAbsent {
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

// Phase is that of handover.Scaler.
func (s *Scaler) Phase(ctx context.Context, surge handover.Surge) (handover.SurgePhase, error) {
	_, phase, err := s.read(ctx, surge)
	return phase, err
}

func (s *Scaler) read(
	ctx context.Context, surge handover.Surge,
) (*appsv1.StatefulSet, handover.SurgePhase, error) {
	set, err := s.client.AppsV1().StatefulSets(surge.Namespace).Get(ctx, surge.StatefulSet, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, handover.SurgeOver, nil
	case err != nil:
		return nil, handover.SurgeOver, fmt.Errorf("get StatefulSet %s/%s: %w", surge.Namespace, surge.StatefulSet, err)
	}
	return set, phaseOf(surge, set), nil
}

// Shrink is that of handover.Scaler.
func (s *Scaler) Shrink(ctx context.Context, surge handover.Surge) error {
	set, phase, err := s.read(ctx, surge)
	if err != nil || phase != handover.SurgePresent {
		return err
	}
	return s.scale(ctx, set, surge.Replicas)
}

// Forget is that of handover.Scaler.
func (s *Scaler) Forget(ctx context.Context, surge handover.Surge, reason string) error {
	if err := s.records.remove(ctx, surge); err != nil {
		return err
	}
	s.observer.SurgeEnded(surge, reason)
	return nil
}

func phaseOf(s handover.Surge, set *appsv1.StatefulSet) handover.SurgePhase {
	switch {
	case string(set.UID) != s.UID || set.DeletionTimestamp != nil:
		return handover.SurgeOver
	case replicasOf(set) == s.Replicas+1:
		return handover.SurgePresent
	case replicasOf(set) == s.Replicas:
		return handover.SurgeAbsent
	}
	return handover.SurgeOver
}

func replicasOf(set *appsv1.StatefulSet) int32 {
	if set.Spec.Replicas == nil {
		return 1
	}
	return *set.Spec.Replicas
}
