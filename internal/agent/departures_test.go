package agent_test

import (
	"context"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
)

// TestUnannouncedTerminations: an instance that leaves its group without an event is reported once, if a hook of ours
// should have held it.
func TestUnannouncedTerminations(t *testing.T) {
	t.Parallel()
	leaves := func(states ...autoscaling.State) given { // one every two minutes
		return func(f *fixture) {
			f.ownHooks = []string{"drain"}
			f.members = func(after time.Duration) (map[string]autoscaling.Member, error) {
				if s := states[min(int(after/(2*time.Minute)), len(states)-1)]; s != inNoGroup {
					return member(s), nil
				}
				return nil, nil
			}
		}
	}
	for _, tt := range []struct {
		name     string
		given    given
		messages []source
		want     int
	}{
		{"terminated, and forgotten by its group", with(leaves(inService, inNoGroup), ec2State("terminated")), nil, 1},
		{"past its hooks", leaves(inService, proceeding), nil, 1},
		{"terminating for long before it is past its hooks", leaves(inService, "Terminating", "Terminating", proceeding), nil, 1},
		{"detached", with(leaves(inService, inNoGroup), ec2State(running)), nil, 0},
		{"on standby", leaves(inService, "Standby"), nil, 0},
		{"back in service", leaves(inService, "Standby", inService), nil, 0},
		{"in service for less than a resync", leaves(proceeding), nil, 0},
		{"a group without a hook of ours", with(leaves(inService, proceeding), func(f *fixture) { f.ownHooks = nil }), nil, 0},
		{"a message has reported it", with(leaves(inService, proceeding), inState(proceeding)), []source{termination}, 0},
		{"a message has reported another hook's launch", leaves(inService, proceeding), []source{launchTo("")}, 1},
	} {
		each(t, tt.name, tt.given, func(t *testing.T, f *fixture) {
			a := f.agent()
			time.AfterFunc(time.Minute, func() {
				for _, m := range tt.messages {
					_ = a.Handle(context.WithoutCancel(t.Context()), m(f))
				}
			})
			resync(t, a, 20*time.Minute)
			if got := f.observed("unannounced " + instance + " of " + group); got != tt.want {
				t.Errorf("reported %d times, want %d; facts %q", got, tt.want, f.facts)
			}
		})
	}
}
