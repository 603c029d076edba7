package queue

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestHandlerGetsTheMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	synctest.Test(t, func(t *testing.T) {
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

// TestRefusedDeletes: a message that SQS does not delete is in flight until the attempts are over, so no second handler
// runs. Others are not affected.
func TestRefusedDeletes(t *testing.T) {
	check := func(
		name string, visible time.Duration, refuse func(*message) bool, received, receives int, failures ...string,
	) {
		t.Helper()
		virtual(t, name, func(t *testing.T) {
			f := newFake(bodies(5)...)
			f.refuse = func(op string, m *message) bool { return op == "delete" && m.id == "id-2" && refuse(m) }
			r := run(t, f, Config{VisibilityTimeout: visible}, succeed)
			advance(2 * time.Minute)
			r.expect(t, f, 0, received, len(failures))
			if got := f.messages[2].receives; got != receives || !slices.Equal(r.failures, failures) {
				t.Errorf("id-2 was received %d times, failures %q", got, r.failures)
			}
		})
	}
	refusals := 0
	thrice := func(*message) bool { refusals++; return refusals <= 3 }
	check("three times: deleted at the fourth attempt", time.Minute, thrice, 5, 1)
	once := func(m *message) bool { return m.receives == 1 }
	check("until it is delivered again: the new receipt handle is used", 3*time.Second, once, 5, 2)
	check("every attempt: it is delivered again, and handled again", time.Minute, once, 6, 2, "settle message id-2")
}

func TestRetriedMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	for policy, want := range map[string][]Outcome{
		"":                         {Rejected, Rejected, Rejected, Rejected, Dropped},
		`{"maxReceiveCount":9999}`: slices.Repeat([]Outcome{Rejected}, 15), // left to the redrive policy
	} {
		virtual(t, "redrive policy "+policy, func(t *testing.T) {
			f := newFake("")
			f.attrs = map[string]string{"RedrivePolicy": policy}
			r := run(t, f, Config{}, reject)
			advance(10 * time.Minute)
			if diff := cmp.Diff(want, r.outcomes("id-0")); diff != "" || (f.left() == 0) != (policy == "") {
				t.Errorf("%d left, %s", f.left(), diff)
			}
		})
	}
}

// TestRunTwice: a process that leads a second time receives again.
func TestRunTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	synctest.Test(t, func(t *testing.T) {
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
	synctest.Test(t, func(t *testing.T) {
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
		c.connecting <- struct{}{} // another Connect runs
		if err := c.Connect(ctx); !errors.Is(err, errStop) {
			t.Errorf("got %v, want the cause of the context's end", err)
		}
	})
}

// TestLaterRedrivePolicy is seen without a restart, and kept while SQS does not answer.
func TestLaterRedrivePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
