package agent_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/agent"
)

// TestHandOver: before the node that the process runs on is drained, and after it was marked, another is to lead.
func TestHandOver(t *testing.T) {
	t.Parallel()
	errOther := errors.New("another leads")
	marked := []string{"hold drain", "mark until 1h0m0s"}
	whole := append(marked, "drain node-1 until 1h0m0s", "exclude", "let go of drain", "complete drain with CONTINUE")
	for _, tt := range []struct {
		name    string
		own     string
		agrees  bool
		asked   int
		steps   []string
		outcome agent.Outcome
		err     error
	}{
		{"its own node, and another is to lead: the node is marked, and left to that", "node-1", true, 1, append(marked, "let go of drain"), agent.Interrupted, errOther},
		{"its own node, but nobody else is there: drained", "node-1", false, 1, whole, agent.Drained, nil},
		{"another node: drained", "node-2", true, 0, whole, agent.Drained, nil},
		{"the process does not know its node: drained", "", true, 0, whole, agent.Drained, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				ctx, stop := context.WithCancelCause(t.Context())
				defer stop(nil)
				asked := 0
				w.cfg.NodeName = tt.own
				w.cfg.HandOver = func(node string) bool {
					if asked++; node != "uid-1" {
						t.Errorf("asked for %q", node)
					}
					if tt.agrees {
						time.AfterFunc(time.Second, func() { stop(errOther) })
					}
					return tt.agrees
				}
				if err := w.handle(ctx, "drain"); !errors.Is(err, tt.err) {
					t.Errorf("got %v, want %v", err, tt.err)
				}
				w.wantSteps(t, tt.steps...)
				w.wantOutcome(t, tt.outcome)
				if asked != tt.asked {
					t.Errorf("asked %d times, want %d", asked, tt.asked)
				}
			})
		})
	}
}
