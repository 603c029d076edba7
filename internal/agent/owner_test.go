package agent_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

func theirs(f *fixture) { f.theirs = always(true) }

// isReleased reports whether the message was left to the agent that NODE_SELECTOR leaves the node to.
func isReleased(err error) bool {
	verdict := reflect.New(reflect.TypeOf(queue.Release(errOutage)))
	return errors.Is(err, node.ErrUnselected) && errors.As(err, verdict.Interface())
}

// TestOtherAgent: the message of an instance whose node is another agent's is released, and its hook is never completed.
func TestOtherAgent(t *testing.T) {
	t.Parallel()
	const terminated, launched = "ended other-agent", "launch ended other-agent"
	registersAsTheirs := with(theirs, registers(time.Minute))
	for _, tt := range []struct {
		name    string
		given   given
		message source
		steps   []string
		fact    string
	}{
		{"termination", theirs, termination, nil, terminated},
		{"launch", with(launching, theirs), launchTo(""), nil, launched},
		{
			"a terminating instance registers late", registersAsTheirs, termination,
			[]string{"hold drain", "await", "release drain"},
			terminated,
		},
		{
			"the watch does not show the node of a terminating instance", with(theirs, hidden), termination,
			[]string{"hold drain", "await", "look up", "release drain"},
			terminated,
		},
		{
			"the Node is deleted before it is cordoned, and registers again as theirs",
			with(fails("cordon", 1, node.ErrGone), func(f *fixture) {
				f.theirs = func(time.Duration) (bool, error) { return f.node.UID == "uid-2", nil }
			}),
			termination,
			[]string{"hold drain", "look up", "release drain"},
			terminated,
		},
		{
			"a launching instance registers", with(launching, registersAsTheirs), launchTo(""),
			held("await"), launched,
		},
		{
			"the watch does not show the node of a launching instance", with(launching, theirs, hidden), launchTo(""),
			held("await", "look up"), launched,
		},
	} {
		each(t, tt.name, tt.given, func(t *testing.T, f *fixture) {
			if err := f.agent().Handle(t.Context(), tt.message(f)); !isReleased(err) {
				t.Errorf("the message ended with %v, want it released", err)
			}
			synctest.Wait()
			f.wantSteps(t, tt.steps...)
			if f.observed(tt.fact) != 1 {
				t.Errorf("facts %q", f.facts)
			}
		})
	}
}

// TestOtherReader: the message of a hook that notifies another queue is deleted, and its hook is not touched.
func TestOtherReader(t *testing.T) {
	t.Parallel()
	for fact, m := range map[string]source{"ended other-agent": termination, "launch ended other-agent": launchTo("")} {
		each(t, fact, func(f *fixture) { f.others = true }, func(t *testing.T, f *fixture) {
			if strings.HasPrefix(fact, "launch") {
				launching(f)
			}
			mustHandle(t, f, f.agent(), m)
			f.wantSteps(t)
			if f.observed(fact) != 1 {
				t.Errorf("facts %q", f.facts)
			}
		})
	}
}

// TestHooksAreReadAgain: while Auto Scaling does not answer who reads the messages of the hook, nothing is done.
func TestHooksAreReadAgain(t *testing.T) {
	inBubble(t, fails("hooks of drain", 3, errOutage), func(t *testing.T, f *fixture) {
		mustHandle(t, f, f.agent(), termination)
		if f.when("hold drain") < time.Second || f.observed("retrying to read the tags and hooks") != 3 {
			t.Errorf("steps %q, facts %q", f.did(""), f.facts)
		}
	})
}

// TestNodeLosesItsLabelDuringADrain: the agent that has begun a drain ends it.
func TestNodeLosesItsLabelDuringADrain(t *testing.T) {
	inBubble(t, func(f *fixture) { f.theirs = changes(false, 5*time.Second, true) }, func(t *testing.T, f *fixture) {
		mustHandle(t, f, f.agent(), termination)
		f.wantSteps(t, "hold drain", "cordon until 1h0m0s", "drain node-1 until 1h0m0s", "release drain",
			"complete drain with CONTINUE")
		f.wantOutcome(t, agent.Drained)
	})
}

// TestNoticeOfAnotherAgent: it is left to an agent that may read the same queue for a minute, and then deleted.
func TestNoticeOfAnotherAgent(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]source{"Spot interruption": spotWarning, "canceled maintenance": canceledMaintenance} {
		each(t, name, theirs, func(t *testing.T, f *fixture) {
			a, notice := f.agent(), m(f)
			if err := a.Handle(t.Context(), notice); !isReleased(err) {
				t.Errorf("the message ended with %v, want it released", err)
			}
			time.Sleep(time.Minute)
			if err := a.Handle(t.Context(), notice); err != nil {
				t.Errorf("after a minute the message ended with %v", err)
			}
			f.wantSteps(t)
		})
	}
}

// TestResyncLeavesOutOtherAgentsNodes: also an instance that registers after the resync has found it.
func TestResyncLeavesOutOtherAgentsNodes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		given given
		steps []string
	}{
		{"terminating", with(theirs, inGroup(terminating, "drain")), nil},
		{"launching", with(launching, theirs, inGroup(pendingWait, "launch")), nil},
		{
			"launching, and registers", with(launching, theirs, inGroup(pendingWait, "launch"), registers(time.Minute)),
			held("await"),
		},
		{"returning to the warm pool", with(theirs, inGroup(warmedPending, "drain")), nil},
	} {
		each(t, tt.name, tt.given, func(t *testing.T, f *fixture) {
			resync(t, f.agent(), 10*time.Minute)
			f.wantSteps(t, tt.steps...)
			if f.observed("resync failed") > 0 || f.observed("resynced: found 0, lost 1") > 0 {
				t.Errorf("facts %q", f.facts)
			}
		})
	}
}

// TestResyncWithoutNode: if NODE_SELECTOR is set, a resync takes an instance without a Node only if its hook notifies the
// agent's queue. Another agent of the cluster may have a hook of the same name.
func TestResyncWithoutNode(t *testing.T) {
	t.Parallel()
	someNodes := func(f *fixture) { f.cfg.SomeNodes = true }
	direct := func(f *fixture) { f.direct = true }
	ended := with(noNode, inGroup(terminating, "drain"))
	late := with(launching, inGroup(pendingWait, "launch"), registers(4*time.Minute), readyAt(5*time.Minute))
	unregistered := []string{"hold drain", "await", "look up", "release drain", "complete drain with CONTINUE"}
	for _, tt := range []struct {
		name  string
		given given
		steps []string
		held  time.Duration // when the hook is held first; -1 is never
	}{
		{"terminating", with(someNodes, ended), nil, -1},
		{"terminating, and the hook notifies the queue", with(someNodes, direct, ended), unregistered, 0},
		{"terminating, without NODE_SELECTOR", ended, unregistered, 0},
		{
			"launching: the next resync takes it", with(someNodes, late),
			completed("CONTINUE", "await", "wait for node-1"), 6 * time.Minute,
		},
		{"launching, without NODE_SELECTOR", late, completed("CONTINUE", "await", "wait for node-1"), 0},
	} {
		each(t, tt.name, tt.given, func(t *testing.T, f *fixture) {
			resync(t, f.agent(), 10*time.Minute)
			f.wantSteps(t, tt.steps...)
			if at := f.when("hold"); at != tt.held {
				t.Errorf("the hook was held after %v, want %v", at, tt.held)
			}
		})
	}
}
