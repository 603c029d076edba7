package drain

import (
	"bytes"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Coordination is with what the eviction of a pod should be coordinated. The eviction API does not do that.
type Coordination struct {
	// Responders: the pod names evictionResponders, which only an EvictionRequest asks (Kubernetes 1.37, alpha).
	Responders bool
	// PodGroup is the PodGroup of which the pod is a member, as NAMESPACE/NAME; empty if of none. The other members may
	// be useless without it.
	PodGroup string
}

// CoordinationOf returns that of the pod. Its type has no field for evictionResponders yet; whoever has set the field
// is in managedFields.
func CoordinationOf(p *corev1.Pod) (c Coordination) {
	c.Responders = slices.ContainsFunc(p.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Subresource == "" && f.FieldsV1 != nil &&
			bytes.Contains(f.FieldsV1.GetRawBytes(), []byte(`"f:evictionResponders"`))
	})
	if g := p.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		c.PodGroup = p.Namespace + "/" + *g.PodGroupName
	}
	return c
}

// With returns what the coordination is with, by the names that Coordinations lists.
func (c Coordination) With() (with []string) {
	if c.Responders {
		with = append(with, byResponder)
	}
	if c.PodGroup != "" {
		with = append(with, byPodGroup)
	}
	return with
}

const (
	byResponder = "eviction-responder"
	byPodGroup  = "pod-group"
)

// Coordinations lists what an eviction can be coordinated with.
func Coordinations() []string { return []string{byResponder, byPodGroup} }
