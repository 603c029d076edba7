package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/node-drainer/node-drainer/internal/node"
)

// TestMarkedNodes: nodes with a mark, the agent's taint or its condition are returned by name, other nodes are not.
func TestMarkedNodes(t *testing.T) {
	t.Parallel()
	marked := func(mark string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Annotations = map[string]string{node.Annotation: mark} }
	}
	deadline := time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)
	synctest.Test(t, func(t *testing.T) {
		v := New(fake.NewClientset(
			newNode("kept", ready), newNode("outdated", tainted(OutdatedTaint)),
			newNode("postponed", condition(node.ConditionType, corev1.ConditionFalse)),
			newNode("draining", ready, tainted(taintKey), condition(node.ConditionType, corev1.ConditionFalse),
				marked(`{"instance":"`+instance+`","reason":"terminating","hook":"workers/drain","deadline":"2026-11-21T13:00:00Z"}`)),
			newNode("again", marked(`{"instance":"i-0ffffffffffffffff","reason":"terminating"}`)),
		))
		go func() { _ = v.Run(t.Context(), time.Minute) }()
		<-v.Synced()
		drain := &Drain{Reason: "PodsLeft", Message: "2 pods are left.", Since: time.Unix(60, 0)}
		want := []MarkedNode{
			{Node: Node{Name: "again", Marked: true}, InstanceID: instance},
			{
				Node: Node{Name: "draining", Ready: true, ReadySince: time.Unix(60, 0), Marked: true, Drain: drain}, InstanceID: instance,
				Mark: node.Mark{InstanceID: instance, Reason: "terminating", Hook: "workers/drain", Deadline: deadline},
			},
			{Node: Node{Name: "postponed", Drain: drain}, InstanceID: instance},
		}
		if diff := cmp.Diff(want, v.MarkedNodes()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}
