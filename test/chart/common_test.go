//go:build e2e

package chart_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// full makes every object that the chart has.
func full(t *testing.T, more ...string) []unstructured.Unstructured {
	t.Helper()
	return render(t, append([]string{"--values", setups(t)["full"]}, more...)...)
}

// templates are the metadata of an object and of the pods and Jobs that it creates.
func templates(o map[string]any) (all []map[string]any) {
	for key, value := range o {
		switch below, _ := value.(map[string]any); {
		case key == "metadata":
			all = append(all, below)
		case below != nil:
			all = append(all, templates(below)...)
		}
	}
	return all
}

// TestCommonLabelsAndAnnotations: all objects and pods have them, but those of extraObjects. They override no label that
// selects, and no annotation of the chart.
func TestCommonLabelsAndAnnotations(t *testing.T) {
	t.Parallel()
	const common = "example.com/common"
	objects := full(t, "--set", `commonLabels.example\.com/common=x,commonAnnotations.example\.com/common=x,`+
		`commonLabels.app\.kubernetes\.io/component=x,commonLabels.app\.kubernetes\.io/name=x,`+
		`commonAnnotations.node-drainer\.io/drain=x,extraObjects=null`)
	pods := 0
	for _, o := range objects {
		for _, metadata := range templates(o.Object) {
			labels, _, _ := unstructured.NestedStringMap(metadata, "labels")
			annotations, _, _ := unstructured.NestedStringMap(metadata, "annotations")
			if labels[common] != "x" || annotations[common] != "x" {
				t.Errorf("%s %s has the labels %q and the annotations %q", o.GetKind(), o.GetName(), labels, annotations)
			}
			if labels["app.kubernetes.io/name"] != "node-drainer" {
				t.Errorf("%s %s has the labels %q", o.GetKind(), o.GetName(), labels)
			}
		}
		for _, at := range [][]string{
			{"spec", "template", "metadata"}, {"spec", "jobTemplate", "spec", "template", "metadata"},
		} {
			metadata, ok, _ := unstructured.NestedMap(o.Object, at...)
			if !ok {
				continue
			}
			pods++
			component, _, _ := unstructured.NestedString(metadata, "labels", "app.kubernetes.io/component")
			drain, _, _ := unstructured.NestedString(metadata, "annotations", "node-drainer.io/drain")
			if component == "x" || (component != "agent" && drain != "evict") {
				t.Errorf("the pods of %s %s have %v", o.GetKind(), o.GetName(), metadata)
			}
		}
	}
	if pods != 3 {
		t.Errorf("there are %d kinds of pods, want those of agent, trigger and watch", pods)
	}
}

// TestExtraObjects: they may be objects or texts, and may use the chart's templates.
func TestExtraObjects(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	for _, o := range full(t) {
		isOwn := strings.HasSuffix(o.GetName(), "-dashboard") || strings.HasSuffix(o.GetName(), "-history")
		if o.GetKind() == "ConfigMap" && !isOwn {
			got[o.GetName()] = o.GetNamespace()
		}
	}
	want := map[string]string{"drainer-certificates": "agents", "drainer-text": "agents"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the objects (-want +got):\n%s", diff)
	}
}
