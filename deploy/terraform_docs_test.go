package deploy_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
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

// TestTerraformIsFormatted: terraform fmt would change nothing.
func TestTerraformIsFormatted(t *testing.T) {
	t.Parallel()
	var files []string
	for _, pattern := range []string{"terraform/*.tf", "terraform/examples/*/*.tf"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %q, %v", pattern, found, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if formatted := hclwrite.Format(text); !bytes.Equal(text, formatted) {
			t.Errorf("%s is not formatted:\n%s", file, cmp.Diff(string(text), string(formatted)))
		}
	}
}

// TestVariablesAndOutputs: each has a description, is used, and is documented in the README with its default.
// Variables have a type.
func TestVariablesAndOutputs(t *testing.T) {
	t.Parallel()
	m := loadModule(t, "terraform")
	readme, err := os.ReadFile("terraform/README.md")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, b := range m.blocks {
		if b.Type == "variable" {
			continue
		}
		text, err := os.ReadFile(b.Range().Filename)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`\bvar\.(\w+)`).FindAllSubmatch(text, -1) {
			used[string(found[1])] = true
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
			if attrs["type"] == nil || !used[name] {
				t.Errorf("the variable %s has no type, or is not used", name)
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

// TestExamples: they set only variables that exist, all required ones, and read only outputs that exist.
func TestExamples(t *testing.T) {
	t.Parallel()
	m, variables, outputs := loadModule(t, "terraform"), map[string]bool{}, map[string]bool{}
	for _, b := range m.all("variable") {
		variables[b.Labels[0]] = b.Body.Attributes["default"] == nil
	}
	for _, b := range m.all("output") {
		outputs[b.Labels[0]] = true
	}
	checkArguments(t, variables, "terraform/README.md", readmeCall(t))
	for _, dir := range []string{"terraform/examples/irsa", "terraform/examples/pod-identity"} {
		call := loadModule(t, dir).all("module")[0].Body.Attributes
		if got := source(t, call["source"]); got != `"../.."` {
			t.Errorf("%s: the source is %s", dir, got)
		}
		checkArguments(t, variables, dir, call)
		text, err := os.ReadFile(filepath.Join(dir, "main.tf"))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`module\.node_drainer\.(\w+)`).FindAllSubmatch(text, -1) {
			if !outputs[string(found[1])] {
				t.Errorf("%s reads the output %s, which there is not", dir, found[1])
			}
		}
	}
}

// checkArguments checks the arguments of a module call against the variables, which are required or not.
func checkArguments(t *testing.T, variables map[string]bool, where string, call hclsyntax.Attributes) {
	t.Helper()
	for name := range call {
		if _, ok := variables[name]; !ok && name != "source" {
			t.Errorf("%s gives the module %s, which it does not have", where, name)
		}
	}
	for name, required := range variables {
		if required && call[name] == nil {
			t.Errorf("%s does not give the module %s", where, name)
		}
	}
}

// readmeCall returns the module call in the README.
func readmeCall(t *testing.T) hclsyntax.Attributes {
	t.Helper()
	readme, err := os.ReadFile("terraform/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(readme), "```hcl\n")
	shown, _, _ = strings.Cut(shown, "```")
	parsed, diags := hclsyntax.ParseConfig([]byte(shown), "terraform/README.md", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return parsed.Body.(*hclsyntax.Body).Blocks[0].Body.Attributes
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
		"capacity_reservation_interruption": "events", "capacity_block_expiration": "events", "trigger_refresh": "trigger",
		"trigger_unhealthy": "trigger", "trigger_surge": "trigger", "trigger_suspend": "trigger", "kms_key_arn": "kms_key",
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
