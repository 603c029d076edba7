package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

// pages is an API server that answers lists of pods with its pages, the first of which are read. It records how it was
// asked.
type pages struct {
	kubernetes.Interface
	typedcorev1.CoreV1Interface
	typedcorev1.PodInterface
	pages [][]corev1.Pod
	fails int // the page of this number is none; 0: all are
	asked []string
}

func (p *pages) CoreV1() typedcorev1.CoreV1Interface { return p }

func (p *pages) Pods(namespace string) typedcorev1.PodInterface {
	p.asked = append(p.asked, namespace)
	return p
}

func (p *pages) List(_ context.Context, o metav1.ListOptions) (*corev1.PodList, error) {
	number := len(p.asked)
	p.asked[number-1] += fmt.Sprintf(" %d %s%s", o.Limit, o.Continue, o.ResourceVersion)
	if number == p.fails {
		return nil, errors.New("the list has expired")
	}
	list := &corev1.PodList{Items: p.pages[number-1]}
	if number < len(p.pages) {
		list.Continue = fmt.Sprint("after-", number)
	}
	return list, nil
}

// newPod is a pod of a StatefulSet.
func newPod(name string, changes ...func(*corev1.Pod)) corev1.Pod {
	yes := true
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: "1", Labels: map[string]string{"app": "redis"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", Name: "redis", UID: "2", Controller: &yes}},
			Annotations:     map[string]string{handover.KindAnnotation: handover.HTTPKind, "other": "x"},
		},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{
			{Ports: []corev1.ContainerPort{{Name: "redis", ContainerPort: 6379}}},
			{Ports: []corev1.ContainerPort{{ContainerPort: 26379}, {Name: "web", ContainerPort: 80}}},
		}},
		Status: corev1.PodStatus{PodIP: "10.0.0.1", Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		}},
	}
	for _, change := range changes {
		change(&p)
	}
	return p
}

// TestListReadsAllPages, each of fifty pods, and not from the cache of the API server.
func TestListReadsAllPages(t *testing.T) {
	t.Parallel()
	server := &pages{pages: [][]corev1.Pod{{newPod("a"), newPod("b")}, {}, {newPod("c")}}}
	got, err := List(t.Context(), server, "shop")
	names := ""
	for _, p := range got {
		names += p.Name
	}
	if err != nil || names != "abc" {
		t.Errorf("got %+v, %v", got, err)
	}
	if diff := cmp.Diff([]string{"shop 50 ", "shop 50 after-1", "shop 50 after-2"}, server.asked); diff != "" {
		t.Error(diff)
	}
}

