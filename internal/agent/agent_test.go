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

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

const bridge = `{"id":"e-1","source":%q,"detail-type":%q,"account":"123456789012","region":"eu-west-1",` +
	`"time":"2027-03-01T10:00:00Z","detail":%s}`

// TestMessages: what becomes of a message that announces no termination.
func TestMessages(t *testing.T) {
	t.Parallel()
	launching := strings.Replace(string(body("launch", "2027-03-01T10:00:00Z")), "TERMINATING", "LAUNCHING", 1)
	for _, tt := range []struct {
		name, body string
		facts      []string
		err        string // what the error says; empty: the message goes
	}{
		{
			name: "no JSON: rejected", body: "hello",
			facts: []string{"refused as malformed: malformed notification: body is not a JSON object"},
			err:   "malformed notification",
		},
		{
			name: "nobody's message: rejected", body: `{"a":1}`,
			facts: []string{"refused as unknown-source: notification from an unknown source: no known form"},
			err:   "unknown source",
		},
		{
			name: "a transition of a later day: rejected", body: strings.Replace(launching, "LAUNCHING", "DREAMING", 1),
			facts: []string{"refused as unknown-transition: unknown lifecycle transition: by its LifecycleTransition"},
			err:   "unknown lifecycle transition",
		},
		{
			name: "a huge body: rejected", body: strings.Repeat("x", 1<<20+1),
			facts: []string{"refused as too-large: notification too large: more than 1048576 bytes"},
			err:   "too large",
		},
		{
			name:  "the test that a new hook sends: ignored",
			body:  `{"Service":"AWS Auto Scaling","Event":"autoscaling:TEST_NOTIFICATION","Time":"2027-03-01T10:00:00Z"}`,
			facts: []string{"received test-notification of ", "ignored test-notification of : asks for nothing"},
		},
		{
			name:  "a notice: ignored",
			body:  fmt.Sprintf(bridge, "aws.autoscaling", "EC2 Instance Terminate Successful", "{}"),
			facts: []string{"received notice of ", "ignored notice of : asks for nothing"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			err := w.agent().Handle(t.Context(), queue.Message{ID: "m", Body: []byte(tt.body), Receives: 1})
			if (err == nil) != (tt.err == "") || (err != nil && !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("the message ended with %v, want %q", err, tt.err)
			}
			if diff := cmp.Diff(tt.facts, w.facts); diff != "" {
				t.Errorf("what was told (-want +got):\n%s", diff)
			}
			w.wantSteps(t)
		})
	}
}

// TestVerdict: a refused message is left to the redrive policy, a foreign one to its owner: the error is not
// a plain one, which would have the message come back here.
func TestVerdict(t *testing.T) {
	t.Parallel()
	rejected := fmt.Sprintf("%T", queue.Reject(errOutage))
	err := newWorld().agent().Handle(t.Context(), queue.Message{Body: []byte("hello")})
	if got := fmt.Sprintf("%T", err); got != rejected {
		t.Errorf("a malformed message ended with a %s, want a %s", got, rejected)
	}
}

