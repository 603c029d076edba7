package chart_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/test/chart"
)

//go:generate go test -run ^TestTheConfiguration$ . -update
//go:generate go tool -modfile=../../tools/charts/go.mod helm-docs --chart-search-root ../../charts --sort-values-order file --log-level warning
//go:generate go test -tags e2e -run ^Test(Handover)?Renderings$ . -update

var update = flag.Bool("update", false, "write what the tests compare with")

// configured returns the agent's variables that are values of the chart. The others come from the downward API, from a
// Secret, or from the name of what the chart makes.
func configured() []config.Variable {
	return slices.DeleteFunc(config.Variables(), func(v config.Variable) bool {
		return v.Secret || slices.Contains([]string{"POD_NAMESPACE", "POD_NAME", "NODE_NAME", "HISTORY_CONFIGMAP"}, v.Name)
	})
}

// path returns where the value of a variable is, below config.
func path(v config.Variable) []string {
	own := camel(strings.TrimPrefix(v.Name, v.Group))
	if v.Group == "" {
		return []string{own}
	}
	return []string{camel(strings.TrimSuffix(v.Group, "_")), own}
}

// camel writes a name in capitals as values are written: AT_DEADLINE is atDeadline.
func camel(name string) string {
	var b strings.Builder
	for i, word := range strings.Split(strings.ToLower(name), "_") {
		if i > 0 {
			word = strings.ToUpper(word[:1]) + word[1:]
		}
		b.WriteString(word)
	}
	return b.String()
}

// initial is the default of a value: the variable's, of its type. Of the Lease alone it is another, so that
// two releases in a namespace have two.
func initial(v config.Variable) any {
	switch {
	case v.Name == leaseName:
		return ""
	case v.Type.Kind() == reflect.Slice:
		return []any{}
	case v.Type.Kind() == reflect.Bool, v.Type.Kind() == reflect.Int:
		return json.RawMessage(v.Default)
	}
	return v.Default
}

const leaseName = "LEADER_LEASE_NAME"

func about(v config.Variable) string {
	help := v.Help
	switch {
	case v.Name == leaseName:
		help += " Empty: the full name of the release."
	case v.Type.Kind() == reflect.Slice: // It is a list here.
		help = strings.Replace(help, ", separated by commas", "", 1)
	}
	return help + " (`" + v.Name + "`)"
}

// block is the part of values.yaml that is the configuration.
func block(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("config:\n")
	group := ""
	for _, v := range configured() {
		at := path(v)
		indent := strings.Repeat("  ", len(at))
		if len(at) > 1 && at[0] != group {
			group = at[0]
			fmt.Fprintf(&b, "  %s:\n", group)
		}
		value, err := json.Marshal(initial(v)) // which is YAML
		if err != nil {
			t.Fatal(err)
		}
		comment := text.Indent("-- "+about(v), indent+"# ", 118)
		fmt.Fprintf(&b, "%s%s%s: %s\n", comment, indent, at[len(at)-1], value)
	}
	return b.String()
}

// schema is the part of values.schema.json that is the configuration.
func schema() map[string]any {
	top := map[string]any{}
	for _, v := range configured() {
		at, into := path(v), top
		if len(at) > 1 {
			if top[at[0]] == nil {
				top[at[0]] = chart.Object(map[string]any{})
			}
			into = top[at[0]].(map[string]any)["properties"].(map[string]any)
		}
		into[at[len(at)-1]] = property(v)
	}
	return chart.Object(top)
}

func property(v config.Variable) map[string]any {
	p := map[string]any{"description": about(v), "type": "string"}
	switch {
	case v.Type == reflect.TypeFor[time.Duration]():
		p["pattern"] = chart.Duration
	case v.Type.Kind() == reflect.Bool:
		p["type"] = "boolean"
	case v.Type.Kind() == reflect.Int:
		p["type"] = "integer"
	case v.Type.Kind() == reflect.Slice:
		p["type"], p["items"] = "array", map[string]any{"type": "string"}
	case len(v.Values) > 0:
		p["enum"] = v.Values
	}
	return p
}

// TestTheConfiguration: values.yaml and values.schema.json have each variable of the agent, with its help, its
// type and its default, and nothing else. Update them with make generate.
func TestTheConfiguration(t *testing.T) {
	root, err := chart.Path()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "values.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	part := regexp.MustCompile(`(?s)(\n# config begins: [^\n]*\n).*(# config ends\.\n)`)
	if !part.Match(text) {
		t.Fatal("values.yaml has no part for the configuration")
	}
	want := part.ReplaceAllFunc(text, func(found []byte) []byte {
		ends := part.FindSubmatch(found)
		return slices.Concat(ends[1], []byte(block(t)), ends[2])
	})
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(text, want) {
		t.Errorf("values.yaml is stale, run make generate (-want +got):\n%s", cmp.Diff(string(want), string(text)))
	}
	if err := chart.HoldDefinition("config", schema(), *update); err != nil {
		t.Error(err)
	}
}
