package node

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func withLabel(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[key] = value }
}

// machine gives a Node another name and machine.
func machine(name, providerID string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Name, n.Spec.ProviderID = name, providerID }
}

// TestManagers: Nodes of a cluster with everything that EKS has, by the labels that EKS and Karpenter set.
func TestManagers(t *testing.T) {
	virtual(t, "all", func(t *testing.T) {
		client := fake.NewClientset()
		for _, one := range []*corev1.Node{
			newNode(withLabel("eks.amazonaws.com/nodegroup", "workers")),
			newNode(
				machine("addons", "aws:///eu-west-1a/i-0000000000000000a"), withLabel("karpenter.sh/controller", "true"),
				tainted("karpenter.sh/controller", corev1.TaintEffectNoSchedule), // on which Karpenter itself runs
			),
			newNode(machine("karpenter", "aws:///eu-west-1a/i-0000000000000000b"), withLabel("karpenter.sh/nodepool", "default")),
			newNode(
				machine("new", "aws:///eu-west-1a/i-0000000000000000c"),
				tainted("karpenter.sh/unregistered", corev1.TaintEffectNoExecute),
			),
			newNode(
				machine("auto", "aws:///eu-west-1a/i-0000000000000000d"), withLabel("karpenter.sh/nodepool", "general-purpose"),
				withLabel("eks.amazonaws.com/compute-type", "auto"),
			),
			newNode(
				machine("fargate", "aws:///eu-west-1a/0123456789-fargate/fargate-ip-10-0-0-1.eu-west-1.compute.internal"),
				withLabel("eks.amazonaws.com/compute-type", "fargate"),
			),
			newNode(
				machine("hybrid", "eks-hybrid:///eu-west-1/shop/mi-0123456789abcdef0"),
				withLabel("eks.amazonaws.com/compute-type", "hybrid"),
			),
		} {
			if err := client.Tracker().Add(one); err != nil {
				t.Fatal(err)
			}
		}
		n := watched(t, client, defaults)
		want := map[Manager]int{Karpenter: 2, AutoMode: 1, Fargate: 1, Hybrid: 1}
		if got := n.Managed(); !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if len(want) != len(Managers()) {
			t.Errorf("the test has not all of %q", Managers())
		}
		managers := map[string]Manager{}
		for _, one := range n.All() {
			managers[one.Name] = one.Manager
		}
		if want := map[string]Manager{
			"n": "", "addons": "", "karpenter": Karpenter, "new": Karpenter, "auto": AutoMode,
		}; !maps.Equal(managers, want) {
			t.Errorf("got %v, want %v: only EC2 instances", managers, want)
		}
	})
}
