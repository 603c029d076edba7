package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/node-drainer/node-drainer/internal/text"
)

// unknownVariables returns an error for each variable that has the prefix of one of our groups and is not in it. It is
// most likely mistyped, and would else be ignored silently.
func unknownVariables(values map[string]string) []error {
	known, prefixes := map[string]bool{}, map[string]bool{}
	for _, v := range Variables() {
		known[v.Name] = true
		prefixes[v.Group] = true
	}
	for _, others := range []string{"", "NODE_", "LOG_"} { // which other programs use
		delete(prefixes, others)
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		group, _, _ := strings.Cut(name, "_")
		if prefixes[group+"_"] && !known[name] && !text.IsServiceVariable(name) {
			errs = append(errs, fmt.Errorf("%s is unknown", name))
		}
	}
	return errs
}
