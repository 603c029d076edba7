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

// Events records Kubernetes Events on Nodes, Pods and Leases. Create it with NewEvents, and end it with Close.
type Events struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
	sink        *sink
}

// NewEvents returns Events that are written through client, by component, until Close. They are written after
// the end of ctx as well: its end is reported by Events.
func NewEvents(ctx context.Context, client kubernetes.Interface, component string) *Events {
	b := record.NewBroadcaster(record.WithContext(context.WithoutCancel(ctx)))
	s := &sink{
		EventSink: &typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")}, closed: make(chan struct{}),
	}
	b.StartRecordingToSink(s)
	return &Events{b, b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component}), s}
}

// Close stops when all Events have been written, or after two seconds.
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

// lastEvent is the reason of an Event that is not written. Events are written in order, so all others have
// been written when the sink gets it.
const lastEvent = "Last"

// sink writes Events, and closes the channel when it gets lastEvent.
type sink struct {
	record.EventSink
	once   sync.Once
	closed chan struct{}
}

// Create implements record.EventSink.
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

// OnLease records an Event on a Lease. It does not block.
func (e *Events) OnLease(namespace, name, uid, reason, message string, warning bool) {
	e.record(&corev1.ObjectReference{
		APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: namespace, Name: name, UID: types.UID(uid),
	}, reason, message, warning)
}

func (e *Events) record(ref *corev1.ObjectReference, reason, message string, warning bool) {
	kind := corev1.EventTypeNormal
	if warning {
		kind = corev1.EventTypeWarning
	}
	e.recorder.Event(ref, kind, reason, message)
}
