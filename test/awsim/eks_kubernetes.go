package awsim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"
)

// Kubernetes is what EKS does in a cluster when it updates, drains and repairs managed nodes.
type Kubernetes interface {
	// Node returns the node of an instance. Its Name is empty if the instance has not registered.
	Node(ctx context.Context, instanceID string) (ManagedNode, error)
	// Label sets labels of a node.
	Label(ctx context.Context, node string, labels map[string]string) error
	// Cordon makes a node unschedulable.
	Cordon(ctx context.Context, node string) error
	// Pods returns the pods on a node that EKS evicts: neither those of DaemonSets nor mirror pods, nor those that have
	// ended.
	Pods(ctx context.Context, node string) ([]ManagedPod, error)
	// Evict evicts a pod through the Eviction API. ErrEvictionBlocked is the error of a pod that a
	// PodDisruptionBudget protects; a pod that is gone is no error.
	Evict(ctx context.Context, pod ManagedPod) error
	// Delete deletes a pod; one that is gone is no error.
	Delete(ctx context.Context, pod ManagedPod) error
}

// ErrEvictionBlocked is the error of an eviction that the API server answers with 429.
var ErrEvictionBlocked = errors.New("a PodDisruptionBudget does not allow the eviction")

// ManagedNode is a node of a managed node group.
type ManagedNode struct {
	Name  string
	Ready bool
	// ReadySince is when the condition Ready got its present status.
	ReadySince time.Time
	Labels     map[string]string
}

// ManagedPod is a pod on such a node.
type ManagedPod struct {
	Namespace string
	Name      string
	UID       string
	Deleted   bool // It is terminating.
}

// EKSTimes are how long EKS waits. What is zero has its default.
type EKSTimes struct {
	// NodeReady is how long new nodes of an update may take until they are Ready: 15 minutes, as users report
	// (awsdocs/amazon-eks-user-guide, issue 842). EKS does not document it.
	NodeReady time.Duration
	// Eviction is how long the pods of a node may take to leave it in an update: 15 minutes ("Understand each phase of
	// node updates" in the Amazon EKS user guide).
	Eviction time.Duration
	// Settle is how long EKS waits between the last pod and the termination: 60 seconds (the same page).
	Settle time.Duration
	// Drain is how long EKS tries to evict the pods of a node that Auto Scaling terminates: 15 minutes ("Managed node
	// groups concepts").
	Drain time.Duration
	// Repair is how long a node must be not Ready until node auto repair replaces it: 30 minutes ("Automatically repair
	// nodes").
	Repair time.Duration
	// Poll is the time between two looks at nodes and pods, and between two attempts at an eviction: 5 seconds, which is
	// assumed.
	Poll time.Duration
}

func (t EKSTimes) withDefaults() EKSTimes {
	t.NodeReady = cmp.Or(t.NodeReady, 15*time.Minute)
	t.Eviction = cmp.Or(t.Eviction, 15*time.Minute)
	t.Settle = cmp.Or(t.Settle, time.Minute)
	t.Drain = cmp.Or(t.Drain, 15*time.Minute)
	t.Repair = cmp.Or(t.Repair, 30*time.Minute)
	t.Poll = cmp.Or(t.Poll, 5*time.Second)
	return t
}

// Connect gives EKS access to a cluster, before the cluster has node groups: EKS then labels nodes, runs the phases of
// updates, and drains nodes that Auto Scaling terminates. Without it an update runs until EndUpdate, and EKS completes
// its lifecycle hooks at once. See harness.NewEKS for a cluster with an API server.
func (s EKS) Connect(cluster string, to Kubernetes, times EKSTimes) error {
	return s.asg.updateErr(func() error {
		c, err := s.asg.managed.cluster(cluster)
		if err == nil && len(c.nodegroups) > 0 {
			err = fmt.Errorf("awsim: cluster %s has node groups", cluster)
		}
		if err == nil {
			c.kubernetes, c.times = to, times.withDefaults()
		}
		return err
	})
}

// The labels of nodes.
const (
	labelNodegroup = "eks.amazonaws.com/nodegroup"
	labelImage     = "eks.amazonaws.com/nodegroup-image"
	labelCapacity  = "eks.amazonaws.com/capacityType"
	labelTemplate  = "eks.amazonaws.com/sourceLaunchTemplateId"
	labelVersion   = "eks.amazonaws.com/sourceLaunchTemplateVersion"
	labelExclude   = "node.kubernetes.io/exclude-from-external-load-balancers"
)

// NodeLabels returns the labels that the node of an instance has when it registers, nil for an instance of no managed
// node group. EKS sets them itself in a cluster that is connected.
func (s EKS) NodeLabels(instanceID string) map[string]string {
	s.asg.mu.Lock()
	defer s.asg.mu.Unlock()
	inst := s.asg.instances[instanceID]
	if inst == nil || inst.group == nil || inst.group.nodegroup == nil {
		return nil
	}
	return inst.group.nodegroup.nodeLabels(inst)
}

// nodeLabels are those of the node group, the AMI, the capacity type, the custom launch template, and those of the
// user. Source: "Understand each phase of node updates" and "Managed node group capacity types".
func (ng *nodegroup) nodeLabels(inst *instance) map[string]string {
	labels := map[string]string{
		labelNodegroup: ng.spec.Name, labelImage: inst.template.image, labelCapacity: ng.capacityType(),
	}
	if template := ng.targetOf(inst).template; template.isSet() {
		labels[labelTemplate], labels[labelVersion] = template.id, template.version
	}
	maps.Copy(labels, ng.spec.Labels)
	return labels
}

func (ng *nodegroup) capacityType() string {
	if ng.spec.Market == Spot {
		return "SPOT"
	}
	return "ON_DEMAND"
}

// targetOf returns what the node group was updated to when it launched the instance. One that was launched from another
// template than EKS's own has no target, and so needs an update.
func (ng *nodegroup) targetOf(inst *instance) updateTarget {
	if inst.template.id != ng.own.id {
		return updateTarget{}
	}
	return ng.targets[inst.template.number-1]
}
