package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/node-drainer/node-drainer/internal/access"
	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/internal/text"
)

// judgeNodes judges the Nodes of the cluster, and whether EC2 knows their instances.
func judgeNodes(f Facts) []Result {
	s := f.Nodes
	switch {
	case f.NodesErr != nil:
		return judgeUnlisted(f)
	case s.All > 0 && s.Selected == 0:
		return one(checkNodes, Failed, fmt.Sprintf("NODE_SELECTOR (%s) selects none of %s", f.Config.Node.Selector,
			text.Count(s.All, "node")),
			"kubectl get nodes --show-labels shows their labels, for "+helm(f, "config.node.selector=SELECTOR"))
	case len(s.Instances) == 0 && len(s.WithoutInstance) > 0:
		return one(checkNodes, Failed, "no node has the provider ID of an EC2 instance (aws:///ZONE/i-...)",
			"kubectl get nodes --output custom-columns=NAME:.metadata.name,ID:.spec.providerID shows them; the AWS cloud "+
				"provider sets them")
	case f.noCredentials():
		return one(checkNodes, NotChecked, "the instances of the nodes: no AWS credentials", "")
	}
	return judgeInstances(f)
}

// judgeUnlisted says why the Nodes are not listed. If the API server does not answer, or denies it, judgeRights has the
// fix.
func judgeUnlisted(f Facts) []Result {
	for _, r := range f.Reviews {
		switch {
		case r.Err != nil:
			return one(checkNodes, NotChecked, "the nodes: the API server does not answer", "")
		case !r.Allowed && r.Resource == "nodes" && (r.Verb == list || r.Verb == watch):
			return one(checkNodes, NotChecked, "the nodes: "+userOf(f)+" may not list and watch them", "")
		}
	}
	return one(checkNodes, Failed, "cannot list the nodes: "+f.NodesErr.Error(),
		"kubectl get --raw '/api/v1/nodes?limit=500' shows whether the API server lists them")
}

// judgeInstances judges whether EC2 knows the instances of the Nodes.
func judgeInstances(f Facts) []Result {
	s := f.Nodes
	abroad := slices.DeleteFunc(slices.Clone(s.Zones), func(z string) bool { return strings.HasPrefix(z, f.Region) })
	unknown := slices.DeleteFunc(slices.Clone(s.Instances), func(id string) bool { return f.Known[id] })
	switch {
	case len(abroad) > 0:
		region := strings.TrimRight(abroad[0], "abcdefghijklmnopqrstuvwxyz")
		return one(checkNodes, Failed, fmt.Sprintf("nodes are in %s, and the agent calls AWS in %s",
			text.First(abroad, mostNames), f.Region), helm(f, "aws.region="+region))
	case cloud.IsDenied(f.KnownErr):
		return one(checkNodes, Failed, "AWS denies "+ActionInstances, grant(f, ActionInstances))
	case f.KnownErr != nil:
		return one(checkNodes, Failed, f.KnownErr.Error(), reach(f, "ec2"))
	case len(unknown) > 0:
		return judgeUnknown(f, unknown)
	case len(s.Claims) > 0:
		c := s.Claims[0]
		return one(checkNodes, Warning, fmt.Sprintf("%s claim instance %s", strings.Join(c.Nodes, " and "), c.InstanceID),
			"kubectl delete node NAME removes one that is not Ready; if both are, the kubelet of the newer one claims the "+
				"instance of the other, and the agent leaves it alone: terminate its own instance")
	}
	return one(checkNodes, OK, fmt.Sprintf("%s selected, %s", text.Plural(s.Selected, "node is", "nodes are"),
		text.Count(len(s.Instances), "EC2 instance")), "")
}

