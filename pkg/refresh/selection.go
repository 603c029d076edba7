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

// Tag keys that name the cluster, two of them at their end.
const (
	ownerPrefix      = "kubernetes.io/cluster/"
	autoscalerPrefix = "k8s.io/cluster-autoscaler/"
	tagCluster       = "eks:cluster-name"
)

// ClusterTags are the keys of the tags by which a group belongs to the cluster. That of EKS has the cluster's
// name as its value.
func ClusterTags(cluster string) []string {
	return []string{ownerPrefix + cluster, autoscalerPrefix + cluster, tagCluster}
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
	_, owned := g.Tags[ownerPrefix+s.Cluster]
	_, scaled := g.Tags[autoscalerPrefix+s.Cluster]
	return s.Cluster == "" || owned || scaled || g.Tags[tagCluster] == s.Cluster
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
