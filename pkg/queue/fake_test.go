package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const queueURL = "https://sqs.eu-central-1.amazonaws.com/123456789012/node-drainer"

var (
	errDown = errors.New("SQS is down")
	errWork = errors.New("the node is not empty yet")
)

// message is what the fake keeps of a message; only its newest receipt handle is good.
type message struct {
	id, handle, body string
	sent, received   time.Time
	visible          time.Time // from when on it may be received
	receives         int
	deleted          bool
}

// call is one call that the fake got; it was for so many messages.
type call struct {
	op   string
	at   time.Duration // since the fake was made
	size int
	// visibilities are the timeouts of a change of visibility, in its order.
	visibilities []int32
}

// fakeSQS is a queue in memory, in the time of the bubble that it was made in.
type fakeSQS struct {
	start time.Time
	attrs map[string]string
	// before runs at the start of each call, unlocked; its error is the call's.
	before func(ctx context.Context, op string, n int) error
	// refuse fails single entries of a batch.
	refuse func(op string, m *message) bool

	mu       sync.Mutex
	messages []*message
	handles  map[string]*message // every handle that was ever given out
	calls    []call
	counts   map[string]int
	wake     chan struct{} // closed when a message may have become visible
}

func newFake(bodies ...string) *fakeSQS {
	f := &fakeSQS{
		start: time.Now(), handles: map[string]*message{}, counts: map[string]int{}, wake: make(chan struct{}),
	}
	f.send(bodies...)
	return f
}

func (f *fakeSQS) send(bodies ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, body := range bodies {
		f.messages = append(f.messages, &message{
			id: fmt.Sprintf("id-%d", len(f.messages)), body: body, sent: time.Now(), visible: time.Now(),
		})
	}
	f.changed()
}

// changed wakes those who wait for a message. The lock is held.
func (f *fakeSQS) changed() {
	close(f.wake)
	f.wake = make(chan struct{})
}

func (f *fakeSQS) begin(ctx context.Context, c call) error {
	f.mu.Lock()
	c.at = time.Since(f.start)
	f.calls = append(f.calls, c)
	n := f.counts[c.op]
	f.counts[c.op]++
	f.mu.Unlock()
	if f.before == nil {
		return ctx.Err()
	}
	return f.before(ctx, c.op, n)
}

// called returns the calls of one operation.
func (f *fakeSQS) called(op string) []call {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []call
	for _, c := range f.calls {
		if c.op == op {
			out = append(out, c)
		}
	}
	return out
}

func (f *fakeSQS) left() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, m := range f.messages {
		if !m.deleted {
			n++
		}
	}
	return n
}

func (f *fakeSQS) GetQueueAttributes(
	ctx context.Context, _ *sqs.GetQueueAttributesInput, _ ...func(*sqs.Options),
) (*sqs.GetQueueAttributesOutput, error) {
	if err := f.begin(ctx, call{op: "attributes"}); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return &sqs.GetQueueAttributesOutput{Attributes: f.attrs}, nil
}

func (f *fakeSQS) ReceiveMessage(
	ctx context.Context, in *sqs.ReceiveMessageInput, _ ...func(*sqs.Options),
) (*sqs.ReceiveMessageOutput, error) {
	if err := f.begin(ctx, call{op: "receive", size: int(in.MaxNumberOfMessages)}); err != nil {
		return nil, err
	}
	timeout := time.NewTimer(time.Duration(in.WaitTimeSeconds) * time.Second)
	defer timeout.Stop()
	for {
		got, next, wake := f.hand(in)
		if len(got) > 0 {
			return &sqs.ReceiveMessageOutput{Messages: got}, nil
		}
		soon := time.NewTimer(next)
		select {
		case <-ctx.Done():
			soon.Stop()
			return nil, ctx.Err()
		case <-timeout.C:
			soon.Stop()
			return &sqs.ReceiveMessageOutput{}, nil
		case <-soon.C:
		case <-wake:
			soon.Stop()
		}
	}
}

// hand gives out what is visible, or says when the next message will be.
func (f *fakeSQS) hand(in *sqs.ReceiveMessageInput) ([]types.Message, time.Duration, chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []types.Message
	next := time.Hour
	now := time.Now()
	for _, m := range f.messages {
		switch {
		case m.deleted || len(out) == int(in.MaxNumberOfMessages):
			continue
		case m.visible.After(now):
			next = min(next, m.visible.Sub(now))
			continue
		}
		m.receives++
		m.handle = fmt.Sprintf("%s/%d", m.id, m.receives)
		f.handles[m.handle] = m
		m.received = now
		m.visible = now.Add(time.Duration(in.VisibilityTimeout) * time.Second)
		out = append(out, types.Message{
			MessageId: aws.String(m.id), Body: aws.String(m.body), ReceiptHandle: aws.String(m.handle),
			Attributes: map[string]string{
				"ApproximateReceiveCount": strconv.Itoa(m.receives),
				"SentTimestamp":           strconv.FormatInt(m.sent.UnixMilli(), 10),
			},
		})
	}
	return out, next, f.wake
}

