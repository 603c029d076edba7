package node

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzAnnotations checks what is promised of annotations that a kubelet may write: none of another instance counts, and
// a mark is written again as it was read.
func FuzzAnnotations(f *testing.F) {
	f.Add(`{"instanceID":"i-0123456789abcdef0","deadline":"2026-01-02T03:04:05Z"}`, `{"instanceID":"i-0123456789abcdef0"}`)
	f.Add(Mark{InstanceID: instance, Deadline: t0}.encode(), `{"instanceID":"i-1","startsAt":"2026-01-02T03:04:05Z"}`)
	f.Fuzz(func(t *testing.T, mark, maintenance string) {
		n := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				Annotation: mark, MaintenanceAnnotation: maintenance, DrainRequestAnnotation: mark,
			}},
			Spec: corev1.NodeSpec{ProviderID: "aws:///eu-central-1a/" + instance},
		}
		got, ok := MarkOf(n)
		if ok && got.InstanceID != instance {
			t.Fatalf("the mark is that of %q", got.InstanceID)
		}
		if ok {
			n.Annotations[Annotation] = got.encode()
			if again, ok := MarkOf(n); !ok || !cmp.Equal(got, again) {
				t.Fatalf("read again: %s", cmp.Diff(got, again))
			}
		}
		maintenanceOf(n)
		_, _ = trim(n)
	})
}
