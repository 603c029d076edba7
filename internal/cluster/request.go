package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/retry"
)

// RequestDrain annotates the Node, so that the agent drains it. A Node that does not exist is no error.
func (t *Tainter) RequestDrain(ctx context.Context, n Node) error {
	_, err := t.annotate(ctx, n, func(current *corev1.Node) map[string]any { return requested(current, true) })
	return err
}

// WithdrawDrain removes the annotation: the agent uncordons the Node when its instance is in service.
func (t *Tainter) WithdrawDrain(ctx context.Context, n Node) error {
	_, err := t.annotate(ctx, n, func(current *corev1.Node) map[string]any { return requested(current, false) })
	return err
}

// requested returns the annotation to write so that the drain of the Node is requested, or not; nil if that is so.
func requested(current *corev1.Node, want bool) map[string]any {
	var value any
	if want {
		value = node.InstanceOf(current)
	}
	if node.IsDrainRequested(current) == want {
		return nil
	}
	return map[string]any{node.DrainRequestAnnotation: value}
}

// DisableScaleDown annotates the Node, so that the cluster autoscaler does not remove it during a rollout of the group.
// It reports whether it has changed the Node: one whose annotation has another owner is left alone. The agent removes
// the annotation after the rollout, if EnableScaleDown does not.
func (t *Tainter) DisableScaleDown(ctx context.Context, n Node, group string) (changed bool, err error) {
	return t.annotate(ctx, n, func(current *corev1.Node) map[string]any { return node.ScaleDownDisabled(current, group) })
}

// EnableScaleDown removes what DisableScaleDown, or the agent, has written.
func (t *Tainter) EnableScaleDown(ctx context.Context, n Node) error {
	_, err := t.annotate(ctx, n, node.ScaleDownEnabled)
	return err
}

// annotate reads the Node and patches it, unless there is nothing to write. It retries if the Node was changed in
// between, since another Node of the same name may have replaced it.
func (t *Tainter) annotate(
	ctx context.Context, n Node, annotations func(current *corev1.Node) map[string]any,
) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	nodes := t.client.CoreV1().Nodes()
	err = retry.OnConflict(func() error {
		current, err := nodes.Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil || string(current.UID) != n.UID {
			return err
		}
		write := annotations(current)
		if write == nil {
			return nil
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"resourceVersion": current.ResourceVersion, "annotations": write,
		}})
		if err != nil {
			return err
		}
		_, err = nodes.Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		changed = err == nil
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("annotate node %s: %w", n.Name, err)
	}
	return changed, nil
}
