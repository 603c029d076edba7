package node

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

func TestSurvey(t *testing.T) {
	selected, err := newSelector("pool=web")
	if err != nil {
		t.Fatal(err)
	}
	n := &Nodes{selector: selected, informer: cache.NewSharedIndexInformer(nil, &corev1.Node{}, 0, cache.Indexers{})}
	for name, change := range map[string]func(*corev1.Node){
		"web":     func(n *corev1.Node) { n.Spec.ProviderID = "aws:///eu-west-1a/i-1" },
		"web-1":   func(n *corev1.Node) { n.Spec.ProviderID = "aws:///eu-west-1a/i-1" },
		"web-2":   func(n *corev1.Node) { n.Spec.ProviderID = "aws:///eu-west-1a/i-0" },
		"local":   func(n *corev1.Node) { n.Spec.ProviderID = "kind://local" },
		"fargate": func(n *corev1.Node) { n.Spec.ProviderID, n.Labels[computeType] = "", "fargate" },
		"other":   func(n *corev1.Node) { n.Labels = nil },
	} {
		node := newNode(func(n *corev1.Node) { n.Name, n.Labels = name, map[string]string{"pool": "web"} }, change)
		if err := n.informer.GetStore().Add(node); err != nil {
			t.Fatal(err)
		}
	}
	want := Survey{
		All: 6, Selected: 5, Instances: []string{"i-0", "i-1", "i-1"}, Zones: []string{"eu-west-1a"}, WithoutInstance: []string{"local"},
		Claims: []Claim{{"i-1", []string{"web", "web-1"}}},
	}
	if diff := cmp.Diff(want, SurveyOf(n)); diff != "" {
		t.Errorf("survey (-want +got):\n%s", diff)
	}
}
