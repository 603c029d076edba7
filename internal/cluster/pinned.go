package cluster

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// isPinned reports whether the pod can run on its own node alone: its node selector and its required node affinity
// match none of the other nodes, nor one that has the labels of its own node and another name, as the replacement has.
func isPinned(p *corev1.Pod, nodes []*corev1.Node) bool {
	affinity := p.Spec.Affinity
	if len(p.Spec.NodeSelector) == 0 && (affinity == nil || affinity.NodeAffinity == nil) {
		return false
	}
	own := slices.IndexFunc(nodes, func(n *corev1.Node) bool { return n.Name == p.Spec.NodeName })
	if own < 0 {
		return false
	}
	required := nodeaffinity.GetRequiredNodeAffinity(p)
	takes := func(n *corev1.Node) bool {
		matches, err := required.Match(n)
		return matches || err != nil
	}
	replacement := &corev1.Node{}
	replacement.Labels = maps.Clone(nodes[own].Labels)
	delete(replacement.Labels, corev1.LabelHostname)
	return !takes(replacement) && !slices.ContainsFunc(nodes, func(n *corev1.Node) bool {
		return n.Name != p.Spec.NodeName && takes(n)
	})
}
