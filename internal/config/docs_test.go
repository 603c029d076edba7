package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/test/docs"
)

// TestActionsInDocs: docs/events.md names the variable and the default of each configurable event.
func TestActionsInDocs(t *testing.T) {
	t.Parallel()
	actions := []event.Action{event.Drain, event.Cordon, event.Replace, event.Ignore}
	page, found := docs.Pages(t)["docs/events.md"], 0
	for _, v := range config.Variables() {
		if !strings.HasPrefix(v.Name, "EVENT_") || !slices.Contains(actions, event.Action(v.Default)) {
			continue
		}
		found++
		if want := "`" + v.Default + "` (`" + v.Name + "`)"; strings.Count(page, want) != 1 {
			t.Errorf("docs/events.md does not have %s once", want)
		}
	}
	if found == 0 {
		t.Error("no variable configures an action")
	}
}
