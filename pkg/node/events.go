package node

import (
	"context"
	"sync"
	"time"

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
	sink        *sink
}

// NewEvents returns Events that are written through client, by component, until they are closed: also after
// the end of ctx, for the end of a process is worth telling of.
func NewEvents(ctx context.Context, client kubernetes.Interface, component string) *Events {
	b := record.NewBroadcaster(record.WithContext(context.WithoutCancel(ctx)))
	s := &sink{
		EventSink: &typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")}, closed: make(chan struct{}),
	}
	b.StartRecordingToSink(s)
	return &Events{b, b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component}), s}
}

// Close writes what has been recorded, if the API server takes it within two seconds, and stops.
func (e *Events) Close() {
	e.OnNode(lastEvent, "", lastEvent, "", false)
	timer := time.NewTimer(flushTime)
	defer timer.Stop()
	select {
	case <-e.sink.closed:
	case <-timer.C:
	}
	e.broadcaster.Shutdown()
}

// lastEvent is the reason of an Event that is not written: Events are written one after the other, so all
// before it have been.
const lastEvent = "Last"

// sink writes Events until the last.
type sink struct {
	record.EventSink
	once   sync.Once
	closed chan struct{} // the last has come
}

// Create writes a new Event.
func (s *sink) Create(event *corev1.Event) (*corev1.Event, error) {
	if event.Reason == lastEvent {
		s.once.Do(func() { close(s.closed) })
		return event, nil
	}
	return s.EventSink.Create(event)
}

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
