package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestForgotten(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	ago := func(seconds int) metav1.Time { return metav1.NewTime(now.Add(-time.Duration(seconds) * time.Second)) }
	pending := func(created int, annotations ...string) corev1.Pod { // So many seconds ago.
		p := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}
		p.CreationTimestamp, p.Annotations = ago(created), map[string]string{}
		for i := 0; i < len(annotations); i += 2 {
			p.Annotations["node-drainer.test/"+annotations[i]] = annotations[i+1]
		}
		return p
	}
	reminded := func(seconds int) string { return ago(seconds).UTC().Format(time.RFC3339) }
	deleted := func(grace int64, annotations ...string) corev1.Pod { // Ten seconds ago.
		p, at := pending(60, annotations...), ago(10-int(grace))
		p.Status.Phase, p.DeletionTimestamp, p.DeletionGracePeriodSeconds = corev1.PodRunning, &at, &grace
		return p
	}
	runs := pending(60)
	runs.Status.Phase = corev1.PodRunning
	for _, row := range []struct {
		name string
		pod  corev1.Pod
		want bool
	}{
		{"it has not started for a minute", pending(60), true},
		{"it is about to start", pending(4), false},
		{"it starts slowly", pending(60, "start", "58"), false},
		{"it runs", runs, false},
		{"kwok was reminded just now", pending(60, "reminded", reminded(2)), false},
		{"kwok was reminded, and its slow start has begun again", pending(60, "start", "30", "reminded", reminded(20)), false},
		{"it should have stopped at once", deleted(30), true},
		{"it stops slowly", deleted(30, "stop", "20"), false},
		{"it stops slowly, and its grace is over", deleted(2, "stop", "60"), true},
	} {
		if got := forgotten(&row.pod, now); got != row.want {
			t.Errorf("%s: got %v", row.name, got)
		}
	}
}
