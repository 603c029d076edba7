package chart_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestArtifactHub: the annotations of the chart have the form that Artifact Hub reads.
// Source: https://artifacthub.io/docs/topics/annotations/helm/
func TestArtifactHub(t *testing.T) {
	t.Parallel()
	type link struct{ Name, URL string }
	type change struct {
		Kind, Description string
		Links             []link
	}
	var changes []change
	var links []link
	annotations := readYAML(t, filepath.Join(ours(t), "Chart.yaml"))["annotations"].(map[string]any)
	for name, into := range map[string]any{"changes": &changes, "links": &links} {
		text, _ := annotations["artifacthub.io/"+name].(string)
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			t.Fatalf("read artifacthub.io/%s: %v", name, err)
		}
	}
	if len(changes) == 0 || len(links) == 0 {
		t.Errorf("there are %d changes and %d links", len(changes), len(links))
	}
	for _, c := range changes {
		kinds := []string{"added", "changed", "deprecated", "removed", "fixed", "security"}
		if !slices.Contains(kinds, c.Kind) || c.Description == "" {
			t.Errorf("%+v is not a change", c)
		}
		links = append(links, c.Links...)
	}
	for _, l := range links {
		if l.Name == "" || !strings.HasPrefix(l.URL, "https://") {
			t.Errorf("%+v is not a link", l)
		}
	}
}
