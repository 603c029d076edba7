package docs

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/internal/report"
)

// set are names that are there.
type set map[string]bool

// find returns the first group of each match in the text.
func find(text, pattern string) set {
	found := set{}
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found[m[1]] = true
	}
	return found
}

func (s set) with(names ...string) set {
	for _, name := range names {
		s[name] = true
	}
	return s
}

func (s set) and(others set) set {
	maps.Copy(s, others)
	return s
}

// ours returns a page without the parts about other programs: the pages on migration have the names of the other program in
// the first column of their tables, and in no other place.
func ours(name, page string) string {
	if strings.HasPrefix(name, "docs/migration/") {
		return regexp.MustCompile(`(?m)^\|[^|\n]*\|`).ReplaceAllString(page, "| |")
	}
	return page
}

// assertExist fails the test for each name that find returns of a page and that is not there. find gets the text of the
// page, and its spans of code, one a line.
func assertExist(t *testing.T, what string, there set, find func(page, text, code string) set) {
	t.Helper()
	for page, text := range Pages(t) {
		text = ours(page, text)
		for name := range find(page, text, strings.Join(Spans(text), "\n")) {
			if !there[name] {
				t.Errorf("%s names the %s %s, which is not there", page, what, name)
			}
		}
	}
}

// source is the text of all Go files below these folders that match, but for tests.
func source(t *testing.T, patterns ...string) string {
	t.Helper()
	var all bytes.Buffer
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(Root(t), pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				all.WriteString(read(t, file))
			}
		}
	}
	return all.String()
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestEveryVariableExists: a name in capitals is a variable of the agent, of the trigger or of make, or one that
// another program reads.
func TestEveryVariableExists(t *testing.T) {
	t.Parallel()
	known := set{}.with(
		"AWS_REGION", "AWS_PROFILE", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ENDPOINT_URL", // the AWS SDK
		"AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT", "HTTPS_PROXY", "NO_PROXY", "NO_COLOR", // conventions
		"DEMO_KEEP", "DEMO_NODES", "DEMO_BUILD", "KUBE_BINARIES", "KUBE_MIRROR", // test/demo, test/cluster
		"TRIGGER_PAYLOAD", // GitLab
	)
	for flag := range find(Pages(t)["docs/trigger-flags.md"], "`--([a-z-]+)`") {
		known.with("TRIGGER_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_")))
	}
	known.and(find(read(t, filepath.Join(Root(t), "Makefile")), `(?m)^([A-Z_]+) +\?=`))
	known.and(find(source(t, "internal/gate/*.go"), `"(GATE_[A-Z]+)=`))
	for _, v := range config.Variables() {
		known[v.Name] = true
	}
	assertExist(t, "variable", known, func(_, text, code string) set {
		prefixed := find(text, `\b((?:TRIGGER|CLUSTER|LISTEN|POD|RESYNC|DRY|QUEUE|EVENT|HOOK|NODE|DRAIN|LAUNCH|LEADER|LOG)`+
			`_[A-Z_]*[A-Z])\b`)
		return prefixed.and(find(code, `(?m)^([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)(?:=.*)?$`))
	})
}

// aboutRollouts are the pages whose flags are the trigger's alone.
func aboutRollouts() []string {
	return []string{
		"docs/rollouts.md", "docs/rollout-modes.md", "docs/many-groups.md", "docs/watch.md", "docs/ci.md", "docs/preflight.md",
	}
}

// TestEveryFlagExists: a flag is one of the trigger's or of agent check, or a command on some page gives it to another
// program.
func TestEveryFlagExists(t *testing.T) {
	t.Parallel()
	trigger := find(Pages(t)["docs/trigger-flags.md"], "`(--[a-z-]+)`").with("--help", "--help-all", "--version")
	trigger.and(find(source(t, "internal/app/check.go"), `(?m)^  (--[a-z-]+) `))
	shown := set{}.with("--target-role-arn") // of aws eks create-pod-identity-association
	for _, page := range Pages(t) {
		for _, block := range Blocks(page, "sh") {
			for _, command := range block.Commands() {
				if !strings.HasPrefix(command, "trigger ") {
					shown.with(regexp.MustCompile(`--[a-z][a-z-]*`).FindAllString(command, -1)...)
				}
			}
		}
	}
	assertExist(t, "flag", trigger, func(page, _, code string) set {
		named := set{}
		for _, span := range regexp.MustCompile(`(?m)^(?:--|trigger |agent ).*$`).FindAllString(code, -1) {
			named.and(find(span, `(?:^| )(--[a-z][a-z-]*)`))
		}
		if !slices.Contains(aboutRollouts(), page) {
			maps.DeleteFunc(named, func(flag string, _ bool) bool { return shown[flag] })
		}
		return named
	})
}

