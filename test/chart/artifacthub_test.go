package chart_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestArtifactHub: the annotations of the charts have the form that Artifact Hub reads.
// Source: https://artifacthub.io/docs/topics/annotations/helm/
func TestArtifactHub(t *testing.T) {
	t.Parallel()
	type link struct{ Name, URL string }
	type change struct {
		Kind, Description string
		Links             []link
	}
	for _, path := range []string{ours(t), handover(t)} {
		var changes []change
		var links []link
		annotations := readYAML(t, filepath.Join(path, "Chart.yaml"))["annotations"].(map[string]any)
		for name, into := range map[string]any{"changes": &changes, "links": &links} {
			text, _ := annotations["artifacthub.io/"+name].(string)
			if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
				t.Fatalf("%s: read artifacthub.io/%s: %v", path, name, err)
			}
		}
		if len(changes) == 0 || len(links) == 0 {
			t.Errorf("%s has %d changes and %d links", path, len(changes), len(links))
		}
		for _, c := range changes {
			kinds := []string{"added", "changed", "deprecated", "removed", "fixed", "security"}
			if !slices.Contains(kinds, c.Kind) || c.Description == "" {
				t.Errorf("%s: %+v is not a change", path, c)
			}
			links = append(links, c.Links...)
		}
		for _, l := range links {
			if l.Name == "" || !strings.HasPrefix(l.URL, "https://") {
				t.Errorf("%s: %+v is not a link", path, l)
			}
		}
	}
}
