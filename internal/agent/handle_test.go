package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// TestMessagesWithoutATermination also shows that a refused message is rejected, and so left to the redrive policy.
func TestMessagesWithoutATermination(t *testing.T) {
	t.Parallel()
	rejected := fmt.Sprintf("%T", queue.Reject(errOutage))
	const at = "2027-03-01T10:00:00Z"
	for _, tt := range []struct {
		name, body string
		facts      []string // beginning with "refused": the message is rejected; else it is deleted
	}{
		{"not JSON", "hello", []string{"refused as malformed: malformed notification: body is not a JSON object"}},
		{
			"unknown source", `{"a":1}`,
			[]string{"refused as unknown-source: notification from an unknown source: no known form"},
		},
		{
			"unknown transition", strings.Replace(string(body("launch", at)), "TERMINATING", "DREAMING", 1),
			[]string{"refused as unknown-transition: unknown lifecycle transition: by its LifecycleTransition"},
		},
		{
			"too large", strings.Repeat("x", 1<<20+1),
			[]string{"refused as too-large: notification too large: more than 1048576 bytes"},
		},
		{
			"the test notification of a new hook",
			`{"Service":"AWS Auto Scaling","Event":"autoscaling:TEST_NOTIFICATION","Time":"` + at + `"}`,
			[]string{"received test-notification of ", "ignored test-notification of : requires no action"},
		},
		{
			"a notice", string(fromBridge(&fixture{}, "aws.autoscaling", "EC2 Instance Terminate Successful", "{}").Body),
			[]string{"received notice of ", "ignored notice of : requires no action"},
		},
		{
			"a hook that HOOK_NAMES does not list", string(body("not-ours", at)),
			[]string{
				"received lifecycle-terminating of " + instance,
				"ignored lifecycle-terminating of " + instance + ": the hook is not in HOOK_NAMES",
			},
		},
	} {
		each(t, tt.name, nil, func(t *testing.T, f *fixture) {
			err := f.agent().Handle(t.Context(), queue.Message{ID: "m", Body: []byte(tt.body), Receives: 1})
			_, reason, refused := strings.Cut(tt.facts[0], "refused as ")
			isRejected := fmt.Sprintf("%T", err) == rejected && strings.HasSuffix(reason, err.Error())
			if isRejected != refused || !refused && err != nil {
				t.Errorf("the message ended with %v, want it rejected: %v", err, refused)
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
		messages.Go(func() { time.Sleep(time.Duration(i) * time.Second); errs[i] = a.Handle(ctx, message(hook, f.start)) })
	}
	messages.Wait()
	return errs
}

// TestCopies: all copies of an event share its handling.
func TestCopies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		given  given
		copies []source
		steps  []string
	}{
		{"termination", nil, []source{termination, termination, termination}, drainedBy("1h0m0s")},
		{
			"launch", launching,
			[]source{launchTo("AutoScalingGroup"), launchTo("AutoScalingGroup"), launchTo("")},
			completed("CONTINUE", "await", "wait for node-1"),
		},
	} {
		each(t, tt.name, tt.given, func(t *testing.T, f *fixture) {
			a := f.agent()
			var messages sync.WaitGroup
			for i, m := range tt.copies {
				messages.Go(func() {
					time.Sleep(time.Duration(i) * time.Second)
					mustHandle(t, f, a, m)
				})
			}
			messages.Wait()
			f.wantSteps(t, tt.steps...)
			if f.observed("received") != 3 || f.observed("started")+f.observed("launch started") != 1 {
				t.Errorf("facts %q, want three events, handled once", f.facts)
			}
		})
	}
}

// TestManyCopies: more copies of an event than AWS sends wait in the queue, where they keep no other message out.
func TestManyCopies(t *testing.T) {
	inBubble(t, stateIs(silent(500*time.Millisecond, terminating)), func(t *testing.T, f *fixture) {
		const copies, most = 50, 11
		a, refused := f.agent(), 0
		var mu sync.Mutex
		var messages sync.WaitGroup
		for range copies {
			messages.Go(func() {
				if a.Handle(t.Context(), termination(f)) != nil {
					mu.Lock()
					defer mu.Unlock()
					refused++
				}
			})
		}
		synctest.Wait()
		mu.Lock()
		if f.after() != 0 || refused != copies-most {
			t.Errorf("%d of %d copies were returned at once, want %d", refused, copies, copies-most)
		}
		mu.Unlock()
		messages.Wait()
		f.awaitEnds()
		f.wantSteps(t, drainedBy("1h0m0.75s..1h0m0.9s")...)
	})
}

// TestMessageDuringAForgedOne: the message of a termination that begins while a forged one waits for its confirmation is
// not dropped with that.
func TestMessageDuringAForgedOne(t *testing.T) {
	begins := stateIs(changes(inService, 70*time.Second, terminating))
	inBubble(t, begins, func(t *testing.T, f *fixture) {
		a := f.agent()
		var forged sync.WaitGroup
		forged.Go(func() { mustHandle(t, f, a, termination) })
		time.Sleep(30 * time.Second)
		mustHandle(t, f, a, func(f *fixture) queue.Message { return message("drain", f.start.Add(30*time.Second)) })
		forged.Wait()
		if at := f.when("complete drain"); at < 70*time.Second {
			t.Errorf("completed after %v; facts %q", at, f.facts)
		}
	})
}

// TestMessageAfterAForgedOne: the message of a termination that comes when a forged one has been contradicted, and its
// node cannot be uncordoned for a while, is not dropped with that.
func TestMessageAfterAForgedOne(t *testing.T) {
	for name, age := range map[string]time.Duration{"later": 0, "earlier than a forged time": 2 * time.Minute} {
		given := with(stateIs(changes(inService, 80*time.Second, terminating)), fails("uncordon", 10, errOutage))
		each(t, name, given, func(t *testing.T, f *fixture) {
			a := f.agent()
			var forged sync.WaitGroup
			forged.Go(func() { mustHandle(t, f, a, termination) })
			time.Sleep(90 * time.Second)
			mustHandle(t, f, a, func(f *fixture) queue.Message { return message("drain", f.start.Add(90*time.Second-age)) })
			forged.Wait()
			if at := f.when("complete drain"); at < 90*time.Second {
				t.Errorf("completed after %v; facts %q", at, f.facts)
			}
		})
	}
}

// TestCopyWithAnEarlierDeadline: a copy that ends earlier brings the deadline forward. The first one may be forged.
func TestCopyWithAnEarlierDeadline(t *testing.T) {
	inBubble(t, with(inState(inService), fails("exclude", 2, node.ErrGone)), func(t *testing.T, f *fixture) {
		a := f.agent()
		var first sync.WaitGroup
		first.Go(func() { mustHandle(t, f, a, spotWarning) })
		time.Sleep(time.Second)
		mustHandle(t, f, a, func(f *fixture) queue.Message {
			return spotWarning(&fixture{start: f.start.Add(-time.Minute)})
		})
		first.Wait()
		f.wantSteps(t, "cordon until 1m55s", "drain node-1 until 1m55s", "cordon until 55s", "tighten node-1 until 55s")
	})
}

func TestCopyAfterTheEnd(t *testing.T) {
	inBubble(t, stateIs(changes(terminating, 5*time.Second, proceeding)), func(t *testing.T, f *fixture) {
		mustHandle(t, f, f.agent(), termination)
		mustHandle(t, f, f.agent(), termination)
		if len(f.did("drain")) != 1 || len(f.did("complete")) != 1 {
			t.Errorf("steps: %q", f.did(""))
		}
		f.wantOutcome(t, agent.Gone)
	})
}

func TestTwoHooksShareADrain(t *testing.T) {
	t.Parallel()
	const drain, a, b = "drain node-1 until 1h0m0s", "complete a with CONTINUE", "complete b with CONTINUE"
	for _, tt := range []struct {
		name  string
		given given
		steps []string
	}{
		{"both are completed", nil, []string{drain, a, b}},
		{"the first is given up: the drain continues for the second", givesUp("a", 5*time.Second), []string{drain, b}},
		{"the second is given up: the drain continues for the first", givesUp("b", 5*time.Second), []string{drain, a}},
		{
			"the second has an earlier deadline: it tightens the drain", timeout("b", 10*time.Minute),
			[]string{drain, "tighten node-1 until 10m0s", a, b},
		},
	} {
		each(t, tt.name, tt.given, func(t *testing.T, f *fixture) {
			if err := errors.Join(f.handleAll(t.Context(), "a", "b")...); err != nil {
				t.Error(err)
			}
			f.awaitEnds()
			got := slices.Sorted(slices.Values(slices.Concat(f.did("complete"), f.did("drain"), f.did("tighten"))))
			if diff := cmp.Diff(slices.Sorted(slices.Values(tt.steps)), got); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if n := f.observed("drained"); n != 1 {
				t.Errorf("the end of the drain was observed %d times", n)
			}
		})
	}
}

func TestOutcomesAreDistinct(t *testing.T) {
	t.Parallel()
	if outcomes := sets.New(agent.Outcomes()...); len(outcomes) != len(agent.Outcomes()) || outcomes.Has("") {
		t.Errorf("an outcome is empty, or listed twice: %q", agent.Outcomes())
	}
}

// TestDryRun: everything is decided, nothing is changed, and the messages are returned when the agent stops.
func TestDryRun(t *testing.T) {
	t.Parallel()
	launchDuringARefresh := func(f *fixture) queue.Message {
		f.state, f.refresh = always(pendingWait), func(string) (bool, error) { return true, nil }
		return launchTo("")(f)
	}
	for _, tt := range []struct {
		name    string
		message source
		steps   []string
		fact    string
	}{
		{"hook", termination, []string{"drain node-1 until 1h0m0s"}, "ended drained"},
		{"Spot interruption", spotWarning, []string{"drain node-1 until 1m55s"}, "ended drained"},
		{"replacement", rebalance, nil, "ended replaced"},
		{"canceled maintenance", canceledMaintenance, nil, "received scheduled-change-canceled"},
		{"launch", launchDuringARefresh, []string{"await", "wait for node-1"}, "launch ended ready"},
	} {
		each(t, tt.name, scheduled(always(false)), func(t *testing.T, f *fixture) {
			f.cfg.DryRun, f.cfg.Launch.Timeout, f.cfg.Events.Rebalance = true, time.Minute, event.Replace
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
	}
}

// TestDryResync: a resync finds an instance that enters the warm pool, and a protected node, and changes neither.
func TestDryResync(t *testing.T) {
	inBubble(t, inGroup(warmedPending, "drain"), func(t *testing.T, f *fixture) {
		f.cfg.DryRun = true
		f.protected = []node.ProtectedNode{{Node: f.node, Group: group}}
		f.pending = func(time.Duration) (bool, error) { return true, errors.New("a heartbeat was sent") }
		resync(t, f.agent(), time.Minute)
		f.wantSteps(t, "drain node-1 until 1h0m0s")
		if f.observed("resync failed") > 0 {
			t.Errorf("facts: %q", f.facts)
		}
	})
}
