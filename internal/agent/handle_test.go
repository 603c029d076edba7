package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// TestMessagesWithoutATermination also shows that a refused message is rejected, and so left to the redrive policy.
func TestMessagesWithoutATermination(t *testing.T) {
	t.Parallel()
	rejected := fmt.Sprintf("%T", queue.Reject(errOutage))
	for _, tt := range []struct {
		name, body string
		facts      []string
		err        string // part of the error; empty: the message is deleted
	}{
		{
			name: "not JSON", body: "hello",
			facts: []string{"refused as malformed: malformed notification: body is not a JSON object"},
			err:   "malformed notification",
		},
		{
			name: "unknown source", body: `{"a":1}`,
			facts: []string{"refused as unknown-source: notification from an unknown source: no known form"},
			err:   "unknown source",
		},
		{
			name: "unknown transition", body: strings.Replace(string(body("launch", "2027-03-01T10:00:00Z")), "TERMINATING", "DREAMING", 1),
			facts: []string{"refused as unknown-transition: unknown lifecycle transition: by its LifecycleTransition"},
			err:   "unknown lifecycle transition",
		},
		{
			name: "too large", body: strings.Repeat("x", 1<<20+1),
			facts: []string{"refused as too-large: notification too large: more than 1048576 bytes"},
			err:   "too large",
		},
		{
			name:  "the test notification of a new hook",
			body:  `{"Service":"AWS Auto Scaling","Event":"autoscaling:TEST_NOTIFICATION","Time":"2027-03-01T10:00:00Z"}`,
			facts: []string{"received test-notification of ", "ignored test-notification of : requires no action"},
		},
		{
			name:  "a notice",
			body:  string(fromBridge(&fixture{}, "aws.autoscaling", "EC2 Instance Terminate Successful", "{}").Body),
			facts: []string{"received notice of ", "ignored notice of : requires no action"},
		},
		{
			name: "a hook that HOOK_NAMES does not list", body: string(body("not-ours", "2027-03-01T10:00:00Z")),
			facts: []string{
				"received lifecycle-terminating of " + instance,
				"ignored lifecycle-terminating of " + instance + ": the hook is not in HOOK_NAMES",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture()
			err := f.agent().Handle(t.Context(), queue.Message{ID: "m", Body: []byte(tt.body), Receives: 1})
			if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err) || fmt.Sprintf("%T", err) != rejected) {
				t.Errorf("the message ended with %v, want it rejected with %q", err, tt.err)
			}
			if tt.err == "" && err != nil {
				t.Errorf("the message ended with %v", err)
			}
			if diff := cmp.Diff(tt.facts, f.facts); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
			f.wantSteps(t)
		})
	}
}

// handleAll passes the messages of several hooks to one agent, each a second after the one before, and returns the
// errors.
func (f *fixture) handleAll(ctx context.Context, hooks ...string) []error {
	errs := make([]error, len(hooks))
	a := f.agent()
	var messages sync.WaitGroup
	for i, hook := range hooks {
		messages.Go(func() {
			time.Sleep(time.Duration(i) * time.Second)
			errs[i] = a.Handle(ctx, message(hook, f.start))
		})
	}
	messages.Wait()
	return errs
}

func TestCopiesShareATermination(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		if err := errors.Join(f.handleAll(t.Context(), "drain", "drain", "drain")...); err != nil {
			t.Errorf("a copy ended with %v", err)
		}
		f.wantSteps(t, drainedBy("1h0m0s")...)
		if f.observed("received") != 3 || f.observed("started") != 1 {
			t.Errorf("facts %q, want three events and one termination", f.facts)
		}
	})
}

func TestCopyAfterTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.state = changes(terminating, 5*time.Second, proceeding)
		for range 2 {
			if err := f.handle(t.Context(), "drain"); err != nil {
				t.Error(err)
			}
		}
		if len(f.did("drain")) != 1 || len(f.did("complete")) != 1 {
			t.Errorf("steps: %q", f.did(""))
		}
		f.wantOutcome(t, agent.Gone)
	})
}

