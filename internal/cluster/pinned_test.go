package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestIsPinned: a pod is pinned if neither another node nor the replacement of its own can have it.
func TestIsPinned(t *testing.T) {
	t.Parallel()
	labeled := func(name, pool string) *corev1.Node {
		return newNode(name, func(n *corev1.Node) {
			n.Labels = map[string]string{corev1.LabelHostname: name, "pool": pool}
		})
	}
	nodes := newPlacement([]*corev1.Node{labeled("a", "big"), labeled("b", "small"), labeled("c", "small")})
	affinity := func(key string, values ...string) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}},
			}}},
		}}
	}
	for name, tt := range map[string]struct {
		node     string
		selector map[string]string
		affinity *corev1.Affinity
		want     bool
	}{
		"anywhere":                        {node: "a"},
		"in the pool of its own node":     {node: "a", selector: map[string]string{"pool": "big"}},
		"in a pool with others":           {node: "b", affinity: affinity("pool", "small")},
		"on its own node":                 {node: "b", selector: map[string]string{corev1.LabelHostname: "b"}, want: true},
		"on its own node, or another one": {node: "b", affinity: affinity(corev1.LabelHostname, "b", "c")},
		"on its own node, or one that is gone": {
			node: "b", affinity: affinity(corev1.LabelHostname, "b", "z"), want: true,
		},
		"its node has lost the label": {node: "a", selector: map[string]string{"pool": "gone"}, want: true},
		"a preference":                {node: "a", affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}},
		"on a node that is not known": {node: "z", selector: map[string]string{corev1.LabelHostname: "z"}},
		"a selector that is an error": {node: "a", affinity: affinity("not a key!", "x")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: tt.node, NodeSelector: tt.selector, Affinity: tt.affinity}}
			if got := nodes.isPinned(p); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
