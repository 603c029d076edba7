package queue

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"
)

// TestLongMessagesTakeMoreSlots: what is in flight is bounded in bytes, too. The last receive may exceed the bound.
func TestLongMessagesTakeMoreSlots(t *testing.T) {
	const limit = 100
	long := make([]string, 50)
	for i := range long {
		long[i] = strings.Repeat("x", 10*slotBytes)
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFake(long...)
		var handlers concurrency
		r := run(t, f, Config{MaxInFlight: limit, Receivers: 1}, func(context.Context, Message) error {
			defer handlers.begin()()
			time.Sleep(time.Minute)
			return nil
		})
		advance(30 * time.Second)
		if now, _ := handlers.count(); now != 10 {
			t.Errorf("%d messages of 11 slots are handled, want the 10 that one receive returns", now)
		}
		advance(10 * time.Minute)
		r.expect(t, f, 0, len(long), 0)
	})
}

// TestBodiesAreNotKept: the body of a message is garbage as soon as its handler does not need it.
func TestBodiesAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(strings.Repeat("x", 100_000))
		var body weak.Pointer[byte]
		r := run(t, f, Config{}, func(ctx context.Context, m Message) error {
			body = weak.Make(&m.Body[50_000])
			m.Body = nil
			<-ctx.Done()
			return ctx.Err()
		})
		advance(time.Second)
		r.received = nil
		runtime.GC()
		if body.Value() != nil {
			t.Error("the body is kept while the handler runs")
		}
	})
}

// TestOftenReceivedMessages: messages that processes have died with are handled a few at a time, and others meanwhile.
func TestOftenReceivedMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(bodies(100)...)
		for _, m := range f.messages {
			m.receives = oftenReceived
		}
		var often, others concurrency
		r := run(t, f, Config{MaxInFlight: 200}, func(_ context.Context, m Message) error {
			if m.Receives > oftenReceived {
				defer often.begin()()
			} else {
				defer others.begin()()
			}
			time.Sleep(time.Minute)
			return nil
		})
		advance(time.Second)
		f.send("another")
		advance(time.Second)
		if now, _ := others.count(); now != 1 {
			t.Errorf("%d other messages are handled, want 1", now)
		}
		advance(time.Hour)
		if _, peak := often.count(); peak != oftenLimit {
			t.Errorf("%d were handled at the same time, want %d", peak, oftenLimit)
		}
		r.expect(t, f, 0, 101, 0)
	})
}
