package chart_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/node-drainer/node-drainer/test/chart"
)

// ours is the chart's folder.
func ours(t *testing.T) string {
	t.Helper()
	path, err := chart.Path()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// handover is the folder of the chart of the program that has pods hand over.
func handover(t *testing.T) string {
	t.Helper()
	return ours(t) + "-handover"
}

// setups are the values files of the chart, by their names.
func setups(t *testing.T) map[string]string {
	t.Helper()
	return setupsOf(t, ours(t))
}

func setupsOf(t *testing.T, path string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(path, "ci", "*-values.yaml"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%d values files, %v", len(files), err)
	}
	named := map[string]string{}
	for _, file := range files {
		named[strings.TrimSuffix(filepath.Base(file), "-values.yaml")] = file
	}
	return named
}

// TestNoSetupIsMissing: each file in testdata is of a set-up that is there.
func TestNoSetupIsMissing(t *testing.T) {
	t.Parallel()
	for pattern, setups := range map[string]map[string]string{
		"testdata/*.*": setups(t), "testdata/handover/*": setupsOf(t, handover(t)),
	} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) != 2*len(setups) {
			t.Errorf("%q, for %d set-ups; %v", files, len(setups), err)
		}
	}
}

// TestPagesOfThisVersion: the notes and the links for Artifact Hub, which users of an archive without the repository
// read, name pages by addresses of the chart's version, and the pages exist.
func TestPagesOfThisVersion(t *testing.T) {
	t.Parallel()
	version := readYAML(t, filepath.Join(ours(t), "Chart.yaml"))["appVersion"].(string)
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	of, err := filepath.Glob("testdata/handover/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, of...)
	for _, file := range append(files, filepath.Join(ours(t), "Chart.yaml"), filepath.Join(handover(t), "Chart.yaml")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pages := regexp.MustCompile(`(\S*?)([\w/-]+\.(?:md|yaml))\b`).FindAllStringSubmatch(string(text), -1)
		if len(pages) == 0 {
			t.Errorf("%s names no page", file)
		}
		for _, page := range pages {
			path, found := strings.CutPrefix(page[0], "https://github.com/node-drainer/node-drainer/blob/v"+version+"/")
			if _, err := os.Stat(filepath.Join("..", "..", path)); !found || err != nil {
				t.Errorf("%s names %s, which is no page of this version: %v", file, page[0], err)
			}
		}
	}
}

// TestLinksOfThisVersion: the alerts, the dashboard and the charts' READMEs link to files of the chart's version.
func TestLinksOfThisVersion(t *testing.T) {
	t.Parallel()
	version := readYAML(t, filepath.Join(ours(t), "Chart.yaml"))["appVersion"].(string)
	for file, least := range map[string]int{
		filepath.Join("testdata", "full.yaml"):  20, // of 19 alerts and the dashboard
		filepath.Join(ours(t), "README.md"):     1,
		filepath.Join(handover(t), "README.md"): 1,
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		links := regexp.MustCompile(`node-drainer/blob/([^/]+)/([^\s#"')]+)`).FindAllStringSubmatch(string(text), -1)
		for _, link := range links {
			if _, err := os.Stat(filepath.Join("..", "..", link[2])); link[1] != "v"+version || err != nil {
				t.Errorf("%s links to %s, which is not of v%s: %v", file, link[0], version, err)
			}
		}
		if len(links) < least {
			t.Errorf("%s has only %d links", file, len(links))
		}
	}
}

// TestEachValueThereIs: a value that a template asks for is in values.yaml.
func TestEachValueThereIs(t *testing.T) {
	t.Parallel()
	for path, least := range map[string]int{ours(t): 30, handover(t): 20} {
		values := readYAML(t, filepath.Join(path, "values.yaml"))
		asked := 0
		for _, pattern := range []string{"templates/*.*", "templates/tests/*.*"} {
			templates, err := filepath.Glob(filepath.Join(path, pattern))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range templates {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range regexp.MustCompile(`\.Values\.([A-Za-z.]+)`).FindAllStringSubmatch(string(text), -1) {
					asked++
					if _, ok := lookup(values, strings.Split(m[1], ".")); !ok {
						t.Errorf("%s asks for %s", file, m[1])
					}
				}
			}
		}
		if asked < least {
			t.Errorf("the templates of %s ask for %d values", path, asked)
		}
	}
}

// TestEachValueIsDocumented: each value, or one that it is in, has a comment in values.yaml, which helm show values prints.
func TestEachValueIsDocumented(t *testing.T) {
	t.Parallel()
	for _, path := range []string{ours(t), handover(t)} {
		text, err := os.ReadFile(filepath.Join(path, "values.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var values yamlv3.Node
		if err := yamlv3.Unmarshal(text, &values); err != nil {
			t.Fatal(err)
		}
		for _, at := range undocumented(values.Content[0], "") {
			t.Errorf("%s: %s is not documented", path, at)
		}
	}
}

// undocumented returns the paths of the values that have no comment, and are in none that has one.
func undocumented(values *yamlv3.Node, above string) (paths []string) {
	for i := 0; i+1 < len(values.Content); i += 2 {
		key, value := values.Content[i], values.Content[i+1]
		at := strings.TrimPrefix(above+"."+key.Value, ".")
		switch {
		case key.HeadComment != "" && key.Value != "config": // Its comment says who writes the ones in it.
		case value.Kind == yamlv3.MappingNode && len(value.Content) > 0:
			paths = append(paths, undocumented(value, at)...)
		default:
			paths = append(paths, at)
		}
	}
	return paths
}

// leaves returns the paths of all values that are no maps with something in them.
func leaves(values map[string]any, above []string) [][]string {
	var all [][]string
	for key, value := range values {
		at := append(slices.Clone(above), key)
		if below, ok := value.(map[string]any); ok && len(below) > 0 {
			all = append(all, leaves(below, at)...)
		} else {
			all = append(all, at)
		}
	}
	return all
}

func lookup(values map[string]any, at []string) (value any, ok bool) {
	for i, key := range at {
		if value, ok = values[key]; !ok || i == len(at)-1 {
			return value, ok
		}
		values, _ = value.(map[string]any)
	}
	return nil, false
}

func readYAML(t *testing.T, file string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		t.Fatal(err)
	}
	return values
}
