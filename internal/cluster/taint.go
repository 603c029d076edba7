package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/node-drainer/node-drainer/internal/retry"
)

// OutdatedTaint is the key of the taint on nodes whose instances are to be replaced. Its value is empty.
const OutdatedTaint = "node-drainer.io/outdated"

// Effect is how strongly a node repels new pods. Pods that already run on it stay.
type Effect string

// The effects.
const (
	NoTaint   Effect = "none"
	SoftTaint Effect = "soft" // PreferNoSchedule: pods are scheduled there only if no other node fits.
	HardTaint Effect = "hard" // NoSchedule: pods that do not tolerate it wait for another node.
)

// taints returns the taints with the key OutdatedTaint.
func (e Effect) taints() []corev1.Taint {
	switch e {
	case SoftTaint:
		return []corev1.Taint{{Key: OutdatedTaint, Effect: corev1.TaintEffectPreferNoSchedule}}
	case HardTaint:
		return []corev1.Taint{{Key: OutdatedTaint, Effect: corev1.TaintEffectNoSchedule}}
	}
	return nil
}

// Tainter adds OutdatedTaint to nodes and removes it, and some annotations. It needs get and patch of nodes.
type Tainter struct{ client kubernetes.Interface }

// NewTainter returns a Tainter.
func NewTainter(client kubernetes.Interface) *Tainter { return &Tainter{client} }

// Taint adds the taint with the effect to the Node, in place of one with another effect; NoTaint removes it.
// A Node that has it already is not changed, and one that does not exist is no error.
func (t *Tainter) Taint(ctx context.Context, n Node, e Effect) error {
	return t.change(ctx, n, e.taints())
}

// Untaint removes the taint from the Node. A Node without it is not changed, and one that does not exist is
// no error.
func (t *Tainter) Untaint(ctx context.Context, n Node) error { return t.change(ctx, n, nil) }

// change reads the Node and patches it. It retries if the Node was changed in between.
func (t *Tainter) change(ctx context.Context, n Node, want []corev1.Taint) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	nodes := t.client.CoreV1().Nodes()
	err := retry.OnConflict(func() error {
		current, err := nodes.Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil || string(current.UID) != n.UID { // A node of the same name has replaced it.
			return err
		}
		patch, err := taintPatch(current, want)
		if err != nil || patch == nil {
			return err
		}
		_, err = nodes.Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("change the taints of node %s: %w", n.Name, err)
	}
	return nil
}

// taintPatch returns the patch that gives the Node the wanted taints with the key OutdatedTaint, or nil if it
// has them. A patch can only replace the list of taints as a whole (NodeSpec.Taints is listType=atomic), so
// it holds the resourceVersion of the Node that the other taints were read from, and conflicts if one was
// changed since.
func taintPatch(n *corev1.Node, want []corev1.Taint) ([]byte, error) {
	var ours, others []corev1.Taint
	for _, taint := range n.Spec.Taints {
		if taint.Key == OutdatedTaint {
			ours = append(ours, taint)
		} else {
			others = append(others, taint)
		}
	}
	if slices.EqualFunc(ours, want, func(a, b corev1.Taint) bool { return a.Effect == b.Effect }) {
		return nil, nil
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": n.ResourceVersion},
		"spec":     map[string]any{"taints": slices.Concat(others, want)},
	})
}
