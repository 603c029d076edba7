package drain

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pace is how fast a pod stops, and another one starts in its place, as far as the pod says.
type pace struct {
	isReplaced  bool          // its controller creates another one
	waitsForEnd bool          // but only when it has gone
	preStop     time.Duration // how long it stops at least
	started     time.Duration // how long it took until it was Ready; 0 if that is not known
}

func paceOf(p *corev1.Pod) pace {
	owner := metav1.GetControllerOf(p)
	return pace{
		isReplaced: owner != nil && owner.Kind != "DaemonSet", waitsForEnd: owner != nil && owner.Kind == "StatefulSet",
		preStop: preStopOf(p), started: startOf(p),
	}
}

// stopsSoon and stopsLate are how long the pod takes to stop, at the shortest and at the longest.
func (rec *record) stopsSoon() time.Duration {
	return min(rec.pace.preStop, rec.pod.Grace) + time.Second
}
func (rec *record) stopsLate() time.Duration { return rec.pod.Grace + time.Second }

// starts is how long a pod took until it was Ready, at the shortest, by its controller.
type starts map[string]time.Duration

func (s starts) add(rec *record) {
	took := rec.pace.started
	if known, ok := s[rec.owner]; took > 0 && (!ok || took < known) {
		s[rec.owner] = took
	}
}

// unknownStart is how long a new pod takes until it is Ready if none of its controller says.
const unknownStart = 30 * time.Second

// of returns how long a pod takes until it is Ready in place of this one.
func (s starts) of(rec *record) time.Duration {
	if took, ok := s[rec.owner]; ok {
		return took
	}
	return unknownStart
}

// startOf returns how long the pod took until it was Ready, as its conditions say; 0 if they do not. A pod whose
// containers have restarted was Ready earlier than they say.
func startOf(p *corev1.Pod) time.Duration {
	for _, c := range p.Status.ContainerStatuses {
		if c.RestartCount > 0 {
			return 0
		}
	}
	ready := conditionOf(p, corev1.PodReady)
	if ready.Status != corev1.ConditionTrue {
		return 0
	}
	return max(ready.LastTransitionTime.Sub(p.CreationTimestamp.Time), time.Second)
}

// preStopOf returns how long the preStop hooks of the pod sleep.
func preStopOf(p *corev1.Pod) (longest time.Duration) {
	for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
		if c.Lifecycle != nil && c.Lifecycle.PreStop != nil && c.Lifecycle.PreStop.Sleep != nil {
			longest = max(longest, time.Duration(c.Lifecycle.PreStop.Sleep.Seconds)*time.Second)
		}
	}
	return longest
}
