package node

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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

// TestOneOfTwoNodesIsPreferred: of the Nodes that claim an instance, all methods return the one that is Ready, and of
// several such ones the first that has registered. Of two that are not Ready, too.
func TestOneOfTwoNodesIsPreferred(t *testing.T) {
	registered := func(name string, minute int, status corev1.ConditionStatus) *corev1.Node {
		return newNode(named(name), ready(status), func(n *corev1.Node) {
			n.CreationTimestamp = metav1.NewTime(t0.Add(time.Duration(minute) * time.Minute))
		})
	}
	const isReady, lost = corev1.ConditionTrue, corev1.ConditionUnknown
	for name, tt := range map[string]struct {
		nodes []runtime.Object
		want  string
	}{
		"registered again under another name": {[]runtime.Object{registered("a", 1, lost), registered("b", 2, isReady)}, "b"},
		"a Node that claims the instance of another one": {
			[]runtime.Object{registered("a", 2, isReady), registered("b", 1, isReady), registered("c", 3, isReady)}, "b",
		},
		"not Ready":        {[]runtime.Object{registered("a", 2, lost), registered("b", 1, lost)}, "b"},
		"in one second":    {[]runtime.Object{registered("b", 1, isReady), registered("a", 1, isReady)}, "a"},
		"only one of them": {[]runtime.Object{registered("a", 1, isReady)}, "a"},
	} {
		virtual(t, name, func(t *testing.T) {
			n := watched(t, fake.NewClientset(tt.nodes...), defaults)
			if found, ok := n.Find(instance); !ok || found.Name != tt.want {
				t.Errorf("found %+v, %v", found, ok)
			}
			if found, err := n.Lookup(t.Context(), instance); err != nil || found.Name != tt.want {
				t.Errorf("looked up %+v, %v", found, err)
			}
			if all := n.All(); len(all) != 1 || all[0].Name != tt.want {
				t.Errorf("all are %+v", all)
			}
		})
	}
}
