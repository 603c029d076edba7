package refresh

import (
	"maps"
	"slices"
	"strings"
)

// Selection says which groups: those that have one of the names, belong to the cluster and have all of the
// tags. What is empty selects all.
type Selection struct {
	Names   []string
	Cluster string            // By the tags of ClusterTags.
	Tags    map[string]string // Key and value; an empty value stands for any.
}

// Tag keys that name the cluster, two of them at their end, and two by their value.
const (
	ownerPrefix      = "kubernetes.io/cluster/"
	autoscalerPrefix = "k8s.io/cluster-autoscaler/"
	tagCluster       = "eks:cluster-name"
	tagClusterAWS    = "aws:eks:cluster-name"
)

// ClusterOf returns the cluster that a tag of an Auto Scaling group names, by the conventions of Amazon EKS,
// the AWS cloud provider and the cluster autoscaler. The cluster autoscaler ignores the tag's value; its
// other tags, which describe the group's nodes, have a path where the name would be.
func ClusterOf(key, value string) string {
	if key == tagCluster || key == tagClusterAWS {
		return value
	}
	name, ok := strings.CutPrefix(key, ownerPrefix)
	if ok && (value == "owned" || value == "shared") {
		return name
	}
	name, ok = strings.CutPrefix(key, autoscalerPrefix)
	if !ok || name == "enabled" || strings.Contains(name, "/") {
		return ""
	}
	return name
}

// ClustersOf are the clusters that the tags name, sorted.
func ClustersOf(tags map[string]string) (names []string) {
	for key, value := range tags {
		if name := ClusterOf(key, value); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ClusterTags are the keys of the tags by which a group belongs to the cluster. Those of EKS have the cluster's
// name as their value.
func ClusterTags(cluster string) []string {
	return []string{ownerPrefix + cluster, autoscalerPrefix + cluster, tagCluster, tagClusterAWS}
}

// Empty reports whether the selection names nothing, and so would be every group of the account.
func (s Selection) Empty() bool { return len(s.Names) == 0 && s.Cluster == "" && len(s.Tags) == 0 }

// Contains reports whether the group has the tags, and belongs to the cluster. It does not look at the name.
func (s Selection) Contains(g Group) bool {
	for key, value := range s.Tags {
		if got, ok := g.Tags[key]; !ok || value != "" && got != value {
			return false
		}
	}
	return s.Cluster == "" || slices.Contains(ClustersOf(g.Tags), s.Cluster)
}

// String describes the selection.
func (s Selection) String() string {
	var parts []string
	if len(s.Names) > 0 {
		parts = append(parts, "of the names "+strings.Join(s.Names, ", "))
	}
	if s.Cluster != "" {
		parts = append(parts, "of the cluster "+s.Cluster)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Tags)) {
		tag := key
		if s.Tags[key] != "" {
			tag += " of the value " + s.Tags[key]
		}
		parts = append(parts, "with the tag "+tag)
	}
	return strings.Join(parts, " and ")
}
