package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const instance = "i-0123456789abcdef0"

// node is a Node of the instance with what the changes make of it.
func node(name string, changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Spec.ProviderID = "aws:///eu-central-1a/" + instance
	for _, change := range changes {
		change(n)
	}
	return n
}

func condition(kind corev1.NodeConditionType, status corev1.ConditionStatus) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: status, Reason: "PodsLeft", Message: "2 pods are left.", LastTransitionTime: metav1.NewTime(time.Unix(60, 0)),
		})
	}
}

func ready(n *corev1.Node) { condition(corev1.NodeReady, corev1.ConditionTrue)(n) }

func tainted(key string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}} }
}

func TestToNode(t *testing.T) {
	t.Parallel()
	drain := &Drain{Reason: "PodsLeft", Message: "2 pods are left.", Since: time.Unix(60, 0)}
	drained := *drain
	drained.Done = true
	for _, tt := range []struct {
		name string
		node *corev1.Node
		want Node
	}{
		{"new", node("a"), Node{Name: "a"}},
		{"ready", node("a", ready), Node{Name: "a", Ready: true}},
		{"unknown is not ready", node("a", condition(corev1.NodeReady, corev1.ConditionUnknown)), Node{Name: "a"}},
		{"tainted as outdated", node("a", tainted(OutdatedTaint)), Node{Name: "a", Tainted: true}},
		{"with a UID", node("a", func(n *corev1.Node) { n.UID = "u" }), Node{Name: "a", UID: "u"}},
		{"another condition", node("a", condition(corev1.NodeDiskPressure, corev1.ConditionTrue)), Node{Name: "a"}},
		{"with labels", node("a", func(n *corev1.Node) { n.Labels = map[string]string{"x": "y"} }), Node{Name: "a", Labels: map[string]string{"x": "y"}}},
		{"tainted by the agent", node("a", tainted("node-drainer.io/terminating")), Node{Name: "a", Marked: true}},
		{"tainted by another controller", node("a", tainted("other")), Node{Name: "a"}},
		{
			"marked with a taint of another key",
			node("a", func(n *corev1.Node) { n.Annotations = map[string]string{"node-drainer.io/termination": "{}"} }),
			Node{Name: "a", Marked: true},
		},
		{"being drained", node("a", condition("node-drainer.io/Drained", corev1.ConditionFalse)), Node{Name: "a", Drain: drain}},
		{"drained", node("a", condition("node-drainer.io/Drained", corev1.ConditionTrue)), Node{Name: "a", Drain: &drained}},
	} {
		tt.node.Status.Images = []corev1.ContainerImage{{SizeBytes: 1}}
		kept, err := strip(tt.node)
		if err != nil {
			t.Fatal(err)
		}
		stripped := kept.(*corev1.Node)
		if got := toNode(stripped); !reflect.DeepEqual(got, tt.want) || instanceOf(stripped) != instance || len(stripped.Status.Images) > 0 {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestInstanceOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, providerID, want string }{
		{"an EC2 instance", "aws:///eu-west-1a/" + instance, instance},
		{"Fargate", "aws:///eu-west-1a/0123456789-fargate/fargate-ip-10-0-0-1.compute.internal", ""},
		{"another cloud", "gce://project/zone/i-machine", ""},
		{"not registered yet", "", ""},
	} {
		n := &corev1.Node{Spec: corev1.NodeSpec{ProviderID: tt.providerID}}
		index, err := instanceIndex(n)
		if got := instanceOf(n); got != tt.want || err != nil || strings.Join(index, "") != tt.want {
			t.Errorf("%s: got %q, the index %v, %v", tt.name, got, index, err)
		}
	}
}

func TestOr(t *testing.T) {
	t.Parallel()
	a, b := Node{Name: "a"}, Node{Name: "b"}
	up := Node{Name: "z", Ready: true}
	for _, tt := range []struct {
		name string
		x, y Node
		want string
	}{
		{"the only one", a, Node{}, "a"},
		{"the ready one", a, up, "z"},
		{"the ready one, in the other order", up, a, "z"},
		{"the first by name", b, a, "a"},
	} {
		if got := tt.x.or(tt.y).Name; got != tt.want {
			t.Errorf("%s: got %s", tt.name, got)
		}
	}
}

// run runs a View until the test of it returns.
func run(t *testing.T, client *fake.Clientset, test func(ctx context.Context, v *View)) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	v := New(client)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := v.Run(ctx, 30*time.Second); err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
	defer wg.Wait()
	defer stop()
	select {
	case <-v.Synced():
	case <-ctx.Done():
		t.Fatal("the nodes were not listed")
	}
	test(ctx, v)
}

