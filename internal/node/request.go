package node

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/internal/event"
)

// DrainRequestAnnotation is the annotation of a Node that is to be drained although no hook holds its instance. The
// value is the id of that: a new instance may get a Node of the same name. Whoever may annotate Nodes is trusted with
// them.
const DrainRequestAnnotation = "node-drainer.io/drain-requested"

// IsDrainRequested reports whether the annotation of the Node names its instance.
func IsDrainRequested(node *corev1.Node) bool {
	id := InstanceOf(node)
	return id != "" && node.Annotations[DrainRequestAnnotation] == id
}

// requests notices on which Nodes drains are requested, and which are uncordoned.
type requests struct {
	cfg     Config
	noticed chan struct{}
}

// ByHand returns a channel that has an element when the watch has shown, since the last one was received, that the
// drain of a Node was requested, that such a request was withdrawn, or that a Node was marked or unmarked for one: the
// watch may show the mark after the withdrawal. The same for a Node with a mark that was uncordoned.
func (r requests) ByHand() <-chan struct{} { return r.noticed }

// notice compares what the watch shows of a Node with what it showed before, which may be nil.
func (r requests) notice(before, now any) {
	type state struct{ requested, marked, uncordoned bool }
	of := func(obj any) state {
		node, ok := obj.(*corev1.Node)
		if !ok {
			return state{}
		}
		mark, _ := MarkOf(node)
		return state{IsDrainRequested(node), mark.Reason == string(event.DrainRequested), r.cfg.isUncordoned(node)}
	}
	if of(before) == of(now) {
		return
	}
	select {
	case r.noticed <- struct{}{}:
	default:
	}
}
