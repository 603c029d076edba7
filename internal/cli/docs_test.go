package cli

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/nodegroup"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/docs"
)

// TestDocsCommands: the commands of all pages and of the help are valid.
func TestDocsCommands(t *testing.T) {
	t.Parallel()
	found := 0
	for page, text := range docs.Pages(t) {
		for _, block := range docs.Blocks(text, "sh") {
			for _, command := range block.Commands() {
				if args, ours := strings.CutPrefix(command, "trigger "); ours {
					found++
					accepted(t, page, nil, strings.Fields(args))
				}
			}
		}
	}
	for line := range strings.Lines(examples) {
		if args, ours := strings.CutPrefix(strings.TrimSpace(line), "trigger "); ours {
			found++
			accepted(t, "--help", nil, strings.Fields(args))
		}
	}
	if found < 15 {
		t.Errorf("only %d command lines were found", found)
	}
}

func accepted(t *testing.T, page string, environ, args []string) {
	t.Helper()
	if s, _, stderr := read(t, environ, args...); s == nil {
		t.Errorf("%s: trigger %s, with %q: %s", page, strings.Join(args, " "), environ, stderr)
	}
}

// example has the variables and command lines of a YAML example.
type example struct{ environ, lines []string }

// add collects them from a document.
func (e *example) add(node any) {
	switch n := node.(type) {
	case []any:
		for _, item := range n {
			e.add(item)
		}
	case string:
		for line := range strings.Lines(n) {
			command := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(line), "exec "), "./")
			if args, ours := strings.CutPrefix(command, "trigger "); ours {
				e.lines = append(e.lines, args)
			}
		}
	case map[string]any:
		for key, value := range n {
			if text, is := value.(string); is && strings.HasPrefix(key, prefix) {
				e.environ = append(e.environ, key+"="+text)
			}
			e.add(value)
		}
	}
}

// TestDocsExamples: the YAML examples are valid, and so are their commands and variables.
func TestDocsExamples(t *testing.T) {
	t.Parallel()
	found := 0
	for _, block := range docs.Blocks(docs.Pages(t)["docs/ci.md"], "yaml") {
		var document any
		if err := yaml.UnmarshalStrict([]byte(block.Text), &document); err != nil {
			t.Errorf("%v in\n%s", err, block.Text)
			continue
		}
		var e example
		e.add(document)
		for _, line := range e.lines {
			found++
			accepted(t, "docs/ci.md", e.environ, strings.Fields(line))
		}
	}
	if found < 4 {
		t.Errorf("only %d command lines were found", found)
	}
}

// TestDocsPermissions: the table has the calls of the trigger and what AWS requires for them, and nothing else.
func TestDocsPermissions(t *testing.T) {
	t.Parallel()
	called := map[string]bool{"ec2:RunInstances": true, "ec2:CreateTags": true} // for StartInstanceRefresh
	for _, api := range []struct {
		service string
		calls   reflect.Type
	}{
		{"autoscaling", reflect.TypeFor[autoscaling.ReaderAPI]()},
		{"autoscaling", reflect.TypeFor[autoscaling.ChangesAPI]()},
		{"ec2", reflect.TypeFor[ec2.LaunchAPI]()},
		{"ec2", reflect.TypeFor[ec2.MachinesAPI]()},
		{"ec2", reflect.TypeFor[ec2.SubnetAPI]()},
		{"eks", reflect.TypeFor[nodegroup.ReaderAPI]()},
		{"eks", reflect.TypeFor[nodegroup.WriterAPI]()},
	} {
		for method := range api.calls.Methods() {
			called[api.service+":"+method.Name] = true
		}
	}
	want := slices.Sorted(maps.Keys(called))
	_, section, _ := strings.Cut(docs.Pages(t)["docs/iam.md"], "\n## What the trigger may do\n")
	table, _, _ := strings.Cut(section, "\n### ")
	named := regexp.MustCompile(`\b(?:autoscaling|ec2|eks):[A-Z]\w+`).FindAllString(table, -1)
	slices.Sort(named)
	if named = slices.Compact(named); !slices.Equal(named, want) {
		t.Errorf("the table in docs/iam.md has %q, the trigger calls %q", named, want)
	}
}

// tableOf returns the first column of the table below a heading of a page.
func tableOf(t *testing.T, page, heading, cell string) (rows []string) {
	t.Helper()
	_, text, _ := strings.Cut("\n"+docs.Pages(t)[page], "\n"+heading+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for _, row := range regexp.MustCompile(`(?m)^\| (`+cell+`) \|`).FindAllStringSubmatch(text, -1) {
		rows = append(rows, strings.Trim(row[1], "`"))
	}
	return rows
}

// TestDocsExitCodes: docs/rollouts.md explains each exit code.
func TestDocsExitCodes(t *testing.T) {
	t.Parallel()
	var want []string
	for _, line := range regexp.MustCompile(`(?m)^ *([0-9]+)  `).FindAllStringSubmatch(report.ExitCodes(), -1) {
		want = append(want, line[1])
	}
	if got := tableOf(t, "docs/rollouts.md", "## Exit codes", "[0-9]+"); !slices.Equal(got, want) {
		t.Errorf("docs/rollouts.md explains %q, want %q", got, want)
	}
}

// TestDocsChecks: docs/preflight.md explains each check of the preflight, in the order of a plan.
func TestDocsChecks(t *testing.T) {
	t.Parallel()
	if got := tableOf(t, "docs/preflight.md", "# Preflight", "`[a-z-]+`"); !slices.Equal(got, refresh.Checks()) {
		t.Errorf("docs/preflight.md explains %q, want %q", got, refresh.Checks())
	}
}
