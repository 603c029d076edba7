package node

import (
	"maps"
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
	Claims          []Claim  // instances that several of the Nodes claim, sorted by instance
}

// Claim is an instance that several Nodes claim: one that has registered again under another name, or a kubelet that
// says so.
type Claim struct {
	InstanceID string
	Nodes      []string // their names, sorted
}

// SurveyOf counts the Nodes. It reads the cache only.
func SurveyOf(n *Nodes) Survey {
	objs := n.informer.GetStore().List()
	s := Survey{All: len(objs)}
	names := map[string][]string{}
	for _, obj := range objs {
		node := obj.(*corev1.Node) //nolint:forcetypeassert // the informer holds Nodes
		one := n.selector.nodeOf(node)
		switch {
		case one.Unselected:
			continue
		case one.InstanceID != "":
			s.Instances = append(s.Instances, one.InstanceID)
			names[one.InstanceID] = append(names[one.InstanceID], one.Name)
			s.Zones = append(s.Zones, one.Zone)
		case one.Manager == "":
			s.WithoutInstance = append(s.WithoutInstance, one.Name)
		}
		s.Selected++
	}
	for _, id := range slices.Sorted(maps.Keys(names)) {
		if len(names[id]) > 1 {
			s.Claims = append(s.Claims, Claim{id, slices.Sorted(slices.Values(names[id]))})
		}
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
