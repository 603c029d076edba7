package queue

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/node-drainer/node-drainer/internal/retry"
)

// crowd counts what goes on at the same time.
type crowd struct {
	mu        sync.Mutex
	now, peak int
}

func (c *crowd) enter() (leave func()) {
	c.add(1)
	return func() { c.add(-1) }
}

func (c *crowd) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += n
	c.peak = max(c.peak, c.now)
}

func (c *crowd) count() (now, peak int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, c.peak
}

// far is a queue at a distance: an answer takes a while to come.
type far struct {
	*fakeSQS
	takes    time.Duration
	underWay crowd
}

func (f *far) ReceiveMessage(
	ctx context.Context, in *sqs.ReceiveMessageInput, opts ...func(*sqs.Options),
) (*sqs.ReceiveMessageOutput, error) {
	defer f.underWay.enter()()
	out, err := f.fakeSQS.ReceiveMessage(ctx, in, opts...)
	if !retry.Sleep(ctx, f.takes) {
		return nil, ctx.Err() // it comes too late
	}
	return out, err
}

// TestReceiversComeAndGo: a burst is received by many side by side, and an idle queue by one.
func TestReceiversComeAndGo(t *testing.T) {
	for _, tt := range []struct {
		receivers, messages, peak int
		takes                     time.Duration
	}{
		{10, 1000, 10, 1300 * time.Millisecond}, // 1, 2, 4, 8, 10 at a time, ten messages each
		{3, 300, 3, 1100 * time.Millisecond},
		{1, 100, 1, time.Second},
		{10, 9, 1, 100 * time.Millisecond}, // one receive took all
	} {
		bubble(t, func(t *testing.T) {
			f := &far{fakeSQS: newFake(bodies(tt.messages)...), takes: 100 * time.Millisecond}
			r := run(t, f, Config{Receivers: tt.receivers, MaxInFlight: 10_000}, func(context.Context, Message) error { return nil })
			after(tt.takes + 100*time.Millisecond)
			if _, got := f.underWay.count(); got != tt.peak || f.left() != 0 {
				t.Errorf("%d messages, %d receivers: %d at a time, want %d; %d messages left",
					tt.messages, tt.receivers, got, tt.peak, f.left())
			}
			after(2 * time.Second)
			if now, _ := f.underWay.count(); now != 1 || r.failed() > 0 {
				t.Errorf("%d receivers wait at an empty queue, %d failures", now, r.failed())
			}
			for _, m := range f.messages {
				if m.receives != 1 {
					t.Errorf("%s was received %d times", m.id, m.receives)
				}
			}
		})
	}
}

// TestHelpersThatFail: only one receiver asks an SQS that does not answer.
func TestHelpersThatFail(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(bodies(500)...)
		f.before = func(_ context.Context, op string, n int) error {
			time.Sleep(100 * time.Millisecond)
			if op == "receive" && n >= 20 && n < 40 {
				return errDown
			}
			return nil
		}
		r := run(t, f, Config{}, func(context.Context, Message) error { return nil })
		after(10 * time.Minute)
		if f.left() != 0 || len(r.received) != 500 || r.failed() != 20 {
			t.Errorf("%d messages left, %d deliveries, %d failures", f.left(), len(r.received), r.failed())
		}
	})
}

// TestStopAmidAReceive: what SQS has handed out is visible again at once, and was not handled.
func TestStopAmidAReceive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &far{fakeSQS: newFake(), takes: 100 * time.Millisecond}
		r := run(t, f, Config{}, func(context.Context, Message) error {
			t.Error("the message was handled")
			return nil
		})
		after(time.Second)
		f.send("a body")
		after(50 * time.Millisecond)
		start := time.Now()
		r.end()
		if m := f.messages[0]; m.receives != 1 || m.deleted || time.Since(m.visible) < 0 {
			t.Errorf("received %d times, visible in %v", m.receives, time.Until(m.visible))
		}
		if took := time.Since(start); took > lastCall {
			t.Errorf("Run returned after %v", took)
		}
	})
}

