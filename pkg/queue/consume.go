package queue

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/node-drainer/node-drainer/internal/batch"
	"github.com/node-drainer/node-drainer/internal/pause"
)

const (
	// batchSize is the most messages that SQS takes or gives in one call.
	batchSize = 10
	// longPoll is how long SQS holds a receive on an empty queue; 20 s is the most it allows.
	longPoll = 20 * time.Second
	// callTimeout bounds a call: a connection that went dead must not stop the intake.
	callTimeout = 15 * time.Second
	// maxVisibility is SQS's bound on how long a delivery stays invisible, counted from its receipt.
	maxVisibility = 12 * time.Hour
	// batchWindow is how long a delete waits for others to go with.
	batchWindow = 20 * time.Millisecond
	// firstRetry and lastRetry bound the pause after a receive that failed.
	firstRetry, lastRetry = 500 * time.Millisecond, 15 * time.Second
)

// API is the part of the SQS client that a Consumer calls.
type API interface {
	GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (
		*sqs.GetQueueAttributesOutput, error)
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (
		*sqs.ReceiveMessageOutput, error)
	DeleteMessageBatch(context.Context, *sqs.DeleteMessageBatchInput, ...func(*sqs.Options)) (
		*sqs.DeleteMessageBatchOutput, error)
	ChangeMessageVisibilityBatch(context.Context, *sqs.ChangeMessageVisibilityBatchInput,
		...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error)
}

// Observer is told what happens to messages. Its methods are called from several goroutines and must not
// block.
type Observer interface {
	MessageReceived(m Message)
	MessageSettled(m Message, outcome Outcome, err error)
	QueueFailed(operation string, err error) // the call is tried again
}

// Handler does what a message asks for. The message stays invisible until Handler returns.
type Handler func(ctx context.Context, m Message) error

// Consumer receives the messages of one queue. Make it with New.
type Consumer struct {
	api      API
	cfg      Config
	observer Observer

	deletes      changes
	visibilities changes

	ready   atomic.Bool
	redrive atomic.Bool

	mu   sync.Mutex
	held map[string]*held // by message id
}

// held is a message that a handler works on. Its receipt handle is the newest that SQS gave out: an older one
// may no longer delete the message.
type held struct {
	handle     string
	receivedAt time.Time
}

// changes gathers what goes to SQS in one call.
type changes = batch.Batcher[change, struct{}]

// change is one message's part of a batch: its deletion or its new visibility timeout.
type change struct {
	handle     string
	visibility time.Duration
	renews     string // id of the message that is kept invisible for its handler
}

// New returns a Consumer of the queue that cfg names.
func New(api API, cfg Config, observer Observer) *Consumer {
	c := &Consumer{api: api, cfg: cfg, observer: observer, held: map[string]*held{}}
	c.deletes = changes{Max: batchSize, Window: batchWindow, Call: c.deleteBatch}
	c.visibilities = changes{Max: batchSize, Window: batchWindow, Call: c.visibilityBatch}
	return c
}

// Ready tells whether the queue has been reached: its attributes could be read.
func (c *Consumer) Ready() bool { return c.ready.Load() }

// Run receives messages and runs handle for each, many at the same time, until ctx ends. It then waits for
// the handlers, whose context has ended too, and makes what they did not finish visible again at once.
// A message that is delivered again while its handler runs gets no second handler.
func (c *Consumer) Run(ctx context.Context, handle Handler) error {
	if err := c.readAttributes(ctx); err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	renewing, stopRenewing := context.WithCancel(context.WithoutCancel(ctx))
	wg.Go(func() { c.renew(renewing) })
	defer stopRenewing()

	slots := make(slots, c.cfg.MaxInFlight)
	var handlers sync.WaitGroup
	defer handlers.Wait()
	for ctx.Err() == nil {
		free := slots.reserve(ctx)
		for _, m := range c.receive(ctx, free) {
			if !c.take(m) {
				continue
			}
			free--
			handlers.Go(func() {
				defer slots.release(1)
				c.serve(ctx, m.Message, handle)
			})
		}
		slots.release(free)
	}
	return context.Cause(ctx)
}

// slots bounds how many messages are in hand. A slot is reserved before its message is received, so that what
// has to wait for its turn does so in the queue, where it neither expires nor is counted as delivered.
type slots chan struct{}