// judgeUnknown judges instances of Nodes that EC2 does not know: one may have been terminated just now.
func judgeUnknown(f Facts, unknown []string) []Result {
	where := fmt.Sprintf("account %s and Region %s", f.Identity.Account, f.Region)
	if len(unknown) < len(f.Nodes.Instances) {
		return one(checkNodes, Warning, fmt.Sprintf("EC2 does not know %s in %s", text.First(unknown, mostNames), where),
			"kubectl get nodes shows whether their nodes are still there; in another account they need an agent of their own")
	}
	return one(checkNodes, Failed, fmt.Sprintf("EC2 knows none of the %s of the nodes in %s",
		text.Count(len(unknown), "instance"), where),
		"use a role of the account of the nodes, or "+helm(f, "aws.region=REGION"))
}

// The verbs of Kubernetes.
const (
	get, list, watch, create, update, patch, remove = "get", "list", "watch", "create", "update", "patch", "delete"
)

const apps = "apps" // the API group

// rightSet collects rights.
type rightSet []access.Right

func (s *rightSet) add(r access.Right, verbs ...string) {
	for _, r.Verb = range verbs {
		*s = append(*s, r)
	}
}

// Rights returns what the agent needs in the cluster with this configuration, as the chart grants it.
func Rights(c config.Agent) []access.Right {
	all := rightSet{}
	add := all.add
	add(access.Right{Resource: "nodes"}, get, list, watch)
	add(access.Right{Resource: "pods"}, list, watch)
	add(access.Right{Resource: "persistentvolumeclaims"}, get)
	add(access.Right{Group: "policy", Resource: "poddisruptionbudgets"}, list, watch)
	add(access.Right{Group: "storage.k8s.io", Resource: "volumeattachments"}, list, watch)
	if c.Launch.DaemonSets {
		add(access.Right{Group: apps, Resource: "daemonsets"}, list, watch)
	}
	if !c.DryRun {
		all.addChanges(c)
	}
	return all
}

// addChanges adds the rights to change something, which a dry run does without.
func (s *rightSet) addChanges(c config.Agent) {
	add := s.add
	add(access.Right{Resource: "nodes"}, patch)
	add(access.Right{Resource: "nodes/status"}, patch)
	add(access.Right{Resource: "pods"}, remove)
	add(access.Right{Resource: "pods/eviction"}, create)
	add(access.Right{Resource: "events"}, create, patch)
	if c.Drain.HandOverTimeout > 0 {
		add(access.Right{Resource: "services"}, get)
	}
	if c.Drain.SingleReplicas == "restart" {
		add(access.Right{Group: apps, Resource: "replicasets"}, get)
		add(access.Right{Group: apps, Resource: "deployments"}, get, patch)
	}
	if namespace, name, ok := strings.Cut(c.AutoscalerDeployment, "/"); ok {
		add(access.Right{Group: apps, Resource: "deployments", Namespace: namespace, Name: name}, get, patch)
	}
	if c.HistoryConfigMap != "" {
		add(access.Right{Resource: "configmaps", Namespace: c.PodNamespace, Name: c.HistoryConfigMap}, get, update)
	}
	lease := c.Leader.In(c.PodNamespace)
	if c.Leader.Election {
		own := access.Right{Group: "coordination.k8s.io", Resource: "leases", Namespace: lease.Namespace}
		add(own, create)
		own.Name = lease.LeaseName
		add(own, get, update)
	}
}

// judgeRights judges what the API server says of the rights.
func judgeRights(f Facts) (results []Result) {
	allowed := 0
	for _, r := range f.Reviews {
		switch {
		case r.Err != nil:
			return append(results, Result{
				checkRights, Failed, r.Err.Error(), "kubectl get --raw /readyz shows whether the API server answers; if it " +
					"does, let this process reach it: NetworkPolicy, security group or KUBECONFIG",
			})
		case r.Allowed:
			allowed++
		default:
			results = append(results, Result{
				checkRights, Failed, fmt.Sprintf("%s may not %s", userOf(f), r.Right), bind(f, r.Right),
			})
		}
	}
	if len(results) > 0 {
		return results
	}
	return one(checkRights, OK, fmt.Sprintf("%s has all %d rights that the configuration needs", userOf(f), allowed), "")
}
