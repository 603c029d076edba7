package node

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func inPool(pool string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels = map[string]string{"pool": pool, "zone": "a"} }
}

func initializing(n *corev1.Node) {
	tainted(uninitialized, corev1.TaintEffectNoSchedule)(n)
}

// selecting returns synced Nodes that NODE_SELECTOR limits to pool=ours.
func selecting(t *testing.T, nodes ...*corev1.Node) (*Nodes, *fake.Clientset) {
	t.Helper()
	client := fake.NewClientset()
	for _, one := range nodes {
		if err := client.Tracker().Add(one); err != nil {
			t.Fatal(err)
		}
	}
	return watched(t, client, with(func(c *Config) { c.Selector = "pool=ours,zone in (a,b)" })), client
}

// TestSelector: a Node that the selector does not match is another agent's, and not one that does not exist.
func TestSelector(t *testing.T) {
	for _, tt := range []struct {
		name   string
		nodes  []*corev1.Node
		found  string
		lookup error
	}{
		{"ours", []*corev1.Node{newNode(inPool("ours"))}, "n", nil},
		{"theirs", []*corev1.Node{newNode(inPool("theirs"))}, "", ErrUnselected},
		{"no Node", nil, "", ErrGone},
		{
			"ours, which has registered again as theirs",
			[]*corev1.Node{newNode(inPool("ours")), newNode(named("m"), inPool("theirs"), ready(corev1.ConditionTrue))},
			"", ErrUnselected,
		},
		{
			"theirs, which has registered again as ours",
			[]*corev1.Node{newNode(inPool("theirs")), newNode(named("m"), inPool("ours"), ready(corev1.ConditionTrue))},
			"m", nil,
		},
	} {
		virtual(t, tt.name, func(t *testing.T) {
			n, _ := selecting(t, tt.nodes...)
			found, ok := n.Find(instance)
			unselected := errors.Is(tt.lookup, ErrUnselected)
			if ok != (tt.found != "") || ok && found.Name != tt.found || found.Unselected != unselected {
				t.Errorf("found %+v, %v", found, ok)
			}
			if all := n.All(); len(all) > 1 || ok != (len(all) == 1) && tt.lookup == nil {
				t.Errorf("all nodes are %+v", all)
			}
			if _, err := n.Lookup(t.Context(), instance); !errors.Is(err, tt.lookup) {
				t.Errorf("looked up: got %v, want %v", err, tt.lookup)
			}
		})
	}
}

// TestNodeLosesItsLabel: a Node that loses its label during a drain stays reachable and can be changed.
func TestNodeLosesItsLabel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, client := selecting(t, newNode(inPool("ours"), ready(corev1.ConditionTrue)))
		ours, _ := n.Find(instance)
		if err := client.Tracker().Update(nodesResource, newNode(inPool("theirs"), ready(corev1.ConditionTrue)), ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if found, ok := n.Find(instance); ok || !found.Unselected {
			t.Errorf("found %+v, %v", found, ok)
		}
		if n.Unreachable("n") {
			t.Error("the pods of a Ready node count as stopped")
		}
		if mark, _, err := n.Cordon(t.Context(), ours, Reason{Kind: "spot"}); err != nil || mark.Reason != "spot" {
			t.Errorf("got %+v, %v", mark, err)
		}
	})
}

func TestProtectedLeavesOutOtherAgentsNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := selecting(t, newNode(inPool("theirs"), func(n *corev1.Node) {
			n.Annotations = map[string]string{ScaleDownOwner: "workers"}
		}))
		if all := n.Protected(); len(all) > 0 {
			t.Errorf("got %+v", all)
		}
	})
}

// TestAwaitSelected: the Node of a new instance is judged when the cloud provider has set its labels.
func TestAwaitSelected(t *testing.T) {
	for pool, want := range map[string]error{"ours": nil, "theirs": ErrUnselected} {
		virtual(t, pool, func(t *testing.T) {
			n, client := selecting(t, newNode(initializing))
			if found, ok := n.Find(instance); ok || found.Unselected {
				t.Errorf("found %+v, %v", found, ok)
			}
			if _, err := n.Lookup(t.Context(), instance); !errors.Is(err, ErrUnselected) {
				t.Errorf("looked up: %v; want it not to count as gone", err)
			}
			start := time.Now()
			go func() {
				time.Sleep(time.Minute)
				if err := client.Tracker().Update(nodesResource, newNode(inPool(pool)), ""); err != nil {
					t.Error(err)
				}
			}()
			if found, err := n.Await(t.Context(), instance, nil); !errors.Is(err, want) || found.Name != "n" || time.Since(start) < time.Minute {
				t.Errorf("after %v: got %+v, %v", time.Since(start), found, err)
			}
		})
	}
}
