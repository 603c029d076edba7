package queue

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	errDown = errors.New("SQS is down")
	errWork = errors.New("the node is not empty yet")
	errStop = errors.New("the process is stopping")
)

// recorder is an Observer that remembers its notifications.
type recorder struct {
	mu       sync.Mutex
	received []Message
	settled  []settled
	failures []string
}

type settled struct {
	ID      string
	Outcome Outcome
	Err     error
}

// hang is for fakeSQS.before: SQS does not answer.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (r *recorder) MessageReceived(m Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.received = append(r.received, m)
}

func (r *recorder) MessageSettled(m Message, outcome Outcome, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settled = append(r.settled, settled{m.ID, outcome, err})
}

func (r *recorder) QueueFailed(operation string, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, operation)
}

// outcomes returns how the deliveries of a message ended, in order.
func (r *recorder) outcomes(id string) []Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Outcome
	for _, s := range r.settled {
		if s.ID == id {
			out = append(out, s.Outcome)
		}
	}
	return out
}

// running is a running Consumer.
type running struct {
	*Consumer
	*recorder
	cancel context.CancelCauseFunc
	ended  chan error
}

// run starts a Consumer. It is stopped when the test ends.
func run(t *testing.T, api API, cfg Config, handle Handler) *running {
	t.Helper()
	rec := &recorder{}
	r := &running{Consumer: newConsumer(api, cfg, rec), recorder: rec, ended: make(chan error, 1)}
	r.start(t, handle)
	return r
}

func newConsumer(api API, cfg Config, rec *recorder) *Consumer {
	return New(api, Config{
		URL: cmp.Or(cfg.URL, queueURL), VisibilityTimeout: cmp.Or(cfg.VisibilityTimeout, time.Minute),
		Receivers: cmp.Or(cfg.Receivers, 10), MaxInFlight: cmp.Or(cfg.MaxInFlight, 100),
	}, rec)
}

func (r *running) start(t *testing.T, handle Handler) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(t.Context()))
	r.cancel = cancel
	go func() {
		r.ended <- r.Run(ctx, handle)
		close(r.ended)
	}()
	t.Cleanup(func() { r.stop(t) })
}

// stop stops the Consumer, and returns how long that took.
func (r *running) stop(t *testing.T) time.Duration {
	t.Helper()
	start := time.Now()
	r.cancel(errStop)
	if err, open := <-r.ended; open && !errors.Is(err, errStop) {
		t.Errorf("Run returned %v, want the cause of the context's end", err)
	}
	return time.Since(start)
}

// expectStop stops the Consumer, and fails the test if that takes longer than limit.
func (r *running) expectStop(t *testing.T, limit time.Duration) {
	t.Helper()
	if took := r.stop(t); took > limit {
		t.Errorf("Run returned after %v, want %v at most", took, limit)
	}
}

// expect checks how many messages are left in the queue, and the counts of deliveries and failures.
func (r *running) expect(t *testing.T, f *fakeSQS, left, received, failures int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.left() != left || len(r.received) != received || len(r.failures) != failures {
		t.Errorf("%d messages left, %d deliveries, failures %q; want %d, %d and %d failures",
			f.left(), len(r.received), r.failures, left, received, failures)
	}
}

// succeed is a Handler that returns at once.
func succeed(context.Context, Message) error { return nil }

// work returns a Handler that takes d, whatever its context.
func work(d time.Duration) Handler {
	return func(context.Context, Message) error { time.Sleep(d); return nil }
}

// untilStopped is a Handler that does not finish before the Consumer stops.
func untilStopped(ctx context.Context, _ Message) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func reject(context.Context, Message) error { return Reject(errWork) }

// virtual runs a subtest in virtual time.
func virtual(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// bodies returns the bodies of n messages.
func bodies(n int) []string { return make([]string, n) }

// failing returns a function for fakeSQS.before by which all calls of an operation fail while down returns
// true.
func failing(op string, down func(n int) bool) func(context.Context, string, int) error {
	return func(ctx context.Context, called string, n int) error {
		if called == op && down(n) {
			return errDown
		}
		return ctx.Err()
	}
}
