package node

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Survey counts the Nodes of the cluster.
type Survey struct {
	All             int
	Selected        int      // by NODE_SELECTOR
	Instances       []string // EC2 instance ids of selected Nodes, sorted
	Zones           []string // of these instances, by their provider ids, sorted
	WithoutInstance []string // names of selected Nodes that are no EC2 instance, sorted
}

// SurveyOf counts the Nodes. It reads the cache only.
func SurveyOf(n *Nodes) Survey {
	objs := n.informer.GetStore().List()
	s := Survey{All: len(objs)}
	for _, obj := range objs {
		node := obj.(*corev1.Node) //nolint:forcetypeassert // the informer holds Nodes
		one := n.selector.nodeOf(node)
		switch {
		case one.Unselected:
			continue
		case one.InstanceID != "":
			s.Instances = append(s.Instances, one.InstanceID)
			s.Zones = append(s.Zones, zoneOf(node))
		case one.Manager == "":
			s.WithoutInstance = append(s.WithoutInstance, one.Name)
		}
		s.Selected++
	}
	slices.Sort(s.Instances)
	slices.Sort(s.WithoutInstance)
	slices.Sort(s.Zones)
	s.Zones = slices.Compact(s.Zones)
	return s
}

// zoneOf returns the zone in a provider id of the form aws:///ZONE/INSTANCE.
func zoneOf(node *corev1.Node) string {
	path := strings.TrimPrefix(node.Spec.ProviderID, "aws://")
	zone, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return zone
}
