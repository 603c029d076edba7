package node

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/fake"
)

func named(name string) func(*corev1.Node) { return func(n *corev1.Node) { n.Name = name } }

// withStaleWatch returns Nodes whose watch shows none, though there are some.
func withStaleWatch(t *testing.T, nodes ...*corev1.Node) (*Nodes, *fake.Clientset) {
	t.Helper()
	client := fake.NewClientset()
	n := watched(t, client, defaults)
	for _, one := range nodes {
		if err := client.Tracker().Add(one); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Wait()
	for _, obj := range n.informer.GetStore().List() {
		if err := n.informer.GetStore().Delete(obj); err != nil {
			t.Fatal(err)
		}
	}
	client.ClearActions()
	return n, client
}

// TestLookupANodeThatTheWatchDoesNotShow is found and changed all the same.
func TestLookupANodeThatTheWatchDoesNotShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := withStaleWatch(t, newNode(ready(corev1.ConditionTrue)), newNode(named("other"), func(n *corev1.Node) {
			n.Spec.ProviderID = "aws:///eu-west-1a/i-0ffffffffffffffff"
		}))
		if _, ok := n.Find(instance); ok {
			t.Fatal("the watch shows it")
		}
		found, err := n.Lookup(t.Context(), instance)
		if err != nil || found.Name != "n" || found.UID != "uid-1" || !found.Ready {
			t.Fatalf("got %+v, %v", found, err)
		}
		if mark, _, err := n.Cordon(t.Context(), found, Reason{Kind: "spot"}); err != nil || mark.InstanceID != instance {
			t.Errorf("got %+v, %v", mark, err)
		}
		if again, err := n.Lookup(t.Context(), instance); err != nil || again.Mark.Reason != "spot" {
			t.Errorf("got %+v, %v", again, err)
		}
	})
}

func TestLookupANodeThatDoesNotExist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, client := withStaleWatch(t)
		if _, err := n.Lookup(t.Context(), instance); !errors.Is(err, ErrGone) {
			t.Errorf("got %v", err)
		}
		fail(client, "list", "nodes", apierrors.NewServiceUnavailable("away"))
		if _, err := n.Lookup(t.Context(), instance); errors.Is(err, ErrGone) || !apierrors.IsServiceUnavailable(err) {
			t.Errorf("got %v: want the error of the API server", err)
		}
	})
}

func TestConcurrentLookupsShareOneList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, client := withStaleWatch(t, newNode())
		var all sync.WaitGroup
		for _, id := range []string{instance, "i-0ffffffffffffffff", instance} {
			all.Go(func() {
				if _, err := n.Lookup(context.Background(), id); (err == nil) != (id == instance) {
					t.Errorf("%s: got %v", id, err)
				}
			})
		}
		all.Wait()
		if got := len(client.Actions()); got != 1 {
			t.Errorf("%d requests: %v", got, client.Actions())
		}
	})
}

// TestTheReadyOneOfTwoNodesIsPreferred Find and Lookup return the one that is Ready.
func TestTheReadyOneOfTwoNodesIsPreferred(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := watched(t, fake.NewClientset(
			newNode(named("a"), ready(corev1.ConditionUnknown)), newNode(named("b"), ready(corev1.ConditionTrue)),
			newNode(named("c"), ready(corev1.ConditionTrue)), newNode(named("d")),
		), defaults)
		if found, ok := n.Find(instance); !ok || found.Name != "b" {
			t.Errorf("found %+v, %v", found, ok)
		}
		if found, err := n.Lookup(t.Context(), instance); err != nil || found.Name != "b" {
			t.Errorf("looked up %+v, %v", found, err)
		}
	})
}
