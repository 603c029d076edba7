package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/harness"
	"github.com/node-drainer/node-drainer/test/sim/kube"
)

// managed are the managed node groups of a cluster.
type managed struct{ *cluster }

// eksClient is the user of EKS.
const eksClient = "eks"

// eksSubnet is the subnet of all node groups.
const eksSubnet = "subnet-a"

// connect gives EKS access to the cluster, if it has node groups, and publishes the first release of their AMI. The nth
// cluster has another version of Kubernetes than the others, because a release is for a version.
func (m managed) connect(n int) error {
	if !slices.ContainsFunc(m.Groups, func(g Group) bool { return g.Managed }) {
		return nil
	}
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: "http://kubernetes", Transport: m.server.Transport(eksClient), QPS: -1, WarningHandler: rest.NoWarnings{},
	})
	if err != nil {
		return err
	}
	aws := m.world.aws
	m.version = fmt.Sprintf("1.%d", 31+n)
	aws.CreateCluster(m.Name, m.version)
	aws.PutSubnet(awsim.Subnet{ID: eksSubnet, Zone: "eu-central-1a", Available: 1000})
	aws.PublishRelease(m.releaseOf(1))
	return aws.Connect(m.Name, eks{harness.NewEKS(client), m.cluster}, awsim.EKSTimes{})
}

// releaseOf is the nth release.
func (m managed) releaseOf(n int) awsim.Release {
	return awsim.Release{
		KubernetesVersion: m.version, Version: fmt.Sprintf("%s.0-2026%04d", m.version, n), Image: imageOf(n),
	}
}

// create makes a node group. Before, it gives the group the name of its Auto Scaling group.
func (m managed) create(g Group) error {
	spec := awsim.Nodegroup{
		Cluster: m.Name, Name: g.Name, Desired: g.Nodes, Max: g.most(), Subnets: []string{eksSubnet}, MaxUnavailable: 1,
	}
	if g.Spot {
		spec.Market = awsim.Spot
	}
	name := m.world.aws.GroupName(m.Name, g.Name)
	for i := range m.Groups {
		if m.Groups[i].Name == g.Name {
			m.Groups[i].Name = name
		}
	}
	for i, s := range m.world.spec.Steps {
		if s.On == g.Name {
			m.world.spec.Steps[i].On = name
		}
	}
	m.nodegroups[name] = g.Name
	_, err := m.world.aws.CreateNodegroup(spec)
	return err
}

// release publishes the nth release, for which all node groups of the cluster are outdated.
func (m managed) release(n int) {
	m.world.aws.PublishRelease(m.releaseOf(n))
	f := m.world.rollouts
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.groups {
		if g.cluster == m.cluster && g.Managed {
			g.versions = append(g.versions, templateVersion{imageOf(n), time.Now()})
		}
	}
}

// raised is by how much EKS has raised the sizes of a group, and not taken that back; 0 for one that is not managed.
func (m managed) raised(group string) int {
	by, err := m.world.aws.Raised(m.Name, m.nodegroups[group])
	if err != nil {
		return 0
	}
	return by
}

// isAt reports whether EKS has updated a group to the nth release. It does not know whether the nodes are current after
// an update that has failed.
func (m managed) isAt(group string, n int) bool {
	release, err := m.world.aws.Release(m.Name, m.nodegroups[group])
	return err == nil && release == m.releaseOf(n).Version
}

// eks is what EKS does in a cluster.
type eks struct {
	awsim.Kubernetes
	cluster *cluster
}

// Node implements awsim.Kubernetes. It is called often.
func (e eks) Node(_ context.Context, id string) (awsim.ManagedNode, error) {
	n, ok := kube.Get[*corev1.Node](e.cluster.server, nodeName(id))
	if !ok || e.cluster.world.facts.isReplaced(id, time.Now()) {
		return awsim.ManagedNode{}, nil
	}
	return awsim.ManagedNode{Name: id, Ready: isNodeReady(n), Labels: n.Labels}, nil
}

// Cordon implements awsim.Kubernetes. What EKS has cordoned stays so, as if an administrator had done it.
func (e eks) Cordon(ctx context.Context, id string) error {
	n, ok := kube.Get[*corev1.Node](e.cluster.server, nodeName(id))
	if ok && !n.Spec.Unschedulable {
		e.cluster.world.facts.cordoned(id)
	}
	return e.Kubernetes.Cordon(ctx, id)
}
