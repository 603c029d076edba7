package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const (
	// PoolLabel keeps the pods of a test on the nodes of the same test.
	PoolLabel = "node-drainer.test/pool"

	unreadyAnnotation = "node-drainer.test/unready"
	// ownTime bounds what the control plane does asynchronously, such as making a node Ready: this takes less
	// than a second on an idle machine. After a stop of the API server, kwok and the controllers connect to
	// it again within a minute each.
	ownTime = 3 * time.Minute
)

// Node is a node to be added. Its name is NodeName(InstanceID).
type Node struct {
	InstanceID string
	Zone       string // eu-central-1a if empty.
	Pool       string // The value of PoolLabel; a test takes its namespace.
	Taints     []corev1.Taint
	Unready    bool  // It never becomes Ready, until MarkReady.
	Pods       int64 // How many pods fit; 256 if 0.
}

// Nodes creates, changes and removes the nodes of a cluster.
type Nodes struct{ client kubernetes.Interface }

// NodeName returns the name that a node of an instance gets.
func NodeName(instanceID string) string { return "node-" + instanceID }

// AddNode creates a node as the kubelet and the cloud controller manager do, and returns when pods may be
// scheduled to it. It does not wait for an unready node.
func (n Nodes) AddNode(ctx context.Context, node Node) error {
	_, err := n.client.CoreV1().Nodes().Create(ctx, node.object(), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("add node: %w", err)
	}
	if node.Unready {
		return nil
	}
	return n.waitNode(ctx, NodeName(node.InstanceID), isSchedulable)
}

// Node adds a node for one test and returns its name. It is removed with its pods when the test ends.
// Without an instance it gets an instance id of its own.
func (n Nodes) Node(t testing.TB, node Node) (name string) {
	t.Helper()
	if node.InstanceID == "" {
		node.InstanceID = NewInstanceID()
	}
	name = NodeName(node.InstanceID)
	afterwards(t, func(ctx context.Context) error {
		_, err := n.RemoveNode(ctx, name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err := n.AddNode(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	return name
}

// WaitSchedulable returns when a node is there and pods may be scheduled to it.
func (n Nodes) WaitSchedulable(ctx context.Context, name string) error {
	return n.waitNode(ctx, name, isSchedulable)
}

// MarkUnready makes a node NotReady, as a failing kubelet does, and returns when the node is NotReady.
func (n Nodes) MarkUnready(ctx context.Context, name string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, unreadyAnnotation)
	return n.patchNode(ctx, name, patch, func(n *corev1.Node) bool { return !isReady(n) })
}

// Boot gives a node another boot ID, as a kubelet does that starts after a boot of its machine.
func (n Nodes) Boot(ctx context.Context, name string) error {
	patch := fmt.Appendf(nil, `{"status":{"nodeInfo":{"bootID":%q}}}`, rand.Text())
	_, err := n.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// MarkReady makes an unready node Ready, and returns when pods may be scheduled to it.
func (n Nodes) MarkReady(ctx context.Context, name string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, unreadyAnnotation)
	return n.patchNode(ctx, name, patch, isSchedulable)
}

func (n Nodes) patchNode(
	ctx context.Context, name string, patch []byte, done func(*corev1.Node) bool,
) error {
	_, err := n.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	return n.waitNode(ctx, name, done)
}

// RemoveNode deletes a node as the cloud controller manager does after its instance has terminated, and
// deletes its pods without a grace period. It returns those that a drain should have evicted, as
// namespace/name.
func (n Nodes) RemoveNode(ctx context.Context, name string) (killed []string, err error) {
	err = n.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil {
		return nil, fmt.Errorf("remove node: %w", err)
	}
	return n.removePods(ctx, name)
}

// removePods deletes the pods of a node, which need not exist any more, without a grace period. It returns
// those that a drain should have evicted.
func (n Nodes) removePods(ctx context.Context, name string) (killed []string, err error) {
	pods, err := n.podsOn(ctx, name)
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	for _, p := range pods {
		now.Preconditions = metav1.NewUIDPreconditions(string(p.UID))
		deleteErr := n.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, now)
		if deleteErr != nil && !apierrors.IsNotFound(deleteErr) && !apierrors.IsConflict(deleteErr) {
			err = errors.Join(err, deleteErr)
		}
	}
	return drainable(pods), err
}

// DrainablePods returns the pods on a node that a drain must evict, as namespace/name: all except pods of
// DaemonSets, and pods that have succeeded or failed. A pod that is terminating is still on the
// node. The list is consistent, not from a cache.
//
// It shares no code with the product on purpose, because tests compare the product with it.
func (n Nodes) DrainablePods(ctx context.Context, node string) ([]string, error) {
	pods, err := n.podsOn(ctx, node)
	return drainable(pods), err
}

// drainable returns those of the pods that a drain must evict, as namespace/name.
func drainable(pods []corev1.Pod) (names []string) {
	for _, p := range pods {
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		owner := metav1.GetControllerOf(&p)
		if !ended && (owner == nil || owner.Kind != "DaemonSet") {
			names = append(names, p.Namespace+"/"+p.Name)
		}
	}
	return names
}

// podsOn lists with an empty resource version, which the API server answers consistently.
func (n Nodes) podsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	list, err := n.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("list the pods of node %s: %w", node, err)
	}
	return list.Items, nil
}

