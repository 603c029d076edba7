package event_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/node-drainer/node-drainer/internal/event"
)

// TestSource: each sample of an event has the source of its kind, and one of the detail-types of its kind. Each
// detail-type has a sample.
func TestSource(t *testing.T) {
	t.Parallel()
	samples, err := filepath.Glob("testdata/bridge-*.json")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, file := range samples {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		events, err := event.Parse(text)
		var envelope struct {
			Source     string
			DetailType string `json:"detail-type"`
		}
		if err != nil || json.Unmarshal(text, &envelope) != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if events[0].Kind == event.Notice {
			continue
		}
		source, detailTypes, _ := events[0].Kind.Source()
		if source != envelope.Source || !slices.Contains(detailTypes, envelope.DetailType) {
			t.Errorf("%s has %q, %q; Source returns %q, %q", file, envelope.Source, envelope.DetailType, source, detailTypes)
		}
		shown[envelope.DetailType] = true
	}
	for _, k := range event.Kinds() {
		source, detailTypes, _ := k.Source()
		if without := k == event.Notice || k == event.TestNotification; (source == "") != without {
			t.Errorf("%s has the source %q", k, source)
		}
		for _, detailType := range detailTypes {
			if !shown[detailType] {
				t.Errorf("no sample has the detail-type %q", detailType)
			}
		}
	}
}