func TestTwoHooksShareADrain(t *testing.T) {
	t.Parallel()
	once := []string{"drain node-1 until 1h0m0s"}
	for _, tt := range []struct {
		name              string
		given             func(f *fixture)
		drains, completes []string
	}{
		{
			name: "both are completed", given: func(*fixture) {}, drains: once,
			completes: []string{"complete a with CONTINUE", "complete b with CONTINUE"},
		},
		{
			name:  "the first is given up: the drain continues for the second",
			given: func(f *fixture) { f.givesUp["a"] = 5 * time.Second }, drains: once,
			completes: []string{"complete b with CONTINUE"},
		},
		{
			name:  "the second is given up: the drain continues for the first",
			given: func(f *fixture) { f.givesUp["b"] = 5 * time.Second }, drains: once,
			completes: []string{"complete a with CONTINUE"},
		},
		{
			name:      "the second has an earlier deadline: it tightens the drain",
			given:     func(f *fixture) { f.timeout["b"] = 10 * time.Minute },
			drains:    []string{"drain node-1 until 1h0m0s", "tighten node-1 until 10m0s"},
			completes: []string{"complete a with CONTINUE", "complete b with CONTINUE"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture()
				tt.given(f)
				if err := errors.Join(f.handleAll(t.Context(), "a", "b")...); err != nil {
					t.Error(err)
				}
				wantSame(t, tt.drains, append(f.did("drain"), f.did("tighten")...))
				if n := f.observed("drained"); n != 1 {
					t.Errorf("the end of the drain was observed %d times", n)
				}
				wantSame(t, tt.completes, f.did("complete"))
			})
		})
	}
}

func TestOutcomesAreDistinct(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, o := range agent.Outcomes() {
		if o == "" || seen[o] {
			t.Errorf("outcome %q is empty, or listed twice", o)
		}
		seen[o] = true
	}
}

// TestDryRun: everything is decided, nothing is changed, and the messages are returned when the agent stops.
func TestDryRun(t *testing.T) {
	t.Parallel()
	launchDuringARefresh := func(f *fixture) queue.Message {
		f.state, f.refresh = always(pendingWait), func(string) (bool, error) { return true, nil }
		return launchMessage("launch", "", f.start)
	}
	for _, tt := range []struct {
		name    string
		message func(f *fixture) queue.Message
		steps   []string
		fact    string
	}{
		{
			"hook", func(f *fixture) queue.Message { return message("drain", f.start) },
			[]string{"drain node-1 until 1h0m0s"}, "ended drained",
		},
		{"Spot interruption", spotWarning, []string{"drain node-1 until 1m55s"}, "ended drained"},
		{"replacement", rebalance, nil, "ended replaced"},
		{"canceled maintenance", canceledMaintenance, nil, "received scheduled-change-canceled"},
		{"launch", launchDuringARefresh, []string{"await", "wait for node-1"}, "launch ended ready"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture()
				f.cfg.DryRun, f.cfg.Launch.Timeout, f.cfg.Events.Rebalance = true, time.Minute, event.Replace
				f.scheduled = func(time.Duration) (bool, error) { return false, nil }
				ctx, cancel := contextFor(t, time.Hour)
				defer cancel()
				if err := f.agent().Handle(ctx, tt.message(f)); !errors.Is(err, errStopping) {
					t.Errorf("the message ended with %v", err)
				}
				f.wantSteps(t, tt.steps...)
				if f.observed(tt.fact) == 0 || !f.node.Mark.Since.IsZero() {
					t.Errorf("facts: %q", f.facts)
				}
			})
		})
	}
}

// TestDryResync: a resync finds an instance that enters the warm pool, and a protected node, and changes neither.
func TestDryResync(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.cfg.DryRun, f.ownHooks = true, []string{"drain"}
		f.members, f.state = inGroup(warmedPending), always(warmedPending)
		f.protected = []node.ProtectedNode{{Node: f.node, Group: group}}
		f.pending = func(time.Duration) (bool, error) { return true, errors.New("a heartbeat was sent") }
		resync(t, f.agent(), time.Minute)
		f.wantSteps(t, "drain node-1 until 1h0m0s")
		if f.observed("resync failed") > 0 {
			t.Errorf("facts: %q", f.facts)
		}
	})
}
