package event_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/pkg/event"
)

// page returns docs/events.md.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestKindsInDocs: the first table of docs/events.md has a row for each kind, and no others.
func TestKindsInDocs(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(page(t), "\n## Kinds\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var listed []event.Kind
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(section, -1) {
		listed = append(listed, event.Kind(row[1]))
	}
	want := event.Kinds()
	slices.Sort(want)
	slices.Sort(listed)
	if !slices.Equal(listed, want) {
		t.Errorf("docs/events.md lists the kinds %q, there are %q", listed, want)
	}
}

// TestRulesInDocs: the EventBridge rules of docs/events.md match every sample that needs action, and no other. Each
// detail-type in a rule has a sample.
func TestRulesInDocs(t *testing.T) {
	t.Parallel()
	rules := patterns(t)
	if len(rules) == 0 {
		t.Fatal("docs/events.md has no EventBridge rule")
	}
	seen := map[string]bool{}
	for name, sample := range bridgeSamples(t) {
		sent := slices.ContainsFunc(rules, func(rule map[string]any) bool { return matches(rule, sample) })
		if wanted := needsAction(t, name); sent != wanted {
			t.Errorf("%s: sent by a rule: %v, needs action: %v", name, sent, wanted)
		}
		detailType, _ := sample["detail-type"].(string)
		seen[detailType] = true
	}
	for _, rule := range rules {
		for _, named := range rule["detail-type"].([]any) {
			if !seen[named.(string)] {
				t.Errorf("a rule names %q, of which there is no sample", named)
			}
		}
	}
}

// patterns are the JSON blocks of the page that are EventBridge patterns. All of its blocks must be JSON.
func patterns(t *testing.T) []map[string]any {
	t.Helper()
	var rules []map[string]any
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(page(t), -1)
	for _, block := range blocks {
		var one map[string]any
		if err := json.Unmarshal([]byte(block[1]), &one); err != nil {
			t.Errorf("%v in %s", err, block[1])
		}
		if one["source"] != nil {
			rules = append(rules, one)
		}
	}
	return rules
}

// bridgeSamples are the EventBridge events of testdata, by file.
func bridgeSamples(t *testing.T) map[string]map[string]any {
	t.Helper()
	files, err := filepath.Glob("testdata/bridge-*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d samples: %v", len(files), err)
	}
	samples := map[string]map[string]any{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var one map[string]any
		if err := json.Unmarshal(text, &one); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		samples[file] = one
	}
	return samples
}

func needsAction(t *testing.T, file string) bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	events, err := event.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return slices.ContainsFunc(events, func(e event.Event) bool { return e.Kind != event.Notice })
}

// matches implements the part of EventBridge's matching that the page uses: all fields of an object must match,
// and one value of a list (Amazon EventBridge user guide, "Creating event patterns").
func matches(pattern, value any) bool {
	switch want := pattern.(type) {
	case map[string]any:
		fields, ok := value.(map[string]any)
		for key, inner := range want {
			ok = ok && matches(inner, fields[key])
		}
		return ok
	case []any:
		return slices.Contains(want, value)
	}
	return false
}

func TestMatches(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, pattern, value string
		want                 bool
	}{
		{"one of the values", `{"a": ["x", "y"]}`, `{"a": "y", "b": 1}`, true},
		{"none of the values", `{"a": ["x", "y"]}`, `{"a": "z"}`, false},
		{"no such field", `{"a": ["x"]}`, `{"b": "x"}`, false},
		{"one of two fields", `{"a": ["x"], "b": ["x"]}`, `{"a": "x", "b": "y"}`, false},
		{"a field within", `{"a": {"b": ["x"]}}`, `{"a": {"b": "x"}}`, true},
		{"another field within", `{"a": {"b": ["x"]}}`, `{"a": {"b": "y"}}`, false},
		{"text instead of an object", `{"a": {"b": ["x"]}}`, `{"a": "x"}`, false},
		{"a value that is not a list", `{"a": "x"}`, `{"a": "x"}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var pattern, value any
			if err := json.Unmarshal([]byte(tt.pattern), &pattern); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(tt.value), &value); err != nil {
				t.Fatal(err)
			}
			if got := matches(pattern, value); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
