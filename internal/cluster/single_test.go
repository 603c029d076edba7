package cluster

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

// TestSinglePods: only a pod whose controller has no other one counts, wherever that runs.
func TestSinglePods(t *testing.T) {
	t.Parallel()
	of := func(uid types.UID) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			owned("ReplicaSet")(p)
			p.OwnerReferences[0].UID = uid
		}
	}
	view := New(fake.NewClientset(
		pod("alone", "a", "web", of("1")),
		pod("pair", "a", "web", of("2")), pod("pair-elsewhere", "c", "web", of("2")),
		pod("both", "a", "web", of("3")), pod("both-here", "b", "web", of("3")),
		pod("replaced", "b", "web", of("4")), pod("replaced-finished", "c", "web", of("4"), phase(corev1.PodSucceeded)),
		pod("bare", "a", "web"), pod("daemon", "a", "web", owned("DaemonSet")),
	))
	nodes := []string{"a", "b"}
	for n := range maxNodeLists { // The fake lists the pods of all nodes together only.
		nodes = append(nodes, fmt.Sprint("other", n))
	}
	loads, err := view.Loads(t.Context(), nodes)
	if err != nil {
		t.Fatal(err)
	}
	got, err := view.SinglePods(t.Context(), loads)
	if want := []string{"shop/alone", "shop/replaced"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}
