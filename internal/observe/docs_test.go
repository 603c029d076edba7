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

// TestEveryMetricOfTheDocsExists: a metric that a page names is one of the agent's, and so is each value of a
// label that an expression selects.
func TestEveryMetricOfTheDocsExists(t *testing.T) {
	own := metricsOfTheAgent(t)
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	selector := regexp.MustCompile(`(node_drainer_\w+)\{(\w+)=~?"([^"]+)"`)
	selected := 0
	for _, file := range append(pages, "../../README.md") {
		page := read(t, file)
		for _, name := range find(page, `\b(node_drainer_\w+)`) {
			if own[name].kind == "" && own[strings.TrimSuffix(name, "_bucket")].kind != "histogram" {
				t.Errorf("%s names %s, which is no metric", file, name)
			}
		}
		for _, m := range selector.FindAllStringSubmatch(page, -1) {
			for value := range strings.SplitSeq(m[3], "|") {
				selected++
				if !slices.Contains(own[m[1]].labels[m[2]], value) {
					t.Errorf("%s selects %s=%q of %s, which is never there", file, m[2], value, m[1])
				}
			}
		}
	}
	if selected == 0 {
		t.Error("no page selects anything")
	}
}

// TestTheAlertsOfTheDocs: what to do is said of each alert, and of no other.
func TestTheAlertsOfTheDocs(t *testing.T) {
	page := read(t, "../../docs/operations.md")
	rules, told := find(page, `(?m)^ +- alert: (\w+)$`), find(page, "(?m)^\\| `(NodeDrainer\\w+)` \\|")
	if len(rules) == 0 || !slices.Equal(rules, told) {
		t.Errorf("the rules are %q, told of are %q", rules, told)
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
