package rollouts

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

const (
	// reductions is how many simulations Reduce runs at most.
	reductions = 200
	// reportLines is how many lines of the log a report has.
	reportLines = 30
)

// Reduce leaves out parts of a Spec as long as the invariant is still violated, and describes what is left.
func Reduce(t *testing.T, spec Spec, invariant string) string {
	t.Helper()
	tries := 0
	violation := func(s Spec) (r Result, at int) {
		tries++
		r = Simulate(t, s)
		return r, slices.IndexFunc(r.Violations, func(v Violation) bool { return v.Invariant == invariant })
	}
	result, at := violation(spec)
	if at < 0 {
		return "The rollout did not violate the invariant again: " + invariant
	}
	for smaller := true; smaller && tries < reductions; {
		smaller = slices.ContainsFunc(smallerSpecs(spec), func(next Spec) bool {
			r, n := violation(next)
			if n < 0 || tries > reductions {
				return false
			}
			spec, result, at = next, r, n
			return true
		})
	}
	v := result.Violations[at]
	lines := slices.DeleteFunc(slices.Clone(result.lines), func(l line) bool {
		return l.at.Sub(result.began) > v.At+time.Second
	})
	return fmt.Sprintf("%v\n%v\n%s", spec, v, format(lines[max(0, len(lines)-reportLines):], result.began))
}

// smallerSpecs returns copies of a Spec, each of which lacks one part.
func smallerSpecs(s Spec) (all []Spec) {
	var tree any
	decode([]byte(s.String()), &tree)
	without(tree, func() {
		text, err := json.Marshal(tree)
		if err != nil {
			panic(err) // cannot happen: it was decoded
		}
		var smaller Spec
		if decode(text, &smaller); len(smaller.Groups) > 0 {
			all = append(all, smaller)
		}
	})
	return all
}

func decode(text []byte, into any) {
	if err := json.Unmarshal(text, into); err != nil {
		panic(err) // cannot happen: it was encoded
	}
}

// optional are the fields of a Spec that may be left out.
var optional = []string{
	"Runs", "Steps", "Faults", "Kubernetes", "NodeAfter", "Quirk", "Visible", "Launch", "Hooks", "Types", "Parameter",
	"Spot", "WarmPool", "Standby", "Protected", "Excluded", "Aged", "Wave", "Suspended", "Between", "RaiseMax", "Suspend",
	"Checkpoints", "AutoRollback", "Windows", "Gate", "Autoscaler", "Newest", "Alarm", "Only", "Exclude", "FailFast", "Ready", "Timeout", "Interrupt",
}

// without calls do for the tree without each of its optional parts.
func without(tree any, do func()) {
	object, isObject := tree.(map[string]any)
	if !isObject {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		value := object[key]
		if slices.Contains(optional, key) {
			delete(object, key)
			do()
		}
		if list, ok := value.([]any); ok {
			for n := range list {
				object[key] = slices.Delete(slices.Clone(list), n, n+1)
				do()
			}
			object[key] = list
			for _, one := range list {
				without(one, do)
			}
		}
		object[key] = value
		without(value, do)
	}
}
