package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/test/chart"
)

//go:generate go test -run ^Test(ChartOptions|ReferencePage)$ . -update

// camel returns the name of a flag in the values of the chart: maxAge for max-age.
func camel(name string) string {
	words := strings.Split(name, "-")
	for i, word := range words[1:] {
		words[i+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, "")
}

// property returns the JSON schema of an option as a value of the chart.
func property(o *option) map[string]any {
	p := map[string]any{"type": "string"}
	switch {
	case o.bare != "" && len(o.values) > 0: // true and false need no quotes in YAML
		p["type"], p["enum"] = []string{"boolean", "string"}, []any{true, false, o.values[0]}
	case len(o.values) > 0:
		p["enum"] = o.values
	case o.kind == "":
		p["type"] = "boolean"
	case o.kind == "DURATION":
		p["pattern"] = "^[0-9]+d$|" + chart.Duration
	case o.kind == "N" || strings.HasPrefix(o.kind, "PERCENT"):
		p["type"] = "integer"
	case o.kind == "VERSION":
		p["type"] = []string{"integer", "string"}
	case o.kind == "N|N%":
		p["type"], p["pattern"] = []string{"integer", "string"}, "^[1-9][0-9]*%$"
	}
	if o.many {
		p = map[string]any{"type": "array", "items": p}
	}
	p["description"] = fmt.Sprintf("%s (%s, %s)", o.text(), o.flag(), o.variable())
	return p
}

// TestChartOptions: values.schema.json has each flag of a rollout as an option of a CronJob, each flag of a watch as one
// of its Deployment, and nothing else. make generate updates it.
func TestChartOptions(t *testing.T) {
	properties := map[string]any{}
	p := newProgram(nil, nil, nil)
	for _, o := range p.options(opRun) {
		properties[camel(o.name)] = property(o)
	}
	if err := chart.HoldDefinition("options", chart.Object(properties), *update); err != nil {
		t.Error(err)
	}
	properties = map[string]any{}
	for _, o := range p.options(opWatch) {
		if o.name == "lease" || o.name == "listen" { // which the chart itself sets
			continue
		}
		properties[camel(o.name)] = property(o)
	}
	if err := chart.HoldDefinition("watchOptions", chart.Object(properties), *update); err != nil {
		t.Error(err)
	}
}
