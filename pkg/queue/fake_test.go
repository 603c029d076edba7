package queue

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

const queueURL = "https://sqs.eu-central-1.amazonaws.com/123456789012/node-drainer"

// message is a message of the fake. Only its latest receipt handle is valid.
type message struct {
	id, handle, body string
	sent, received   time.Time
	visible          time.Time // when it may be received
	receives         int
	deleted          bool
}

// call is one call of the fake, for size messages.
type call struct {
	op   string
	at   time.Duration // since the fake was made
	size int
}

// fakeSQS is a queue in memory, in virtual time.
type fakeSQS struct {
	start time.Time
	attrs map[string]string
	// before runs at the start of each call; its error is the call's.
	before func(ctx context.Context, op string, n int) error
	// refuse reports whether an entry of a batch fails.
	refuse func(op string, m *message) bool

	mu       sync.Mutex
	messages []*message
	handles  map[string]*message // by receipt handle, including those that are not valid any more
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

// changed wakes the receives that wait for a message. It must be called with mu.
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
		got, next, wake := f.deliver(in)
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

// deliver returns the visible messages, and when the next one will be visible.
func (f *fakeSQS) deliver(in *sqs.ReceiveMessageInput) ([]types.Message, time.Duration, chan struct{}) {
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

// find returns the message of a receipt handle, or why SQS refuses it. It must be called with mu.
func (f *fakeSQS) find(op string, id, handle *string) (*message, *types.BatchResultErrorEntry) {
	m := f.handles[aws.ToString(handle)]
	if m == nil || m.handle != aws.ToString(handle) || m.deleted && op != "delete" ||
		f.refuse != nil && f.refuse(op, m) {
		return nil, &types.BatchResultErrorEntry{
			Id: id, Code: aws.String("ReceiptHandleIsInvalid"), Message: aws.String("expired"),
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
	if err := f.begin(ctx, call{op: "visibility", size: len(in.Entries)}); err != nil {
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