// TestListIsComplete: a member that is missing must not be overlooked.
func TestListIsComplete(t *testing.T) {
	t.Parallel()
	server := &pages{pages: [][]corev1.Pod{{newPod("a")}, {newPod("b")}}, fails: 2}
	if got, err := List(t.Context(), server, "shop"); err == nil || len(got) > 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestListOfANamespace has no pods of others.
func TestListOfANamespace(t *testing.T) {
	t.Parallel()
	a, b := newPod("a"), newPod("b", func(p *corev1.Pod) { p.Namespace = "pay" })
	got, err := List(t.Context(), fake.NewClientset(&a, &b), "shop")
	if err != nil || len(got) != 1 || got[0].Name != "a" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestPodOf: what a list tells of a pod.
func TestPodOf(t *testing.T) {
	t.Parallel()
	now, no := metav1.Now(), false
	long := strings.Repeat("x", longestAnnotation)
	ports := []Port{{"redis", 6379}, {"", 26379}, {"web", 80}}
	for _, tt := range []struct {
		name   string
		change func(*corev1.Pod)
		want   func(*Pod)
	}{
		{"a running one", func(*corev1.Pod) {}, func(*Pod) {}},
		{"not Ready", func(p *corev1.Pod) { p.Status.Conditions = nil }, func(p *Pod) { p.Ready = false }},
		{"deleted", func(p *corev1.Pod) { p.DeletionTimestamp = &now }, func(p *Pod) { p.Deleting = true }},
		{"in the network of its node", func(p *corev1.Pod) { p.Spec.HostNetwork = true }, func(p *Pod) { p.HostNetwork = true }},
		{"without a node", func(p *corev1.Pod) { p.Spec.NodeName = "" }, func(p *Pod) { p.Node = "" }},
		{"failed: another pod may have its address", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, func(p *Pod) { p.IP = "" }},
		{"completed", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, func(p *Pod) { p.IP = "" }},
		{"without an owner", func(p *corev1.Pod) { p.OwnerReferences = nil }, func(p *Pod) { p.Controller, p.ControllerUID = "", "" }},
		{
			"an owner that is no controller", func(p *corev1.Pod) { p.OwnerReferences[0].Controller = &no },
			func(p *Pod) { p.Controller, p.ControllerUID = "", "" },
		},
		{"annotations", func(p *corev1.Pod) {
			p.Annotations = map[string]string{
				PortAnnotation: "80", SecretAnnotation: long, PreferAnnotation: long + "x",
				handover.HandedOverAnnotation: "", "node-drainer.io/drain": "restart",
			}
		}, func(p *Pod) { p.Annotations = map[string]string{PortAnnotation: "80", SecretAnnotation: long} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			want := Pod{
				Namespace: "shop", Name: "a", UID: "1", IP: "10.0.0.1", Node: "n", Ready: true, Ports: ports,
				Labels: map[string]string{"app": "redis"}, Controller: "StatefulSet/redis", ControllerUID: "2",
				Annotations: map[string]string{handover.KindAnnotation: handover.HTTPKind},
			}
			tt.want(&want)
			got, err := List(t.Context(), &pages{pages: [][]corev1.Pod{{newPod("a", tt.change)}}}, "shop")
			if diff := cmp.Diff([]Pod{want}, got); err != nil || diff != "" {
				t.Error(err, diff)
			}
		})
	}
}

// TestAddressOfANode: a pod that shows the address of a node is not called, whatever its specification says: a kubelet
// reports the addresses of its pods.
func TestAddressOfANode(t *testing.T) {
	t.Parallel()
	at := func(ip, node string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.PodIP, p.Status.HostIP = ip, node }
	}
	mirror := func(p *corev1.Pod) { p.Annotations[corev1.MirrorPodAnnotationKey] = "x" }
	got, err := List(t.Context(), &pages{pages: [][]corev1.Pod{
		{newPod("a", at("10.1.0.2", "10.1.0.1")), newPod("b", at("10.0.0.1", "10.1.0.1")), newPod("c", at("", ""))},
		{newPod("d", at("10.0.0.2", "10.1.0.2")), newPod("e", at("10.1.0.3", "10.1.0.1")), newPod("f", mirror, at("", "10.1.0.3"))},
	}}, "shop")
	onHost := ""
	for _, p := range got {
		if p.HostNetwork {
			onHost += p.Name
		}
	}
	if err != nil || onHost != "ae" {
		t.Errorf("got %q, %v, want those at the address of a node", onHost, err)
	}
}

// TestPodsOfKubelets are left out, by either of the marks: a kubelet may give them any name, label and annotation.
func TestPodsOfKubelets(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*corev1.Pod){
		"a mirror pod":  func(p *corev1.Pod) { p.Annotations[corev1.MirrorPodAnnotationKey] = "x" },
		"an empty mark": func(p *corev1.Pod) { p.Annotations[corev1.MirrorPodAnnotationKey] = "" },
		"owned by Node": func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "Node" },
		"both, as usual": func(p *corev1.Pod) {
			p.Annotations[corev1.MirrorPodAnnotationKey], p.OwnerReferences[0].Kind = "x", "Node"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := List(t.Context(), &pages{pages: [][]corev1.Pod{{newPod("a", change), newPod("b")}}}, "shop")
			if err != nil || len(got) != 1 || got[0].Name != "b" {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// TestIsAlike: the annotations that one member may have, and another not, make no other group.
func TestIsAlike(t *testing.T) {
	for name, want := range map[string]bool{
		PreferAnnotation: true, SurgeAnnotation: true, SecretAnnotation: false, PortAnnotation: false,
		handover.ServiceAnnotation: false,
	} {
		a := Pod{Annotations: map[string]string{handover.KindAnnotation: "http", name: "x"}}
		b := Pod{Annotations: map[string]string{handover.KindAnnotation: "http"}}
		if a.IsAlike(b) != want || b.IsAlike(a) != want || !a.IsAlike(a) {
			t.Errorf("%s: want %t", name, want)
		}
		if a.Annotations[name] != "x" {
			t.Errorf("%s is removed", name)
		}
	}
}
