package cluster

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What the agent writes to a Node that is being terminated: see pkg/node. The taint's key may be configured,
// but not the annotation's.
const (
	taintKey       = "node-drainer.io/terminating"
	markAnnotation = "node-drainer.io/termination"
	conditionType  = "node-drainer.io/Drained"
)

func toNode(n *corev1.Node) Node {
	out := Node{Name: n.Name, UID: string(n.UID), Labels: n.Labels, Tainted: hasTaint(n, OutdatedTaint)}
	_, annotated := n.Annotations[markAnnotation]
	out.Marked = annotated || hasTaint(n, taintKey)
	for _, c := range n.Status.Conditions {
		switch c.Type {
		case corev1.NodeReady:
			out.Ready = c.Status == corev1.ConditionTrue
		case conditionType:
			out.Drain = &Drain{
				Done: c.Status == corev1.ConditionTrue, Reason: c.Reason, Message: c.Message,
				Since: c.LastTransitionTime.Time,
			}
		}
	}
	return out
}

func hasTaint(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

// or returns the current one of two Nodes of one instance. An instance that registers again under another
// name leaves a Node that no kubelet updates any more.
func (n Node) or(other Node) Node {
	if other.Name == "" || n.Ready && !other.Ready || n.Ready == other.Ready && n.Name < other.Name {
		return n
	}
	return other
}

func instanceIndex(obj any) ([]string, error) {
	n, ok := obj.(*corev1.Node)
	if !ok {
		return nil, fmt.Errorf("index a %T: not a Node", obj)
	}
	if id := instanceOf(n); id != "" {
		return []string{id}, nil
	}
	return nil, nil
}

// instanceOf returns the EC2 instance id in the Node's provider id, which the AWS cloud provider writes as
// aws:///ZONE/INSTANCE. It is empty for other Nodes, such as those of AWS Fargate.
func instanceOf(n *corev1.Node) string {
	if !strings.HasPrefix(n.Spec.ProviderID, "aws://") {
		return ""
	}
	last := n.Spec.ProviderID[strings.LastIndexByte(n.Spec.ProviderID, '/')+1:]
	if !strings.HasPrefix(last, "i-") {
		return ""
	}
	return last
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
		},
		Spec: corev1.NodeSpec{ProviderID: n.Spec.ProviderID, Taints: n.Spec.Taints},
	}
	if mark, ok := n.Annotations[markAnnotation]; ok {
		kept.Annotations = map[string]string{markAnnotation: mark}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady || c.Type == conditionType {
			kept.Status.Conditions = append(kept.Status.Conditions, c)
		}
	}
	return kept, nil
}
