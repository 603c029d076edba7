package drain

import (
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

// TestLargeAnnotations: what a pod makes the agent keep and report is bounded.
func TestLargeAnnotations(t *testing.T) {
	large := strings.Repeat("\x01é", 100<<10)
	p := runningPod("a")
	p.Annotations = map[string]string{handover.KindAnnotation: large, handover.Prefix + "-port": large, handover.ServiceAnnotation: "asked"}
	r := newTestRules(t, func(c *Config) { c.HandOverTimeout = 1 })
	r.Kinds = map[string]handover.Releaser{"gate": nil}
	kept := r.handOverPod(p).Annotations
	if len(kept) != 1 || kept[handover.ServiceAnnotation] != "asked" {
		t.Errorf("%d annotations are kept", len(kept))
	}
	if unknown := r.handOver(p).Unknown; unknown == "" || len(strconv.Quote(unknown)) > longestMessage+2 {
		t.Errorf("the unknown kind has %d bytes", len(unknown))
	}
}

// TestAnnotationsAreIgnored: the configuration says in which namespaces, and for how long, annotations may delay the
// eviction of a pod. Elsewhere a pod is what it is without them, whatever else the configuration says of it.
func TestAnnotationsAreIgnored(t *testing.T) {
	const serviceAnnotation = handover.ServiceAnnotation
	annotations := map[string]map[string]string{
		"wait": {DrainAnnotation: Wait}, "a duration": {DrainAnnotation: "90m"}, "restart": {DrainAnnotation: handover.Restart},
		"Karpenter": {doNotDisrupt: "true"}, "Karpenter's duration": {doNotDisrupt: "1h"},
		"cluster-autoscaler": {safeToEvict: "false"}, "cluster-autoscaler's completion": {safeToEvict: onCompletion},
		"gate": {handover.KindAnnotation: handover.GateKind}, "http": {handover.KindAnnotation: handover.HTTPKind, serviceAnnotation: "x"},
		"unknown": {handover.KindAnnotation: "postgres"},
	}
	for name, change := range map[string]func(*Config){
		"in another namespace":         func(c *Config) { c.AnnotationNamespaces = "y,z" },
		"for no time":                  func(c *Config) { c.AnnotationTimeout = 0 },
		"bare pods are waited for":     func(c *Config) { c.AnnotationNamespaces, c.BarePods = "y", Wait },
		"single replicas are replaced": func(c *Config) { c.AnnotationNamespaces, c.SingleReplicas = "y", handover.Restart },
	} {
		rulesWith := func(change func(*Config)) *rules {
			r := newTestRules(t, func(c *Config) { c.HandOverTimeout = time.Minute; change(c) })
			r.Restarter, r.Kinds = handover.Gate{}, map[string]handover.Releaser{handover.GateKind: nil, handover.HTTPKind: nil}
			return r
		}
		ignoring, honoring := rulesWith(change), rulesWith(func(c *Config) { change(c); c.AnnotationNamespaces, c.AnnotationTimeout = "y x", 1 })
		for kind, set := range annotations {
			for _, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodPending} {
				p := runningPod("a")
				p.Status.Phase = phase
				if name == "single replicas are replaced" {
					p.OwnerReferences = []metav1.OwnerReference{*owners["ReplicaSet"]}
				}
				want := ignoring.pod(p)
				p.Annotations = set
				got, honored := ignoring.pod(p), honoring.pod(p)
				if want.HandOver.Pod != nil { // the annotations of hand-overs have no effect on a rolling restart
					maps.DeleteFunc(got.HandOver.Pod.Annotations, func(name, _ string) bool { return name != DrainAnnotation })
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s, %s, %s (-want +got):\n%s", name, kind, phase, diff)
				}
				isWaitedFor := honored.WaitReason == WaitedFor // for as long as the annotation says
				if phase == corev1.PodRunning && !isWaitedFor && cmp.Equal(want, honored) {
					t.Errorf("%s, %s: the annotation is ignored in a namespace that is listed", name, kind)
				}
			}
		}
		p := runningPod("a")
		p.Annotations = map[string]string{DrainAnnotation: Evict}
		if got := ignoring.pod(p); got.WaitReason != "" || got.HandOver.Kind != "" {
			t.Errorf("%s: the annotation that asks for the eviction is ignored: %+v", name, got)
		}
	}
}

// TestPodsAreListedInPages: all pages are read, with the namespace and the selector of the first one.
func TestPodsAreListedInPages(t *testing.T) {
	pages := []corev1.PodList{
		{ListMeta: metav1.ListMeta{Continue: "next"}, Items: []corev1.Pod{*runningPod("a"), *runningPod("b")}},
		{Items: []corev1.Pod{*runningPod("c")}},
	}
	client := &pagingClient{Clientset: fake.NewClientset(), pages: pages}
	var names []string
	err := (&Drainer{client: client}).eachPod(t.Context(), "x", metav1.ListOptions{FieldSelector: "spec.nodeName=n"},
		func(p *corev1.Pod) { names = append(names, p.Name) })
	if err != nil || strings.Join(names, "") != "abc" {
		t.Errorf("got %q, %v", names, err)
	}
	for i, o := range client.asked {
		if o.Limit != podsPerPage || o.FieldSelector != "spec.nodeName=n" || (o.Continue != "") != (i > 0) {
			t.Errorf("page %d was asked for with %+v", i, o)
		}
	}
}