func TestViewKeepsUpToDate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, keepsUpToDate)
}

func keepsUpToDate(t *testing.T) {
	client := fake.NewClientset(node("a", ready), node("fargate", func(n *corev1.Node) { n.Spec.ProviderID = "" }))
	run(t, client, func(ctx context.Context, v *View) {
		if n, ok := v.Node(instance); !ok || n.Name != "a" || !n.Ready || v.InstanceOf("a") != instance {
			t.Errorf("the node is %+v, %v, on %s", n, ok, v.InstanceOf("a"))
		}
		if _, ok := v.Node("i-other"); ok || v.InstanceOf("fargate") != "" || v.InstanceOf("other") != "" {
			t.Error("an unknown node is found")
		}
		for _, tt := range []struct {
			name   string
			change func() error
			want   Node
			ok     bool
		}{
			{"marked", func() error {
				_, err := client.CoreV1().Nodes().Update(ctx, node("a", ready, tainted(taintKey)), metav1.UpdateOptions{})
				return err
			}, Node{Name: "a", Ready: true, Marked: true}, true},
			{
				"deleted",
				func() error { return client.CoreV1().Nodes().Delete(ctx, "a", metav1.DeleteOptions{}) },
				Node{},
				false,
			},
			{"created again", func() error {
				_, err := client.CoreV1().Nodes().Create(ctx, node("b"), metav1.CreateOptions{})
				return err
			}, Node{Name: "b"}, true},
		} {
			if err := tt.change(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got, ok := v.Node(instance); ok != tt.ok || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%s: got %+v, %v", tt.name, got, ok)
			}
		}
	})
}

// refuse makes calls of the verb on the resource fail.
func refuse(client *fake.Clientset, verb, resource string, err error) {
	client.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

func TestRunWithoutAccess(t *testing.T) {
	t.Parallel()
	nodes := schema.GroupResource{Resource: "nodes"}
	for _, tt := range []struct {
		name   string
		client func() *fake.Clientset
		want   string
	}{
		{"the list is forbidden", func() *fake.Clientset {
			c := fake.NewClientset()
			refuse(c, "list", "nodes", apierrors.NewForbidden(nodes, "", errors.New("no role")))
			return c
		}, "list nodes (check"},
		{"the token has expired", func() *fake.Clientset {
			c := fake.NewClientset()
			refuse(c, "list", "nodes", apierrors.NewUnauthorized("token expired"))
			return c
		}, "token expired"},
		{"the API server is unreachable", func() *fake.Clientset {
			c := fake.NewClientset()
			refuse(c, "list", "nodes", errors.New("connection refused"))
			return c
		}, "connection refused"},
		{"the watch is forbidden", func() *fake.Clientset {
			c := fake.NewClientset()
			c.PrependWatchReactor("nodes", clienttesting.DefaultWatchReactor(nil, apierrors.NewForbidden(nodes, "", errors.New("no role"))))
			return c
		}, "watch nodes (check"},
		{"the API server becomes unreachable", func() *fake.Clientset {
			c, listed := fake.NewClientset(), false
			c.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
				if listed {
					return true, nil, errors.New("connection refused")
				}
				listed = true
				return false, nil, nil
			})
			return c
		}, "list nodes within 5s: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				err := New(tt.client()).Run(t.Context(), 5*time.Second)
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v", err)
				}
				if took := time.Since(start); took > 5*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errors.New("a signal"))
	client := fake.NewClientset()
	refuse(client, "list", "nodes", ctx.Err())
	if err := New(client).Run(ctx, time.Minute); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestSelf(t *testing.T) {
	t.Parallel()
	own := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "job"}, Spec: corev1.PodSpec{NodeName: "a"}}
	v := New(fake.NewClientset(own))
	for _, tt := range []struct{ name, namespace, pod, want string }{
		{"a pod", "ci", "job", "a"},
		{"a pod of another cluster", "ci", "other", ""},
		{"no pod", "", "", ""},
	} {
		if got, err := v.Self(t.Context(), tt.namespace, tt.pod); err != nil || got != tt.want {
			t.Errorf("%s: got %q, %v", tt.name, got, err)
		}
	}
	client := fake.NewClientset()
	refuse(client, "get", "pods", errors.New("forbidden"))
	if _, err := New(client).Self(t.Context(), "ci", "job"); err == nil || !strings.Contains(err.Error(), "ci/job") {
		t.Errorf("a call that is refused: %v", err)
	}
}

