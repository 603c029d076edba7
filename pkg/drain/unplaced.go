package drain

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// movedOwners are the controllers whose pods drains of this process have told to stop. The zero value is ready.
type movedOwners struct {
	mu sync.Mutex
	at map[string]time.Time // of the last pod, by its owner (see ownerOf)
}

func (m *movedOwners) add(owner string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == nil {
		m.at = map[string]time.Time{}
	}
	m.at[owner] = now
}

// after returns those after the time, and forgets the others.
func (m *movedOwners) after(t time.Time) map[string]struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[string]struct{}, len(m.at))
	for owner, at := range m.at {
		if at.Before(t) {
			delete(m.at, owner)
		} else {
			out[owner] = struct{}{}
		}
	}
	return out
}

// Unplaced returns how many pods of the controllers whose pods drains have told to stop are Pending for lack of room.
// A controller counts for DRAIN_TIMEOUT, so that pods that never find room count no longer. It lists the pods without a
// node, page by page, unless no controller counts.
func (d *Drainer) Unplaced(ctx context.Context) (pods int, err error) {
	moved := d.moved.after(time.Now().Add(-d.policy.Timeout))
	if len(moved) == 0 {
		return 0, nil
	}
	err = d.eachPod(ctx, metav1.NamespaceAll, metav1.ListOptions{FieldSelector: withoutNode()}, func(p *corev1.Pod) {
		if _, ok := moved[ownerOf(p)]; ok && metav1.GetControllerOf(p) != nil && isUnschedulable(p) {
			pods++
		}
	})
	if err != nil {
		return 0, fmt.Errorf("list the pods without a node: %w", err)
	}
	return pods, nil
}

// withoutNode selects the pods that the scheduler has not bound.
func withoutNode() string {
	return fields.AndSelectors(
		fields.OneTermEqualSelector("spec.nodeName", ""),
		fields.OneTermEqualSelector("status.phase", string(corev1.PodPending)),
	).String()
}

// isUnschedulable reports whether the scheduler has found no node for the pod.
// See https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-conditions.
func isUnschedulable(p *corev1.Pod) bool {
	c := conditionOf(p, corev1.PodScheduled)
	return c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
}
