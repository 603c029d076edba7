package kube_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/node-drainer/node-drainer/test/sim/kube"
)

// newPod returns a pod that runs on node-1, and is Ready.
func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "node-1"},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
}

func newBudget(name string, allowed int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
		Status: policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: allowed},
	}
}

func newNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// inBubble runs a test in virtual time, with a server of the objects and a client of it.
func inBubble(t *testing.T, test func(*testing.T, *kube.Server, kubernetes.Interface), objects ...kube.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := kube.New(1, objects...)
		client, err := server.Client("test")
		if err != nil {
			t.Fatal(err)
		}
		test(t, server, client)
	})
}

// nodeLister starts an informer of all Nodes, and returns what lists their names, labels and number.
func nodeLister(t *testing.T, client kubernetes.Interface) func() []*corev1.Node {
	t.Helper()
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Nodes().Informer()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("the informer has not listed the nodes")
	}
	return func() (nodes []*corev1.Node) {
		for _, o := range informer.GetStore().List() {
			nodes = append(nodes, o.(*corev1.Node)) //nolint:forcetypeassert // The informer stores Nodes.
		}
		return nodes
	}
}

// TestInformer: an informer of client-go follows the server, as much later as its watches lag, through watches that
// break and resource versions that expire.
func TestInformer(t *testing.T) {
	inBubble(t, func(t *testing.T, server *kube.Server, client kubernetes.Interface) {
		server.Inject(kube.Fault{Effect: kube.Stale, Delay: 2 * time.Second})
		list := nodeLister(t, client)
		expect := func(want int, when string) {
			t.Helper()
			synctest.Wait()
			if got := len(list()); got != want {
				t.Errorf("%s: %d nodes, want %d", when, got, want)
			}
		}
		expect(1, "at the start")
		if err := server.Create(newNode("node-2")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*time.Second - 1)
		expect(1, "before the watch shows the node")
		time.Sleep(time.Nanosecond)
		expect(2, "when the watch shows the node")

		server.BreakWatches()
		kube.Remove[*corev1.Node](server, types.NamespacedName{Name: "node-1"})
		time.Sleep(time.Minute)
		expect(1, "after the watches broke")

		if err := server.Create(newNode("node-3")); err != nil {
			t.Fatal(err)
		}
		server.Expire()
		server.BreakWatches()
		time.Sleep(time.Minute)
		expect(2, "after the resource versions expired")
	}, newNode("node-1"))
}

