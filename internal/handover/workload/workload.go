// Package workload describes the pods of replicated workloads to the program that has them hand over.
package workload

import (
	"context"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/util/podutils"

	"github.com/node-drainer/node-drainer/internal/kube"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

// Releaser has pods of one kind of workload hand over. It remembers nothing between calls: each call begins with the
// actual state of the workload, so that a call after a crash continues where the last one ended. An error means that
// no answer could be had.
type Releaser interface {
	// Release makes the pod ready to leave, as far as that is possible within ctx, and answers whether it may be
	// evicted now.
	Release(ctx context.Context, r Request) (handover.Answer, error)
	// Reconcile does what can be done now of the work that is left once a released pod has moved, such as forgetting the
	// address that the pod had. r.Pod is any pod of the same group that stays. Answer.Go says that nothing is left.
	Reconcile(ctx context.Context, r Request) (handover.Answer, error)
	Surger
}

// Request asks for the release of one pod.
type Request struct {
	Pod      Pod
	Peers    []Pod     // the other pods of its namespace, as a list from the API server has just shown them
	Deadline time.Time // of the drain
	Last     bool      // no other call follows: any member in sync may become the leader, even one that leaves soon
}

// Pod is what a hand-over needs to know of a pod.
type Pod struct {
	Namespace     string
	Name          string
	UID           string
	IP            string // status.podIP; empty while it has none
	HostNetwork   bool   // it uses the network of its node, or has the address of one
	Node          string
	Stays         bool // nobody drains its node
	Ready         bool
	Deleting      bool // it has a deletion timestamp
	Labels        map[string]string
	Controller    string            // KIND/NAME of what controls it; empty without one
	ControllerUID string            // empty without one
	Annotations   map[string]string // only those that begin with handover.Prefix
	Ports         []Port
}

// IsAlike reports whether two pods ask for the same hand-over, though one may be preferred, or permit a surge.
func (p Pod) IsAlike(other Pod) bool {
	x, y := maps.Clone(p.Annotations), maps.Clone(other.Annotations)
	for _, name := range []string{PreferAnnotation, SurgeAnnotation} {
		delete(x, name)
		delete(y, name)
	}
	return maps.Equal(x, y)
}

// Port is a named port of a container.
type Port struct {
	Name   string
	Number int32
}

// The annotations of a pod, on the template of its controller, that say how it hands over. All are optional.
const (
	PortAnnotation       = "node-drainer.io/hand-over-port"        // a number or the name of a port
	SecretAnnotation     = "node-drainer.io/hand-over-secret"      //nolint:gosec // a Secret of username, password, ca.crt
	SentinelsAnnotation  = "node-drainer.io/hand-over-sentinels"   // a label selector of the pods that are sentinels
	MasterAnnotation     = "node-drainer.io/hand-over-master"      // the name of the master that the sentinels watch
	ServerNameAnnotation = "node-drainer.io/hand-over-server-name" // the name in the certificate
	PreferAnnotation     = "node-drainer.io/hand-over-prefer"      // "true": this member is to lead when it can
)

const (
	// pageSize bounds what is decoded at once. The annotations of one pod may take 256 KiB.
	pageSize = 50
	// longestAnnotation is how long the value of an annotation can be. Longer ones are ignored.
	longestAnnotation = 1024
)

// List lists the pods of a namespace, from the API server and not from its cache: a member that is missing must not be
// overlooked. It leaves out pods that no API server has created: a kubelet may call them what it likes.
func List(ctx context.Context, client kubernetes.Interface, namespace string) (all []Pod, err error) {
	nodes := map[string]bool{}
	err = kube.EachPod(ctx, client, namespace, metav1.ListOptions{Limit: pageSize}, func(p *corev1.Pod) {
		nodes[p.Status.HostIP] = true
		if !isMirror(p) {
			all = append(all, podOf(p))
		}
	})
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].HostNetwork = all[i].HostNetwork || all[i].IP != "" && nodes[all[i].IP]
	}
	return all, nil
}

// isMirror reports whether a pod is a mirror pod: a kubelet has created it, for a static pod of its node.
func isMirror(p *corev1.Pod) bool {
	_, marked := p.Annotations[corev1.MirrorPodAnnotationKey]
	owner := metav1.GetControllerOf(p)
	return marked || owner != nil && owner.Kind == "Node"
}

func podOf(p *corev1.Pod) Pod {
	out := Pod{
		Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), IP: p.Status.PodIP, HostNetwork: p.Spec.HostNetwork,
		Node: p.Spec.NodeName, Ready: podutils.IsPodReady(p), Deleting: p.DeletionTimestamp != nil, Labels: p.Labels,
		Annotations: map[string]string{},
	}
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		out.IP = "" // another pod may have it now
	}
	if owner := metav1.GetControllerOf(p); owner != nil {
		out.Controller, out.ControllerUID = owner.Kind+"/"+owner.Name, string(owner.UID)
	}
	for name, value := range p.Annotations {
		if strings.HasPrefix(name, handover.Prefix) && len(value) <= longestAnnotation {
			out.Annotations[name] = value
		}
	}
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			out.Ports = append(out.Ports, Port{Name: port.Name, Number: port.ContainerPort})
		}
	}
	return out
}
