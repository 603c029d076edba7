package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/agentrules"
)

// pages are what users read.
func pages(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	text := map[string]string{}
	for _, name := range append(names, "../../README.md") {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text[filepath.Base(name)] = string(page)
	}
	return text
}

// blocks are the code blocks of a page in a language.
func blocks(page, language string) []string {
	var all []string
	for _, m := range regexp.MustCompile("(?s)\n```"+language+"\n(.*?)\n```").FindAllStringSubmatch(page, -1) {
		all = append(all, m[1])
	}
	return all
}

// TestTheReference: the generated page is what the flags are.
func TestTheReference(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "flags.md")
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"help-markdown", file}, nil, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(written) != pages(t)["trigger-flags.md"] {
		t.Error("docs/trigger-flags.md is stale: run make generate")
	}
	for _, o := range newProgram(nil, nil, nil).options() {
		if !strings.Contains(string(written), "`"+o.flag()+"`") || !strings.Contains(string(written), "| `"+o.variable()+"` |") {
			t.Errorf("docs/trigger-flags.md does not have %s", o.flag())
		}
	}
}

// TestEveryFlagOfTheDocsExists: what docs/trigger.md calls a flag is one, and so is what any page calls a
// variable of the trigger.
func TestEveryFlagOfTheDocsExists(t *testing.T) {
	t.Parallel()
	var flags, variables []string
	for _, o := range newProgram(nil, nil, nil).options() {
		flags, variables = append(flags, o.flag()), append(variables, o.variable())
	}
	flags = append(flags, "--help")
	for page, text := range pages(t) {
		for _, name := range regexp.MustCompile(`\bTRIGGER_[A-Z_]*[A-Z]\b`).FindAllString(text, -1) {
			if !slices.Contains(variables, name) {
				t.Errorf("%s names %s, which is no variable", page, name)
			}
		}
		if page != "trigger.md" && page != "trigger-flags.md" {
			continue
		}
		for _, m := range regexp.MustCompile("[ (`\\[](--[a-z][a-z-]*)").FindAllStringSubmatch(text, -1) {
			if !slices.Contains(flags, m[1]) {
				t.Errorf("%s names %s, which is no flag", page, m[1])
			}
		}
	}
}

// TestTheCommandsOfTheDocs: what a reader copies from a page is understood.
func TestTheCommandsOfTheDocs(t *testing.T) {
	t.Parallel()
	found := 0
	for page, text := range pages(t) {
		for _, block := range blocks(text, "sh") {
			for line := range strings.Lines(block) {
				line, _, _ = strings.Cut(line, " #")
				if args, ours := strings.CutPrefix(strings.TrimSpace(line), "trigger "); ours {
					found++
					understood(t, page, nil, strings.Fields(args))
				}
			}
		}
	}
	for line := range strings.Lines(examples) {
		if args, ours := strings.CutPrefix(strings.TrimSpace(line), "trigger "); ours {
			found++
			understood(t, "--help", nil, strings.Fields(args))
		}
	}
	if found < 15 {
		t.Errorf("only %d command lines were found", found)
	}
}

func understood(t *testing.T, page string, environ, args []string) {
	t.Helper()
	if s, _, stderr := read(t, environ, args...); s == nil {
		t.Errorf("%s: trigger %s, with %q: %s", page, strings.Join(args, " "), environ, stderr)
	}
}

// example is what a YAML example has for the trigger.
type example struct{ environ, lines []string }

// add looks through a document for variables, scripts, and containers of the trigger.
func (e *example) add(node any) {
	switch n := node.(type) {
	case []any:
		for _, item := range n {
			e.add(item)
		}
	case string:
		for line := range strings.Lines(n) {
			if args, ours := strings.CutPrefix(strings.TrimSpace(line), "trigger "); ours {
				e.lines = append(e.lines, args)
			}
		}
	case map[string]any:
		if name, is := n["name"].(string); is && strings.HasPrefix(name, prefix) {
			value, _ := n["value"].(string)
			e.environ = append(e.environ, name+"="+value)
		}
		if command, is := n["command"].([]any); is && reflect.DeepEqual(command, []any{"/trigger"}) {
			args, _ := json.Marshal(n["args"])
			e.lines = append(e.lines, string(args))
		}
		for key, value := range n {
			if text, is := value.(string); is && strings.HasPrefix(key, prefix) {
				e.environ = append(e.environ, key+"="+text)
			}
			e.add(value)
		}
	}
}

