package node

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// The annotations that keep the cluster autoscaler from removing a node.
const (
	// scaleDownDisabled is the annotation that the autoscaler reads (its FAQ, "How can I prevent Cluster
	// Autoscaler from scaling down a particular node?").
	scaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
	// ScaleDownOwner is set if the agent, or the trigger, has added scaleDownDisabled. Its value is the group of the
	// rollout.
	ScaleDownOwner = "node-drainer.io/scale-down-disabled"
)

// ProtectedNode is a Node that the agent protects from the cluster autoscaler.
type ProtectedNode struct {
	Node  Node
	Group string // of the rollout
}

// Protect keeps the cluster autoscaler from removing the Node during a rollout of the group. It
// reports whether it has changed the Node: an existing annotation of the autoscaler belongs to another owner,
// and is kept. The error is ErrGone if the Node no longer exists.
func (n *Nodes) Protect(ctx context.Context, node Node, group string) (protected bool, err error) {
	return n.patcher.patch(ctx, node, func(current *corev1.Node) patch { return protectPatch(current, group) })
}

// Unprotect removes from the Node what Protect added, and nothing else. It reports whether there was
// anything.
func (n *Nodes) Unprotect(ctx context.Context, node Node) (unprotected bool, err error) {
	return n.patcher.patch(ctx, node, unprotectPatch)
}

// Protected lists the selected Nodes that the agent protects, sorted by name. It reads the cache only.
func (n *Nodes) Protected() []ProtectedNode {
	var out []ProtectedNode
	for _, obj := range n.informer.GetStore().List() {
		node := obj.(*corev1.Node) //nolint:forcetypeassert // the informer holds Nodes
		group, protected := node.Annotations[ScaleDownOwner]
		if one := n.selector.nodeOf(node); protected && !one.Unselected {
			out = append(out, ProtectedNode{Node: one, Group: group})
		}
	}
	slices.SortFunc(out, func(a, b ProtectedNode) int { return cmp.Compare(a.Node.Name, b.Node.Name) })
	return out
}

// protectPatch returns the patch that protects current; nil if it has the autoscaler's annotation already.
func protectPatch(current *corev1.Node, group string) patch {
	return annotationsPatch(ScaleDownDisabled(current, group))
}

// ScaleDownDisabled returns the annotations to write so that the cluster autoscaler does not remove the Node during a
// rollout of the group; nil if it has the autoscaler's annotation already.
func ScaleDownDisabled(current *corev1.Node, group string) map[string]any {
	if _, there := current.Annotations[scaleDownDisabled]; there {
		return nil
	}
	return map[string]any{scaleDownDisabled: "true", ScaleDownOwner: group}
}

// unprotectPatch returns the patch that removes from current what protectPatch added; nil if it added
// nothing. A value other than ours was written by another owner since, and is kept.
func unprotectPatch(current *corev1.Node) patch {
	return annotationsPatch(ScaleDownEnabled(current))
}

// ScaleDownEnabled returns the annotations to write, of which nil is to remove one, so that the Node has none of
// ScaleDownDisabled; nil if it has none.
func ScaleDownEnabled(current *corev1.Node) map[string]any {
	if _, ours := current.Annotations[ScaleDownOwner]; !ours {
		return nil
	}
	annotations := map[string]any{ScaleDownOwner: nil}
	if current.Annotations[scaleDownDisabled] == "true" {
		annotations[scaleDownDisabled] = nil
	}
	return annotations
}

func annotationsPatch(annotations map[string]any) patch {
	if annotations == nil {
		return nil
	}
	p := newPatch()
	p["metadata"]["annotations"] = annotations
	return p
}
