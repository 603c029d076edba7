package awsim

import (
	"slices"
	"strings"
)

// filtered returns the items that all filters allow. A filter that is not simulated is refused, never passed over.
func filtered[T interface{ fields() map[string][]string }](
	filters []criterion, items []T,
) (out []T, err error) {
	for _, item := range items {
		fields, ok := item.fields(), true
		for _, f := range filters {
			values, known := fields[f.name]
			if !known && !strings.HasPrefix(f.name, "tag:") {
				return nil, errorf("InvalidParameterValue", "The filter '%s' is invalid", f.name)
			}
			ok = ok && slices.ContainsFunc(values, func(value string) bool {
				return slices.ContainsFunc(f.values, func(pattern string) bool { return matches(pattern, value) })
			})
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
