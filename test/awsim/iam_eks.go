package awsim

import "strings"

// nodegroupResources returns what a call of EKS must be allowed on: the cluster, or the node group that it names.
// ListUpdates and DescribeUpdate of a node group are judged on both, because the Service Authorization Reference
// lists both types of resources for them and does not say which one counts. The ARN of a node group that there is not
// has the ID "unknown".
func nodegroupResources(a *engine, req request) []resource {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := &reader{values: req.in.Values}
	cluster, name := r.text("clusterName"), r.text("nodegroupName")
	onCluster := resource{arn: a.catalog.arn(eksName, "cluster/"+cluster), tags: map[string]string{}}
	if name == "" {
		return []resource{onCluster}
	}
	onNodegroup := resource{arn: a.managed.arn(cluster, name, "unknown"), tags: map[string]string{}}
	if ng, err := a.managed.find(cluster, name); err == nil {
		onNodegroup = resource{arn: ng.arn, tags: ng.spec.Tags}
	}
	if strings.HasSuffix(req.action, "Nodegroup") || strings.HasPrefix(req.action, "UpdateNodegroup") {
		return []resource{onNodegroup}
	}
	return []resource{onCluster, onNodegroup}
}
