package queue

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestHandlerGetsTheMessage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake("a body")
		var got Message
		r := run(t, f, Config{}, func(_ context.Context, m Message) error { got = m; return nil })
		advance(time.Second)
		want := Message{ID: "id-0", Body: []byte("a body"), Receives: 1, SentAt: f.start}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if f.left() != 0 || !slices.Equal(r.outcomes("id-0"), []Outcome{Deleted}) {
			t.Errorf("%d messages left, outcomes %v", f.left(), r.outcomes("id-0"))
		}
	})
}

func TestDeletesAreBatched(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(bodies(23)...)
		run(t, f, Config{}, work(time.Second))
		advance(10 * time.Second)
		var sizes []int
		for _, c := range f.called("delete") {
			sizes = append(sizes, c.size)
		}
		slices.Sort(sizes)
		if !slices.Equal(sizes, []int{3, 10, 10}) || f.left() != 0 {
			t.Errorf("deletes of %v, %d left", sizes, f.left())
		}
	})
}

// TestDeleteIsRetried: a message that SQS does not delete at once is not delivered again.
func TestDeleteIsRetried(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(bodies(5)...)
		refusals := 0
		f.refuse = func(op string, m *message) bool {
			if op != "delete" || m.id != "id-2" || refusals == 3 {
				return false
			}
			refusals++
			return true
		}
		r := run(t, f, Config{}, succeed)
		advance(5 * time.Second)
		r.expect(t, f, 0, 5, 0)
		if refusals != 3 {
			t.Errorf("%d refusals, want 3", refusals)
		}
	})
}

// TestRedeliveryDuringDelete: no second handler runs, and the new receipt handle is used.
func TestRedeliveryDuringDelete(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake("")
		f.refuse = func(op string, m *message) bool { return op == "delete" && m.receives == 1 }
		r := run(t, f, Config{VisibilityTimeout: 3 * time.Second}, succeed)
		advance(10 * time.Second)
		r.expect(t, f, 0, 1, 0)
		if got := f.messages[0].receives; got != 2 {
			t.Errorf("received %d times", got)
		}
	})
}

// TestFailedDelete: the message is delivered again, and others are not affected.
func TestFailedDelete(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(bodies(5)...)
		f.refuse = func(op string, m *message) bool { return op == "delete" && m.id == "id-2" && m.receives == 1 }
		r := run(t, f, Config{}, succeed)
		advance(2 * time.Minute)
		r.expect(t, f, 0, 6, 1)
		if len(r.outcomes("id-2")) != 2 || r.failures[0] != "settle message id-2" {
			t.Errorf("%d deliveries of id-2, failures %q", len(r.outcomes("id-2")), r.failures)
		}
	})
}

func TestRetriedMessage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake("")
		var at []time.Duration
		r := run(t, f, Config{}, func(_ context.Context, m Message) error {
			at = append(at, time.Since(f.start).Truncate(time.Second))
			if m.Receives < 4 {
				return errWork
			}
			return nil
		})
		advance(time.Minute)
		s := time.Second
		if diff := cmp.Diff([]time.Duration{0, s, 4 * s, 11 * s}, at); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]Outcome{Retried, Retried, Retried, Deleted}, r.outcomes("id-0")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRejectedMessage(t *testing.T) {
	t.Run("with a redrive policy", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			f := newFake("")
			f.attrs = map[string]string{"RedrivePolicy": `{"maxReceiveCount":9}`}
			r := run(t, f, Config{}, reject)
			advance(10 * time.Minute)
			if f.left() != 1 || slices.Contains(r.outcomes("id-0"), Dropped) || len(r.received) < 9 {
				t.Errorf("%d left, outcomes %v: want it left to the redrive policy", f.left(), r.outcomes("id-0"))
			}
		})
	})
	t.Run("without a redrive policy", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			f := newFake("")
			r := run(t, f, Config{}, reject)
			advance(10 * time.Minute)
			want := []Outcome{Rejected, Rejected, Rejected, Rejected, Dropped}
			if diff := cmp.Diff(want, r.outcomes("id-0")); diff != "" || f.left() != 0 {
				t.Errorf("%d left, %s", f.left(), diff)
			}
		})
	})
}

// TestRunTwice: a process that leads a second time receives again.
func TestRunTwice(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(bodies(25)...)
		c := newConsumer(f, Config{}, &recorder{})
		var handled atomic.Int32
		for _, takes := range []time.Duration{time.Hour, time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			_ = c.Run(ctx, func(ctx context.Context, _ Message) error {
				select {
				case <-time.After(takes):
					handled.Add(1)
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			cancel()
		}
		if handled.Load() != 25 || f.left() != 0 || len(f.called("attributes")) != 1 {
			t.Errorf("%d messages were handled, %d are left", handled.Load(), f.left())
		}
	})
}

func TestReady(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake("")
		var down atomic.Bool
		down.Store(true)
		f.before = failing("attributes", func(int) bool { return down.Load() })
		r := run(t, f, Config{}, succeed)
		advance(time.Minute)
		if r.Ready() || len(f.called("receive")) > 0 || len(r.failures) == 0 {
			t.Errorf("ready %v, received %d times, failures %v", r.Ready(), len(f.called("receive")), r.failures)
		}
		down.Store(false)
		advance(20 * time.Second)
		if !r.Ready() || f.left() != 0 {
			t.Errorf("ready %v, %d messages left", r.Ready(), f.left())
		}
	})
}

// TestConnect: a standby learns whether it could work, and receives nothing.
func TestConnect(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake("")
		f.before = failing("attributes", func(n int) bool { return n < 3 })
		rec := &recorder{}
		c := newConsumer(f, Config{}, rec)
		done := make(chan error, 2)
		for range 2 {
			go func() { done <- c.Connect(t.Context()) }()
		}
		for range 2 {
			if err := <-done; err != nil || !c.Ready() {
				t.Errorf("%v, ready %v", err, c.Ready())
			}
		}
		if got := len(f.called("attributes")); got != 4 || len(rec.failures) != 3 || len(f.called("receive")) > 0 {
			t.Errorf("called %d times, %d failures, received %d times", got, len(rec.failures), len(f.called("receive")))
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errStop)
		if err := New(f, c.cfg, rec).Connect(ctx); !errors.Is(err, errStop) {
			t.Errorf("got %v, want the cause of the context's end", err)
		}
	})
}

// TestLaterRedrivePolicy is seen without a restart, and kept while SQS does not answer.
func TestLaterRedrivePolicy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake()
		var down atomic.Bool
		f.before = failing("attributes", func(int) bool { return down.Load() })
		r := run(t, f, Config{}, reject)
		advance(time.Minute)
		f.mu.Lock()
		f.attrs = map[string]string{"RedrivePolicy": `{"maxReceiveCount":9}`}
		f.mu.Unlock()
		advance(5 * time.Minute)
		down.Store(true)
		f.send("")
		advance(11 * time.Minute)
		if f.left() != 1 || len(r.failures) != 2 || !r.Ready() {
			t.Errorf("%d messages left, %d failures, ready %v", f.left(), len(r.failures), r.Ready())
		}
	})
}
