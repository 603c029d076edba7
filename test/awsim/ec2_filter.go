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

// filtered returns the items that all filters allow.
func filtered[T interface{ fields() map[string][]string }](
	filters []criterion, items []T,
) (out []T, err error) {
	for _, item := range items {
		ok, err := pass(filters, item.fields())
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, item)
		}
	}
	return out, nil
}

// readInstancePage reads the ids of instances, or else the size of a page: EC2 refuses both together.
func readInstancePage(r *reader) (ids []string, most int) {
	ids, most = r.list("InstanceId"), r.number("MaxResults", unbounded, 5, 1000)
	if len(ids) > 0 && r.has("MaxResults") {
		r.fail(errorf("InvalidParameterCombination",
			"The parameter instancesSet cannot be used with the parameter maxResults"))
	}
	return ids, most
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
