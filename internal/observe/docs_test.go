package observe_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"sigs.k8s.io/yaml"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/internal/observe"
)

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// find returns, sorted and each once, the first group of each match in the text.
func find(text, pattern string) []string {
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found[m[1]] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// TestTheEventsOfTheDocs: docs/draining.md and docs/launching.md list the Events that are recorded, and no others.
func TestTheEventsOfTheDocs(t *testing.T) {
	conditionOnly := []string{"Blocked"}
	for file, page := range map[string]string{
		"observe.go": "../../docs/draining.md", "launches.go": "../../docs/launching.md",
	} {
		reasons := find(read(t, file), `(?m)^\treason\w+ += "(\w+)"`)
		recorded := slices.DeleteFunc(reasons, func(reason string) bool {
			return slices.Contains(conditionOnly, reason)
		})
		listed := find(read(t, page), "(?m)^\\| `(\\w+)` \\| (?:Node|Pod)")
		if len(recorded) == 0 || !slices.Equal(recorded, listed) {
			t.Errorf("%s records %q, %s lists %q", file, recorded, page, listed)
		}
	}
}

// metric is what can be known of a metric before anything has happened.
type metric struct {
	kind   string              // counter, gauge or histogram
	labels map[string][]string // the values of each label
}

// metricsOfTheAgent are the agent's own, by name.
func metricsOfTheAgent(t *testing.T) map[string]metric {
	t.Helper()
	registry := prometheus.NewRegistry()
	observe.New(zerolog.Nop(), registry, observe.Silence{}, observe.Silence{}, agent.Outcomes())
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]metric{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "node_drainer_") {
			continue
		}
		one := metric{strings.ToLower(f.GetType().String()), map[string][]string{}}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				one.labels[l.GetName()] = append(one.labels[l.GetName()], l.GetValue())
			}
		}
		own[f.GetName()] = one
	}
	return own
}

// TestTheMetricsOfTheDocs: docs/operations.md has a row for each metric, with its type, its label, and every
// value that the label can have; and no row for anything else.
func TestTheMetricsOfTheDocs(t *testing.T) {
	page := read(t, "../../docs/operations.md")
	own := metricsOfTheAgent(t)
	_, section, _ := strings.Cut(page, "\n## Metrics\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if listed := find(section, "(?m)^\\| `(node_drainer_\\w+)` \\|"); !slices.Equal(listed, slices.Sorted(maps.Keys(own))) {
		t.Errorf("docs/operations.md lists %q, there are %q", listed, slices.Sorted(maps.Keys(own)))
	}
	for name, m := range own {
		label := ""
		for l := range m.labels {
			label += "`" + l + "` "
		}
		_, row, there := strings.Cut(section, "\n| `"+name+"` | "+m.kind+" | "+label+"|")
		if !there {
			t.Errorf("docs/operations.md has no row of the %s %s with the label %s", m.kind, name, label)
		}
		if name == "node_drainer_terminations_total" { // its outcomes have a table of their own
			continue
		}
		row, _, _ = strings.Cut(row, "\n")
		for _, value := range slices.Concat(slices.Collect(maps.Values(m.labels))...) {
			if !strings.Contains(row, "`"+value+"`") {
				t.Errorf("docs/operations.md does not name the value %s in the row of %s", value, name)
			}
		}
	}
}

// TestEveryMetricOfTheDocsExists: a metric that a page, an alert or the dashboard names is one of the agent's,
// and so is each value of a label that an expression selects.
func TestEveryMetricOfTheDocsExists(t *testing.T) {
	own := metricsOfTheAgent(t)
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
				t.Errorf("%s names %s, which is no metric", file, name)
			}
		}
		for _, m := range selector.FindAllStringSubmatch(page, -1) {
			for _, of := range matcher.FindAllStringSubmatch(m[2], -1) {
				if of[1] == "job" || of[1] == "namespace" { // which Prometheus adds
					continue
				}
				for value := range strings.SplitSeq(of[2], "|") {
					selected++
					if !slices.Contains(own[m[1]].labels[of[1]], value) {
						t.Errorf("%s selects %s=%q of %s, which is never there", file, of[1], value, m[1])
					}
				}
			}
		}
	}
	if selected == 0 {
		t.Error("no page selects anything")
	}
}

