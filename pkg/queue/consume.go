package queue

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/node-drainer/node-drainer/internal/retry"
)

const (
	// callTimeout bounds a call, and the wait until it may run: a dead connection must stop neither the receives
	// nor the end of the process.
	callTimeout = 15 * time.Second
	// maxVisibility is SQS's bound on how long a delivery stays invisible, counted from its receipt.
	maxVisibility = 12 * time.Hour
	// attributesInterval is how often the attributes of the queue are read: its redrive policy may change.
	attributesInterval = 5 * time.Minute
	// firstRetry and longestRetry bound the pause after a failed receive.
	firstRetry, longestRetry = 500 * time.Millisecond, 15 * time.Second
	// firstDeleteRetry is the pause after the first failed deletion; each is twice as long as the one before.
	firstDeleteRetry = 250 * time.Millisecond
	// deleteAttempts is how often a deletion is tried in all.
	deleteAttempts = 5
	// oftenReceived is how often a message may be received to be handled beside any number of others. One that was
	// received more often may be what processes have died of: then at most oftenLimit of them are handled at a time.
	oftenReceived, oftenLimit = 5, 10
	// renewalTimeout bounds the wait for the answer to a renewal that was sent: after that it is most likely
	// lost, and the process may be stopping.
	renewalTimeout = time.Second
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

// Observer is notified of what happens to messages. Its methods are called from several goroutines and must
// not block.
type Observer interface {
	MessageReceived(m Message)
	MessageSettled(m Message, outcome Outcome, err error)
	QueueFailed(operation string, err error) // the call is retried
}

// Handler handles one message. The message stays invisible until Handler returns.
type Handler func(ctx context.Context, m Message) error

// Consumer receives the messages of one queue. Make it with New.
type Consumer struct {
	api      API
	cfg      Config
	observer Observer
	inflight *inflight
	batches  *batches

	gate       func(ctx context.Context) // nil: receives never wait
	closed     chan struct{}             // closed when the last receive has ended
	connecting chan struct{}             // an element while Connect runs
	often      chan struct{}             // an element for each message that was received often and is being handled
	ready      atomic.Bool
	redrive    atomic.Bool
}

// New returns a Consumer of the queue that cfg names.
func New(api API, cfg Config, observer Observer) *Consumer {
	messages := &inflight{messages: map[string]*inflightMessage{}}
	return &Consumer{
		api: api, cfg: cfg, observer: observer, inflight: messages, batches: newBatches(api, cfg.URL, messages),
		connecting: make(chan struct{}, 1), often: make(chan struct{}, oftenLimit),
	}
}

// Gate makes each receive wait until open returns. Messages in flight are not affected. It must be called
// before Run.
func (c *Consumer) Gate(open func(ctx context.Context)) { c.gate = open }

// Ready reports whether the attributes of the queue could be read.
func (c *Consumer) Ready() bool { return c.ready.Load() }

// Run receives messages and runs handle for each, many at the same time, until ctx ends. It then waits for
// the handlers, whose context has ended too, and makes the messages that they did not finish visible at once.
// A message that is delivered again while its handler runs gets no second handler.
func (c *Consumer) Run(ctx context.Context, handle Handler) error {
	if err := c.Connect(ctx); err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	renewing, stopRenewing := context.WithCancel(context.WithoutCancel(ctx))
	wg.Go(func() { c.renew(renewing) })
	wg.Go(func() { c.rereadAttributes(renewing) })
	defer stopRenewing()

	var handlers sync.WaitGroup
	defer handlers.Wait()
	c.closed = make(chan struct{})
	defer close(c.closed)
	c.receiveAll(ctx, func(m Message, done func()) {
		one := &m
		handlers.Go(func() {
			defer done()
			c.serve(ctx, one, handle)
		})
	})
	return context.Cause(ctx)
}

// serve handles a message. A message that was received when ctx had ended is not handled, but released.
func (c *Consumer) serve(ctx context.Context, received *Message, handle Handler) {
	m := *received
	m.Body = nil // only the handler needs it, which runs for as long as a drain
	err := c.call(ctx, received, handle)
	outcome, invisible := outcomeOf(m.Receives, err, c.redrive.Load(), ctx.Err() != nil)
	settle := c.delete
	if outcome != Deleted && outcome != Dropped {
		settle = func(ctx context.Context, id string) error { return c.giveBack(ctx, id, invisible) }
	}
	if failure := settle(ctx, m.ID); failure != nil {
		c.observer.QueueFailed("settle message "+m.ID, failure) // it is delivered again
	}
	c.observer.MessageSettled(m, outcome, err)
}

// call calls the handler, in turn if the message was received often. It leaves the body to the handler.
func (c *Consumer) call(ctx context.Context, received *Message, handle Handler) error {
	if received.Receives > oftenReceived {
		select {
		case c.often <- struct{}{}:
			defer func() { <-c.often }()
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	m := *received
	received.Body = nil
	return handle(ctx, m)
}

// delete deletes the message. It stays in flight until then: if it is delivered again meanwhile, no second
// handler runs, and the next attempt uses the new receipt handle. When ctx has ended there is no next
// attempt.
func (c *Consumer) delete(ctx context.Context, id string) (err error) {
	defer c.inflight.remove(id)
	pauses := retry.Backoff(firstDeleteRetry, callTimeout)
	for range deleteAttempts {
		_, err = c.batches.deletes.Do(context.WithoutCancel(ctx), change{handle: c.inflight.stopRenewing(id)})
		if err == nil || !retry.Sleep(ctx, pauses.Step()) {
			break
		}
	}
	return err
}

// giveBack makes the message visible after the given time.
func (c *Consumer) giveBack(ctx context.Context, id string, invisible time.Duration) error {
	if ctx.Err() != nil {
		<-c.closed // another process is to receive it, and not a receive of this one that is still open
	}
	m := c.inflight.remove(id)
	if m.renewed != nil { // SQS could apply a running renewal after this change, and hide the message again
		select {
		case <-m.renewed:
		case <-time.After(renewalTimeout):
		}
	}
	visible := change{handle: m.handle, visibility: invisible}
	_, err := c.batches.visibilities.Do(context.WithoutCancel(ctx), visible)
	return err
}

// renew keeps the messages in flight invisible. It renews every third of the visibility timeout, so that one
// failed call makes no message visible.
func (c *Consumer) renew(ctx context.Context) {
	interval := time.NewTicker(c.cfg.VisibilityTimeout / 3)
	defer interval.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-interval.C:
			c.renewAll(ctx)
		}
	}
}

// renewAll renews all messages once. It gives up when the next round is due, which is for all messages again,
// so that calls do not pile up while SQS hangs.
func (c *Consumer) renewAll(ctx context.Context) {
	round, cancel := context.WithTimeout(ctx, c.cfg.VisibilityTimeout/3)
	defer cancel()
	var wg sync.WaitGroup
	for changes := range slices.Chunk(c.inflight.renewals(c.cfg.VisibilityTimeout), batchSize) {
		wg.Go(func() {
			for i, result := range c.batches.setVisibility(round, changes) {
				if result.Err != nil && ctx.Err() == nil && c.inflight.isCurrent(changes[i]) {
					c.observer.QueueFailed("keep a message invisible", result.Err)
				}
			}
		})
	}
	wg.Wait()
}

// Connect reads the attributes of the queue, until that succeeds once: whether it can be reached, and has a
// redrive policy. It returns nil then, or the cause of ctx's end. It receives no message.
func (c *Consumer) Connect(ctx context.Context) error {
	select {
	case c.connecting <- struct{}{}:
		defer func() { <-c.connecting }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return retry.Do(ctx, retry.Backoff(firstRetry, longestRetry), func() error {
		if c.ready.Load() {
			return nil
		}
		return c.readAttributes(ctx)
	}, neverFinal, c.attributesFailed)
}

func neverFinal(error) bool { return false }

func (c *Consumer) attributesFailed(err error) {
	c.observer.QueueFailed("read the attributes of "+c.cfg.URL, err)
}

// rereadAttributes reads the attributes from time to time until ctx ends.
func (c *Consumer) rereadAttributes(ctx context.Context) {
	for retry.Sleep(ctx, attributesInterval) {
		if err := c.readAttributes(ctx); err != nil && ctx.Err() == nil {
			c.attributesFailed(err)
		}
	}
}

func (c *Consumer) readAttributes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := c.api.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: aws.String(c.cfg.URL),
		AttributeNames: []types.QueueAttributeName{
			types.QueueAttributeNameQueueArn, types.QueueAttributeNameRedrivePolicy,
		},
	})
	if err != nil {
		return fmt.Errorf("read the queue's attributes (check QUEUE_URL, AWS_REGION and the permission "+
			"sqs:GetQueueAttributes): %w", err)
	}
	c.redrive.Store(out.Attributes[string(types.QueueAttributeNameRedrivePolicy)] != "")
	c.ready.Store(true)
	return nil
}
