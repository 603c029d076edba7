package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/node-drainer/node-drainer/internal/text"
)

// unknownVariables returns an error for each variable that has the prefix of one of our groups and is not in it, or
// that resembles one of ours. It is most likely mistyped, and would else be ignored silently.
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
		if known[name] || text.IsServiceVariable(name) {
			continue
		}
		group, _, _ := strings.Cut(name, "_")
		similar := similarTo(name, known)
		switch {
		case similar != "":
			errs = append(errs, fmt.Errorf("%s is unknown: did you mean %s?", name, similar))
		case prefixes[group+"_"]:
			errs = append(errs, fmt.Errorf("%s is unknown", name))
		}
	}
	return errs
}

// similarTo returns the known name that is most like another one: one letter apart, or two if it is long. It returns ""
// if none is.
func similarTo(name string, known map[string]bool) (similar string) {
	least := min(2, len(name)/4) + 1
	for _, candidate := range slices.Sorted(maps.Keys(known)) {
		if distance := text.Distance(name, candidate); distance < least {
			least, similar = distance, candidate
		}
	}
	return similar
}
