package queue

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/node-drainer/node-drainer/internal/retry"
)

// concurrency counts what runs at the same time.
type concurrency struct {
	mu        sync.Mutex
	now, peak int
}

func (c *concurrency) begin() (end func()) {
	c.add(1)
	return func() { c.add(-1) }
}

func (c *concurrency) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += n
	c.peak = max(c.peak, c.now)
}

func (c *concurrency) count() (now, peak int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, c.peak
}

// slowSQS is a queue whose answers to receives take a while.
type slowSQS struct {
	*fakeSQS
	latency  time.Duration
	receives concurrency
}

func (f *slowSQS) ReceiveMessage(
	ctx context.Context, in *sqs.ReceiveMessageInput, opts ...func(*sqs.Options),
) (*sqs.ReceiveMessageOutput, error) {
	defer f.receives.begin()()
	out, err := f.fakeSQS.ReceiveMessage(ctx, in, opts...)
	if !retry.Sleep(ctx, f.latency) {
		return nil, ctx.Err()
	}
	return out, err
}

// TestReceivers: many receive from a full queue concurrently, and one from an empty queue.
func TestReceivers(t *testing.T) {
	for _, tt := range []struct {
		receivers, messages, peak int
		takes                     time.Duration
	}{
		{10, 1000, 10, 1300 * time.Millisecond}, // 1, 2, 4, 8, 10 concurrently, ten messages each
		{3, 300, 3, 1100 * time.Millisecond},
		{1, 100, 1, time.Second},
		{10, 9, 1, 100 * time.Millisecond}, // one receive returns all
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &slowSQS{fakeSQS: newFake(bodies(tt.messages)...), latency: 100 * time.Millisecond}
			r := run(t, f, Config{Receivers: tt.receivers, MaxInFlight: 10_000}, succeed)
			advance(tt.takes + 100*time.Millisecond)
			if _, got := f.receives.count(); got != tt.peak {
				t.Errorf("%d messages, %d receivers: %d concurrently, want %d", tt.messages, tt.receivers, got, tt.peak)
			}
			r.expect(t, f.fakeSQS, 0, tt.messages, 0)
			advance(2 * time.Second)
			if now, _ := f.receives.count(); now != 1 {
				t.Errorf("%d receivers wait at an empty queue", now)
			}
			f.expectReceivedOnce(t)
		})
	}
}

func (f *fakeSQS) expectReceivedOnce(t *testing.T) {
	t.Helper()
	for _, m := range f.messages {
		if m.receives != 1 {
			t.Errorf("%s was received %d times", m.id, m.receives)
		}
	}
}

// TestReceiversDuringOutage: only one receiver calls an SQS that fails.
func TestReceiversDuringOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(bodies(500)...)
		f.before = func(_ context.Context, op string, n int) error {
			time.Sleep(100 * time.Millisecond)
			if op == "receive" && n >= 20 && n < 40 {
				return errDown
			}
			return nil
		}
		r := run(t, f, Config{}, succeed)
		advance(10 * time.Minute)
		r.expect(t, f, 0, 500, 20)
	})
}

// TestReceiveBackoff: the pauses double up to 15 s, and each is up to 20 % longer at random.
func TestReceiveBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("")
		f.before = failing("receive", func(n int) bool { return n < 8 })
		r := run(t, f, Config{}, succeed)
		advance(2 * time.Minute)
		r.expect(t, f, 0, 1, 8)
		s := time.Second
		for i, want := range []time.Duration{s / 2, s, 2 * s, 4 * s, 8 * s, 15 * s, 15 * s, 15 * s} {
			if pause := f.called("receive")[i+1].at - f.called("receive")[i].at; pause < want || pause > want*6/5 {
				t.Errorf("pause %d is %v, want %v", i, pause, want)
			}
		}
	})
}

func TestDeadConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("")
		f.before = func(ctx context.Context, _ string, n int) error {
			if n == 0 { // the first call of each operation
				return hang(ctx)
			}
			return ctx.Err()
		}
		r := run(t, f, Config{}, succeed)
		advance(5 * time.Minute)
		if !r.Ready() || f.left() != 0 || f.messages[0].receives != 1 {
			t.Errorf("ready %v, %d left, received %d times", r.Ready(), f.left(), f.messages[0].receives)
		}
	})
}

// TestMaxInFlight: other messages wait in the queue, where other processes can receive them.
func TestMaxInFlight(t *testing.T) {
	for _, limit := range []int{1, 3, 12} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(bodies(25)...)
			var handlers concurrency
			r := run(t, f, Config{MaxInFlight: limit}, func(context.Context, Message) error {
				defer handlers.begin()()
				time.Sleep(10 * time.Minute)
				return nil
			})
			advance(26 * 10 * time.Minute)
			if _, peak := handlers.count(); peak != limit {
				t.Errorf("%d concurrently, want %d", peak, limit)
			}
			r.expect(t, f, 0, 25, 0)
			f.expectReceivedOnce(t)
		})
	}
}

// TestGate: while it is closed nothing is received, and the messages in flight are not affected.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("")
		rec := &recorder{}
		r := &running{Consumer: newConsumer(f, Config{}, rec), recorder: rec, ended: make(chan error, 1)}
		open := make(chan struct{})
		var closed atomic.Bool
		r.Gate(func(ctx context.Context) {
			if closed.Load() {
				select {
				case <-open:
				case <-ctx.Done():
				}
			}
		})
		r.start(t, work(10*time.Minute))
		advance(time.Second)
		closed.Store(true)
		advance(time.Minute) // the receive that was running ends
		receives := len(f.called("receive"))
		f.send("")
		advance(10 * time.Minute)
		if got := len(f.called("receive")); got != receives || f.left() != 1 || f.messages[0].receives != 1 {
			t.Errorf("%d receives, %d messages left", got-receives, f.left())
		}
		closed.Store(false)
		close(open)
		advance(11 * time.Minute)
		if f.left() != 0 {
			t.Errorf("%d messages left", f.left())
		}
	})
}
