package docs

import (
	"bytes"
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

// ours returns a page without the parts about other programs: the pages on migration have the names of the other program in
// the first column of their tables, and in no other place.
func ours(name, page string) string {
	if strings.HasPrefix(name, "docs/migration/") {
		return regexp.MustCompile(`(?m)^\|[^|\n]*\|`).ReplaceAllString(page, "| |")
	}
	return page
}

// held calls hold with the text of each page, and with its spans of code.
func held(t *testing.T, hold func(name, page string, spans []string)) {
	t.Helper()
	for name, page := range Pages(t) {
		page = ours(name, page)
		hold(name, page, Spans(page))
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
	known := find(Pages(t)["docs/trigger-flags.md"], "`(TRIGGER_[A-Z_]+)`").with(
		"AWS_REGION", "AWS_PROFILE", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ENDPOINT_URL", // the AWS SDK
		"AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT", "HTTPS_PROXY", "NO_PROXY", "NO_COLOR", // conventions
		"DEMO_KEEP",       // test/demo
		"TRIGGER_PAYLOAD", // GitLab
	)
	for name := range find(read(t, filepath.Join(Root(t), "Makefile")), `(?m)^([A-Z_]+) +\?=`) {
		known[name] = true
	}
	for _, v := range config.Variables() {
		known[v.Name] = true
	}
	prefixed := regexp.MustCompile(`\b(?:TRIGGER|CLUSTER|LISTEN|POD|RESYNC|DRY|QUEUE|EVENT|HOOK|NODE|DRAIN|LAUNCH|LEADER|LOG)` +
		`_[A-Z_]*[A-Z]\b`)
	spelled := regexp.MustCompile(`^([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)(?:=.*)?$`)
	held(t, func(name, page string, spans []string) {
		named := prefixed.FindAllString(page, -1)
		for _, span := range spans {
			if m := spelled.FindStringSubmatch(span); m != nil {
				named = append(named, m[1])
			}
		}
		for _, one := range named {
			if !known[one] {
				t.Errorf("%s names the variable %s, which is not there", name, one)
			}
		}
	})
}

// TestEveryFlagExists: a flag is one of the trigger's, or a command on some page gives it to another program.
func TestEveryFlagExists(t *testing.T) {
	t.Parallel()
	trigger := find(Pages(t)["docs/trigger-flags.md"], "`(--[a-z-]+)`").with("--help", "--version")
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
	ofOurs := regexp.MustCompile(`^(?:--|trigger |agent )`)
	held(t, func(name, _ string, spans []string) {
		for _, span := range spans {
			if !ofOurs.MatchString(span) {
				continue
			}
			for flag := range find(span, `(?:^| )(--[a-z][a-z-]*)`) {
				if !trigger[flag] && (name == "docs/trigger.md" || !shown[flag]) {
					t.Errorf("%s names the flag %s, which is not there", name, flag)
				}
			}
		}
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
	exists := func(value string) bool {
		for path := value; path != ""; path = path[:max(strings.LastIndex(path, "."), 0)] {
			if paths[path] {
				return path == value || open[path]
			}
		}
		return false
	}
	dotted := regexp.MustCompile(`^([a-z][A-Za-z]*(?:\.[a-z][A-Za-z]*)+)(?:=.*)?$`)
	elsewhere := regexp.MustCompile(`^(metadata|spec|status)\.|\.(md|go|yaml|yml|tf|json|com|dev|sh)$`)
	set := regexp.MustCompile(`--set(?:-string)?[ =]'?([A-Za-z.]+)[=.\\]`)
	checked := 0
	held(t, func(name, page string, spans []string) {
		if name == "docs/architecture.md" {
			return
		}
		var named []string
		for _, span := range spans {
			if m := dotted.FindStringSubmatch(span); m != nil && !elsewhere.MatchString(m[1]) {
				named = append(named, m[1])
			}
		}
		for _, m := range set.FindAllStringSubmatch(page, -1) {
			named = append(named, strings.TrimSuffix(m[1], "."))
		}
		for _, one := range named {
			checked++
			if !exists(one) {
				t.Errorf("%s names the value %s, which is not there", name, one)
			}
		}
	})
	if checked < 10 {
		t.Errorf("only %d values were found", checked)
	}
}

// TestEveryTargetExists: each make target that a page names exists.
func TestEveryTargetExists(t *testing.T) {
	t.Parallel()
	there := find(read(t, filepath.Join(Root(t), "Makefile")), `(?m)^([a-z0-9-]+):`)
	command := regexp.MustCompile(`\bmake ([a-z][a-z0-9-]*)`)
	held(t, func(name, page string, spans []string) {
		for _, block := range append(Blocks(page, "sh"), Blocks(page, "")...) {
			spans = append(spans, block.Commands()...)
		}
		for _, span := range spans {
			for _, m := range command.FindAllStringSubmatch(span, -1) {
				if !there[m[1]] {
					t.Errorf("%s names the target %s, which is not there", name, m[1])
				}
			}
		}
	})
}

// TestEveryFileExists: a path that begins with a folder of this repository leads to something.
func TestEveryFileExists(t *testing.T) {
	t.Parallel()
	root := Root(t)
	path := regexp.MustCompile(`^(?:\./)?((?:cmd|internal|pkg|test|docs|charts|deploy|tools|\.github|\.ci)/[\w./-]*|[A-Z][\w-]*\.md|Makefile|Dockerfile)$`)
	held(t, func(name, _ string, spans []string) {
		for _, span := range spans {
			if m := path.FindStringSubmatch(span); m != nil {
				if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
					t.Errorf("%s names %s, which is not there", name, m[1])
				}
			}
		}
	})
}

// TestEveryNameOfOursExists: an annotation, a taint, a condition or a tag of ours is in the code.
func TestEveryNameOfOursExists(t *testing.T) {
	t.Parallel()
	const name = `\b(node-drainer\.io/[A-Za-z-]*[A-Za-z])\b`
	there := find(source(t, "pkg/*/*.go", "internal/*/*.go"), name)
	held(t, func(page, text string, _ []string) {
		for found := range find(text, name) {
			if !there[found] {
				t.Errorf("%s names %s, which is not there", page, found)
			}
		}
	})
}

// TestEveryMetricExists: a metric or an alert that a page names is explained in docs/operations.md, which
// internal/observe holds to the code.
func TestEveryMetricExists(t *testing.T) {
	t.Parallel()
	const name = `\b(node_drainer_\w*[a-z]|NodeDrainer\w+)\b`
	operations := Pages(t)["docs/operations.md"]
	explained := find(operations, "(?m)^\\| `(node_drainer_\\w+)` \\|")
	for alert := range find(operations, `\b(NodeDrainer\w+)\b`) {
		explained.with(alert)
	}
	held(t, func(page, text string, _ []string) {
		for found := range find(text, name) {
			if !explained[found] && !explained[strings.TrimSuffix(found, "_bucket")] {
				t.Errorf("%s names %s, which is not in docs/operations.md", page, found)
			}
		}
	})
}

// TestEveryEventExists: what a page calls an Event is the reason of one.
func TestEveryEventExists(t *testing.T) {
	t.Parallel()
	there := find(source(t, "internal/observe/*.go"), `(?m)^\treason\w+ += "(\w+)"`)
	if len(there) == 0 {
		t.Fatal("the reasons were not found")
	}
	held(t, func(name, page string, _ []string) {
		for found := range find(page, "\\bEvents?\\s+`([A-Z][A-Za-z]+)`") {
			if !there[found] {
				t.Errorf("%s names the Event %s, which is not there", name, found)
			}
		}
	})
}

// TestEveryExitCodeExists: a program ends with the codes that pages name. Those of the agent are 0, 1 and 2.
func TestEveryExitCodeExists(t *testing.T) {
	t.Parallel()
	there := find(report.ExitCodes(), `(?m)^ *([0-9]+)  `).with("0", "1", "2")
	held(t, func(name, page string, _ []string) {
		for found := range find(page, `(?i)exits? (?:codes? (?:is )?|with )([0-9]+)`) {
			if !there[found] {
				t.Errorf("%s names the exit code %s, which is not there", name, found)
			}
		}
	})
}

// TestOurs: names of others are only passed over where they belong.
func TestOurs(t *testing.T) {
	t.Parallel()
	const page = "| Theirs | Ours |\n| `DRAIN_THEIRS` | `DRAIN_OURS` |\n\nText with `DRAIN_TEXT`.\n"
	if got := Spans(ours("docs/migration/x.md", page)); !slices.Equal(got, []string{"DRAIN_OURS", "DRAIN_TEXT"}) {
		t.Errorf("got %q", got)
	}
	if got := Spans(ours("docs/x.md", page)); len(got) != 3 {
		t.Errorf("got %q", got)
	}
}
