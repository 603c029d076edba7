package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestForgotten(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	pod := func(change func(p *corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}
		p.CreationTimestamp, p.Annotations = ago(time.Minute), map[string]string{}
		change(p)
		return p
	}
	deleted := func(p *corev1.Pod, asked, grace time.Duration) {
		seconds, at := int64(grace.Seconds()), metav1.NewTime(now.Add(grace-asked))
		p.Status.Phase, p.DeletionTimestamp, p.DeletionGracePeriodSeconds = corev1.PodRunning, &at, &seconds
	}
	for _, row := range []struct {
		name string
		pod  *corev1.Pod
		want bool
	}{
		{"it has not started for a minute", pod(func(*corev1.Pod) {}), true},
		{"it is about to start", pod(func(p *corev1.Pod) { p.CreationTimestamp = ago(4 * time.Second) }), false},
		{"it starts slowly", pod(func(p *corev1.Pod) { p.Annotations["node-drainer.test/start"] = "58" }), false},
		{"it runs", pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }), false},
		{"kwok was reminded just now", pod(func(p *corev1.Pod) {
			p.Annotations[remindedAnnotation] = now.Add(-2 * time.Second).Format(time.RFC3339)
		}), false},
		{"kwok was reminded, and its slow start has begun again", pod(func(p *corev1.Pod) {
			p.Annotations["node-drainer.test/start"] = "30"
			p.Annotations[remindedAnnotation] = now.Add(-20 * time.Second).Format(time.RFC3339)
		}), false},
		{"it should have stopped at once", pod(func(p *corev1.Pod) { deleted(p, 10*time.Second, 30*time.Second) }), true},
		{"it stops slowly", pod(func(p *corev1.Pod) {
			deleted(p, 10*time.Second, 30*time.Second)
			p.Annotations["node-drainer.test/stop"] = "20"
		}), false},
		{"it stops slowly, and its grace is over", pod(func(p *corev1.Pod) {
			deleted(p, 10*time.Second, 2*time.Second)
			p.Annotations["node-drainer.test/stop"] = "60"
		}), true},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := forgotten(row.pod, now); got != row.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
