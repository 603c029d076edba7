package queue

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestMessagesStayInvisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(bodies(25)...)
		r := run(t, f, Config{}, work(time.Hour))
		advance(time.Hour + time.Second)
		r.expect(t, f, 0, 25, 0)
		renewed := map[time.Duration]int{} // messages in each round of renewals
		for _, c := range f.called("visibility") {
			if c.size > 10 {
				t.Errorf("a batch of %d", c.size)
			}
			renewed[c.at.Truncate(time.Second)] += c.size
		}
		for at := 20 * time.Second; at < time.Hour; at += 20 * time.Second {
			if renewed[at] != 25 {
				t.Fatalf("%d messages renewed after %v, want all 25", renewed[at], at)
			}
		}
		if n := len(f.called("visibility")); n > 3*180 {
			t.Errorf("%d calls for 180 rounds of three batches", n)
		}
	})
}

// TestRenewalDoesNotHideReleasedMessages: the handlers return in the very moment of a round of renewals.
func TestRenewalDoesNotHideReleasedMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(bodies(50)...)
		r := run(t, f, Config{}, func(_ context.Context, m Message) error {
			if m.Receives > 1 {
				return nil
			}
			time.Sleep(20 * time.Second)
			return Release(errWork)
		})
		advance(21 * time.Second)
		r.expect(t, f, 0, 100, 0)
	})
}

// TestFailedRenewal: the message is delivered again, gets no second handler, and others are not affected.
func TestFailedRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(bodies(3)...)
		f.refuse = func(op string, m *message) bool { return op == "visibility" && m.id == "id-1" }
		r := run(t, f, Config{}, work(150*time.Second))
		advance(4 * time.Minute)
		if f.left() != 0 || len(r.received) != 3 || !slices.Contains(r.failures, "keep a message invisible") {
			t.Errorf("%d messages left, %d handlers, failures %v", f.left(), len(r.received), r.failures)
		}
		if f.messages[0].receives != 1 || f.messages[1].receives < 2 {
			t.Errorf("received %d and %d times", f.messages[0].receives, f.messages[1].receives)
		}
	})
}

// TestTwelveHours: SQS keeps no delivery invisible for longer. The message is delivered again, to the process
// that works on it, which continues with the new receipt handle.
func TestTwelveHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("")
		r := run(t, f, Config{}, work(30*time.Hour))
		advance(30*time.Hour + time.Second)
		r.expect(t, f, 0, 1, 0)
		if got := f.messages[0].receives; got != 3 {
			t.Errorf("received %d times, want again after 12 h and after 24 h", got)
		}
	})
}

// TestHangingRenewal: the next renewal is sent before the message becomes visible.
func TestHangingRenewal(t *testing.T) {
	for _, visibility := range []time.Duration{3 * time.Second, 30 * time.Second, time.Minute} {
		virtual(t, visibility.String(), func(t *testing.T) {
			f := newFake("")
			f.before = func(ctx context.Context, op string, n int) error {
				if op == "visibility" && n%2 == 1 {
					return hang(ctx)
				}
				return ctx.Err()
			}
			r := run(t, f, Config{VisibilityTimeout: visibility}, work(time.Hour))
			advance(time.Hour + time.Minute)
			if f.messages[0].receives != 1 || len(r.failures) == 0 {
				t.Errorf("received %d times, want once; %d failures", f.messages[0].receives, len(r.failures))
			}
		})
	}
}

// hanging returns an SQS that does not answer while hangs is true.
func hanging(n int) (f *fakeSQS, hangs *atomic.Bool) {
	f, hangs = newFake(bodies(n)...), new(atomic.Bool)
	f.before = func(ctx context.Context, _ string, _ int) error {
		if hangs.Load() {
			return hang(ctx)
		}
		return ctx.Err()
	}
	return f, hangs
}

// TestLongOutage: the number of waiting calls does not grow, and all messages are invisible again soon after
// SQS answers.
func TestLongOutage(t *testing.T) {
	const messages = 600
	synctest.Test(t, func(t *testing.T) {
		f, hangs := hanging(messages)
		r := run(t, f, Config{MaxInFlight: messages, VisibilityTimeout: 30 * time.Second}, untilStopped)
		advance(45 * time.Second)
		hangs.Store(true)
		before := runtime.NumGoroutine() // a handler for each message
		most := 0
		for range 30 * 4 {
			advance(15 * time.Second)
			most = max(most, runtime.NumGoroutine()-before)
		}
		if most > messages {
			t.Errorf("%d additional goroutines", most)
		}
		hangs.Store(false)
		advance(21 * time.Second)
		for _, m := range f.messages {
			if time.Until(m.visible) <= 0 {
				t.Fatalf("%s is visible although it is in flight", m.id)
			}
		}
		r.stop(t)
	})
}
