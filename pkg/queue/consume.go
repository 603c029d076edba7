package queue

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/node-drainer/node-drainer/internal/batch"
	"github.com/node-drainer/node-drainer/internal/retry"
)

const (
	// batchSize is the most messages that SQS takes or gives in one call.
	batchSize = 10
	// callTimeout bounds a call, and the wait for its turn: a connection that went dead must not stop the
	// intake, nor the end of the process.
	callTimeout = 15 * time.Second
	// maxVisibility is SQS's bound on how long a delivery stays invisible, counted from its receipt.
	maxVisibility = 12 * time.Hour
	// batchWindow is how long a delete waits for others to go with.
	batchWindow = 20 * time.Millisecond
	// parallelCalls is how many batches of deletes, and how many of changes of visibility, go to SQS at the
	// same time.
	parallelCalls = 50
	// attributesEvery is how often the attributes of the queue are read again: its redrive policy may change.
	attributesEvery = 5 * time.Minute
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
	deleting     chan struct{} // one for each call under way
	changing     chan struct{}

	gate       func(ctx context.Context) // nil: it is open
	closed     chan struct{}             // closed when the last receive has ended
	connecting chan struct{}             // one while Connect asks
	ready      atomic.Bool
	redrive    atomic.Bool

	mu   sync.Mutex
	held map[string]*held // by message id
}

// held is a message that a handler works on. Its receipt handle is the newest that SQS gave out: an older one
// may no longer delete the message.
type held struct {
	handle     string
	receivedAt time.Time
	done       bool // its handler has returned, and it is being deleted

	// renewed is closed when the last call that keeps the message invisible has been answered; nil if there was
	// none.
	renewed chan struct{}
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
	c := &Consumer{
		api: api, cfg: cfg, observer: observer, held: map[string]*held{}, connecting: make(chan struct{}, 1),
		deleting: make(chan struct{}, parallelCalls), changing: make(chan struct{}, parallelCalls),
	}
	c.deletes = changes{Max: batchSize, Window: batchWindow, Call: c.deleteBatch}
	c.visibilities = changes{Max: batchSize, Window: batchWindow, Call: c.visibilityBatch}
	return c
}

// Gate has each receive wait until open returns. What is in hand is not held up. It is called before Run.
func (c *Consumer) Gate(open func(ctx context.Context)) { c.gate = open }

// Ready tells whether the queue has been reached: its attributes could be read.
func (c *Consumer) Ready() bool { return c.ready.Load() }

// Run receives messages and runs handle for each, many at the same time, until ctx ends. It then waits for
// the handlers, whose context has ended too, and makes what they did not finish visible again at once.
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
	c.intake(ctx, func(m Message, done func()) {
		handlers.Go(func() {
			defer done()
			c.serve(ctx, m, handle)
		})
	})
	return context.Cause(ctx)
}

// serve handles a message. What comes in when ctx has ended is given back.
func (c *Consumer) serve(ctx context.Context, m Message, handle Handler) {
	err := context.Cause(ctx)
	if err == nil {
		err = handle(ctx, m)
	}
	outcome, after := settle(m.Receives, err, c.redrive.Load(), ctx.Err() != nil)
	if failed := c.finish(ctx, m.ID, outcome, after); failed != nil {
		c.observer.QueueFailed("settle message "+m.ID, failed)
	}
	c.observer.MessageSettled(m, outcome, err)
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

// Connect proves that the queue is there and may be read, and learns whether it has a redrive policy. It
// returns nil when that is done, or was before, or the cause of ctx's end. It receives no message.
func (c *Consumer) Connect(ctx context.Context) error {
	select {
	case c.connecting <- struct{}{}:
		defer func() { <-c.connecting }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for delay := firstRetry; !c.ready.Load(); delay = min(2*delay, lastRetry) {
		err := c.readAttributes(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.observer.QueueFailed("read the attributes of "+c.cfg.URL, err)
		if !retry.Sleep(ctx, delay) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// rereadAttributes reads the attributes from time to time until ctx ends.
func (c *Consumer) rereadAttributes(ctx context.Context) {
	for retry.Sleep(ctx, attributesEvery) {
		if err := c.readAttributes(ctx); err != nil && ctx.Err() == nil {
			c.observer.QueueFailed("read the attributes of "+c.cfg.URL, err)
		}
	}
}

func (c *Consumer) readAttributes(ctx context.Context) error {
	attributes, err := c.attributes(ctx)
	if err != nil {
		return err
	}
	c.redrive.Store(attributes[string(types.QueueAttributeNameRedrivePolicy)] != "")
	c.ready.Store(true)
	return nil
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
