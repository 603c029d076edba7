package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
)

func TestEventsAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		ctx, cancel := context.WithCancel(t.Context())
		events := NewEvents(ctx, client, "node-drainer")
		cancel() // Events are written after the end of the context as well
		events.OnNode("n", "uid-1", "Draining", "draining node n", false)
		synctest.Wait()
		events.OnPod("x", "a", "uid-a", "Blocked", "held by b", true)
		events.Close()
		type event struct{ Namespace, Object, UID, Type, Reason, Message, By string }
		var got []event
		for _, a := range client.Actions() {
			e := a.(clienttesting.CreateAction).GetObject().(*corev1.Event)
			o := e.InvolvedObject
			got = append(got, event{
				a.GetNamespace(), o.Kind + " " + o.Namespace + "/" + o.Name, string(o.UID), e.Type, e.Reason, e.Message,
				e.Source.Component,
			})
		}
		want := []event{
			{"default", "Node /n", "uid-1", "Normal", "Draining", "draining node n", "node-drainer"},
			{"x", "Pod x/a", "uid-a", "Warning", "Blocked", "held by b", "node-drainer"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// TestCloseDoesNotBlock of the process when the API server does not answer.
func TestCloseDoesNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		fail(client, "create", "events", errors.New("no answer"))
		events, dropped := observedEvents(t, client)
		synctest.Wait()
		events.OnNode("n", "uid-1", "Draining", "draining node n", false)
		began := time.Now()
		events.Close()
		events.OnNode("n", "uid-1", "Drained", "drained", false)
		if took := time.Since(began); took != flushTime {
			t.Errorf("took %v", took)
		}
		dropped.want(t, 2, "node", errEventsClosed)
	})
}

// eventServer plays an API server that takes a few milliseconds for each Event, and first answers with some errors.
type eventServer struct {
	kubernetes.Interface
	typedcorev1.CoreV1Interface
	typedcorev1.EventInterface

	mu     sync.Mutex
	errs   []error
	events []*corev1.Event
}

func (s *eventServer) CoreV1() typedcorev1.CoreV1Interface      { return s }
func (s *eventServer) Events(string) typedcorev1.EventInterface { return s }
func (s *eventServer) RESTClient() rest.Interface               { return nil }
func (s *eventServer) Create(context.Context, *corev1.Event, metav1.CreateOptions) (*corev1.Event, error) {
	panic("not called")
}

func (s *eventServer) CreateWithEventNamespaceWithContext(_ context.Context, e *corev1.Event) (*corev1.Event, error) {
	time.Sleep(4 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.errs) > 0 {
		err := s.errs[0]
		s.errs = s.errs[1:]
		if err != nil {
			return nil, err
		}
	}
	s.events = append(s.events, e)
	return e, nil
}

func (s *eventServer) count(kind, reason string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.InvolvedObject.Kind == kind && e.Reason == reason {
			n++
		}
	}
	return n
}

// droppedEvents are Events that were not written.
type droppedEvents struct {
	mu   sync.Mutex
	by   map[string]int // object
	errs []error
}

func observedEvents(t *testing.T, client kubernetes.Interface) (*Events, *droppedEvents) {
	t.Helper()
	events, d := NewEvents(t.Context(), client, "node-drainer"), &droppedEvents{by: map[string]int{}}
	events.Observe(d)
	return events, d
}

func (d *droppedEvents) EventDropped(object, _, _ string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.by[object]++
	d.errs = append(d.errs, err)
}

func (d *droppedEvents) want(t *testing.T, n int, object string, err error) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by[object] != n || len(d.errs) != n || n > 0 && !errors.Is(d.errs[0], err) {
		t.Errorf("dropped %v, %v", d.by, d.errs[:min(len(d.errs), 3)])
	}
}

