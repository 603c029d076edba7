package node

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// ErrUnselected is returned when NODE_SELECTOR leaves the Node to another agent.
var ErrUnselected = errors.New("NODE_SELECTOR does not select the node, which another agent has to handle")

// uninitialized is the taint of a Node until the cloud provider has set its labels (k8s.io/cloud-provider,
// TaintExternalCloudProvider).
const uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

// selector is NODE_SELECTOR. All Nodes are watched whatever it selects: only so is a Node of another agent
// known to exist.
type selector struct {
	labels labels.Selector
	keys   []string // of the labels that it reads
}

func newSelector(text string) (selector, error) {
	parsed, err := labels.Parse(text)
	if err != nil {
		return selector{}, fmt.Errorf("NODE_SELECTOR is %q: %w", text, err)
	}
	s := selector{labels: parsed}
	requirements, _ := parsed.Requirements()
	for _, r := range requirements {
		s.keys = append(s.keys, r.Key())
	}
	return s, nil
}

// trim is the informer's transform.
func (s selector) trim(obj any) (any, error) { return trim(obj, slices.Clone(s.keys)...) }

func (s selector) nodeOf(node *corev1.Node) Node {
	out := nodeOf(node)
	out.Unselected = !s.selects(node)
	return out
}

func (s selector) selects(node *corev1.Node) bool { return s.labels.Matches(labels.Set(node.Labels)) }

// check returns ErrUnselected if the Node is another agent's.
func (n Node) check() error {
	if n.Unselected {
		return fmt.Errorf("node %s: %w", n.Name, ErrUnselected)
	}
	return nil
}

// isUninitialized reports whether the Node still lacks labels: it may be selected when it has them.
func isUninitialized(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == uninitialized })
}
