package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/node"
)

// RequestDrain annotates the Node, so that the agent drains it. A Node that does not exist is no error.
func (t *Tainter) RequestDrain(ctx context.Context, n Node) error { return t.annotate(ctx, n, true) }

// WithdrawDrain removes the annotation: the agent uncordons the Node when its instance is in service.
func (t *Tainter) WithdrawDrain(ctx context.Context, n Node) error { return t.annotate(ctx, n, false) }

// annotate reads the Node and patches it. It retries if the Node was changed in between, since another Node of the same
// name may have replaced it.
func (t *Tainter) annotate(ctx context.Context, n Node, requested bool) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	nodes := t.client.CoreV1().Nodes()
	err := retry.OnConflict(func() error {
		current, err := nodes.Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil || string(current.UID) != n.UID || node.IsDrainRequested(current) == requested {
			return err
		}
		patch, err := requestPatch(current, requested)
		if err != nil {
			return err
		}
		_, err = nodes.Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("annotate node %s with %s: %w", n.Name, node.DrainRequestAnnotation, err)
	}
	return nil
}

func requestPatch(n *corev1.Node, requested bool) ([]byte, error) {
	var value any
	if requested {
		value = node.InstanceOf(n)
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": n.ResourceVersion, "annotations": map[string]any{node.DrainRequestAnnotation: value},
	}})
}
