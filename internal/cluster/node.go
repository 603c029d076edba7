package cluster

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/internal/node"
)

// taintKey is the default key of the taint that the agent adds to a Node that is being terminated.
const taintKey = "node-drainer.io/terminating"

func toNode(n *corev1.Node) Node {
	out := Node{Name: n.Name, UID: string(n.UID), Labels: n.Labels, Tainted: hasTaint(n, OutdatedTaint)}
	_, annotated := n.Annotations[node.Annotation]
	out.DrainRequested, out.ScaleDownGroup = node.IsDrainRequested(n), n.Annotations[node.ScaleDownOwner]
	out.Policy, _ = node.PolicyOf(n)
	out.Marked = annotated || hasTaint(n, taintKey)
	for _, c := range n.Status.Conditions {
		switch c.Type {
		case corev1.NodeReady:
			if out.Ready = c.Status == corev1.ConditionTrue; out.Ready {
				out.ReadySince = c.LastTransitionTime.Time
			}
		case node.ConditionType:
			out.Drain = &Drain{
				Done: c.Status == corev1.ConditionTrue, Reason: c.Reason, Message: c.Message,
				Since: c.LastTransitionTime.Time, LeftBehind: c.Reason == node.ReasonLeftBehind,
			}
		}
	}
	return out
}

func hasTaint(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

func instanceIndex(obj any) ([]string, error) {
	n, ok := obj.(*corev1.Node)
	if !ok {
		return nil, fmt.Errorf("index a %T: not a Node", obj)
	}
	if id := node.InstanceOf(n); id != "" {
		return []string{id}, nil
	}
	return nil, nil
}

// strip keeps the fields of a Node that this package reads, to use little memory in a large cluster.
func strip(obj any) (any, error) {
	n, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil // A cache.DeletedFinalStateUnknown.
	}
	kept := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion, Labels: n.Labels,
			CreationTimestamp: n.CreationTimestamp,
			Annotations: node.Annotations(n, append(node.PolicyKeys(), node.Annotation, node.DrainRequestAnnotation,
				node.ScaleDownOwner)...),
		},
		Spec: corev1.NodeSpec{ProviderID: n.Spec.ProviderID, Taints: n.Spec.Taints},
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady || c.Type == node.ConditionType {
			kept.Status.Conditions = append(kept.Status.Conditions, c)
		}
	}
	return kept, nil
}