// pod is a pod with the label app, in the namespace shop.
func pod(name, node, app string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

func owned(kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "x", Controller: new(true)}}
	}
}

func phase(of corev1.PodPhase) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.Phase = of } }

func unready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

func deleted(p *corev1.Pod) {
	p.DeletionTimestamp, p.Finalizers = new(metav1.Now()), []string{"example.com/wait"}
}

func gracePeriod(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

// pdb is a budget of the pods with the label app.
func pdb(name, app string, allowed, expected int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed, ExpectedPods: expected},
	}
}

func TestLoads(t *testing.T) {
	t.Parallel()
	unhealthyAllowed := pdb("unhealthyAllowed", "web", 0, 2)
	unhealthyAllowed.Spec.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow)
	otherNamespace := pdb("web", "web", 0, 2)
	otherNamespace.Namespace = "other"
	half := 30 * time.Second
	for _, tt := range []struct {
		name string
		objs []runtime.Object
		want Load
	}{
		{"nothing", nil, Load{}},
		{"a pod", []runtime.Object{pod("p", "a", "web")}, Load{Pods: 1, LongestGrace: half}},
		{"a pod of another node", []runtime.Object{pod("p", "b", "web")}, Load{}},
		{"a pod of a DaemonSet", []runtime.Object{pod("p", "a", "web", owned("DaemonSet"))}, Load{}},
		{"a pod of a ReplicaSet", []runtime.Object{pod("p", "a", "web", owned("ReplicaSet"))}, Load{Pods: 1, LongestGrace: half}},
		{"a mirror pod", []runtime.Object{pod("p", "a", "web", func(p *corev1.Pod) {
			p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		})}, Load{}},
		{"finished pods", []runtime.Object{pod("p", "a", "web", phase(corev1.PodSucceeded)), pod("q", "a", "web", phase(corev1.PodFailed))}, Load{}},
		{"the longest grace period", []runtime.Object{pod("p", "a", "web", gracePeriod(600)), pod("q", "a", "web", gracePeriod(0)), pod("r", "a", "web", owned("DaemonSet"), gracePeriod(900))}, Load{Pods: 2, LongestGrace: 10 * time.Minute}},
		{"a budget that allows nothing, once", []runtime.Object{pod("p", "a", "web"), pod("q", "a", "web"), pdb("web", "web", 0, 2)}, Load{Pods: 2, Blocking: []string{"shop/web"}, LongestGrace: half}},
		{"budgets in order", []runtime.Object{pod("p", "a", "web"), pdb("y", "web", 0, 2), pdb("x", "web", 0, 2)}, Load{Pods: 1, Blocking: []string{"shop/x", "shop/y"}, LongestGrace: half}},
		{"a budget that allows one", []runtime.Object{pod("p", "a", "web"), pdb("web", "web", 1, 2)}, Load{Pods: 1, LongestGrace: half}},
		{"a budget that expects no pods", []runtime.Object{pod("p", "a", "web"), pdb("web", "web", 0, 0)}, Load{Pods: 1, LongestGrace: half}},
		{"a budget of other pods", []runtime.Object{pod("p", "a", "web"), pdb("db", "db", 0, 2)}, Load{Pods: 1, LongestGrace: half}},
		{"a budget of another namespace", []runtime.Object{pod("p", "a", "web"), otherNamespace}, Load{Pods: 1, LongestGrace: half}},
		{"a pod that is not ready", []runtime.Object{pod("p", "a", "web", unready), pdb("web", "web", 0, 2)}, Load{Pods: 1, Blocking: []string{"shop/web"}, LongestGrace: half}},
		{"a pod that is not ready, of a budget that allows its eviction", []runtime.Object{pod("p", "a", "web", unready), unhealthyAllowed}, Load{Pods: 1, LongestGrace: half}},
		{"a ready pod of such a budget", []runtime.Object{pod("p", "a", "web"), unhealthyAllowed}, Load{Pods: 1, Blocking: []string{"shop/unhealthyAllowed"}, LongestGrace: half}},
		{"a pending and a deleted pod", []runtime.Object{pod("p", "a", "web", phase(corev1.PodPending)), pod("q", "a", "web", deleted), pdb("web", "web", 0, 2)}, Load{Pods: 2, LongestGrace: half}},
	} {
		got, err := New(fake.NewClientset(tt.objs...)).Loads(t.Context(), []string{"a"})
		if err != nil || !reflect.DeepEqual(got, map[string]Load{"a": tt.want}) {
			t.Errorf("%s: got %+v, %v", tt.name, got, err)
		}
	}
}

