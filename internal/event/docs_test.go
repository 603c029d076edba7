package event_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/test/awsim"
)

func page(t *testing.T) string { return string(read(t, "../../../docs/events.md")) }

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
	for _, name := range shapes(t) {
		if !strings.HasPrefix(name, "bridge-") {
			continue
		}
		body := read(t, name)
		sample := decode[map[string]any](t, body)
		sent := slices.ContainsFunc(rules, func(rule map[string]any) bool { return awsim.Matches(rule, sample) })
		if wanted := needsAction(t, body); sent != wanted {
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
		if one := decode[map[string]any](t, []byte(block[1])); one["source"] != nil {
			rules = append(rules, one)
		}
	}
	return rules
}

// needsAction reports whether a message has an event other than a notice.
func needsAction(t *testing.T, body []byte) bool {
	t.Helper()
	events, err := event.Parse(body)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(events, func(e event.Event) bool { return e.Kind != event.Notice })
}
