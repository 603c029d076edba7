package node

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"github.com/node-drainer/node-drainer/internal/batch"
)

const (
	// lookupMax and lookupWindow bound how many lookups share one list of all Nodes, and how long the first of
	// them waits for others.
	lookupMax    = 1000
	lookupWindow = 100 * time.Millisecond
	// lookupTimeout bounds that list: a cluster may have thousands of Nodes.
	lookupTimeout = time.Minute
)

// Lookup returns the Node of an EC2 instance from the API server instead of the cache. The error is
// ErrGone if there is no such Node, and ErrUnselected if it is another agent's. Lookup lists all Nodes,
// since the API cannot select them by instance. Calls at the same time share one list, which starts after
// the last of them.
func (n *Nodes) Lookup(ctx context.Context, instanceID string) (Node, error) {
	return n.lookups.Do(ctx, instanceID)
}

// lookup returns a call that finds the Nodes of instances with one consistent list.
func lookup(client kubernetes.Interface, s selector) batch.Call[string, Node] {
	return func(ctx context.Context, instanceIDs []string) []batch.Result[Node] {
		found, err := list(ctx, client, instanceIDs)
		results := make([]batch.Result[Node], len(instanceIDs))
		for i, id := range instanceIDs {
			switch {
			case err != nil:
				results[i].Err = fmt.Errorf("list the nodes: %w", err)
			case found[id] == nil:
				results[i].Err = fmt.Errorf("find the node of instance %s: %w", id, ErrGone)
			default:
				one := s.nodeOf(found[id])
				results[i].Value, results[i].Err = one, one.check()
			}
		}
		return results
	}
}

// list returns the Nodes of the instances, from a list of all Nodes: a selector would make another agent's Node
// look like one that does not exist.
func list(ctx context.Context, client kubernetes.Interface, instanceIDs []string) (map[string]*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	wanted := make(map[string]*corev1.Node, len(instanceIDs))
	for _, id := range instanceIDs {
		wanted[id] = nil
	}
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return client.CoreV1().Nodes().List(ctx, o)
	})
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(obj runtime.Object) error {
		one, ok := obj.(*corev1.Node)
		if !ok {
			return fmt.Errorf("%T is not a Node", obj)
		}
		if before, ok := wanted[InstanceOf(one)]; ok {
			wanted[InstanceOf(one)] = Preferred(before, one)
		}
		return nil
	})
	return wanted, err
}
