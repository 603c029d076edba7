package event_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/deploy"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/test/awsim"
)

func page(t *testing.T, name string) string { return string(read(t, "../../../docs/"+name)) }

// TestKindsInDocs: the first table of docs/events.md has a row for each kind, and no others.
func TestKindsInDocs(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(page(t, "events.md"), "\n## Kinds\n")
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

// TestRulesInDocs: the EventBridge rules of docs/aws-setup.md match every sample that needs action, and no other. Each
// detail-type in a rule has a sample.
func TestRulesInDocs(t *testing.T) {
	t.Parallel()
	rules := patterns(t)
	if len(rules) == 0 {
		t.Fatal("docs/aws-setup.md has no EventBridge rule")
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

// patterns are the EventBridge patterns that the page shows, and those of deploy/events, each of which it links.
func patterns(t *testing.T) []map[string]any {
	t.Helper()
	text := page(t, "aws-setup.md")
	var rules []map[string]any
	for _, block := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(text, -1) {
		rules = append(rules, decode[map[string]any](t, []byte(block[1])))
	}
	for _, name := range deploy.Names("events/") {
		if !strings.Contains(text, "](../deploy/"+name+".json)") {
			t.Errorf("docs/aws-setup.md does not link deploy/%s.json", name)
		}
		pattern, err := deploy.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, decode[map[string]any](t, []byte(pattern)))
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
