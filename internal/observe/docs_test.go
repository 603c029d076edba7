package observe_test

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"sigs.k8s.io/yaml"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/internal/observe"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sectionOf returns the section of a page below a title.
func sectionOf(page, title string) string {
	_, section, _ := strings.Cut(page, "\n## "+title+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// find returns the first group of each match in the text, sorted and without duplicates.
func find(text, pattern string) []string {
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found[m[1]] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// TestDocumentedEvents: docs/draining.md, docs/launching.md and docs/watch.md list all Events that are recorded, and no others.
func TestDocumentedEvents(t *testing.T) {
	conditionOnly := []string{"Blocked"}
	for file, page := range map[string]string{
		"observe.go": "../../docs/draining.md", "launches.go": "../../docs/launching.md", "watch.go": "../../docs/watch.md",
	} {
		reasons := find(read(t, file), `(?m)^\treason\w+ += "(\w+)"`)
		recorded := slices.DeleteFunc(reasons, func(reason string) bool {
			return slices.Contains(conditionOnly, reason)
		})
		listed := find(read(t, page), "(?m)^\\| `(\\w+)` \\| (?:Node|Pod|Lease)")
		if len(recorded) == 0 || !slices.Equal(recorded, listed) {
			t.Errorf("%s records %q, %s lists %q", file, recorded, page, listed)
		}
	}
}

type metric struct {
	kind   string // counter, gauge or histogram
	help   string
	labels map[string][]string // the values of each label
}

// ownMetrics returns the metrics of a new Observer, and of a Watch of one group, by name.
func ownMetrics(t *testing.T) map[string]metric {
	t.Helper()
	registry, watch := prometheus.NewRegistry(), prometheus.NewRegistry()
	observe.New(zerolog.Nop(), registry, observe.Silence{}, observe.Silence{}, agent.Outcomes())
	observe.NewWatch(watch, 0, report.Outcomes(), nil).Looked([]refresh.Watched{{Group: "workers"}}, true)
	families, err := registry.Gather()
	more, errMore := watch.Gather()
	if err = cmp.Or(err, errMore); err != nil {
		t.Fatal(err)
	}
	families = append(families, more...)
	own := map[string]metric{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "node_drainer_") {
			continue
		}
		one := metric{strings.ToLower(f.GetType().String()), f.GetHelp(), map[string][]string{}}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if one.labels[l.GetName()] == nil {
					one.labels[l.GetName()] = []string{}
				}
				if l.GetName() == "group" { // Its values are the groups of a user.
					continue
				}
				one.labels[l.GetName()] = append(one.labels[l.GetName()], l.GetValue())
			}
		}
		own[f.GetName()] = one
	}
	return own
}

// TestMetricsExist: each metric in the docs, the alerts and the dashboard exists, and so does each value of a label that
// an expression selects.
func TestMetricsExist(t *testing.T) {
	own := ownMetrics(t)
	files := []string{"../../README.md", alertsFile, "../../charts/node-drainer/files/dashboard.json"}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	selector := regexp.MustCompile(`(node_drainer_\w+)\{([^}]*)\}`)
	matcher := regexp.MustCompile(`(\w+)=~?"([^"]+)"`)
	selected := 0
	for _, file := range append(pages, files...) {
		page := strings.ReplaceAll(read(t, file), `\"`, `"`)
		for _, name := range find(page, `\b(node_drainer_\w+)`) {
			if own[name].kind == "" && own[strings.TrimSuffix(name, "_bucket")].kind != "histogram" {
				t.Errorf("%s names the unknown metric %s", file, name)
			}
		}
		for _, m := range selector.FindAllStringSubmatch(page, -1) {
			for _, of := range matcher.FindAllStringSubmatch(m[2], -1) {
				if of[1] == "job" || of[1] == "namespace" { // Prometheus adds them
					continue
				}
				for value := range strings.SplitSeq(of[2], "|") {
					selected++
					if !slices.Contains(own[m[1]].labels[of[1]], value) {
						t.Errorf("%s selects %s=%q of %s, which does not exist", file, of[1], value, m[1])
					}
				}
			}
		}
	}
	if selected == 0 {
		t.Error("no file selects a label")
	}
}

// alertsFile contains the alerts, as Prometheus rules.
const alertsFile = "../../charts/node-drainer/files/alerts.yaml"

// TestDocumentedAlerts: each alert has a severity, a summary, a description and a section in docs/runbook.md, to
// which it links; there are no other sections.
func TestDocumentedAlerts(t *testing.T) {
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, alertsFile)), &file); err != nil {
		t.Fatal(err)
	}
	section := sectionOf(read(t, "../../docs/runbook.md"), "Alerts")
	jobs := regexp.MustCompile(`job="node-drainer(-watch)?"`)
	var rules []string
	for _, group := range file.Groups {
		for _, r := range group.Rules {
			rules = append(rules, r.Alert)
			began := map[string]string{"critical": "Critical", "warning": "Warning"}[r.Labels["severity"]]
			if r.For != "" {
				began += ", after " + strings.TrimSuffix(r.For, "m") + " minutes"
			}
			if want := "\n### " + r.Alert + "\n\n" + began + ". "; !strings.Contains(section, want) {
				t.Errorf("docs/runbook.md does not say %q", want)
			}
			for _, name := range []string{"summary", "description"} {
				if text := r.Annotations[name]; !strings.HasSuffix(text, ".") {
					t.Errorf("%s: the %s is not a sentence: %q", r.Alert, name, text)
				}
			}
			page := "https://github.com/node-drainer/node-drainer/blob/main/docs/runbook.md#"
			if want := page + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
				t.Errorf("%s links to %s, not to %s", r.Alert, r.Annotations["runbook_url"], want)
			}
			if metrics, ours := strings.Count(r.Expr, "node_drainer_"), len(jobs.FindAllString(r.Expr, -1)); metrics != ours {
				t.Errorf("%s selects %d of %d metrics by job, which the chart replaces by the release", r.Alert, ours, metrics)
			}
		}
	}
	if listed := find(section, `(?m)^### (\w+)$`); len(rules) == 0 || !slices.Equal(listed, slices.Sorted(slices.Values(rules))) {
		t.Errorf("the alerts are %q, docs/runbook.md has %q", rules, listed)
	}
}

// TestDocumentedWarnings: testdata/meanings.txt explains each message that may be logged as a warning, and no others.
func TestDocumentedWarnings(t *testing.T) {
	listed := slices.Sorted(maps.Keys(meanings(t, "Warnings")))
	// The names of these are parameters.
	warnings := map[string]bool{"hand-over ended": true, "rolling restart ended": true}
	for _, file := range []string{
		"observe.go", "drains.go", "pods.go", "launches.go", "leader.go", "installation.go", "notifications.go",
		"history.go",
	} {
		for function := range strings.SplitSeq(read(t, file), "\nfunc ") {
			if !strings.Contains(function, ".Warn()") && !strings.Contains(function, "WarnLevel") {
				continue
			}
			for _, message := range find(function, `\bMsg\("([^"]+)"\)`) {
				warnings[message] = true
			}
		}
	}
	// A method that logs warnings, too, logs this at level info.
	delete(warnings, "node drained")
	if want := slices.Sorted(maps.Keys(warnings)); len(want) == 0 || !slices.Equal(listed, want) {
		t.Errorf("meanings.txt explains %q, the warnings are %q", listed, want)
	}
}
