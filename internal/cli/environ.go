package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/node-drainer/node-drainer/internal/text"
)

// environment returns the values of the variables by their names.
func environment(environ []string) map[string]string {
	values := map[string]string{}
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		values[name] = value
	}
	return values
}

// unknownVariables returns an error for each variable that has our prefix and is no option. It is most
// likely mistyped, and would else be ignored silently. Variables that others set are accepted: Kubernetes sets
// them in each pod, for a Service whose name begins with "trigger", and GitLab in a pipeline that a webhook has
// triggered. Source: "Predefined CI/CD variables reference" in GitLab's documentation.
func unknownVariables(environ map[string]string, known []string) []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(environ)) {
		if !strings.HasPrefix(name, prefix) || slices.Contains(known, name) ||
			name == prefix+"PAYLOAD" || text.IsServiceVariable(name) {
			continue
		}
		errs = append(errs, fmt.Errorf("unknown variable %s%s", name, suggestion(name, known, "trigger --help-all")))
	}
	return errs
}

// suggestion names the known words that a wrong one resembles or begins; else the command that lists them.
func suggestion(wrong string, known []string, list string) string {
	similar := slices.DeleteFunc(slices.Sorted(slices.Values(known)), func(name string) bool {
		return !strings.HasPrefix(name, wrong) && text.Distance(wrong, name) > 2
	})
	if len(similar) == 0 {
		return ": " + list + " lists them"
	}
	return ": did you mean " + alternatives(similar) + "?"
}
