package agent_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/pkg/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
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
	termination := func(f *fixture) queue.Message { return message("drain", f.start) }
	launch := func(f *fixture) queue.Message {
		f.cfg.Launch.Timeout = 15 * time.Minute
		return launchMessage("launch", "", f.start)
	}
	for _, tt := range []struct {
		name    string
		message func(f *fixture) queue.Message
		given   func(f *fixture)
	}{
		{"reading tags", termination, func(f *fixture) {
			f.registers = never
			f.clusters = func(time.Duration) ([]string, error) { return nil, errOutage }
		}},
		{"confirming", termination, func(f *fixture) { f.state = silent(never, "") }},
		{"being contradicted", termination, func(f *fixture) { f.state = always(inService) }},
		{"awaiting the node", termination, func(f *fixture) { f.registers = never }},
		{"looking up the node", termination, func(f *fixture) {
			f.cordonErrs = repeat(node.ErrGone, 1000)
		}},
		{"cordoning", termination, func(f *fixture) { f.cordonErrs = repeat(errOutage, 1000) }},
		{"uncordoning", termination, func(f *fixture) {
			f.state = always(inNoGroup)
			f.cfg.ConfirmTimeout = time.Second
			f.uncordonErrs = repeat(errOutage, 1000)
		}},
		{"draining", termination, func(f *fixture) { f.drainTakes = time.Hour }},
		{"excluding from load balancers", termination, func(f *fixture) { f.excludeErrs = repeat(errOutage, 1000) }},
		{"completing", termination, blocked},
		{"confirming a launch", launch, func(f *fixture) { f.state = silent(never, "") }},
		{"a launch being contradicted", launch, func(f *fixture) { f.state = always(inNoGroup) }},
		{"reading the timeout of a launch", launch, func(f *fixture) { f.deadlineErrs = repeat(errOutage, 1000) }},
		{"awaiting a launching node", launch, func(f *fixture) { f.registers = never }},
		{"uncordoning a launching node", launch, func(f *fixture) {
			f.node.Mark = node.Mark{InstanceID: instance, Since: f.start.Add(-time.Hour)}
			f.uncordonErrs = repeat(errOutage, 1000)
		}},
		{"waiting for readiness", launch, func(f *fixture) { f.ready = never }},
		{"asking about readiness", launch, func(f *fixture) {
			f.ready, f.timeout["launch"], f.outage = never, 40*time.Second, func(time.Duration) bool { return true }
		}},
		{"completing a launch", launch, blocked},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture()
				m := tt.message(f)
				if f.cfg.Launch.Timeout > 0 {
					f.state = always(pendingWait)
				}
				tt.given(f)
				ctx, cancel := contextFor(t, 35*time.Second)
				defer cancel()
				if err := f.agent().Handle(ctx, m); !errors.Is(err, errStopping) {
					t.Errorf("the message ended with %v, want %v", err, errStopping)
				}
				if completed := f.did("complete"); len(completed) > 0 || f.after() != 35*time.Second {
					t.Errorf("completed %q, ended after %v", completed, f.after())
				}
				if f.observed("ended interrupted")+f.observed("launch ended interrupted") != 1 {
					t.Errorf("facts %q", f.facts)
				}
			})
		})
	}
}

// TestStopDuringSharedDrain: the drain stops with its last event.
func TestStopDuringSharedDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		ctx, cancel := contextFor(t, 5*time.Second)
		defer cancel()
		for _, err := range f.handleAll(ctx, "a", "b") {
			if !errors.Is(err, errStopping) {
				t.Errorf("a message ended with %v", err)
			}
		}
		if len(f.did("drain")) != 1 || len(f.did("complete")) != 0 {
			t.Errorf("steps: %q", f.did(""))
		}
	})
}

// TestHandOver: another replica becomes the leader after the node of this process is cordoned and before it is drained.
func TestHandOver(t *testing.T) {
	t.Parallel()
	errOther := errors.New("another replica leads")
	cordoned := neverDrained("cordon until 1h0m0s")
	for _, tt := range []struct {
		name    string
		own     string
		agrees  bool
		calls   int
		steps   []string
		outcome agent.Outcome
		err     error
	}{
		{"its own node, and another replica takes over", "node-1", true, 1, cordoned, agent.Interrupted, errOther},
		{"its own node, and there is no other replica", "node-1", false, 1, drainedBy("1h0m0s"), agent.Drained, nil},
		{"another node", "node-2", true, 0, drainedBy("1h0m0s"), agent.Drained, nil},
		{"the process does not know its node", "", true, 0, drainedBy("1h0m0s"), agent.Drained, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture()
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
				if err := f.handle(ctx, "drain"); !errors.Is(err, tt.err) {
					t.Errorf("got %v, want %v", err, tt.err)
				}
				f.wantSteps(t, tt.steps...)
				f.wantOutcome(t, tt.outcome)
				if !slices.Equal(calls, slices.Repeat([]string{"uid-1"}, tt.calls)) {
					t.Errorf("asked for %q, want %d times uid-1", calls, tt.calls)
				}
			})
		})
	}
}
