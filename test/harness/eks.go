package harness

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// eks is what EKS does in a cluster with an API server.
type eks struct{ client kubernetes.Interface }

// NewEKS gives the EKS of awsim access to a cluster, for Server.Connect. The client's user is that of EKS, so a test
// that reads the audit log gives it a user of its own:
//
//	aws.CreateCluster("demo", "1.31")
//	err := aws.Connect("demo", harness.NewEKS(client), awsim.EKSTimes{Settle: time.Second, Poll: 100 * time.Millisecond})
//	aws.PublishRelease(awsim.Release{KubernetesVersion: "1.31", Version: "1.31.0-20260101", Image: "ami-1"})
//	aws.PutSubnet(awsim.Subnet{ID: "subnet-a", Zone: "eu-central-1a", Available: 250})
//	group, err := aws.CreateNodegroup(awsim.Nodegroup{
//		Cluster: "demo", Name: "workers", Max: 3, Desired: 2, Subnets: []string{"subnet-a"},
//	})
//
// The Machines of awsim create the nodes, with a provider ID that ends with the ID of the instance. EKS adds its
// labels.
func NewEKS(client kubernetes.Interface) awsim.Kubernetes { return eks{client} }

// Node finds the node by its provider ID.
func (e eks) Node(ctx context.Context, instanceID string) (awsim.ManagedNode, error) {
	list, err := e.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return awsim.ManagedNode{}, err
	}
	for _, n := range list.Items {
		if !strings.HasSuffix(n.Spec.ProviderID, "/"+instanceID) {
			continue
		}
		out := awsim.ManagedNode{Name: n.Name, Labels: n.Labels}
		for _, condition := range n.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				out.Ready = condition.Status == corev1.ConditionTrue
				out.ReadySince = condition.LastTransitionTime.Time
			}
		}
		return out, nil
	}
	return awsim.ManagedNode{}, nil
}

// Label sets labels of a node.
func (e eks) Label(ctx context.Context, node string, labels map[string]string) error {
	return e.patch(ctx, node, map[string]any{"metadata": map[string]any{"labels": labels}})
}

// Cordon makes a node unschedulable.
func (e eks) Cordon(ctx context.Context, node string) error {
	return e.patch(ctx, node, map[string]any{"spec": map[string]any{"unschedulable": true}})
}

// patch changes a node; one that is gone needs no change.
func (e eks) patch(ctx context.Context, node string, change any) error {
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = e.client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, body, metav1.PatchOptions{})
	return unlessGone(err)
}

// Pods lists the pods on a node without those that EKS leaves there.
func (e eks) Pods(ctx context.Context, node string) ([]awsim.ManagedPod, error) {
	list, err := e.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return nil, err
	}
	var out []awsim.ManagedPod
	for _, pod := range list.Items {
		if !staysOnNode(pod) {
			out = append(out, awsim.ManagedPod{
				Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Deleted: pod.DeletionTimestamp != nil,
			})
		}
	}
	return out, nil
}

// staysOnNode reports whether EKS leaves the pod on its node.
func staysOnNode(pod corev1.Pod) bool {
	_, isMirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	hasEnded := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return isMirror || hasEnded || slices.ContainsFunc(pod.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.Kind == "DaemonSet" && owner.Controller != nil && *owner.Controller
	})
}

// Evict calls the Eviction API.
func (e eks) Evict(ctx context.Context, pod awsim.ManagedPod) error {
	err := e.client.PolicyV1().Evictions(pod.Namespace).Evict(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: deletion(pod),
	})
	if apierrors.IsTooManyRequests(err) {
		return awsim.ErrEvictionBlocked
	}
	return unlessGone(err)
}

// Delete deletes a pod, with its grace period.
func (e eks) Delete(ctx context.Context, pod awsim.ManagedPod) error {
	return unlessGone(e.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *deletion(pod)))
}

// deletion deletes this pod and not the next one of the same name.
func deletion(pod awsim.ManagedPod) *metav1.DeleteOptions {
	return &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(pod.UID)}
}

// unlessGone returns the error unless it means that the object is gone, or is another one of that name.
func unlessGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
