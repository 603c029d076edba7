package handover

import "context"

// Gate lets a pod go as soon as it has the HandedOverAnnotation. Its owner adds it, when it is ready for the
// eviction: it sees that the node is drained by our taint.
type Gate struct{}

// Release answers by the annotations of the pod.
func (Gate) Release(_ context.Context, r Request) (Answer, error) {
	if _, ready := r.Pod.Annotations[HandedOverAnnotation]; ready {
		return Answer{Go: true, Outcome: HandedOver}, nil
	}
	return Answer{
		Outcome: HandingOver, Message: "the pod does not have the annotation " + HandedOverAnnotation + " yet",
	}, nil
}
