package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/test/docs"
)

// TestTheActionsOfTheDocs: docs/events.md says of each kind of event which variable configures it, and what
// its default is.
func TestTheActionsOfTheDocs(t *testing.T) {
	t.Parallel()
	actions := []event.Action{event.Drain, event.Cordon, event.Replace, event.Ignore}
	page, found := docs.Pages(t)["docs/events.md"], 0
	for _, v := range config.Variables() {
		if !strings.HasPrefix(v.Name, "EVENT_") || !slices.Contains(actions, event.Action(v.Default)) {
			continue
		}
		found++
		if want := "`" + v.Default + "` (`" + v.Name + "`)"; strings.Count(page, want) != 1 {
			t.Errorf("docs/events.md does not say %s, once", want)
		}
	}
	if found == 0 {
		t.Error("no variable configures an action")
	}
}