// reserve waits for a slot, and takes what else is free, up to a batch. It returns 0 when ctx ends.
func (s slots) reserve(ctx context.Context) int {
	select {
	case s <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	for n := 1; n < batchSize; n++ {
		select {
		case s <- struct{}{}:
		default:
			return n
		}
	}
	return batchSize
}

func (s slots) release(n int) {
	for range n {
		<-s
	}
}

func (c *Consumer) serve(ctx context.Context, m Message, handle Handler) {
	err := handle(ctx, m)
	outcome, after := settle(m.Receives, err, c.redrive.Load(), ctx.Err() != nil)
	failed := c.finish(context.WithoutCancel(ctx), m.ID, outcome, after)
	if failed != nil {
		c.observer.QueueFailed("settle message "+m.ID, failed)
	}
	c.observer.MessageSettled(m, outcome, err)
}

// finish deletes the message or sets when it is visible again, with its newest receipt handle. If SQS does
// not take that, the message comes back by itself, and its handler runs once more.
func (c *Consumer) finish(ctx context.Context, id string, outcome Outcome, after time.Duration) error {
	c.mu.Lock()
	handle := c.held[id].handle
	delete(c.held, id)
	c.mu.Unlock()
	if outcome == Deleted || outcome == Dropped {
		_, err := c.deletes.Do(ctx, change{handle: handle})
		return err
	}
	_, err := c.visibilities.Do(ctx, change{handle: handle, visibility: after})
	return err
}

// delivery is a message with the receipt handle that it came with.
type delivery struct {
	Message
	handle string
}

// take notes that the message is in hand. It answers false if a handler has the message already, which then
// goes on with the new receipt handle.
func (c *Consumer) take(m delivery) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h, ok := c.held[m.ID]; ok {
		h.handle, h.receivedAt = m.handle, time.Now()
		return false
	}
	c.held[m.ID] = &held{handle: m.handle, receivedAt: time.Now()}
	c.observer.MessageReceived(m.Message)
	return true
}

// receive waits for messages, and returns most of them or fewer. It returns none when ctx ends.
func (c *Consumer) receive(ctx context.Context, most int) []delivery {
	for retry := firstRetry; ctx.Err() == nil; retry = min(2*retry, lastRetry) {
		out, err := c.receiveOnce(ctx, most)
		if err == nil {
			return deliveries(out)
		}
		if ctx.Err() != nil {
			return nil
		}
		c.observer.QueueFailed("receive messages", err)
		pause.For(ctx, retry)
	}
	return nil
}

func (c *Consumer) receiveOnce(ctx context.Context, most int) ([]types.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, longPoll+callTimeout)
	defer cancel()
	out, err := c.api.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl:            aws.String(c.cfg.URL),
		MaxNumberOfMessages: int32(most), //nolint:gosec // at most batchSize
		WaitTimeSeconds:     int32(longPoll.Seconds()),
		VisibilityTimeout:   seconds(c.cfg.VisibilityTimeout),
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{
			types.MessageSystemAttributeNameApproximateReceiveCount,
			types.MessageSystemAttributeNameSentTimestamp,
		},
	})
	if err != nil {
		return nil, err
	}
	return out.Messages[:min(most, len(out.Messages))], nil
}

func deliveries(messages []types.Message) []delivery {
	out := make([]delivery, 0, len(messages))
	for _, m := range messages {
		receives, _ := strconv.Atoi(m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
		out = append(out, delivery{
			Message: Message{
				ID:       aws.ToString(m.MessageId),
				Body:     []byte(aws.ToString(m.Body)),
				Receives: max(receives, 1),
				SentAt:   sentAt(m),
			},
			handle: aws.ToString(m.ReceiptHandle),
		})
	}
	return out
}

// sentAt returns when SQS took the message in. A message that does not say is new: as old as 1970, an event
// without a time of its own would be past every deadline.
func sentAt(m types.Message) time.Time {
	sent, _ := strconv.ParseInt(m.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64)
	if sent <= 0 {
		return time.Now()
	}
	return time.UnixMilli(sent)
}

// readAttributes proves that the queue is there and may be read, and learns whether it has a redrive policy.
func (c *Consumer) readAttributes(ctx context.Context) error {
	for retry := firstRetry; ; retry = min(2*retry, lastRetry) {
		out, err := c.attributes(ctx)
		if err == nil {
			c.redrive.Store(out[string(types.QueueAttributeNameRedrivePolicy)] != "")
			c.ready.Store(true)
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.observer.QueueFailed("read the attributes of "+c.cfg.URL, err)
		if !pause.For(ctx, retry) {
			return context.Cause(ctx)
		}
	}
}

func (c *Consumer) attributes(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := c.api.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: aws.String(c.cfg.URL),
		AttributeNames: []types.QueueAttributeName{
			types.QueueAttributeNameQueueArn, types.QueueAttributeNameRedrivePolicy,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("queue attributes (check QUEUE_URL, AWS_REGION and the permission "+
			"sqs:GetQueueAttributes): %w", err)
	}
	return out.Attributes, nil
}
