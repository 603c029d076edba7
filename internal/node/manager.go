package node

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// Manager is who manages the machine of a Node that is in no Auto Scaling group. It also drains the Node before it
// terminates the machine, or before EC2 does.
type Manager string

// The managers.
const (
	Karpenter Manager = "karpenter"
	AutoMode  Manager = "eks-auto-mode"
	Fargate   Manager = "fargate"
	Hybrid    Manager = "hybrid" // EKS Hybrid Nodes: machines that are not at AWS
)

// Managers lists all managers.
func Managers() []Manager { return []Manager{Karpenter, AutoMode, Fargate, Hybrid} }

const (
	// computeType is the label that EKS sets on Nodes that are not EC2 instances of the user: auto, fargate or hybrid
	// (EKS user guide, "Control if a workload is deployed on EKS Auto Mode nodes", "EKS Hybrid Nodes"; the label of
	// Fargate is that of the pods that it runs). Nodes of Auto Mode also have the label of a NodePool.
	computeType = "eks.amazonaws.com/compute-type"
	// nodePool is the label of the Nodes of Karpenter (karpenter.sh, "NodePools").
	nodePool = "karpenter.sh/nodepool"
	// unregistered is the taint of a Node until Karpenter has set its labels (karpenter.sh, "NodePools").
	unregistered = "karpenter.sh/unregistered"
	// disrupted is the taint of a Node that Karpenter drains, or is about to drain (karpenter.sh, "Disruption").
	disrupted = "karpenter.sh/disrupted"
	// toBeDeleted is the taint of a Node that the Cluster Autoscaler drains (cluster-autoscaler, utils/taints).
	toBeDeleted = "ToBeDeletedByClusterAutoscaler"
)

// managerOf returns who manages the machine of a Node; "" if that is in an Auto Scaling group, as far as the Node says.
func managerOf(node *corev1.Node) Manager {
	switch node.Labels[computeType] {
	case "auto":
		return AutoMode
	case "fargate":
		return Fargate
	case "hybrid":
		return Hybrid
	}
	if node.Labels[nodePool] != "" || hasTaint(node, unregistered) {
		return Karpenter
	}
	return ""
}

// hasTaint reports whether the Node has a taint with one of the keys.
func hasTaint(node *corev1.Node, keys ...string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return slices.Contains(keys, t.Key) })
}

// managed counts the Nodes that have a Manager.
type managed struct {
	nodes    cache.Store
	selector selector
}

// Managed returns how many Nodes have which Manager. It reads the cache only.
func (m managed) Managed() map[Manager]int {
	counts := map[Manager]int{}
	for _, obj := range m.nodes.List() {
		one := m.selector.nodeOf(obj.(*corev1.Node)) //nolint:forcetypeassert // the informer holds Nodes
		if one.Manager != "" && !one.Unselected {
			counts[one.Manager]++
		}
	}
	return counts
}
