package config_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/instance"
	"github.com/node-drainer/node-drainer/pkg/lifecycle"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// prefixes are what the names of our variables begin with.
const prefixes = `(CLUSTER|LISTEN|POD|SWEEP|DRY|QUEUE|EVENT|HOOK|NODE|DRAIN|LAUNCH|LEADER|LOG)`

// pages are what users read of the configuration, but for the generated reference.
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

// TestEveryVariableOfTheDocsExists: a name that has one of our prefixes is a variable that is there.
func TestEveryVariableOfTheDocsExists(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, v := range config.Variables() {
		known[v.Name] = true
	}
	name := regexp.MustCompile(`\b` + prefixes + `_[A-Z_]+\b`)
	for page, text := range pages(t) {
		for _, found := range name.FindAllString(text, -1) {
			if !known[found] {
				t.Errorf("%s names %s, which is no variable", page, found)
			}
		}
	}
}

// TestTheSettingsOfTheDocsAreRead: what a reader copies from a page is a configuration without mistakes.
func TestTheSettingsOfTheDocsAreRead(t *testing.T) {
	t.Parallel()
	block := regexp.MustCompile("(?s)```sh\n(.*?)```")
	setting := regexp.MustCompile(`^` + prefixes + `_[A-Z_]+=`)
	read := 0
	for page, text := range pages(t) {
		for _, found := range block.FindAllStringSubmatch(text, -1) {
			env := environ()
			for line := range strings.Lines(found[1]) {
				line, _, _ = strings.Cut(line, " #")
				line = strings.TrimSpace(line)
				if setting.MatchString(line) && !strings.Contains(line, " ") {
					env = append(env, line)
					read++
				}
			}
			if _, err := config.ReadAgent(env); err != nil {
				t.Errorf("%s: %q: %v", page, env, err)
			}
		}
	}
	if read == 0 {
		t.Error("the docs show no setting at all")
	}
}

// TestTheActionsOfTheDocs: docs/events.md says of each kind of event which variable configures it, and what
// its default is.
func TestTheActionsOfTheDocs(t *testing.T) {
	t.Parallel()
	actions := []event.Action{event.Drain, event.Cordon, event.Replace, event.Ignore}
	page, found := pages(t)["events.md"], 0
	for _, v := range config.Variables() {
		if !strings.HasPrefix(v.Name, "EVENT_") || !slices.Contains(actions, event.Action(v.Default)) {
			continue
		}
		found++
		if want := "`" + v.Default + "` (`" + v.Name + "`)"; strings.Count(page, want) != 1 {
			t.Errorf("docs/events.md does not say %s, once", want)
		}
	}
	if found == 0 {
		t.Error("no variable configures an action")
	}
}

// TestThePermissionsOfTheDocs: the pages ask for every AWS action that the agent calls, and for no other.
func TestThePermissionsOfTheDocs(t *testing.T) {
	t.Parallel()
	var called []string
	for service, api := range map[string]reflect.Type{
		"sqs": reflect.TypeFor[queue.API](), "autoscaling": reflect.TypeFor[lifecycle.API](),
		"ec2": reflect.TypeFor[instance.API](),
	} {
		for method := range api.Methods() {
			// A batch is permitted by the action for one (Amazon SQS developer guide, "Actions, resources, and
			// condition keys").
			called = append(called, service+":"+strings.TrimSuffix(method.Name, "Batch"))
		}
	}
	slices.Sort(called)
	action := regexp.MustCompile(`\b(?:sqs|autoscaling|ec2):(?:Get|Receive|Delete|Change|Describe|Record|Complete|Set)\w+`)
	for _, page := range []string{"events.md", "README.md"} {
		named := action.FindAllString(pages(t)[page], -1)
		slices.Sort(named)
		if named = slices.Compact(named); !slices.Equal(named, called) {
			t.Errorf("%s asks for %q, the agent calls %q", page, named, called)
		}
	}
	_, policy, _ := strings.Cut(pages(t)["events.md"], "## Permissions of the agent")
	_, policy, _ = strings.Cut(policy, "```json")
	policy, _, _ = strings.Cut(policy, "```")
	for _, one := range called {
		if !strings.Contains(policy, `"`+one+`"`) {
			t.Errorf("the policy in docs/events.md does not allow %s", one)
		}
	}
}