// alertsFile has the alerts, as Prometheus reads them.
const alertsFile = "../../charts/node-drainer/files/alerts.yaml"

// TestTheAlertsOfTheDocs: each alert says how bad it is, what has happened and what to do, and leads to a
// section of docs/operations.md that is about it; no section is about anything else.
func TestTheAlertsOfTheDocs(t *testing.T) {
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
	_, section, _ := strings.Cut(read(t, "../../docs/operations.md"), "\n## Alerts\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var rules []string
	for _, group := range file.Groups {
		for _, r := range group.Rules {
			rules = append(rules, r.Alert)
			began := map[string]string{"critical": "Critical", "warning": "Warning"}[r.Labels["severity"]]
			if r.For != "" {
				began += ", after " + strings.TrimSuffix(r.For, "m") + " minutes"
			}
			if want := "\n### " + r.Alert + "\n\n" + began + ". "; !strings.Contains(section, want) {
				t.Errorf("docs/operations.md does not say %q", want)
			}
			for _, name := range []string{"summary", "description"} {
				if text := r.Annotations[name]; !strings.HasSuffix(text, ".") {
					t.Errorf("%s: the %s is no sentence: %q", r.Alert, name, text)
				}
			}
			page := "https://github.com/node-drainer/node-drainer/blob/main/docs/operations.md#"
			if want := page + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
				t.Errorf("%s leads to %s, not to %s", r.Alert, r.Annotations["runbook_url"], want)
			}
			if metrics, ours := strings.Count(r.Expr, "node_drainer_"), strings.Count(r.Expr, `job="node-drainer"`); metrics != ours {
				t.Errorf("%s selects %d of %d metrics by the job, in whose place the chart puts the release", r.Alert, ours, metrics)
			}
		}
	}
	if told := find(section, `(?m)^### (\w+)$`); len(rules) == 0 || !slices.Equal(told, slices.Sorted(slices.Values(rules))) {
		t.Errorf("the alerts are %q, told of are %q", rules, told)
	}
}

// TestTheOutcomesOfTheDocs: docs/operations.md says what each outcome of a termination means.
func TestTheOutcomesOfTheDocs(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "../../docs/operations.md"), "\n| Outcome | Meaning |\n")
	section, _, _ = strings.Cut(section, "\n\n")
	want := agent.Outcomes()
	slices.Sort(want)
	if listed := find(section, "(?m)^\\| `([a-z-]+)` \\|"); !slices.Equal(listed, want) {
		t.Errorf("docs/operations.md explains %q, there are %q", listed, want)
	}
}

// TestTheWarningsOfTheDocs: docs/operations.md has a row for each message that may be logged as a warning, and
// no row for one that is not.
func TestTheWarningsOfTheDocs(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "../../docs/operations.md"), "\n## Warnings in the log\n")
	listed := find(section, "(?m)^\\| `([^`]+)` \\|")
	warnings := map[string]bool{}
	for _, file := range []string{"observe.go", "drains.go", "pods.go", "launches.go", "leader.go"} {
		for _, message := range messagesThatWarn(t, file) {
			warnings[message] = true
		}
	}
	// Logged by a method that warns too, at another level.
	delete(warnings, "node drained")
	if want := slices.Sorted(maps.Keys(warnings)); len(want) == 0 || !slices.Equal(listed, want) {
		t.Errorf("docs/operations.md explains %q, what may be logged as a warning is %q", listed, want)
	}
}

// messagesThatWarn are the messages of those functions of a file that log warnings.
func messagesThatWarn(t *testing.T, file string) []string {
	t.Helper()
	source, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, d := range source.Decls {
		warns, messages := false, []string(nil)
		ast.Inspect(d, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				warns = warns || s.Sel.Name == "Warn" || s.Sel.Name == "WarnLevel"
			}
			if text, ok := messageOf(n); ok {
				messages = append(messages, text)
			}
			return true
		})
		if warns {
			all = append(all, messages...)
		}
	}
	return all
}

// messageOf is the text of a call of Msg.
func messageOf(n ast.Node) (text string, ok bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return "", false
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || method.Sel.Name != "Msg" {
		return "", false
	}
	literal, ok := call.Args[0].(*ast.BasicLit)
	if !ok {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return text, err == nil
}
