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
	"k8s.io/client-go/util/retry"
)

// OutdatedTaint is the key of the taint on nodes that are to be replaced. Its value is empty.
const OutdatedTaint = "node-drainer.io/outdated"

// Effect is how strongly new pods are kept off a node. Pods that are on it stay, whatever the effect.
type Effect string

// The effects.
const (
	NoTaint   Effect = "none"
	SoftTaint Effect = "soft" // PreferNoSchedule: pods come if there is no better place.
	HardTaint Effect = "hard" // NoSchedule: pods that do not tolerate it wait for another node.
)

// taints are what a node should bear of our key.
func (e Effect) taints() []corev1.Taint {
	switch e {
	case SoftTaint:
		return []corev1.Taint{{Key: OutdatedTaint, Effect: corev1.TaintEffectPreferNoSchedule}}
	case HardTaint:
		return []corev1.Taint{{Key: OutdatedTaint, Effect: corev1.TaintEffectNoSchedule}}
	}
	return nil
}

// Tainter puts OutdatedTaint on nodes and takes it off, and changes nothing else. It needs get and patch of
// nodes.
type Tainter struct{ client kubernetes.Interface }

// NewTainter returns a Tainter.
func NewTainter(client kubernetes.Interface) *Tainter { return &Tainter{client} }

// Taint puts the taint on the Node with the effect, in place of one with another effect; NoTaint takes it
// off. A Node that has it already is not changed, and one that is gone is no error.
func (t *Tainter) Taint(ctx context.Context, n Node, e Effect) error {
	return t.change(ctx, n, e.taints())
}

// Untaint takes the taint off the Node, whoever put it there. A Node without it is not changed, and one that
// is gone is no error.
func (t *Tainter) Untaint(ctx context.Context, n Node) error { return t.change(ctx, n, nil) }

// change reads the Node and patches it, again if somebody else has changed it in between.
func (t *Tainter) change(ctx context.Context, n Node, want []corev1.Taint) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	nodes := t.client.CoreV1().Nodes()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		current, err := nodes.Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil || string(current.UID) != n.UID { // Another machine has got the name.
			return err
		}
		patch, err := retaint(current, want)
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

// retaint is the patch by which the Node bears what is wanted of our key, or nil if it does. The list of
// taints is replaced as a whole, as the API has no way to name one of them: so the patch is guarded by the
// version of which the others were read. Source: NodeSpec.Taints is listType=atomic.
func retaint(n *corev1.Node, want []corev1.Taint) ([]byte, error) {
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

func outdated(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == OutdatedTaint })
}
