package cluster

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

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

func grouped(p *corev1.Pod) {
	p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("train")}
}

func responders(p *corev1.Pod) {
	p.ManagedFields = []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:evictionResponders":{}}}`)}}
}

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
		{"a pod of this node alone", []runtime.Object{pod("p", "a", "web", func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "a"}
		})}, Load{Pods: 1, LongestGrace: half, Pinned: []string{"shop/p"}}},
		{"a pod with eviction responders", []runtime.Object{pod("p", "a", "web", responders)}, Load{Pods: 1, LongestGrace: half, Responders: []string{"shop/p"}}},
		{"pods of a PodGroup", []runtime.Object{pod("p", "a", "web", grouped), pod("q", "a", "web", grouped)}, Load{Pods: 2, LongestGrace: half, PodGroups: []string{"shop/train"}}},
		{"finished pods", []runtime.Object{pod("p", "a", "web", phase(corev1.PodSucceeded)), pod("q", "a", "web", phase(corev1.PodFailed))}, Load{}},
		{"the longest grace period", []runtime.Object{pod("p", "a", "web", gracePeriod(600)), pod("q", "a", "web", gracePeriod(0)), pod("r", "a", "web", owned("DaemonSet"), gracePeriod(900))}, Load{Pods: 2, LongestGrace: 10 * time.Minute}},
		{"a budget that allows nothing, once", []runtime.Object{pod("p", "a", "web"), pod("q", "a", "web"), pdb("web", "web", 0, 2)}, Load{Pods: 2, Blocking: []string{"shop/web"}, LongestGrace: half, Blocked: []BlockedPod{{"shop/p", []string{"shop/web"}}, {"shop/q", []string{"shop/web"}}}}},
		{"budgets in order", []runtime.Object{pod("p", "a", "web"), pdb("y", "web", 0, 2), pdb("x", "web", 0, 2)}, Load{Pods: 1, Blocking: []string{"shop/x", "shop/y"}, LongestGrace: half, Blocked: []BlockedPod{{"shop/p", []string{"shop/x", "shop/y"}}}}},
		{"a budget that allows one", []runtime.Object{pod("p", "a", "web"), pdb("web", "web", 1, 2)}, Load{Pods: 1, LongestGrace: half}},
		{"a budget that expects no pods", []runtime.Object{pod("p", "a", "web"), pdb("web", "web", 0, 0)}, Load{Pods: 1, LongestGrace: half}},
		{"a budget of other pods", []runtime.Object{pod("p", "a", "web"), pdb("db", "db", 0, 2)}, Load{Pods: 1, LongestGrace: half}},
		{"a budget of another namespace", []runtime.Object{pod("p", "a", "web"), otherNamespace}, Load{Pods: 1, LongestGrace: half}},
		{"a pod that is not ready", []runtime.Object{pod("p", "a", "web", unready), pdb("web", "web", 0, 2)}, Load{Pods: 1, Blocking: []string{"shop/web"}, LongestGrace: half, Blocked: []BlockedPod{{"shop/p", []string{"shop/web"}}}}},
		{"a pod that is not ready, of a budget that allows its eviction", []runtime.Object{pod("p", "a", "web", unready), unhealthyAllowed}, Load{Pods: 1, LongestGrace: half}},
		{"a ready pod of such a budget", []runtime.Object{pod("p", "a", "web"), unhealthyAllowed}, Load{Pods: 1, Blocking: []string{"shop/unhealthyAllowed"}, LongestGrace: half, Blocked: []BlockedPod{{"shop/p", []string{"shop/unhealthyAllowed"}}}}},
		{"a pending and a deleted pod", []runtime.Object{pod("p", "a", "web", phase(corev1.PodPending)), pod("q", "a", "web", deleted), pdb("web", "web", 0, 2)}, Load{Pods: 2, LongestGrace: half}},
	} {
		v := New(fake.NewClientset(tt.objs...))
		if err := v.informer.GetStore().Add(newNode("a", func(n *corev1.Node) {
			n.Labels = map[string]string{corev1.LabelHostname: "a"}
		})); err != nil {
			t.Fatal(err)
		}
		got, err := v.Loads(t.Context(), []string{"a"})
		if diff := cmp.Diff(map[string]Load{"a": tt.want}, got, cmpopts.IgnoreUnexported(Load{})); err != nil || diff != "" {
			t.Errorf("%s: %v, got (-want +got)\n%s", tt.name, err, diff)
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
