package cluster

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// placement knows which nodes can have which pods, by their labels.
type placement struct {
	nodes        []*corev1.Node
	replacements map[string]*corev1.Node // by name: a node with the labels of that one, and another name
}

func newPlacement(nodes []*corev1.Node) placement {
	p := placement{nodes, make(map[string]*corev1.Node, len(nodes))}
	for _, n := range nodes {
		replacement := &corev1.Node{}
		replacement.Labels = maps.Clone(n.Labels)
		delete(replacement.Labels, corev1.LabelHostname)
		p.replacements[n.Name] = replacement
	}
	return p
}

// isPinned reports whether the pod can run on its own node alone: its node selector and its required node affinity
// match none of the other nodes, nor the replacement of its own.
func (p placement) isPinned(pod *corev1.Pod) bool {
	affinity, replacement := pod.Spec.Affinity, p.replacements[pod.Spec.NodeName]
	if replacement == nil || len(pod.Spec.NodeSelector) == 0 && (affinity == nil || affinity.NodeAffinity == nil) {
		return false
	}
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	takes := func(n *corev1.Node) bool {
		matches, err := required.Match(n)
		return matches || err != nil
	}
	return !takes(replacement) && !slices.ContainsFunc(p.nodes, func(n *corev1.Node) bool {
		return n.Name != pod.Spec.NodeName && takes(n)
	})
}
