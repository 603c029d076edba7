package agent_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// The tests of this file are of Nodes that are deleted, and registered again for the same instance.

// registerAgain replaces the Node by one without a mark.
func (f *fixture) registerAgain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.node.UID, f.node.Mark = "uid-again", node.Mark{}
}

// TestSpotWarningAfterTheNodeHasRegisteredAgain: the drain of the Node that is there now is tightened, although that of the
// one before has ended after this one had begun, and goes on.
func TestSpotWarningAfterTheNodeHasRegisteredAgain(t *testing.T) {
	inBubble(t, func(f *fixture) { f.spot, f.drainTakes, f.drainStops = always(marked), 30*time.Minute, 10*time.Second }, func(t *testing.T, f *fixture) {
		a := f.agent()
		var messages sync.WaitGroup
		for at, m := range map[time.Duration]queue.Message{
			0: message("drain", f.start), 20 * time.Second: message("other", f.start.Add(20*time.Second)),
			time.Minute: spotWarning(f),
		} {
			messages.Go(func() {
				time.Sleep(at)
				if at == 20*time.Second {
					f.registerAgain()
				}
				_ = a.Handle(t.Context(), m)
			})
		}
		messages.Wait()
		f.awaitEnds()
		tightened := slices.Contains(f.did("tighten"), "tighten node-1 until 1m55s")
		if n := len(f.did("drain node-1")); n != 2 || !tightened {
			t.Errorf("%d drains began, want one for each Node; the second was tightened: %t", n, tightened)
		}
	})
}

// TestNodeThatRegistersAgainBeforeTheCompletion: the Node is drained once more, since it may have got pods, and once only.
func TestNodeThatRegistersAgainBeforeTheCompletion(t *testing.T) {
	tries := 0
	fails := func(context.Context) error {
		if tries++; tries < 8 {
			return errors.New("throttled")
		}
		return nil
	}
	inBubble(t, func(f *fixture) { f.complete = fails }, func(t *testing.T, f *fixture) {
		a := f.agent()
		time.AfterFunc(f.drainTakes+time.Second, f.registerAgain)
		mustHandle(t, f, a, termination)
		if n := len(f.did("drain ")); n != 2 || f.after() > 5*time.Minute {
			t.Errorf("%d drains began, want one for each Node, and the action was completed after %v", n, f.after())
		}
	})
}
