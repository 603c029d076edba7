package node

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/record/util"

	"github.com/node-drainer/node-drainer/internal/text"
)

// Events records Kubernetes Events on Nodes, Pods and Leases. Create it with NewEvents, and end it with Close.
//
// Events on Nodes and Leases have a queue of their own: they say how drains end. A drain with many pods writes more
// Events on Pods in a second than the API server takes. The broadcaster of client-go has one queue, drops what does
// not fit without a trace, does not repeat what the API server refuses with 429 or 5xx, and allows an object 25 Events.
type Events struct {
	component   string
	nodes, pods *eventQueue
	cancel      context.CancelFunc
	writing     sync.WaitGroup

	mu   sync.Mutex
	last int64 // the time in the name of the last Event, in nanoseconds
}

const (
	// mostNodeEvents and mostPodEvents are how many Events wait to be written at most. One has two KiB at most.
	mostNodeEvents, mostPodEvents = 8192, 2048
	// longestMessage is the limit of the API server for the API events.k8s.io, in bytes (NoteLengthLimit in
	// pkg/apis/core/validation/events.go of Kubernetes). Messages quote pods and webhooks, which write what they want.
	longestMessage = 1024
)

// NewEvents returns Events that are written through client, by component, until Close. They are written after
// the end of ctx as well: its end is reported by Events.
func NewEvents(ctx context.Context, client kubernetes.Interface, component string) *Events {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	api := client.CoreV1().Events("")
	e := &Events{
		component: component,
		cancel:    cancel,
		// The number of Events of a drain on its Node is bounded: none is spam, or like others.
		nodes: newEventQueue(api, mostNodeEvents, record.CorrelatorOptions{
			BurstSize: mostNodeEvents, QPS: mostNodeEvents, MaxEvents: mostNodeEvents,
		}),
		pods: newEventQueue(api, mostPodEvents, record.CorrelatorOptions{}),
	}
	e.writing.Go(func() { e.nodes.run(ctx) })
	e.writing.Go(func() { e.pods.run(ctx) })
	return e
}

// EventObserver is notified of Events that are not written. It must not block.
type EventObserver interface {
	// EventDropped records that an Event on a Node, a Pod or a Lease, which the object names in lower case, is not
	// written, and why.
	EventDropped(object, name, reason string, err error)
}

// Observe has o notified of Events that are not written.
func (e *Events) Observe(o EventObserver) {
	e.nodes.observe(o)
	e.pods.observe(o)
}

// Close stops when all Events have been written, or after two seconds.
func (e *Events) Close() {
	timer := time.AfterFunc(flushTime, e.cancel)
	defer timer.Stop()
	defer e.cancel()
	e.nodes.close()
	e.pods.close()
	e.writing.Wait()
}

// OnNode records an Event on a Node. It does not block.
func (e *Events) OnNode(name, uid, reason, message string, warning bool) {
	e.nodes.add(e.event(corev1.ObjectReference{
		APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(uid),
	}, reason, message, warning))
}

// OnPod records an Event on a Pod. It does not block.
func (e *Events) OnPod(namespace, name, uid, reason, message string, warning bool) {
	e.pods.add(e.event(corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name, UID: types.UID(uid),
	}, reason, message, warning))
}

// OnLease records an Event on a Lease. It does not block.
func (e *Events) OnLease(namespace, name, uid, reason, message string, warning bool) {
	e.nodes.add(e.event(corev1.ObjectReference{
		APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: namespace, Name: name, UID: types.UID(uid),
	}, reason, message, warning))
}

// event returns an Event as client-go's recorder makes it.
func (e *Events) event(ref corev1.ObjectReference, reason, message string, warning bool) *corev1.Event {
	kind := corev1.EventTypeNormal
	if warning {
		kind = corev1.EventTypeWarning
	}
	namespace := ref.Namespace
	if namespace == "" { // the API server accepts no other for an object without one
		namespace = metav1.NamespaceDefault
	}
	now := metav1.Now()
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name: util.GenerateEventName(ref.Name, e.uniqueTime(now.Time)), Namespace: namespace,
		},
		InvolvedObject: ref, Reason: reason, Message: text.Cut(text.Clean(message), longestMessage), Type: kind, Count: 1,
		FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: e.component}, ReportingController: e.component,
	}
}

// uniqueTime returns the time in nanoseconds, or a later one if it was returned before: it is part of the name.
func (e *Events) uniqueTime(now time.Time) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = max(e.last+1, now.UnixNano())
	return e.last
}
