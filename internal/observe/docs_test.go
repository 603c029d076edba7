package observe_test

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestTheEventsOfTheDocs: docs/draining.md lists the Events that are recorded, and no others.
func TestTheEventsOfTheDocs(t *testing.T) {
	read := func(file, pattern string) []string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			found = append(found, m[1])
		}
		slices.Sort(found)
		return found
	}
	conditionOnly := []string{"Blocked"}
	recorded := slices.DeleteFunc(read("observe.go", `(?m)^\treason\w+ += "(\w+)"`), func(reason string) bool {
		return slices.Contains(conditionOnly, reason)
	})
	listed := read("../../docs/draining.md", "(?m)^\\| `(\\w+)` \\| (?:Node|Pod)")
	if !slices.Equal(recorded, listed) {
		t.Errorf("recorded %q, docs/draining.md lists %q", recorded, listed)
	}
}
