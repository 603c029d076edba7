package queue

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/node-drainer/node-drainer/internal/retry"
)

const (
	// longPoll is how long SQS holds a receive on an empty queue; 20 s is the most it allows.
	longPoll = 20 * time.Second
	// briefPoll is the same for receivers that only help with a burst. Without any wait SQS asks only some of
	// its servers, and answers that there is nothing while there is.
	briefPoll = time.Second
	// lastCall is how long a receive that is under way when this process stops may still take. What SQS has
	// handed out would be lost for the whole visibility timeout if nobody read the answer.
	lastCall = 250 * time.Millisecond
)

// delivery is a message with the receipt handle that it came with.
type delivery struct {
	Message
	handle string
}

// receivers take messages in, side by side. There is always one; each receive that comes back full has
// another one come to help, which goes when its own no longer does.
type receivers struct {
	*Consumer
	slots   slots
	helpers chan struct{} // one for each beside the first
	running sync.WaitGroup
	hand    func(m Message, done func()) // starts the handler; done is called when it has ended
}

// intake receives messages, and starts a handler for each, until ctx ends.
func (c *Consumer) intake(ctx context.Context, hand func(m Message, done func())) {
	r := &receivers{
		Consumer: c, hand: hand,
		slots: make(slots, c.cfg.MaxInFlight), helpers: make(chan struct{}, c.cfg.Receivers-1),
	}
	defer r.running.Wait()
	for delay := firstRetry; ctx.Err() == nil; {
		if _, err := r.receive(ctx, longPoll); err == nil {
			delay = firstRetry
			continue
		}
		retry.Sleep(ctx, delay)
		delay = min(2*delay, lastRetry)
	}
}

// help has another receiver run, if there may be one more, for as long as its receives come back full.
func (r *receivers) help(ctx context.Context) {
	select {
	case r.helpers <- struct{}{}:
	default:
		return
	}
	r.running.Go(func() {
		defer func() { <-r.helpers }()
		for full := true; full && ctx.Err() == nil; {
			full, _ = r.receive(ctx, briefPoll) // which has told of the error
		}
	})
}

// receive waits for messages, hands on those that nobody has in hand, and tells whether there were as many as
// SQS gives at once.
func (r *receivers) receive(ctx context.Context, poll time.Duration) (full bool, err error) {
	if r.gate != nil {
		r.gate(ctx)
	}
	free := r.slots.reserve(ctx)
	defer func() { r.slots.release(free) }()
	if free == 0 {
		return false, nil
	}
	messages, err := r.receiveOnce(ctx, free, poll)
	if err != nil {
		if ctx.Err() == nil {
			r.observer.QueueFailed("receive messages", err)
		}
		return false, err
	}
	if full = len(messages) == batchSize; full {
		r.help(ctx)
	}
	for _, m := range deliveries(messages) {
		if r.take(m) {
			free--
			r.hand(m.Message, func() { r.slots.release(1) })
		}
	}
	return full, nil
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

func (c *Consumer) receiveOnce(ctx context.Context, most int, poll time.Duration) ([]types.Message, error) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), poll+callTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastCall, cancel) })()
	out, err := c.api.ReceiveMessage(call, &sqs.ReceiveMessageInput{
		QueueUrl:            aws.String(c.cfg.URL),
		MaxNumberOfMessages: int32(most), //nolint:gosec // at most batchSize
		WaitTimeSeconds:     int32(poll.Seconds()),
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
