package kube_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/node-drainer/node-drainer/test/sim/kube"
)

// BenchmarkDrains measures ten nodes with 60 pods for two hours, in which each node is drained and replaced, while a
// client watches nodes, pods and budgets. It runs a test, because only a test can have virtual time.
func BenchmarkDrains(b *testing.B) {
	changes := 0
	drains := []testing.InternalTest{{Name: b.Name(), F: func(t *testing.T) { changes = drainAll(t) }}}
	for b.Loop() {
		if !testing.RunTests(func(string, string) (bool, error) { return true, nil }, drains) {
			b.FailNow()
		}
	}
	b.ReportMetric(float64(changes), "changes/op")
}

// drainAll drains and replaces ten nodes, and returns how many changes the server made.
func drainAll(t *testing.T) (changes int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := kube.New(1)
		defer server.Run(kube.DefaultTiming()).Stop()
		for i := range 10 {
			addNode(t, server, i)
			set := newReplicaSet(6)
			set.Name = fmt.Sprintf("web-%d", i)
			set.Spec.Template.Labels = map[string]string{"app": set.Name}
			addApp(t, server, set)
		}
		watchAll(t, server)
		time.Sleep(10 * time.Minute)
		for i := range 10 {
			addNode(t, server, 10+i)
			drainNode(t, server, fmt.Sprintf("node-%d", i))
			time.Sleep(10 * time.Minute)
		}
		changes = len(server.History(0))
		if n := ready(server); n["node-0"] != 0 || len(kube.List[*corev1.Pod](server)) != 60 {
			t.Errorf("pods are ready on %v", n)
		}
	})
	return changes
}

func addNode(t *testing.T, server *kube.Server, i int) {
	t.Helper()
	if err := server.Create(newNode(fmt.Sprintf("node-%d", i))); err != nil {
		t.Fatal(err)
	}
}

func addApp(t *testing.T, server *kube.Server, set *appsv1.ReplicaSet) {
	t.Helper()
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: set.Spec.Template.Labels},
		},
	}
	for _, o := range []kube.Object{set, budget} {
		if err := server.Create(o); err != nil {
			t.Fatal(err)
		}
	}
}

// watchAll has a client watch nodes, pods and budgets.
func watchAll(t *testing.T, server *kube.Server) {
	t.Helper()
	client, err := server.Client("watcher")
	if err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	synced := []cache.InformerSynced{
		factory.Core().V1().Nodes().Informer().HasSynced, factory.Core().V1().Pods().Informer().HasSynced,
		factory.Policy().V1().PodDisruptionBudgets().Informer().HasSynced,
	}
	factory.Start(t.Context().Done())
	if !cache.WaitForCacheSync(t.Context().Done(), synced...) {
		t.Fatal("the informers have not listed")
	}
}

// drainNode evicts the pods of a node until it is empty, and removes it.
func drainNode(t *testing.T, server *kube.Server, node string) {
	t.Helper()
	client, err := server.Client("agent")
	if err != nil {
		t.Fatal(err)
	}
	taint(server, node)
	for len(server.PodsOn(node)) > 0 {
		for _, p := range server.PodsOn(node) {
			if p.DeletionTimestamp == nil {
				_ = client.CoreV1().Pods(p.Namespace).EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: p.ObjectMeta})
			}
		}
		time.Sleep(time.Second)
	}
	kube.Remove[*corev1.Node](server, types.NamespacedName{Name: node})
}
