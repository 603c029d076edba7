package awsim

import (
	"slices"
	"strings"
)

// pass: all filters must allow what is described by its fields, each of which may have several values. A
// filter that is not simulated is refused, never passed over.
func pass(filters []criterion, fields map[string][]string) (bool, error) {
	ok := true
	for _, f := range filters {
		values, known := fields[f.name]
		if !known && !strings.HasPrefix(f.name, "tag:") {
			return false, errorf("InvalidParameterValue", "The filter '%s' is invalid", f.name)
		}
		ok = ok && slices.ContainsFunc(values, func(value string) bool {
			return slices.ContainsFunc(f.values, func(pattern string) bool { return matches(pattern, value) })
		})
	}
	return ok, nil
}

// matches compares as EC2's filters do: * is any text, ? is one character, and a backslash takes the meaning
// from what follows it. Case counts.
func matches(pattern, value string) bool {
	for pattern != "" {
		first := pattern[0]
		pattern = pattern[1:]
		switch {
		case first == '*':
			for i := range len(value) + 1 {
				if matches(pattern, value[i:]) {
					return true
				}
			}
			return false
		case value == "":
			return false
		case first == '?':
			value = value[1:]
			continue
		case first == '\\' && pattern != "":
			first, pattern = pattern[0], pattern[1:]
		}
		if value[0] != first {
			return false
		}
		value = value[1:]
	}
	return value == ""
}
