package agent_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/internal/node"
)

// TestStop: at whichever step the process stops, Handle returns an error at once, and nothing is completed.
func TestStop(t *testing.T) {
	t.Parallel()
	blocked := func(f *fixture) {
		f.ready = 0
		f.complete = func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
	}
	failing := func(call string) given { return fails(call, 1000, errOutage) }
	shortConfirmation := func(f *fixture) { f.cfg.ConfirmTimeout = time.Second }
	long := func(f *fixture) { f.drainTakes = time.Hour }
	outage := func(f *fixture) { f.ready, f.outage = never, never }
	silence := stateIs(silent(never, terminating))
	for _, tt := range []struct {
		name    string
		message source
		given   given
	}{
		{"reading tags", termination, with(noNode, tagged(silent[[]string](never, nil)))},
		{"confirming", termination, silence},
		{"being contradicted", termination, inState(inService)},
		{"awaiting the node", termination, noNode},
		{"looking up the node", termination, with(deleted, failing("look up"), fails("cordon", 1, node.ErrGone))},
		{"cordoning", termination, failing("cordon")},
		{"uncordoning", termination, with(inState(inNoGroup), shortConfirmation, failing("uncordon"))},
		{"draining", termination, with(long, findable)},
		{"draining, and no resync finds the hook", termination, long},
		{"draining, and a resync finds others of its group", termination, with(long, findable, func(f *fixture) { f.ownHooks[0] = "x" })},
		{"draining, and no resync finds the group", termination, with(long, findable, tagged(always[[]string](nil)))},
		{"excluding from load balancers", termination, with(findable, failing("exclude"))},
		{"completing", termination, with(findable, blocked)},
		{"confirming a launch", launchTo(""), with(launching, silence)},
		{"a launch being contradicted", launchTo(""), with(launching, inState(inNoGroup))},
		{"reading the timeout of a launch", launchTo(""), with(launching, failing("deadline"))},
		{"awaiting a launching node", launchTo(""), with(launching, noNode)},
		{
			"uncordoning a launching node", launchTo(""),
			with(launching, cordoned("", -time.Hour, 0, 0), failing("uncordon")),
		},
		{"waiting for readiness", launchTo(""), with(launching, readyAt(never))},
		{"asking about readiness", launchTo(""), with(launching, outage, timeout("launch", 40*time.Second))},
		{"completing a launch", launchTo(""), with(launching, blocked)},
	} {
		each(t, tt.name, tt.given, func(t *testing.T, f *fixture) {
			ctx, cancel := contextFor(t, 35*time.Second)
			defer cancel()
			err := f.agent().Handle(ctx, tt.message(f))
			f.awaitEnds()
			clusters, _ := f.clusters(0)
			isFindable := slices.Contains(clusters, "demo") && slices.Contains(f.ownHooks, "drain")
			isRecorded := !f.node.Mark.Deadline.IsZero() && isFindable
			if !isRecorded && !errors.Is(err, errStopping) || isRecorded && err != nil {
				t.Errorf("the message ended with %v", err)
			}
			if completed := f.did("complete"); len(completed) > 0 || f.after() != 35*time.Second {
				t.Errorf("completed %q, ended after %v", completed, f.after())
			}
			if f.observed("ended interrupted")+f.observed("launch ended interrupted") != 1 {
				t.Errorf("facts %q", f.facts)
			}
		})
	}
}

// TestStopDuringSharedDrain: the drain stops with its last event.
func TestStopDuringSharedDrain(t *testing.T) {
	inBubble(t, func(f *fixture) { f.clusters, f.ownHooks = always([]string{"demo"}), []string{"a", "b"} }, func(t *testing.T, f *fixture) {
		ctx, cancel := contextFor(t, 5*time.Second)
		defer cancel()
		if errs := f.handleAll(ctx, "a", "b"); errs[0] != nil || !errors.Is(errs[1], errStopping) {
			t.Errorf("the messages ended with %v: the mark has the first hook, and not the second", errs)
		}
		f.awaitEnds()
		if len(f.did("drain")) != 1 || len(f.did("complete")) != 0 {
			t.Errorf("steps: %q", f.did(""))
		}
	})
}

// TestHandOver: another replica becomes the leader after the node of this process is cordoned and before it is drained.
func TestHandOver(t *testing.T) {
	t.Parallel()
	errOther := errors.New("another replica leads")
	for _, tt := range []struct {
		name    string
		own     string
		agrees  bool
		calls   int
		steps   []string
		outcome agent.Outcome
	}{
		{
			"its own node, and another replica takes over", "node-1", true, 1,
			neverDrained("cordon until 1h0m0s"), agent.Interrupted,
		},
		{"its own node, and there is no other replica", "node-1", false, 1, drainedBy("1h0m0s"), agent.Drained},
		{"another node", "node-2", true, 0, drainedBy("1h0m0s"), agent.Drained},
		{"the process does not know its node", "", true, 0, drainedBy("1h0m0s"), agent.Drained},
	} {
		each(t, tt.name, findable, func(t *testing.T, f *fixture) {
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			var calls []string
			f.cfg.NodeName = tt.own
			f.cfg.HandOver = func(uid string) bool {
				calls = append(calls, uid)
				if tt.agrees {
					time.AfterFunc(time.Second, func() { stop(errOther) })
				}
				return tt.agrees
			}
			if err := f.agent().Handle(ctx, termination(f)); err != nil {
				t.Errorf("the message ended with %v", err)
			}
			f.awaitEnds()
			f.wantSteps(t, tt.steps...)
			f.wantOutcome(t, tt.outcome)
			if !slices.Equal(calls, slices.Repeat([]string{"uid-1"}, tt.calls)) {
				t.Errorf("asked for %q, want %d times uid-1", calls, tt.calls)
			}
		})
	}
}
