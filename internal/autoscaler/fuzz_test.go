package autoscaler

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzPause checks what is promised of the annotation of a Deployment: no pause has a negative number of replicas, and
// one is written again as it was read.
func FuzzPause(f *testing.F) {
	f.Add("1 host/1 2026-01-02T03:04:05Z")
	f.Add("-1 a 0000-01-01T00:00:00Z")
	f.Fuzz(func(t *testing.T, text string) {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{Annotation: text}}}
		p, ok := pauseOf(d)
		if !ok {
			return
		}
		d.Annotations[Annotation] = p.String()
		if again, ok := pauseOf(d); !ok || again.Replicas != p.Replicas || again.Owner != p.Owner || p.Replicas < 0 {
			t.Fatalf("read %+v, and again %+v", p, again)
		}
	})
}