// values are the paths of the chart's values. What is below an empty map is for the user to name.
func values(t *testing.T) (paths, open set) {
	t.Helper()
	var tree map[string]any
	text := read(t, filepath.Join(Root(t), "charts/node-drainer/values.yaml"))
	if err := yaml.UnmarshalStrict([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	paths, open = set{}, set{}
	var walk func(prefix string, tree map[string]any)
	walk = func(prefix string, tree map[string]any) {
		for key, value := range tree {
			paths[prefix+key] = true
			if below, is := value.(map[string]any); is {
				open[prefix+key] = len(below) == 0
				walk(prefix+key+".", below)
			}
		}
	}
	walk("", tree)
	return paths, open
}

// TestEveryValueExists: what looks like a value of the chart is one. Fields of Kubernetes and names of files look
// the same, and methods of the code, which docs/architecture.md names.
func TestEveryValueExists(t *testing.T) {
	t.Parallel()
	paths, open := values(t)
	exists := func(value string, _ bool) bool {
		for path := value; path != ""; path = path[:max(strings.LastIndex(path, "."), 0)] {
			if paths[path] {
				return path == value || open[path]
			}
		}
		return false
	}
	elsewhere := regexp.MustCompile(`^(metadata|spec|status)\.|\.(md|go|yaml|yml|tf|json|com|dev|sh|crt|key)$`)
	checked := 0
	assertExist(t, "value", set{}, func(page, text, code string) set {
		if page == "docs/architecture.md" {
			return nil
		}
		named := find(code, `(?m)^([a-z][A-Za-z]*(?:\.[a-z][A-Za-z]*)+)(?:=.*)?$`)
		maps.DeleteFunc(named, func(value string, _ bool) bool { return elsewhere.MatchString(value) })
		named.and(find(text, `--set(?:-string)?[ =]'?([A-Za-z.]*[A-Za-z])\.?[=.\\]`))
		checked += len(named)
		maps.DeleteFunc(named, exists)
		return named
	})
	if checked < 10 {
		t.Errorf("only %d values were found", checked)
	}
}

// TestEveryTargetExists: each make target that a page names exists.
func TestEveryTargetExists(t *testing.T) {
	t.Parallel()
	there := find(read(t, filepath.Join(Root(t), "Makefile")), `(?m)^([a-z0-9-]+):`)
	assertExist(t, "target", there, func(_, text, code string) set {
		for _, block := range append(Blocks(text, "sh"), Blocks(text, "")...) {
			code += "\n" + strings.Join(block.Commands(), "\n")
		}
		return find(code, `\bmake ([a-z][a-z0-9-]*)`)
	})
}

// TestEveryFileExists: a path that begins with a folder of this repository leads to something.
func TestEveryFileExists(t *testing.T) {
	t.Parallel()
	root := Root(t)
	const path = `(?m)^(?:\./)?((?:cmd|internal|pkg|test|docs|charts|deploy|tools|\.github|\.ci)/[\w./-]*|[A-Z][\w-]*\.md|Makefile|Dockerfile)$`
	assertExist(t, "file", set{}, func(_, _, code string) set {
		named := find(code, path)
		maps.DeleteFunc(named, func(file string, _ bool) bool {
			_, err := os.Stat(filepath.Join(root, file))
			return err == nil
		})
		return named
	})
}

// TestEveryNameOfOursExists: an annotation, a taint, a condition or a tag of ours is in the code.
func TestEveryNameOfOursExists(t *testing.T) {
	t.Parallel()
	const name = `\b(node-drainer\.io/[A-Za-z-]*[A-Za-z])\b`
	there := find(source(t, "pkg/*/*.go", "internal/*/*.go", "internal/handover/*/*.go"), name)
	assertExist(t, "name", there, func(_, text, _ string) set { return find(text, name) })
}

// TestEveryMetricExists: a metric or an alert that a page names is explained in docs/reference.md or
// docs/runbook.md, which internal/observe holds to the code.
func TestEveryMetricExists(t *testing.T) {
	t.Parallel()
	pages := Pages(t)
	explained := find(pages["docs/reference.md"], "(?m)^\\| `(node_drainer_\\w+)` \\|").
		and(find(pages["docs/runbook.md"], `(?m)^### (NodeDrainer\w+)$`))
	assertExist(t, "metric or alert", explained, func(_, text, _ string) set {
		return find(text, `\b(node_drainer_\w*?[a-z]|NodeDrainer\w+)(?:_bucket)?\b`)
	})
}

// TestEveryEventExists: what a page calls an Event is the reason of one.
func TestEveryEventExists(t *testing.T) {
	t.Parallel()
	there := find(source(t, "internal/observe/*.go", "internal/handover/program/*.go"), `(?m)^\treason\w+ += "(\w+)"`)
	assertExist(t, "Event", there, func(_, text, _ string) set { return find(text, "\\bEvents?\\s+`([A-Z][A-Za-z]+)`") })
}

// TestEveryExitCodeExists: a program ends with the codes that pages name. Those of the agent are 0, 1 and 2.
func TestEveryExitCodeExists(t *testing.T) {
	t.Parallel()
	there := find(report.ExitCodes(), `(?m)^ *([0-9]+)  `).with("0", "1", "2")
	assertExist(t, "exit code", there, func(_, text, _ string) set {
		return find(text, `(?i)exits? (?:codes? (?:is )?|with )([0-9]+)`)
	})
}
