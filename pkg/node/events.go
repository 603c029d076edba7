package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// Events records Kubernetes Events on Nodes and Pods. Make it with NewEvents, and Close it.
type Events struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
}

// NewEvents returns Events that are written through client, by component.
func NewEvents(ctx context.Context, client kubernetes.Interface, component string) *Events {
	b := record.NewBroadcaster(record.WithContext(ctx))
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return &Events{b, b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component})}
}

// Close stops. An Event that has not been written by then may be lost.
func (e *Events) Close() { e.broadcaster.Shutdown() }

// OnNode records an Event on a Node. It does not block.
func (e *Events) OnNode(name, uid, reason, message string, warning bool) {
	e.record(&corev1.ObjectReference{
		APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(uid),
	}, reason, message, warning)
}

// OnPod records an Event on a Pod. It does not block.
func (e *Events) OnPod(namespace, name, uid, reason, message string, warning bool) {
	e.record(&corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name, UID: types.UID(uid),
	}, reason, message, warning)
}

func (e *Events) record(ref *corev1.ObjectReference, reason, message string, warning bool) {
	kind := corev1.EventTypeNormal
	if warning {
		kind = corev1.EventTypeWarning
	}
	e.recorder.Event(ref, kind, reason, message)
}
