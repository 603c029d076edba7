package node

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestEventsAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		ctx, cancel := context.WithCancel(t.Context())
		events := NewEvents(ctx, client, "node-drainer")
		synctest.Wait() // the recorder is ready
		cancel()        // Events are written after the end of the context as well
		events.OnNode("n", "uid-1", "Draining", "draining node n", false)
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
		events := NewEvents(t.Context(), client, "node-drainer")
		synctest.Wait()
		events.OnNode("n", "uid-1", "Draining", "draining node n", false)
		began := time.Now()
		events.Close()
		if took := time.Since(began); took != flushTime {
			t.Errorf("took %v", took)
		}
	})
}
