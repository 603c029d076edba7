package queue

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("unfinished", "finished", "slow", "rejected")
		var causes atomic.Int32
		r := run(t, f, Config{}, func(ctx context.Context, m Message) error {
			<-ctx.Done()
			if errors.Is(context.Cause(ctx), errStop) {
				causes.Add(1)
			}
			switch string(m.Body) {
			case "finished":
				return nil
			case "slow": // stays invisible until it returns
				time.Sleep(5 * time.Minute)
			case "rejected":
				return Reject(errWork)
			}
			return context.Cause(ctx)
		})
		advance(90 * time.Second)
		receives := len(f.called("receive"))
		r.cancel(errStop)
		f.send("too late")
		advance(time.Second)
		f.expectVisible(t, 0)
		if f.messages[0].deleted || !f.messages[1].deleted {
			t.Error("the unfinished message was deleted, or the finished one was not")
		}
		if took := r.stop(t); took < 5*time.Minute-time.Second || took > 5*time.Minute {
			t.Errorf("Run returned after %v, want when the last handler had", took)
		}
		f.expectVisible(t, 2)
		if causes.Load() != 4 || len(f.called("receive")) != receives {
			t.Errorf("%d of 4 contexts ended, %d receives after the end", causes.Load(), len(f.called("receive"))-receives)
		}
		want := []settled{
			{"id-0", Released, errStop},
			{"id-1", Deleted, nil},
			{"id-2", Released, errStop},
			{"id-3", Rejected, errWork},
			{"id-4", Released, errStop}, // without a handler
		}
		less := cmpopts.SortSlices(func(a, b settled) bool { return a.ID < b.ID })
		if diff := cmp.Diff(want, r.settled, less, cmpopts.EquateErrors()); diff != "" {
			t.Error(diff)
		}
	})
}

// expectVisible fails the test unless message n was received once and is visible.
func (f *fakeSQS) expectVisible(t *testing.T, n int) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.messages[n]; m.receives != 1 || m.deleted || time.Since(m.visible) < 0 {
		t.Errorf("message %d: received %d times, deleted %v, visible in %v",
			n, m.receives, m.deleted, time.Until(m.visible))
	}
}

// TestStopDuringReceive: the messages that SQS returns are visible again at once, without being handled, and
// without being received again by the same receive.
func TestStopDuringReceive(t *testing.T) {
	virtual(t, "a message that is being received", func(t *testing.T) {
		f := &slowSQS{fakeSQS: newFake(), latency: 100 * time.Millisecond}
		r := run(t, f, Config{}, func(context.Context, Message) error {
			t.Error("the message was handled")
			return nil
		})
		advance(time.Second)
		f.send("a body")
		advance(50 * time.Millisecond)
		r.expectStop(t, lastReceive)
		f.expectVisible(t, 0)
	})
	virtual(t, "a message that is given back", func(t *testing.T) {
		f := &slowSQS{fakeSQS: newFake("a body"), latency: 300 * time.Millisecond}
		r := run(t, f, Config{}, untilStopped)
		advance(time.Second)
		r.expectStop(t, 2*lastReceive)
		f.expectVisible(t, 0)
	})
}

// TestStopIsFast: nothing but the last receive delays it.
func TestStopIsFast(t *testing.T) {
	always := func(int) bool { return true }
	type hook = func(context.Context, string, int) error
	check := func(name string, messages int, before hook, handle Handler, limit time.Duration, failures ...string) {
		t.Helper()
		virtual(t, name, func(t *testing.T) {
			f := newFake(bodies(messages)...)
			f.before = before
			r := run(t, f, Config{}, handle)
			advance(2 * time.Second)
			r.expectStop(t, limit)
			if failures != nil && !slices.Equal(r.failures, failures) {
				t.Errorf("failures %q, want %q", r.failures, failures)
			}
		})
	}
	check("the queue is empty", 0, nil, succeed, lastReceive)
	check("receives fail", 0, failing("receive", always), succeed, 0)
	check("attributes fail", 0, failing("attributes", always), succeed, 0)
	check("attributes hang", 0, func(ctx context.Context, _ string, _ int) error { return hang(ctx) }, succeed, 0)
	check("a delete fails", 1, failing("delete", always), succeed, lastReceive, "settle message id-0")
	check("changes of visibility hang", 30, func(ctx context.Context, op string, _ int) error {
		if op == "visibility" {
			return hang(ctx)
		}
		return ctx.Err()
	}, untilStopped, lastReceive+renewalTimeout+callTimeout)
}

// TestStopDuringOutage: SQS makes the messages visible later, and the process does not wait for it.
func TestStopDuringOutage(t *testing.T) {
	const messages = 1200
	for name, handle := range map[string]Handler{
		"unfinished work": untilStopped,
		"finished work":   func(ctx context.Context, _ Message) error { <-ctx.Done(); return nil },
	} {
		virtual(t, name, func(t *testing.T) {
			f, hangs := hanging(messages)
			r := run(t, f, Config{MaxInFlight: messages}, handle)
			advance(90 * time.Second)
			hangs.Store(true)
			advance(10 * time.Minute)
			idle := runtime.NumGoroutine() - messages
			r.expectStop(t, callTimeout+renewalTimeout+time.Second)
			if n := runtime.NumGoroutine(); n > idle {
				t.Errorf("%d goroutines are left, of %d without a message", n, idle)
			}
		})
	}
}

func TestStopWithAllSlotsReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(bodies(15)...)
		r := run(t, f, Config{MaxInFlight: 2}, untilStopped)
		advance(time.Hour)
		r.expectStop(t, time.Second)
		for _, m := range f.messages {
			if time.Since(m.visible) < 0 {
				t.Errorf("%s is invisible for another %v", m.id, time.Until(m.visible))
			}
		}
		if len(r.received) != 2 {
			t.Errorf("%d were received, want 2", len(r.received))
		}
	})
}
