package node

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// The annotations that keep the cluster autoscaler from taking a node away.
const (
	// scaleDownDisabled is the autoscaler's own (its FAQ, "How can I prevent Cluster Autoscaler from scaling
	// down a particular node?").
	scaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
	// ScaleDownOwner says that the autoscaler's annotation is ours, and for the refresh of which group.
	ScaleDownOwner = "node-drainer.io/scale-down-disabled"
)

// ProtectedNode is a Node that the cluster autoscaler leaves alone because we have asked it to.
type ProtectedNode struct {
	Node  Node
	Group string // whose instance refresh is the reason
}

// Protect has the cluster autoscaler leave the Node alone while an instance refresh of the group is on, and
// tells whether that was news. An annotation of the autoscaler's that is there already is somebody else's,
// and stays as it is. The patch is guarded by the Node's resource version. The error is ErrGone if the Node
// no longer exists.
func (n *Nodes) Protect(ctx context.Context, node Node, group string) (protected bool, err error) {
	err = n.change(ctx, node, func(current *corev1.Node) patch {
		p := protect(current, group)
		protected = p != nil
		return p
	})
	return protected && err == nil, err
}

// Unprotect takes off the Node what Protect put on it, and nothing else. It tells whether there was anything.
func (n *Nodes) Unprotect(ctx context.Context, node Node) (unprotected bool, err error) {
	err = n.change(ctx, node, func(current *corev1.Node) patch {
		p := unprotect(current)
		unprotected = p != nil
		return p
	})
	return unprotected && err == nil, err
}

// Protected lists, by name, the Nodes that bear our mark of protection. It asks no API.
func (n *Nodes) Protected() []ProtectedNode {
	var out []ProtectedNode
	for _, obj := range n.informer.GetStore().List() {
		node, ok := obj.(*corev1.Node)
		if !ok {
			continue
		}
		if group, ours := node.Annotations[ScaleDownOwner]; ours {
			out = append(out, ProtectedNode{Node: toNode(node), Group: group})
		}
	}
	slices.SortFunc(out, func(a, b ProtectedNode) int { return cmp.Compare(a.Node.Name, b.Node.Name) })
	return out
}

// protect returns the patch that keeps the autoscaler off current; nil if something does already.
func protect(current *corev1.Node, group string) patch {
	if _, there := current.Annotations[scaleDownDisabled]; there {
		return nil
	}
	p := newPatch()
	p["metadata"]["annotations"] = map[string]any{scaleDownDisabled: "true", ScaleDownOwner: group}
	return p
}

// unprotect returns the patch that takes off current what protect put there; nil if it put nothing. A value
// that is not ours was written by somebody else since.
func unprotect(current *corev1.Node) patch {
	if _, ours := current.Annotations[ScaleDownOwner]; !ours {
		return nil
	}
	annotations := map[string]any{ScaleDownOwner: nil}
	if current.Annotations[scaleDownDisabled] == "true" {
		annotations[scaleDownDisabled] = nil
	}
	p := newPatch()
	p["metadata"]["annotations"] = annotations
	return p
}