// find returns the message of a handle, or why SQS would not take it. The lock is held.
func (f *fakeSQS) find(op string, id, handle *string) (*message, *types.BatchResultErrorEntry) {
	m := f.handles[aws.ToString(handle)]
	if m == nil || m.handle != aws.ToString(handle) || m.deleted && op != "delete" ||
		f.refuse != nil && f.refuse(op, m) {
		return nil, &types.BatchResultErrorEntry{
			Id: id, Code: aws.String("ReceiptHandleIsInvalid"), Message: aws.String("it is too old"),
		}
	}
	return m, nil
}

func (f *fakeSQS) DeleteMessageBatch(
	ctx context.Context, in *sqs.DeleteMessageBatchInput, _ ...func(*sqs.Options),
) (*sqs.DeleteMessageBatchOutput, error) {
	if err := f.begin(ctx, call{op: "delete", size: len(in.Entries)}); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	out := &sqs.DeleteMessageBatchOutput{}
	for _, e := range in.Entries {
		m, failed := f.find("delete", e.Id, e.ReceiptHandle)
		if failed != nil {
			out.Failed = append(out.Failed, *failed)
			continue
		}
		m.deleted = true
		out.Successful = append(out.Successful, types.DeleteMessageBatchResultEntry{Id: e.Id})
	}
	return out, nil
}

func (f *fakeSQS) ChangeMessageVisibilityBatch(
	ctx context.Context, in *sqs.ChangeMessageVisibilityBatchInput, _ ...func(*sqs.Options),
) (*sqs.ChangeMessageVisibilityBatchOutput, error) {
	c := call{op: "visibility", size: len(in.Entries)}
	for _, e := range in.Entries {
		c.visibilities = append(c.visibilities, e.VisibilityTimeout)
	}
	if err := f.begin(ctx, c); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	out := &sqs.ChangeMessageVisibilityBatchOutput{}
	for _, e := range in.Entries {
		m, failed := f.find("visibility", e.Id, e.ReceiptHandle)
		if failed != nil {
			out.Failed = append(out.Failed, *failed)
			continue
		}
		until := time.Now().Add(time.Duration(e.VisibilityTimeout) * time.Second)
		if until.Sub(m.received) > 12*time.Hour {
			out.Failed = append(out.Failed, types.BatchResultErrorEntry{
				Id: e.Id, Code: aws.String("InvalidParameterValue"), Message: aws.String("beyond 43200 seconds"),
			})
			continue
		}
		m.visible = until
		out.Successful = append(out.Successful, types.ChangeMessageVisibilityBatchResultEntry{Id: e.Id})
	}
	f.changed()
	return out, nil
}

// watcher remembers what a Consumer told of.
type watcher struct {
	mu       sync.Mutex
	received []Message
	settled  []settled
	failures []string
	failedAt []time.Time
}

type settled struct {
	ID      string
	Outcome Outcome
	Err     error
}

func (w *watcher) MessageReceived(m Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.received = append(w.received, m)
}

func (w *watcher) MessageSettled(m Message, outcome Outcome, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settled = append(w.settled, settled{m.ID, outcome, err})
}

func (w *watcher) QueueFailed(operation string, _ error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, operation)
	w.failedAt = append(w.failedAt, time.Now())
}

// failed returns how many failures were told of.
func (w *watcher) failed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.failures)
}

// outcomes returns what became of the deliveries of a message, the first one first.
func (w *watcher) outcomes(id string) []Outcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Outcome
	for _, s := range w.settled {
		if s.ID == id {
			out = append(out, s.Outcome)
		}
	}
	return out
}

// running is a Consumer in a bubble.
type running struct {
	*Consumer
	*watcher
	stop  context.CancelCauseFunc
	ended chan error
	end   func() // stops it and waits for its end
}

var errStop = errors.New("the process is asked to stop")

// run starts a Consumer, which ends with the test at the latest.
func run(t *testing.T, api API, cfg Config, handle Handler) *running {
	t.Helper()
	if cfg.URL == "" {
		cfg.URL = queueURL
	}
	if cfg.VisibilityTimeout == 0 {
		cfg.VisibilityTimeout = time.Minute
	}
	if cfg.Receivers == 0 {
		cfg.Receivers = 10
	}
	if cfg.MaxInFlight == 0 {
		cfg.MaxInFlight = 100
	}
	w := &watcher{}
	r := &running{Consumer: New(api, cfg, w), watcher: w, ended: make(chan error, 1)}
	ctx, stop := context.WithCancelCause(context.WithoutCancel(t.Context()))
	r.stop = stop
	go func() {
		r.ended <- r.Run(ctx, handle)
		close(r.ended)
	}()
	r.end = func() {
		stop(errStop)
		if err, open := <-r.ended; open && !errors.Is(err, errStop) {
			t.Errorf("Run returned %v, want the cause of the context's end", err)
		}
	}
	t.Cleanup(r.end)
	return r
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// bodies is n bodies of messages.
func bodies(n int) []string { return make([]string, n) }
