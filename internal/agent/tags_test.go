package agent_test

import (
	"slices"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/agent"
)

// TestTagsUnknown: while the tags of the group cannot be read, its actions are held: else the hook would end by its
// default result. An action of another cluster is not held if the tags say so at once.
func TestTagsUnknown(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	unknown := []string{"hold unconfirmed drain"}
	waits := func(until time.Duration, clusters ...string) given {
		return with(noNode, tagged(silent(until, clusters)))
	}
	for _, tt := range []struct {
		name    string
		given   given
		steps   []string
		outcome agent.Outcome
	}{
		{"for a moment", waits(5*time.Second, "demo"), unregistered("await", "look up"), agent.Unregistered},
		{"for long", waits(10*m, "demo"), append(slices.Clip(unknown), unregistered("await", "look up")...), agent.Unregistered},
		{"for long, and they name another cluster", waits(10*m, "other"), unknown, agent.OtherCluster},
		{"for a moment, and they name another cluster", waits(5*time.Second, "other"), nil, agent.OtherCluster},
		{"for ever", waits(never), append(slices.Clip(unknown), unregistered("await", "look up")...), agent.Unregistered},
		{"until the group gives up", with(waits(never), givesUp("drain", 30*m)), unknown, agent.Gone},
	} {
		each(t, tt.name, tt.given, func(t *testing.T, f *fixture) {
			_ = f.agent().Handle(t.Context(), termination(f)) // the message of another cluster is released
			f.wantSteps(t, tt.steps...)
			f.wantOutcome(t, tt.outcome)
			if at := f.when("hold"); at > 15*time.Second {
				t.Errorf("held after %v, which is near the timeout of the shortest hook", at)
			}
		})
	}
}

// TestTagsUnknownAtLaunch: the same for launches, whose hooks mostly abandon by default.
func TestTagsUnknownAtLaunch(t *testing.T) {
	given := with(launching, registers(3*time.Minute), readyAt(4*time.Minute), tagged(silent(never, []string{"demo"})))
	inBubble(t, given, func(t *testing.T, f *fixture) {
		mustHandle(t, f, f.agent(), launchTo(""))
		f.wantSteps(t, slices.Concat([]string{"hold unconfirmed launch"}, completed("CONTINUE", "await", "wait for node-1"))...)
	})
}