// TestTheExamplesOfTheDocs: each YAML example is YAML, and the trigger understands what it is told there.
func TestTheExamplesOfTheDocs(t *testing.T) {
	t.Parallel()
	found := 0
	for _, block := range blocks(pages(t)["trigger.md"], "yaml") {
		var document any
		if err := yaml.UnmarshalStrict([]byte(block), &document); err != nil {
			t.Errorf("%v in\n%s", err, block)
			continue
		}
		var e example
		e.add(document)
		for _, line := range e.lines {
			found++
			args := strings.Fields(line)
			if strings.HasPrefix(line, "[") {
				if err := json.Unmarshal([]byte(line), &args); err != nil {
					t.Error(err)
				}
			}
			understood(t, "trigger.md", e.environ, args)
		}
	}
	if found < 5 {
		t.Errorf("only %d command lines were found", found)
	}
}

// TestThePermissionsOfTheDocs: the table and the policy allow what the trigger calls, and nothing else.
func TestThePermissionsOfTheDocs(t *testing.T) {
	t.Parallel()
	called := map[string]bool{}
	for _, api := range []struct {
		service string
		calls   reflect.Type
	}{
		{"autoscaling", reflect.TypeFor[refresh.GroupsAPI]()},
		{"autoscaling", reflect.TypeFor[refresh.ChangesAPI]()},
		{"ec2", reflect.TypeFor[refresh.InstancesAPI]()},
	} {
		for method := range api.calls.Methods() {
			called[api.service+":"+method.Name] = true
		}
	}
	want := slices.Sorted(maps.Keys(called))
	_, section, _ := strings.Cut(pages(t)["trigger.md"], "\n## Permissions\n")
	table, _, _ := strings.Cut(section, "```json")
	for where, text := range map[string]string{"table": table, "policy": strings.Join(blocks(section, "json"), "")} {
		named := regexp.MustCompile(`\b(?:autoscaling|ec2):[A-Z]\w+`).FindAllString(text, -1)
		slices.Sort(named)
		if named = slices.Compact(named); !slices.Equal(named, want) {
			t.Errorf("the %s in docs/trigger.md has %q, the trigger calls %q", where, named, want)
		}
	}
}

// TestTheClusterRoleOfTheDocs: it allows what the tests grant the trigger, with the taints and without.
func TestTheClusterRoleOfTheDocs(t *testing.T) {
	t.Parallel()
	var role rbacv1.ClusterRole
	var taints []rbacv1.PolicyRule
	for _, block := range blocks(pages(t)["trigger.md"], "yaml") {
		var err error
		switch {
		case strings.Contains(block, "\nkind: ClusterRole\n"):
			err = yaml.UnmarshalStrict([]byte(block), &role)
		case strings.HasPrefix(block, "- apiGroups:"):
			err = yaml.UnmarshalStrict([]byte(block), &taints)
		}
		if err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(agentrules.Trigger(), role.Rules); diff != "" {
		t.Errorf("the ClusterRole (-what tests grant +docs/trigger.md):\n%s", diff)
	}
	if diff := cmp.Diff(agentrules.TriggerTaints(), taints); diff != "" {
		t.Errorf("the rule for taints (-what tests grant +docs/trigger.md):\n%s", diff)
	}
}

// TestTheExitCodesOfTheDocs: docs/trigger.md says what to do about each.
func TestTheExitCodesOfTheDocs(t *testing.T) {
	t.Parallel()
	code := regexp.MustCompile(`(?m)^ *([0-9]+)  `)
	_, section, _ := strings.Cut(pages(t)["trigger.md"], "\n## Exit codes\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := regexp.MustCompile(`(?m)^\| ([0-9]+) \|`).FindAllStringSubmatch(section, -1)
	var told, there []string
	for _, row := range rows {
		told = append(told, row[1])
	}
	for _, line := range code.FindAllStringSubmatch(report.ExitCodes(), -1) {
		there = append(there, line[1])
	}
	if !slices.Equal(told, there) {
		t.Errorf("docs/trigger.md explains %q, there are %q", told, there)
	}
}

// TestTheChecksOfTheDocs: docs/trigger.md explains each check of the preflight, in the order in which a plan has them.
func TestTheChecksOfTheDocs(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(pages(t)["trigger.md"], "\n## Preflight\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var told []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(section, -1) {
		told = append(told, row[1])
	}
	if !slices.Equal(told, refresh.Checks()) {
		t.Errorf("docs/trigger.md explains %q, there are %q", told, refresh.Checks())
	}
}

// TestAllowKnowsTheChecks: a check that there is not is told at once, with the one that was meant.
func TestAllowKnowsTheChecks(t *testing.T) {
	t.Parallel()
	s, _, stderr := read(t, nil, "--asg", "workers", "--allow", "hook-timout")
	if s != nil || !strings.Contains(stderr, "is hook-timeout meant?") {
		t.Errorf("it was taken: %t; it said %q", s != nil, stderr)
	}
	understood(t, "none", nil, []string{"--asg", "workers", "--allow", "hook-timeout,no-terminating-hook"})
}
