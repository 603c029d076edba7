package kube_test

import (
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/node-drainer/node-drainer/test/sim/kube"
)

// timing is that of most tests: a replacement is Ready 1 + 1 + 5 seconds after a pod was deleted.
var timing = kube.Timing{
	Replace: time.Second, Schedule: time.Second, Start: 5 * time.Second, Count: time.Second, Collect: time.Minute,
	NodeLost: 40 * time.Second,
}

func newReplicaSet(replicas int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{
				Labels: map[string]string{"app": "web"}, Annotations: map[string]string{kube.WorkAnnotation: "10s"},
			},
		}},
	}
}

// inCluster is inBubble with controllers that have created the pods of a ReplicaSet of three, on node-1.
func inCluster(
	t *testing.T, timing kube.Timing, test func(*testing.T, *kube.Server, kubernetes.Interface), objects ...kube.Object,
) {
	t.Helper()
	inBubble(t, func(t *testing.T, server *kube.Server, client kubernetes.Interface) {
		defer server.Run(timing).Stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		test(t, server, client)
	}, append(objects, newNode("node-1"), newReplicaSet(3))...)
}

// ready returns how many pods are Ready and not deleted, on each node.
func ready(server *kube.Server) map[string]int {
	n := map[string]int{}
	for _, p := range kube.List[*corev1.Pod](server) {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			n[p.Spec.NodeName]++
		}
	}
	return n
}

func taint(server *kube.Server, node string) {
	kube.Update(server, types.NamespacedName{Name: node}, func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "node-drainer.io/terminating", Effect: corev1.TaintEffectNoSchedule}}
	})
}

// TestMove: evicted pods move to another node one by one, as their budget allows, when the pods before them have been
// replaced.
func TestMove(t *testing.T) {
	least := intstr.FromInt32(2)
	budget := newBudget("web", 0)
	budget.Spec.MinAvailable = &least
	inCluster(t, timing, func(t *testing.T, server *kube.Server, client kubernetes.Interface) {
		if got := ready(server)["node-1"]; got != 3 {
			t.Fatalf("%d pods are ready on node-1, want 3", got)
		}
		if err := server.Create(newNode("node-2")); err != nil {
			t.Fatal(err)
		}
		taint(server, "node-1")
		start := time.Now()
		for moved := 0; moved < 3; time.Sleep(100 * time.Millisecond) {
			for _, p := range kube.List[*corev1.Pod](server) {
				if p.Spec.NodeName != "node-1" || p.DeletionTimestamp != nil {
					continue
				}
				err := client.PolicyV1().Evictions("shop").Evict(t.Context(), &policyv1.Eviction{ObjectMeta: p.ObjectMeta})
				if err == nil {
					moved++
				} else if !apierrors.IsTooManyRequests(err) {
					t.Fatal(err)
				}
			}
			if n := ready(server); n["node-1"]+n["node-2"] < 2 {
				t.Fatalf("the budget was not kept: %v", n)
			}
		}
		if took := time.Since(start); took < 14*time.Second || took > 20*time.Second {
			t.Errorf("the last pod was evicted after %v", took)
		}
		time.Sleep(time.Minute)
		if n := ready(server); n["node-2"] != 3 || len(kube.List[*corev1.Pod](server)) != 3 {
			t.Errorf("pods are ready on %v", n)
		}
	}, budget)
}

// TestOldViewOfNodes: a scheduler with an old view of the nodes binds a pod to a node that has a taint by now.
func TestOldViewOfNodes(t *testing.T) {
	for view, want := range map[time.Duration]string{0: "node-2", 20 * time.Second: "node-1"} {
		slow := timing
		slow.SchedulerLag = view
		inCluster(t, slow, func(t *testing.T, server *kube.Server, _ kubernetes.Interface) {
			taint(server, "node-1")
			if err := server.Create(newNode("node-2")); err != nil {
				t.Fatal(err)
			}
			kube.Remove[*corev1.Pod](server, types.NamespacedName{
				Namespace: "shop", Name: kube.List[*corev1.Pod](server)[0].Name,
			})
			time.Sleep(15 * time.Second)
			if n := ready(server); n[want] == 0 || n["node-1"]+n["node-2"] != 3 {
				t.Errorf("with a view that is %v old the pods are on %v", view, n)
			}
		})
	}
}

// TestNodeIsGone: pods of a Node that is gone are removed after a while, and replaced elsewhere.
func TestNodeIsGone(t *testing.T) {
	inCluster(t, timing, func(t *testing.T, server *kube.Server, _ kubernetes.Interface) {
		if err := server.Create(newNode("node-2")); err != nil {
			t.Fatal(err)
		}
		kube.Remove[*corev1.Node](server, types.NamespacedName{Name: "node-1"})
		time.Sleep(time.Minute - time.Second)
		if n := ready(server); n["node-1"] != 3 {
			t.Errorf("before a minute the pods are on %v", n)
		}
		time.Sleep(10 * time.Second)
		if n := ready(server); n["node-1"] != 0 || n["node-2"] != 3 {
			t.Errorf("after a minute the pods are on %v", n)
		}
	})
}