// TestStopGivesBackToOthers: what is given back does not come in once more by the receive that is still open.
func TestStopGivesBackToOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &far{fakeSQS: newFake("a body"), takes: 300 * time.Millisecond}
		r := run(t, f, Config{}, func(ctx context.Context, _ Message) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		after(time.Second)
		start := time.Now()
		r.end()
		if m := f.messages[0]; m.receives != 1 || time.Since(m.visible) < 0 {
			t.Errorf("received %d times, visible in %v", m.receives, time.Until(m.visible))
		}
		if took := time.Since(start); took > 2*lastCall {
			t.Errorf("Run returned after %v", took)
		}
	})
}

// TestStopAtAnEmptyQueue: the long poll is not waited for.
func TestStopAtAnEmptyQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := run(t, newFake(), Config{}, func(context.Context, Message) error { return nil })
		after(time.Second)
		start := time.Now()
		r.end()
		if took := time.Since(start); took > lastCall {
			t.Errorf("Run returned after %v", took)
		}
	})
}

// TestConnect: a replica that stands by learns whether it could work, and receives nothing.
func TestConnect(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake("")
		f.before = func(ctx context.Context, _ string, n int) error {
			if n < 3 {
				return errDown
			}
			return ctx.Err()
		}
		w := &watcher{}
		c := New(f, Config{URL: queueURL, VisibilityTimeout: time.Minute, MaxInFlight: 1, Receivers: 1}, w)
		done := make(chan error, 2)
		go func() { done <- c.Connect(t.Context()) }()
		go func() { done <- c.Connect(t.Context()) }()
		for range 2 {
			if err := <-done; err != nil || !c.Ready() {
				t.Errorf("%v, ready %v", err, c.Ready())
			}
		}
		if got := len(f.called("attributes")); got != 4 || len(w.failures) != 3 || len(f.called("receive")) > 0 {
			t.Errorf("asked %d times, %d failures, received %d times", got, len(w.failures), len(f.called("receive")))
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errStop)
		if err := New(f, c.cfg, w).Connect(ctx); err != errStop { //nolint:errorlint // itself
			t.Errorf("got %v, want the cause of the context's end", err)
		}
	})
}

// TestRedrivePolicyThatComesLater is seen without a restart, and believed in while SQS does not answer.
func TestRedrivePolicyThatComesLater(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake()
		var down atomic.Bool
		f.before = func(_ context.Context, op string, _ int) error {
			if op == "attributes" && down.Load() {
				return errDown
			}
			return nil
		}
		r := run(t, f, Config{}, func(context.Context, Message) error { return Reject(errWork) })
		after(time.Minute)
		f.mu.Lock()
		f.attrs = map[string]string{"RedrivePolicy": `{"maxReceiveCount":9}`}
		f.mu.Unlock()
		after(5 * time.Minute)
		down.Store(true)
		f.send("")
		after(11 * time.Minute)
		if f.left() != 1 || r.failed() != 2 || !r.Ready() {
			t.Errorf("%d messages left, %d failures, ready %v", f.left(), r.failed(), r.Ready())
		}
	})
}

// TestRunAgain: a process that leads a second time begins anew.
func TestRunAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(bodies(25)...)
		c := New(f, Config{URL: queueURL, VisibilityTimeout: time.Minute, MaxInFlight: 100, Receivers: 10}, &watcher{})
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

// TestGate: while it is closed nothing is received, and what is in hand goes on.
func TestGate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake("")
		c := New(f, Config{URL: queueURL, VisibilityTimeout: time.Minute, MaxInFlight: 100, Receivers: 10}, &watcher{})
		open := make(chan struct{})
		var closed atomic.Bool
		c.Gate(func(ctx context.Context) {
			if closed.Load() {
				select {
				case <-open:
				case <-ctx.Done():
				}
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- c.Run(ctx, func(context.Context, Message) error { time.Sleep(10 * time.Minute); return nil })
		}()
		after(time.Second)
		closed.Store(true)
		after(time.Minute) // the receive that was under way ends
		receives := len(f.called("receive"))
		f.send("")
		after(10 * time.Minute)
		if got := len(f.called("receive")); got != receives || f.left() != 1 || f.messages[0].receives != 1 {
			t.Errorf("%d receives, %d messages left", got-receives, f.left())
		}
		closed.Store(false)
		close(open)
		after(11 * time.Minute)
		if f.left() != 0 {
			t.Errorf("%d messages left", f.left())
		}
		cancel()
		if err := <-ended; err == nil {
			t.Error("Run ended without a reason")
		}
	})
}