// TestLoadsCalls: the pods of few nodes are listed node by node, those of many together, page by page.
func TestLoadsCalls(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		nodes int
		want  []string
	}{
		{"none", 0, nil},
		{"few", 2, []string{"spec.nodeName=n0", "spec.nodeName=n1"}},
		{"many", 40, []string{"", ""}},
	} {
		var nodes []string
		for i := range tt.nodes {
			nodes = append(nodes, fmt.Sprint("n", i))
		}
		client := fake.NewClientset()
		var selectors []string
		client.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) { // Under the client's lock.
			selector := a.(clienttesting.ListAction).GetListRestrictions().Fields.String()
			selectors = append(selectors, selector)
			list := &corev1.PodList{Items: []corev1.Pod{*pod(fmt.Sprint("p", len(selectors)), "n0", "web")}}
			if selector == "" && len(selectors) == 1 {
				list.Continue = "more"
			}
			return true, list, nil
		})
		got, err := New(client).Loads(t.Context(), nodes)
		slices.Sort(selectors)
		if err != nil || !slices.Equal(selectors, tt.want) || len(got) != tt.nodes || tt.nodes > 0 && got["n0"].Pods != 2 {
			t.Errorf("%s: selectors %q, got %v, %v", tt.name, selectors, slices.Collect(maps.Keys(got)), err)
		}
	}
}

func TestLoadsFail(t *testing.T) {
	t.Parallel()
	for _, resource := range []string{"pods", "poddisruptionbudgets"} {
		client := fake.NewClientset()
		refuse(client, "list", resource, errors.New("forbidden"))
		if _, err := New(client).Loads(t.Context(), []string{"a"}); err == nil || !strings.Contains(strings.ToLower(err.Error()), "list "+resource) {
			t.Errorf("%s cannot be listed: %v", resource, err)
		}
	}
}
