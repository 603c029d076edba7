package drain

import (
	"strconv"
	"strings"
	"testing"

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
	kept := handOverPod(p).Annotations
	if len(kept) != 1 || kept[handover.ServiceAnnotation] != "asked" {
		t.Errorf("%d annotations are kept", len(kept))
	}
	r := rules{Environment: Environment{Kinds: map[string]handover.Releaser{"gate": nil}}, Policy: Policy{Config: Config{HandOverTimeout: 1}}}
	if unknown := r.handOver(p).Unknown; unknown == "" || len(strconv.Quote(unknown)) > longestMessage+2 {
		t.Errorf("the unknown kind has %d bytes", len(unknown))
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
