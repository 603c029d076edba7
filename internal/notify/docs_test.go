package notify_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/notify"
	"github.com/node-drainer/node-drainer/test/docs"
)

// bodiesOf returns what a template of docs/notifications.md writes for one drain, and for 30.
func bodiesOf(t *testing.T, service string) (one, many map[string]any) {
	t.Helper()
	for _, block := range docs.Blocks(docs.Pages(t)["docs/notifications.md"], "gotemplate") {
		if block.Mark != service {
			continue
		}
		c := configure(template(block.Text))
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		for body, drains := range map[*map[string]any][]notify.Drain{
			&one: {drainOf(0, notify.Drained)}, &many: drainsOf(30, notify.Failed),
		} {
			if err := json.Unmarshal([]byte(rendered(t, block.Text, drains...)), body); err != nil {
				t.Fatal(err)
			}
		}
		return one, many
	}
	t.Fatalf("docs/notifications.md has no template for %s", service)
	return nil, nil
}

func TestSlackInDocs(t *testing.T) {
	t.Parallel()
	one, many := bodiesOf(t, "Slack")
	if diff := cmp.Diff(map[string]any{"text": "prod: " + drainedText}, one); diff != "" {
		t.Errorf("one drain (-want +got):\n%s", diff)
	}
	if text, _ := many["text"].(string); !strings.HasPrefix(text, "<!channel> prod: 30 failed\n- Failed to drain node node-0: ") {
		t.Errorf("30 failed drains: %s", text)
	}
}

// TestTeamsInDocs: the body has the form that the workflow expects: a message with an adaptive card.
func TestTeamsInDocs(t *testing.T) {
	t.Parallel()
	one, many := bodiesOf(t, "Teams")
	bold := func(text string) any {
		return map[string]any{"type": "TextBlock", "wrap": true, "weight": "bolder", "text": text}
	}
	plain := func(text string) any { return map[string]any{"type": "TextBlock", "wrap": true, "text": text} }
	want := map[string]any{
		"type": "message", "attachments": []any{map[string]any{
			"contentType": "application/vnd.microsoft.card.adaptive", "content": map[string]any{
				"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4",
				"body": []any{bold("prod: 1 drained"), plain(drainedText)},
			},
		}},
	}
	if diff := cmp.Diff(want, one); diff != "" {
		t.Errorf("one drain (-want +got):\n%s", diff)
	}
	card, _ := json.Marshal(many)
	if n := strings.Count(string(card), `"TextBlock"`); n != 22 || !strings.Contains(string(card), `"and 10 more"`) {
		t.Errorf("30 failed drains are %d blocks: %s", n, card)
	}
}

// TestPagerDutyInDocs: the body has what the Events API v2 requires, and a summary of at most 1,024 characters.
func TestPagerDutyInDocs(t *testing.T) {
	t.Parallel()
	_, many := bodiesOf(t, "PagerDuty")
	payload, _ := many["payload"].(map[string]any)
	details, _ := payload["custom_details"].(map[string]any)
	text, _ := details["text"].(string)
	delete(payload, "custom_details")
	want := map[string]any{
		"routing_key": strings.Repeat("0123456789abcdef", 2), "event_action": "trigger",
		"payload": map[string]any{"summary": "Drains in prod: 30 failed", "source": "prod", "severity": "warning"},
	}
	if diff := cmp.Diff(want, many); diff != "" {
		t.Errorf("30 failed drains (-want +got):\n%s", diff)
	}
	if !strings.Contains(text, "node-19") || !strings.HasSuffix(text, "and 10 more") {
		t.Errorf("the details are %s", text)
	}
}
