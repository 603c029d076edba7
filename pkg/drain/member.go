package drain

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

// handOver returns whether and how a pod is asked before it is evicted. One that does not run leads nothing, but if it
// starts, it may run before its eviction arrives.
func (r *rules) handOver(p *corev1.Pod) HandOver {
	kind := p.Annotations[handover.KindAnnotation]
	if !r.mayDelay(p) {
		kind = ""
	}
	switch _, known := r.Kinds[kind]; {
	case p.Status.Phase == corev1.PodPending && known && r.HandOverTimeout > 0:
		return HandOver{Starting: true, Pod: r.handOverPod(p)}
	case p.Status.Phase != corev1.PodRunning:
		return HandOver{}
	case kind == "" && r.isRestarted(p):
		return HandOver{Kind: handover.Restart, Pod: r.handOverPod(p)}
	case kind == "", r.HandOverTimeout == 0, len(r.Kinds) == 0:
		return HandOver{}
	case !known:
		return HandOver{Unknown: excerpt(kind)}
	}
	return HandOver{Kind: kind, Pod: r.handOverPod(p)}
}

// isRestarted reports whether a rolling restart replaces the pod, if its Deployment is fit for one.
func (r *rules) isRestarted(p *corev1.Pod) bool {
	owner := metav1.GetControllerOf(p)
	switch r.drainAnnotation(p) {
	case handover.Restart:
		return r.Restarter != nil
	case "":
		return r.Restarter != nil && r.SingleReplicas == handover.Restart && owner != nil && owner.Kind == "ReplicaSet"
	}
	return false
}

// releaser returns what asks pods of the kind.
func (r *rules) releaser(kind string) handover.Releaser {
	if kind == handover.Restart {
		return r.Restarter
	}
	return r.Kinds[kind]
}

// kinds names the kinds in words.
func (r *rules) kinds() string {
	names := slices.Sorted(maps.Keys(r.Kinds))
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// longestAnnotation is how long the value of an annotation for a hand-over can be. Longer ones are ignored.
const longestAnnotation = 1024

// handOverPod returns what a hand-over needs to know of a pod.
func (r *rules) handOverPod(p *corev1.Pod) *handover.Pod {
	out := &handover.Pod{
		Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Node: p.Spec.NodeName, Labels: p.Labels,
		Annotations: map[string]string{},
	}
	if owner := metav1.GetControllerOf(p); owner != nil {
		out.Controller, out.ControllerUID = owner.Kind+"/"+owner.Name, string(owner.UID)
	}
	for name, value := range p.Annotations {
		isOfHandOver := strings.HasPrefix(name, handover.Prefix) || name == handover.HandedOverAnnotation
		if isOfHandOver && len(value) <= longestAnnotation {
			out.Annotations[name] = value
		}
	}
	if own := r.drainAnnotation(p); own != "" && len(own) <= longestAnnotation {
		out.Annotations[DrainAnnotation] = own
	}
	return out
}