func TestMessageWithoutATime(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		sent func(start time.Time) time.Time
		want string
	}{
		{"is counted from when it was sent", func(s time.Time) time.Time { return s.Add(-5 * time.Minute) }, "drain node-1 until 5m0s"},
		{"nor a time at which it was sent is counted from now", func(time.Time) time.Time { return time.Time{} }, "drain node-1 until 10m0s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.timeout["drain"] = 10 * time.Minute
				m := queue.Message{ID: "m", Body: body("drain", ""), SentAt: tt.sent(w.start)}
				if err := w.agent().Handle(t.Context(), m); err != nil {
					t.Error(err)
				}
				if got := w.did("drain"); len(got) != 1 || got[0] != tt.want {
					t.Errorf("drained as %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// handleAll lets one agent handle several messages, each a second after the one before, and returns the
// errors.
func (w *world) handleAll(ctx context.Context, hooks ...string) []error {
	errs := make([]error, len(hooks))
	a := w.agent()
	var wg sync.WaitGroup
	for i, hook := range hooks {
		wg.Go(func() {
			time.Sleep(time.Duration(i) * time.Second)
			errs[i] = a.Handle(ctx, message(hook, w.start))
		})
	}
	wg.Wait()
	return errs
}

func TestCopies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for _, err := range w.handleAll(t.Context(), "drain", "drain", "drain") {
			if err != nil {
				t.Errorf("a copy ended with %v", err)
			}
		}
		w.wantSteps(t, "hold drain", "mark until 1h0m0s", "drain node-1 until 1h0m0s", "exclude", "let go of drain",
			"complete drain with CONTINUE")
		if w.told("received") != 3 || w.told("began") != 1 {
			t.Errorf("told %q, want three events and one termination", w.facts)
		}
	})
}

// TestCopyAfterTheEnd: a copy that comes when all is done finds nothing to do.
func TestCopyAfterTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.state = turns(terminating, 5*time.Second, proceeding)
		for range 2 {
			if err := w.handle(t.Context(), "drain"); err != nil {
				t.Error(err)
			}
		}
		if len(w.did("drain")) != 1 || len(w.did("complete")) != 1 {
			t.Errorf("the agent's steps: %q", w.did(""))
		}
		w.wantOutcome(t, agent.Gone)
	})
}

func TestTwoHooksOfAnInstance(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name              string
		given             func(w *world)
		drains, completes []string
	}{
		{
			name:      "share a drain, and are both completed",
			drains:    []string{"drain node-1 until 1h0m0s"},
			completes: []string{"complete a with CONTINUE", "complete b with CONTINUE"},
		},
		{
			name:      "the first is given up amid the drain: it goes on for the second, which is completed",
			given:     func(w *world) { w.givesUp["a"] = 5 * time.Second },
			drains:    []string{"drain node-1 until 1h0m0s"},
			completes: []string{"complete b with CONTINUE"},
		},
		{
			name:      "the second is given up amid the drain: the first goes on",
			given:     func(w *world) { w.givesUp["b"] = 5 * time.Second },
			drains:    []string{"drain node-1 until 1h0m0s"},
			completes: []string{"complete a with CONTINUE"},
		},
		{
			name:      "the second is due earlier: it tightens the drain",
			given:     func(w *world) { w.timeout["b"] = 10 * time.Minute },
			drains:    []string{"drain node-1 until 1h0m0s", "tighten node-1 until 10m0s"},
			completes: []string{"complete a with CONTINUE", "complete b with CONTINUE"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				if tt.given != nil {
					tt.given(w)
				}
				if err := errors.Join(w.handleAll(t.Context(), "a", "b")...); err != nil {
					t.Error(err)
				}
				wantSame(t, tt.drains, append(w.did("drain"), w.did("tighten")...))
				if n := w.told("drained"); n != 1 {
					t.Errorf("the end of the drain was told %d times", n)
				}
				wantSame(t, tt.completes, w.did("complete"))
			})
		})
	}
}

// wantSame compares two lists whose order does not matter.
func wantSame(t *testing.T, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestStoppingAmidASharedDrain: nobody drains on when the process stops.
func TestStoppingAmidASharedDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, errStopping)
		defer cancel()
		for _, err := range w.handleAll(ctx, "a", "b") {
			if !errors.Is(err, errStopping) {
				t.Errorf("a message ended with %v", err)
			}
		}
		if len(w.did("drain")) != 1 || len(w.did("complete")) != 0 {
			t.Errorf("the agent's steps: %q", w.did(""))
		}
	})
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, o := range agent.Outcomes() {
		if o == "" || seen[o] {
			t.Errorf("outcome %q is empty, or listed twice", o)
		}
		seen[o] = true
	}
}