// TestManyDrainsEndAtOnce: 100 nodes whose drains end at the same deadline with 30 blocked pods each. Every node has the
// Event of its end, and what is dropped about pods is counted.
func TestManyDrainsEndAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &eventServer{}
		events, dropped := observedEvents(t, server)
		synctest.Wait()
		for i := range 100 {
			node := fmt.Sprintf("node-%d", i)
			for pod := range 30 {
				events.OnNode(node, node, "EvictionBlocked", fmt.Sprintf("Pod %d waits for a budget of its own", pod), true)
				events.OnPod("web", fmt.Sprintf("%d-%d", i, pod), "uid", "DeletedAtDeadline", "deleted", true)
			}
			events.OnNode(node, node, "PodsLeftBehind", "The drain ended with 30 of 30 pods left on the node", true)
		}
		time.Sleep(time.Minute)
		if n := server.count("Node", "PodsLeftBehind"); n != 100 {
			t.Errorf("%d of 100 nodes have the Event", n)
		}
		if n := server.count("Node", "EvictionBlocked"); n != 3000 {
			t.Errorf("%d of 3000 Events about blocked pods were written", n)
		}
		events.Close()
		dropped.want(t, 3000-server.count("Pod", "DeletedAtDeadline"), "pod", errTooManyEvents)
	})
}

// TestEventIsRepeated until the API server takes it, and holds up no others.
func TestEventIsRepeated(t *testing.T) {
	busy := apierrors.NewTooManyRequests("too many requests", 1)
	internal := apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
	exists := apierrors.NewAlreadyExists(schema.GroupResource{Resource: "events"}, "n.1")
	for _, tt := range []struct {
		name             string
		errs             []error
		written, dropped int
	}{
		{"API Priority and Fairness", []error{busy, busy, busy, busy, busy, busy, busy, busy}, 2, 0},
		{"etcd", []error{internal, internal, internal, internal}, 2, 0},
		{"no answer", []error{errors.New("connection refused"), context.DeadlineExceeded}, 2, 0},
		{"the answer to the first attempt was lost", []error{errors.New("EOF"), nil, exists}, 1, 0},
		{"refused for good", []error{apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "n.1", nil)}, 1, 1},
		{"an unknown answer of a webhook", []error{apierrors.NewGenericServerResponse(
			http.StatusBadRequest, "create", schema.GroupResource{}, "", "", 0, false)}, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &eventServer{errs: tt.errs}
				events, dropped := observedEvents(t, server)
				synctest.Wait()
				events.OnNode("n", "uid", "PodsLeftBehind", "pods left", true)
				events.OnNode("m", "uid-m", "PodsLeftBehind", "pods left", true)
				time.Sleep(2 * time.Minute)
				events.Close()
				if len(server.events) != tt.written {
					t.Errorf("%d Events were written, want %d", len(server.events), tt.written)
				}
				if dropped.by["node"] != tt.dropped {
					t.Errorf("dropped %v", dropped.by)
				}
			})
		})
	}
}

// TestEventEndsWithItsTime: nothing is tried for ever.
func TestEventEndsWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		fail(client, "create", "events", apierrors.NewInternalError(errors.New("no quorum")))
		events, dropped := observedEvents(t, client)
		synctest.Wait()
		events.OnNode("n", "uid", "PodsLeftBehind", "pods left", true)
		time.Sleep(2 * time.Hour)
		dropped.want(t, 1, "node", errEventTooOld)
		events.Close()
	})
}

// TestCleanMessage: messages quote pods, webhooks and AWS, and terminals show them.
func TestCleanMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &eventServer{}
		events, _ := observedEvents(t, server)
		events.OnPod("x", "a", "uid", "HandOverFailed", "no\n\x1b]0;Service\a\u202e\u009b here", true)
		events.Close()
		if m := server.events[0].Message; m != "no ]0;Service here" {
			t.Errorf("the message is %q", m)
		}
	})
}

// TestLongMessage: no message is longer than the API server takes.
func TestLongMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &eventServer{}
		events, _ := observedEvents(t, server)
		events.OnNode("n", "uid", "EvictionBlocked", strings.Repeat("é", 5000), true)
		events.Close()
		if m := server.events[0].Message; len(m) > 1024 || len(m) < 1000 || !strings.HasSuffix(m, "é…") {
			t.Errorf("the message has %d bytes: %s", len(m), m)
		}
	})
}
