//go:build e2e

package chart_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/node-drainer/node-drainer/test/chart"
)

// TestHostNetwork: the pods are on the network of their nodes, and a rollout needs no node more than there are replicas:
// two pods with one port cannot share a node.
func TestHostNetwork(t *testing.T) {
	t.Parallel()
	objects := render(t, "--set", watched+",hostNetwork=true,watch.listenAddress=:8081")
	for name, port := range map[string]int32{"node-drainer": 8080, "node-drainer-watch": 8081} {
		var d appsv1.Deployment
		if err := chart.Find(objects, "Deployment", name, &d); err != nil {
			t.Fatal(err)
		}
		pod := d.Spec.Template.Spec
		if got := pod.Containers[0].Ports[0].ContainerPort; !pod.HostNetwork || got != port {
			t.Errorf("%s: hostNetwork is %v, and the port %d, want %d", name, pod.HostNetwork, got, port)
		}
		rolling := d.Spec.Strategy.RollingUpdate
		if rolling == nil || rolling.MaxSurge.IntValue() != 0 || rolling.MaxUnavailable.IntValue() != 1 {
			t.Errorf("%s is rolled out by %+v", name, rolling)
		}
	}
}

// TestIPFamilies: both Services have those of the values.
func TestIPFamilies(t *testing.T) {
	t.Parallel()
	objects := render(t, "--set", watched+",service.ipFamilyPolicy=RequireDualStack,service.ipFamilies={IPv6,IPv4}")
	for _, name := range []string{"node-drainer", "node-drainer-watch"} {
		var s corev1.Service
		if err := chart.Find(objects, "Service", name, &s); err != nil {
			t.Fatal(err)
		}
		want := []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
		if policy := s.Spec.IPFamilyPolicy; policy == nil || *policy != corev1.IPFamilyPolicyRequireDualStack {
			t.Errorf("%s has the IP family policy %v", name, policy)
		}
		if diff := cmp.Diff(want, s.Spec.IPFamilies); diff != "" {
			t.Errorf("%s has other IP families (-want +got):\n%s", name, diff)
		}
	}
}

// TestNetworkPolicy: the agent may connect to port 443 of any address, where AWS and webhooks are, and to what a value
// adds.
func TestNetworkPolicy(t *testing.T) {
	t.Parallel()
	objects := render(t, "--set", least+",networkPolicy.enabled=true,networkPolicy.egress[0].ports[0].port=8065")
	var policy networkingv1.NetworkPolicy
	if err := chart.Find(objects, "NetworkPolicy", "node-drainer", &policy); err != nil {
		t.Fatal(err)
	}
	for _, port := range []int32{443, 8065} {
		if !slices.ContainsFunc(policy.Spec.Egress, func(r networkingv1.NetworkPolicyEgressRule) bool {
			return len(r.To) == 0 && slices.ContainsFunc(r.Ports, func(p networkingv1.NetworkPolicyPort) bool {
				return p.Port.IntVal == port
			})
		}) {
			t.Errorf("no rule permits port %d of any address", port)
		}
	}
}

// TestEgressCIDRs: with both charts, no rule permits any address then.
func TestEgressCIDRs(t *testing.T) {
	t.Parallel()
	const value = ",networkPolicy.egressCIDRs={10.0.0.0/16,fd00::/64}"
	agent := render(t, "--set", least+",networkPolicy.enabled=true,networkPolicy.handOverPorts={8080}"+value)
	handover, err := chart.RenderHandover(t.Context(), "x", "shop", "--set", fromRegistry+value)
	if err != nil {
		t.Fatal(err)
	}
	for name, objects := range map[string][]unstructured.Unstructured{"node-drainer": agent, "x-node-drainer-handover": handover} {
		var policy networkingv1.NetworkPolicy
		if err := chart.Find(objects, "NetworkPolicy", name, &policy); err != nil {
			t.Fatal(err)
		}
		for _, r := range policy.Spec.Egress {
			if len(r.To) == 0 {
				t.Errorf("%s: any address is permitted on %v", name, r.Ports)
			}
		}
		for _, port := range []int32{53, 443, 6443} {
			for _, cidr := range []string{"10.0.0.0/16", "fd00::/64"} {
				if !slices.ContainsFunc(policy.Spec.Egress, func(r networkingv1.NetworkPolicyEgressRule) bool {
					return slices.ContainsFunc(r.To, func(p networkingv1.NetworkPolicyPeer) bool {
						return p.IPBlock != nil && p.IPBlock.CIDR == cidr
					}) && slices.ContainsFunc(r.Ports, func(p networkingv1.NetworkPolicyPort) bool { return p.Port.IntVal == port })
				}) {
					t.Errorf("%s: no rule permits port %d of %s", name, port, cidr)
				}
			}
		}
	}
}

// TestPodsNetwork: agent, trigger and watch have the DNS settings, the hosts and the variables of the values.
func TestPodsNetwork(t *testing.T) {
	t.Parallel()
	objects := full(t)
	var agent, watch appsv1.Deployment
	var trigger batchv1.CronJob
	for name, into := range map[string]any{"drainer": &agent, "drainer-watch": &watch} {
		if err := chart.Find(objects, "Deployment", name, into); err != nil {
			t.Fatal(err)
		}
	}
	if err := chart.Find(objects, "CronJob", "drainer-outdated", &trigger); err != nil {
		t.Fatal(err)
	}
	for name, pod := range map[string]corev1.PodSpec{
		"agent": agent.Spec.Template.Spec, "watch": watch.Spec.Template.Spec,
		"trigger": trigger.Spec.JobTemplate.Spec.Template.Spec,
	} {
		if pod.DNSPolicy != corev1.DNSClusterFirst || pod.DNSConfig == nil || pod.DNSConfig.Options[0].Name != "ndots" {
			t.Errorf("%s resolves names by %s with %+v", name, pod.DNSPolicy, pod.DNSConfig)
		}
		if len(pod.HostAliases) != 1 || len(pod.Containers[0].EnvFrom) != 1 {
			t.Errorf("%s has the hosts %v and the variables of %v", name, pod.HostAliases, pod.Containers[0].EnvFrom)
		}
		if pod.HostNetwork {
			t.Errorf("%s is on the network of its node", name)
		}
	}
}