func isReady(n *corev1.Node) bool {
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// isSchedulable reports whether a node is Ready and has no not-ready or unreachable taint, which the node
// controller removes a moment later.
func isSchedulable(n *corev1.Node) bool {
	for _, taint := range n.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable {
			return false
		}
	}
	return isReady(n)
}

// waitNode returns when done is true of the node.
func (n Nodes) waitNode(ctx context.Context, name string, done func(*corev1.Node) bool) error {
	ctx, cancel := context.WithTimeout(ctx, ownTime)
	defer cancel()
	s := selection{
		rest: n.client.CoreV1().RESTClient(), resource: "nodes",
		field: fields.OneTermEqualSelector("metadata.name", name),
	}
	err := until(ctx, s, &corev1.Node{}, func(nodes []*corev1.Node) bool {
		return len(nodes) == 1 && done(nodes[0])
	})
	if err != nil {
		return fmt.Errorf("wait for node %s: %w", name, err)
	}
	return nil
}

// object returns the Node that the kubelet would register.
func (n Node) object() *corev1.Node {
	name, zone, pods := NodeName(n.InstanceID), cmp.Or(n.Zone, "eu-central-1a"), cmp.Or(n.Pods, 256)
	labels := map[string]string{
		corev1.LabelHostname: name, corev1.LabelTopologyZone: zone,
		corev1.LabelTopologyRegion: strings.TrimRight(zone, "abcdef"), corev1.LabelOSStable: "linux",
	}
	if n.Pool != "" {
		labels[PoolLabel] = n.Pool
	}
	annotations := map[string]string{"kwok.x-k8s.io/node": "fake"}
	if n.Unready {
		annotations[unreadyAnnotation] = "true"
	}
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods: *resource.NewQuantity(pods, resource.DecimalSI),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///" + zone + "/" + n.InstanceID, Taints: n.Taints},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity, Conditions: n.conditions(),
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}},
			NodeInfo: corev1.NodeSystemInfo{
				OperatingSystem: "linux", Architecture: "amd64", KubeletVersion: "kwok", BootID: rand.Text(),
			},
		},
	}
}

// conditions returns the conditions of an unready node. Without a Ready condition Kubernetes would remove the
// taint that keeps pods away.
func (n Node) conditions() []corev1.NodeCondition {
	if !n.Unready {
		return nil
	}
	return []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady",
		Message: "the test made this node unready",
	}}
}
