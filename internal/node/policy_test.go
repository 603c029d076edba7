package node

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestPolicyOf: of an annotation and a label the annotation counts, and what is wrong counts for nothing and is named.
func TestPolicyOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name                string
		annotations, labels map[string]string
		want                Policy
		wrong               []string
	}{
		{name: "none"},
		{
			name:   "labels",
			labels: map[string]string{TimeoutKey: "6h", AtDeadlineKey: "leave", EvictionDelayKey: "0s"},
			want:   Policy{Timeout: 6 * time.Hour, AtDeadline: "leave", HasDelay: true},
		},
		{
			name:        "annotations before labels",
			annotations: map[string]string{TimeoutKey: "10m", EvictionDelayKey: "30s"},
			labels:      map[string]string{TimeoutKey: "6h", AtDeadlineKey: "delete"},
			want:        Policy{Timeout: 10 * time.Minute, AtDeadline: "delete", EvictionDelay: 30 * time.Second, HasDelay: true},
		},
		{
			name:        "out of bounds, and no values",
			annotations: map[string]string{TimeoutKey: "49h", EvictionDelayKey: "-1s", AtDeadlineKey: "kill\x1b"},
			labels:      map[string]string{TimeoutKey: "6h"},
			wrong:       []string{TimeoutKey + ` is "49h"`, EvictionDelayKey + ` is "-1s"`, AtDeadlineKey + ` is "kill`},
		},
		{name: "long", annotations: map[string]string{TimeoutKey: strings.Repeat("1", 1<<16)}, wrong: []string{TimeoutKey + ` is ""`}},
	} {
		n := &corev1.Node{}
		n.Annotations, n.Labels = tt.annotations, tt.labels
		trimmed, err := trim(n)
		kept, ok := trimmed.(*corev1.Node)
		if err != nil || !ok {
			t.Fatal(err)
		}
		got, wrong := PolicyOf(kept)
		if got != tt.want || len(wrong) != len(tt.wrong) || nodeOf(kept).Policy != tt.want {
			t.Errorf("%s: got %+v, %q", tt.name, got, wrong)
		}
		all := controlsOf(kept).Wrong
		for _, part := range tt.wrong {
			if !strings.Contains(all, part) || strings.Contains(all, "\x1b") {
				t.Errorf("%s: %q lacks %q", tt.name, all, part)
			}
		}
	}
}