// TestWatchOfSelection: a pod that leaves the selection of a watch is deleted for it.
func TestWatchOfSelection(t *testing.T) {
	inBubble(t, func(t *testing.T, server *kube.Server, client kubernetes.Interface) {
		w, err := client.CoreV1().Pods("shop").Watch(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		next := func() string { return string((<-w.ResultChan()).Type) }
		if got := next(); got != "ADDED" {
			t.Errorf("first %s", got)
		}
		for _, want := range []string{"DELETED", "ADDED"} {
			kube.Update(server, types.NamespacedName{Namespace: "shop", Name: "a"}, func(p *corev1.Pod) {
				p.Labels = map[string]string{"app": map[string]string{"DELETED": "other", "ADDED": "web"}[want]}
			})
			if got := next(); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	}, newPod("a"))
}

// TestConcurrentWrites: a write with an old resource version or another UID is a conflict, and a patch without effect
// is no change.
func TestConcurrentWrites(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *kube.Server, client kubernetes.Interface) {
		nodes := client.CoreV1().Nodes()
		patch := func(data string) (*corev1.Node, error) {
			return nodes.Patch(t.Context(), "node-1", types.StrategicMergePatchType, []byte(data), metav1.PatchOptions{})
		}
		first, err := nodes.Get(t.Context(), "node-1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		second, err := patch(`{"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}`)
		if err != nil || len(second.Spec.Taints) != 1 || second.ResourceVersion == first.ResourceVersion {
			t.Fatalf("patched to %v: %v", second, err)
		}
		same, err := patch(`{"spec":{"unschedulable":null}}`)
		if err != nil || same.ResourceVersion != second.ResourceVersion {
			t.Errorf("a patch without effect wrote version %s: %v", same.ResourceVersion, err)
		}
		if _, err := nodes.Update(t.Context(), first, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("an update of an old version: %v", err)
		}
		for _, metadata := range []string{`"resourceVersion":"1"`, `"uid":"another"`} {
			_, err := patch(`{"metadata":{` + metadata + `,"labels":{"a":"b"}}}`)
			if !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) {
				t.Errorf("a patch with %s: %v", metadata, err)
			}
		}
	}, newNode("node-1"))
}

// TestEvictions: what the eviction API answers.
func TestEvictions(t *testing.T) {
	unready := newPod("a")
	unready.Status.Conditions = nil
	unobserved := newBudget("web", 1)
	unobserved.Status.ObservedGeneration = 0
	other := types.UID("other")
	for name, tt := range map[string]struct {
		objects []kube.Object
		uid     *types.UID
		refused func(error) bool
	}{
		"allowed":          {objects: []kube.Object{newPod("a"), newBudget("web", 1)}},
		"without a budget": {objects: []kube.Object{newPod("a")}},
		"budget at its limit": {
			objects: []kube.Object{newPod("a"), newBudget("web", 0)}, refused: apierrors.IsTooManyRequests,
		},
		"budget not observed yet": {
			objects: []kube.Object{newPod("a"), unobserved}, refused: apierrors.IsTooManyRequests,
		},
		"two budgets": {
			objects: []kube.Object{newPod("a"), newBudget("web", 1), newBudget("all", 1)}, refused: apierrors.IsInternalError,
		},
		"not Ready, below the budget": {
			objects: []kube.Object{unready, newBudget("web", 0)}, refused: apierrors.IsTooManyRequests,
		},
		"another pod of the name": {objects: []kube.Object{newPod("a")}, uid: &other, refused: apierrors.IsConflict},
		"gone":                    {refused: apierrors.IsNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *kube.Server, client kubernetes.Interface) {
				err := client.PolicyV1().Evictions("shop").Evict(t.Context(), &policyv1.Eviction{
					ObjectMeta:    metav1.ObjectMeta{Namespace: "shop", Name: "a"},
					DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: tt.uid}},
				})
				pods := kube.List[*corev1.Pod](server)
				if tt.refused != nil {
					if !tt.refused(err) || len(pods) > 0 && pods[0].DeletionTimestamp != nil {
						t.Errorf("got %v, and the pods %v", err, pods)
					}
					return
				}
				if err != nil || pods[0].DeletionTimestamp == nil {
					t.Fatalf("got %v, and the pods %v", err, pods)
				}
				for _, b := range kube.List[*policyv1.PodDisruptionBudget](server) {
					if b.Status.DisruptionsAllowed != 0 || len(b.Status.DisruptedPods) != 1 {
						t.Errorf("the budget's status is %+v", b.Status)
					}
				}
			}, tt.objects...)
		})
	}
}

// TestDeletions: a pod keeps its grace period, which a second deletion can only shorten.
func TestDeletions(t *testing.T) {
	inBubble(t, func(t *testing.T, server *kube.Server, client kubernetes.Interface) {
		start := time.Now()
		for _, tt := range []struct {
			grace int64
			ends  time.Duration
		}{{600, 600 * time.Second}, {900, 600 * time.Second}, {60, 60 * time.Second}, {0, 0}} {
			err := client.CoreV1().Pods("shop").Delete(t.Context(), "a", *metav1.NewDeleteOptions(tt.grace))
			if err != nil {
				t.Fatal(err)
			}
			pods := kube.List[*corev1.Pod](server)
			if tt.ends == 0 {
				if len(pods) > 0 {
					t.Error("a deletion without grace has left the pod")
				}
				return
			}
			if ends := pods[0].DeletionTimestamp.Sub(start); ends != tt.ends {
				t.Errorf("deleted with %d s: ends after %v, want %v", tt.grace, ends, tt.ends)
			}
			time.Sleep(10 * time.Second)
		}
	}, newPod("a"))
}

// TestFaults: requests take time, are refused, and lose their answers.
func TestFaults(t *testing.T) {
	inBubble(t, func(t *testing.T, server *kube.Server, client kubernetes.Interface) {
		server.Latency = 2 * time.Second
		start := time.Now()
		_, err := client.CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
		if took := time.Since(start); err != nil || took < time.Second || took > 3*time.Second {
			t.Errorf("answered %v after %v", err, took)
		}
		server.Inject(kube.Fault{Effect: kube.Lost, Verb: "delete"})
		err = client.CoreV1().Nodes().Delete(t.Context(), "node-1", metav1.DeleteOptions{})
		if err == nil || len(kube.List[*corev1.Node](server)) > 0 {
			t.Errorf("a deletion whose answer is lost: %v", err)
		}
		server.Forbidden("list", "nodes")
		if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("a refused list: %v", err)
		}
	}, newNode("node-1"))
}
