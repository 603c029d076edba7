package agent_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// TestDrainFacts: whatever messages report a termination, its drain starts once, and ends once. Users are notified of
// these facts.
func TestDrainFacts(t *testing.T) {
	t.Parallel()
	of := func(hook string) source { return func(f *fixture) queue.Message { return message(hook, f.start) } }
	for _, tt := range []struct {
		name     string
		given    given
		messages []source
		want     []string
	}{
		{"one message", nil, []source{termination}, []string{"drain started", "drained"}},
		{"two copies of it", nil, []source{termination, termination}, []string{"drain started", "drained"}},
		{
			"two hooks and a state change", ec2State("shutting-down"),
			[]source{of("a"), of("b"), stateChange("shutting-down")},
			[]string{"drain started", "drained"},
		},
		{"pods are left", podsLeft, []source{termination}, []string{"drain started", "drained"}},
		{
			"the group gives up", givesUp("drain", 5*time.Second),
			[]source{termination},
			[]string{"drain started", "drain cut short", "drain interrupted"},
		},
		{
			"one of two hooks is given up: the drain continues", givesUp("a", 5*time.Second),
			[]source{of("a"), of("b")},
			[]string{"drain started", "drained"},
		},
		{
			"one hook is given up, and then the other", with(givesUp("a", 5*time.Second), givesUp("b", 6*time.Second)),
			[]source{of("a"), of("b")},
			[]string{"drain started", "drain cut short", "drain interrupted"},
		},
		{"the instance is not terminating", inState(inService), []source{termination}, []string{}},
	} {
		each(t, tt.name, tt.given, func(t *testing.T, f *fixture) {
			a := f.agent()
			var handlers sync.WaitGroup
			for _, m := range tt.messages {
				handlers.Go(func() { _ = a.Handle(t.Context(), m(f)) })
			}
			handlers.Wait()
			f.awaitEnds()
			synctest.Wait() // for drains that were interrupted
			got := slices.DeleteFunc(slices.Clone(f.facts), func(fact string) bool { return !strings.HasPrefix(fact, "drain") })
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
		})
	}
}

func (f observer) DrainStarted(_ event.Event, n node.Node) { f.markFact("drain started", n) }

func (f observer) DrainCutShort(_ event.Event, n node.Node) { f.markFact("drain cut short", n) }

func (f observer) DrainInterrupted(_ event.Event, n node.Node, _ drain.Report) {
	f.markFact("drain interrupted", n)
}

// markFact records a fact about a drain, which needs the mark of the node.
func (f observer) markFact(fact string, n node.Node) {
	if n.Mark.Deadline.IsZero() {
		fact += " without a mark"
	}
	f.fact("%s", fact)
}
