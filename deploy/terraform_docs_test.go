package deploy_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// source returns the source of an expression, on one line.
func source(t *testing.T, a *hclsyntax.Attribute) string {
	t.Helper()
	if a == nil {
		return ""
	}
	span := a.Expr.Range()
	text, err := os.ReadFile(span.Filename)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(span.SliceBytes(text))), " ")
}

// TestVariablesAndOutputs: each has a description, is used, and is documented in the README with its default.
func TestVariablesAndOutputs(t *testing.T) {
	t.Parallel()
	m := loadModule(t, "terraform")
	readme, err := os.ReadFile("terraform/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var used string
	for _, b := range m.blocks {
		if b.Type != "variable" {
			text, err := os.ReadFile(b.Range().Filename)
			if err != nil {
				t.Fatal(err)
			}
			used += string(text)
		}
	}
	var rows []string
	for _, kind := range []string{"variable", "output"} {
		for _, b := range m.all(kind) {
			name, attrs := b.Labels[0], b.Body.Attributes
			description := strings.Trim(source(t, attrs["description"]), `"`)
			if !strings.HasSuffix(description, ".") {
				t.Errorf("%s %s is not described in sentences: %q", kind, name, description)
			}
			if kind == "output" {
				rows = append(rows, fmt.Sprintf("| `%s` | %s |", name, description))
				continue
			}
			if !regexp.MustCompile(`\bvar\.` + name + `\b`).MatchString(used) {
				t.Errorf("the variable %s is not used", name)
			}
			byDefault := "required"
			if attrs["default"] != nil {
				byDefault = "`" + regexp.MustCompile(`\[ (.*?),? \]`).ReplaceAllString(source(t, attrs["default"]), "[$1]") + "`"
			}
			rows = append(rows, fmt.Sprintf("| `%s` | `%s` | %s | %s |", name, source(t, attrs["type"]), byDefault, description))
		}
	}
	var there []string
	for line := range strings.Lines(string(readme)) {
		if strings.HasPrefix(line, "| `") {
			there = append(there, strings.TrimSpace(line))
		}
	}
	if diff := cmp.Diff(rows, there); diff != "" {
		t.Errorf("terraform/README.md (-variables and outputs +its tables):\n%s", diff)
	}
}

// TestParameters: each parameter of a template is described, used, and has the name of a variable in
// CloudFormation's style. A set has one parameter for each member.
func TestParameters(t *testing.T) {
	t.Parallel()
	var variables []string
	for _, b := range loadModule(t, "terraform").all("variable") {
		variables = append(variables, b.Labels[0])
	}
	members := map[string]string{
		"spot_interruption": "events", "rebalance_recommendation": "events", "state_change": "events", "scheduled_change": "events",
		"capacity_reservation_interruption": "events", "capacity_block_expiration": "events", "alarm": "events", "trigger_refresh": "trigger", "trigger_launch": "trigger",
		"trigger_unhealthy": "trigger", "trigger_surge": "trigger", "trigger_standby": "trigger", "trigger_nodegroup": "trigger", "trigger_raise_max": "trigger", "trigger_suspend": "trigger", "trigger_watch": "trigger", "kms_key_arn": "kms_key",
		"group": "groups", "queue_arn": "delivery", "hook_role_arn": "delivery",
	}
	var has []string
	for _, file := range []string{"cloudformation/node-drainer.yaml", "cloudformation/hooks.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for name, about := range loadTemplate(t, file).Parameters {
			if description, _ := about["Description"].(string); !strings.HasSuffix(description, ".") {
				t.Errorf("%s: the parameter %s is not described in sentences: %q", file, name, description)
			}
			if !regexp.MustCompile(`!Ref ` + name + `\b|\$\{` + name + `\}`).Match(text) {
				t.Errorf("%s: the parameter %s is not used", file, name)
			}
			variable := snake(name)
			if of, is := members[variable]; is {
				variable = of
			}
			has = append(has, variable)
		}
	}
	// A stack has a name and tags of its own.
	variables = slices.DeleteFunc(variables, func(v string) bool { return v == "name" || v == "tags" })
	if diff := cmp.Diff(sortedSet(variables), sortedSet(has)); diff != "" {
		t.Errorf("-variables +parameters:\n%s", diff)
	}
}
