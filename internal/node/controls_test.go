package node

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestControlsOf: what a person asks for by annotations, and what is wrong with it.
func TestControlsOf(t *testing.T) {
	t.Parallel()
	const id = "i-0123456789abcdef0"
	at := time.Date(2026, 11, 28, 15, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name        string
		annotations map[string]string
		want        Controls
		wrong       []string
	}{
		{name: "none"},
		{
			name:        "all",
			annotations: map[string]string{HoldAnnotation: "2026-11-28T16:00:00+01:00", DeadlineAnnotation: "2026-11-28T15:00:00Z", EndDrainAnnotation: id},
			want:        Controls{HoldUntil: at, Deadline: at, EndNow: true},
		},
		{
			name:        "no times, and another instance",
			annotations: map[string]string{HoldAnnotation: "30m", DeadlineAnnotation: "", EndDrainAnnotation: "true"},
			wrong:       []string{HoldAnnotation + ` is "30m"`, DeadlineAnnotation + ` is ""`, EndDrainAnnotation + ` is "true"`, id},
		},
		{
			name:        "long and odd values are cut and cleaned",
			annotations: map[string]string{HoldAnnotation: "\x1b[31m" + strings.Repeat("x", 200)},
			wrong:       []string{HoldAnnotation + " is "},
		},
	} {
		n := &corev1.Node{}
		n.Spec.ProviderID, n.Annotations = "aws:///eu-central-1a/"+id, tt.annotations
		trimmed, err := trim(n)
		kept, ok := trimmed.(*corev1.Node)
		if err != nil || !ok {
			t.Fatal(err)
		}
		got := controlsOf(kept)
		if !got.HoldUntil.Equal(tt.want.HoldUntil) || !got.Deadline.Equal(tt.want.Deadline) || got.EndNow != tt.want.EndNow ||
			(got.Wrong == "") != (len(tt.wrong) == 0) {
			t.Errorf("%s: got %+v", tt.name, got)
		}
		for _, part := range tt.wrong {
			if !strings.Contains(got.Wrong, part) {
				t.Errorf("%s: %q lacks %q", tt.name, got.Wrong, part)
			}
		}
		if len(got.Wrong) > 500 || strings.Contains(got.Wrong, "\x1b") {
			t.Errorf("%s: %q", tt.name, got.Wrong)
		}
	}
}
