package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// PoolLabel keeps the pods of a test on the nodes of the same test.
	PoolLabel = "node-drainer.test/pool"

	unreadyAnnotation = "node-drainer.test/unready"
	// ownTime bounds what the control plane does in its own time, such as to make a node Ready: below a
	// second, if the machine is not busy. After a stop of the API server kwok and the controllers come back
	// to it after a minute each at most.
	ownTime = 3 * time.Minute
)

// Node is a node to be added. Only Name or InstanceID must be set.
type Node struct {
	Name       string // NodeName(InstanceID) if empty.
	InstanceID string // Made of the name if empty, so that every node has a provider id.
	Zone       string // eu-central-1a if empty.
	Pool       string // The value of PoolLabel; a test takes its namespace.
	Labels     map[string]string
	Taints     []corev1.Taint
	Unready    bool  // It never becomes Ready, until MarkReady.
	Pods       int64 // How many pods fit; 256 if 0.
}

// NodeName returns the name that a node of an instance gets.
func NodeName(instanceID string) string { return "node-" + instanceID }

// AddNode makes a node as the kubelet and the cloud's controller do, and returns when pods may be
// scheduled to it; if it is to be unready, at once.
func (c *Cluster) AddNode(ctx context.Context, n Node) error {
	n = n.complete()
	_, err := c.client.CoreV1().Nodes().Create(ctx, n.object(), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("add node: %w", err)
	}
	if n.Unready {
		return nil
	}
	return c.waitNode(ctx, n.Name, isSchedulable)
}

// Node adds a node for one test and returns its name. It is removed with its pods when the test ends.
// Without a name or an instance it gets an instance id of its own.
func (c *Cluster) Node(t testing.TB, n Node) string {
	t.Helper()
	if n.Name == "" && n.InstanceID == "" {
		n.InstanceID = NewInstanceID()
	}
	n = n.complete()
	c.afterwards(t, func(ctx context.Context) error {
		_, err := c.RemoveNode(ctx, n.Name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err := c.AddNode(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	return n.Name
}

// MarkUnready makes a node NotReady, as a kubelet that fails does, and returns when it is.
func (c *Cluster) MarkUnready(ctx context.Context, name string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, unreadyAnnotation)
	return c.patchNode(ctx, name, patch, func(n *corev1.Node) bool { return !isReady(n) })
}

// MarkReady makes a node Ready that was unready, and returns when pods may be scheduled to it.
func (c *Cluster) MarkReady(ctx context.Context, name string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, unreadyAnnotation)
	return c.patchNode(ctx, name, patch, isSchedulable)
}

func (c *Cluster) patchNode(
	ctx context.Context, name string, patch []byte, done func(*corev1.Node) bool,
) error {
	_, err := c.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	return c.waitNode(ctx, name, done)
}

// RemoveNode deletes a node as the cloud does when the instance is gone, and whatever pods are left
// there without grace. It returns those that should have been moved away before, as namespace/name.
func (c *Cluster) RemoveNode(ctx context.Context, name string) (killed []string, err error) {
	err = c.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil {
		return nil, fmt.Errorf("remove node: %w", err)
	}
	return c.removePods(ctx, name)
}

// removePods deletes the pods that are on a node, which may be gone, without grace. It returns those that
// should have been moved away before.
func (c *Cluster) removePods(ctx context.Context, name string) (killed []string, err error) {
	pods, err := c.podsOn(ctx, name)
	if err != nil {
		return nil, err
	}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	for _, p := range pods {
		if isDrainable(p) {
			killed = append(killed, p.Namespace+"/"+p.Name)
		}
		now.Preconditions = metav1.NewUIDPreconditions(string(p.UID))
		gone := c.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, now)
		if gone != nil && !apierrors.IsNotFound(gone) && !apierrors.IsConflict(gone) {
			err = errors.Join(err, gone)
		}
	}
	return killed, err
}

// DrainablePods returns the pods on a node that a drain must move away, as namespace/name: all but
// those of DaemonSets, mirrors of static pods, and pods that ran to their end. A pod that is
// terminating is still on the node. It asks the API server for what is true now.
//
// It is written apart from the product on purpose, because it is what the product is measured by.
func (c *Cluster) DrainablePods(ctx context.Context, node string) ([]string, error) {
	pods, err := c.podsOn(ctx, node)
	var names []string
	for _, p := range pods {
		if isDrainable(p) {
			names = append(names, p.Namespace+"/"+p.Name)
		}
	}
	return names, err
}

// podsOn lists with an empty resource version, which the API server answers consistently.
func (c *Cluster) podsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	list, err := c.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("list the pods of node %s: %w", node, err)
	}
	return list.Items, nil
}

func isDrainable(p corev1.Pod) bool {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return false
	}
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return false
	}
	owner := metav1.GetControllerOf(&p)
	return owner == nil || owner.Kind != "DaemonSet"
}

func isReady(n *corev1.Node) bool {
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// isSchedulable asks for more than Ready: the taint of the time before is taken off a moment later.
func isSchedulable(n *corev1.Node) bool {
	for _, taint := range n.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable {
			return false
		}
	}
	return isReady(n)
}

// waitNode returns when done is true of the node.
func (c *Cluster) waitNode(ctx context.Context, name string, done func(*corev1.Node) bool) error {
	ctx, cancel := context.WithTimeout(ctx, ownTime)
	defer cancel()
	s := selection{
		rest: c.client.CoreV1().RESTClient(), resource: "nodes",
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

// complete fills in what was left out.
func (n Node) complete() Node {
	if n.Name == "" {
		n.Name = NodeName(n.InstanceID)
	}
	if n.InstanceID == "" {
		n.InstanceID = "i-" + strings.TrimPrefix(n.Name, "node-")
	}
	if n.Zone == "" {
		n.Zone = "eu-central-1a"
	}
	if n.Pods == 0 {
		n.Pods = 256
	}
	return n
}

// object is what the kubelet would register.
func (n Node) object() *corev1.Node {
	labels := map[string]string{
		corev1.LabelHostname: n.Name, corev1.LabelTopologyZone: n.Zone,
		corev1.LabelTopologyRegion: strings.TrimRight(n.Zone, "abcdef"), corev1.LabelOSStable: "linux",
	}
	if n.Pool != "" {
		labels[PoolLabel] = n.Pool
	}
	maps.Copy(labels, n.Labels)
	annotations := map[string]string{"kwok.x-k8s.io/node": "fake"}
	if n.Unready {
		annotations[unreadyAnnotation] = "true"
	}
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods: *resource.NewQuantity(n.Pods, resource.DecimalSI),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: labels, Annotations: annotations},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///" + n.Zone + "/" + n.InstanceID, Taints: n.Taints},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room, Conditions: n.conditions(),
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: n.Name}},
			NodeInfo:  corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: "amd64", KubeletVersion: "kwok"},
		},
	}
}

// conditions are what a kubelet that is not ready says of itself. Of a node that says nothing Kubernetes
// takes the taint off that keeps pods away.
func (n Node) conditions() []corev1.NodeCondition {
	if !n.Unready {
		return nil
	}
	return []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady",
		Message: "the test made this node unready",
	}}
}
