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
	// longPoll is how long SQS waits for a message before it answers a receive; 20 s is the most it allows.
	longPoll = 20 * time.Second
	// shortPoll is the same for additional receivers. It is not 0, because without any wait SQS samples only
	// some of its servers, and may return nothing although there are messages.
	shortPoll = time.Second
	// lastReceive is how long a receive may still take when this process stops. If its answer were not read, the
	// messages in it would be invisible for the whole visibility timeout.
	lastReceive = 250 * time.Millisecond
	// slotBytes is how long a message may be that takes one slot; a longer one takes more. Those of lifecycle hooks have
	// about 600 bytes. Only AWS Health sends long ones, up to EventBridge's limit of 256 KB (AWS Health user guide,
	// "Viewing paginated lists of AWS Health events on EventBridge").
	slotBytes = 4 << 10
)

// delivery is a message with its receipt handle.
type delivery struct {
	Message
	handle string
}

// receivers receive messages concurrently. The first one always runs. Each receive that returns a full batch
// starts another receiver, which stops when its receives are not full any more.
type receivers struct {
	*Consumer
	slots   *slots
	helpers chan struct{} // an element for each receiver beside the first
	running sync.WaitGroup
	handle  func(m Message, done func()) // starts the handler; done is called when it has returned
}

// receiveAll receives messages, and calls handle for each, until ctx ends.
func (c *Consumer) receiveAll(ctx context.Context, handle func(m Message, done func())) {
	r := &receivers{
		Consumer: c, handle: handle,
		slots: newSlots(c.cfg.MaxInFlight), helpers: make(chan struct{}, c.cfg.Receivers-1),
	}
	defer r.running.Wait()
	for ctx.Err() == nil {
		_ = retry.Do(ctx, retry.Backoff(firstRetry, longestRetry), func() error {
			_, err := r.receive(ctx, longPoll)
			return err
		}, neverFinal, r.receiveFailed)
	}
}

func (r *receivers) receiveFailed(err error) { r.observer.QueueFailed("receive messages", err) }

// addReceiver starts another receiver, unless the most already run, for as long as its receives are full.
func (r *receivers) addReceiver(ctx context.Context) {
	select {
	case r.helpers <- struct{}{}:
	default:
		return
	}
	r.running.Go(func() {
		defer func() { <-r.helpers }()
		for full := true; full && ctx.Err() == nil; {
			var err error
			if full, err = r.receive(ctx, shortPoll); err != nil && ctx.Err() == nil {
				r.receiveFailed(err)
			}
		}
	})
}

// receive receives messages once, and starts the handlers of those that are not in flight. It reports whether
// SQS returned as many as it does at once.
func (r *receivers) receive(ctx context.Context, poll time.Duration) (full bool, err error) {
	if r.gate != nil {
		r.gate(ctx)
	}
	free := r.slots.reserve(ctx)
	defer func() { r.slots.release(free) }()
	if free == 0 {
		return false, nil
	}
	messages, err := r.receiveBatch(ctx, free, poll)
	if err != nil {
		return false, err
	}
	if full = len(messages) == batchSize; full {
		r.addReceiver(ctx)
	}
	for _, m := range deliveries(messages) {
		if r.inflight.add(m) {
			free--
			r.observer.MessageReceived(m.Message)
			more := len(m.Body) / slotBytes
			r.slots.release(-more)
			r.handle(m.Message, func() { r.slots.release(1 + more) })
		}
	}
	return full, nil
}

// slots bounds how many messages are in flight, and how long they are. A slot is reserved before its message is
// received: until there is one, the message waits in the queue, where other processes can receive it and it is not
// counted as delivered. The length of a message is known only then: what one takes beyond the slots that are free is
// missing for the next receive.
type slots struct {
	mu    sync.Mutex
	free  int           // negative while longer messages than fit are in flight
	freed chan struct{} // closed when slots are released
}

func newSlots(n int) *slots { return &slots{free: n, freed: make(chan struct{})} }

// reserve waits for a slot, and reserves those that are free, up to a batch. It returns 0 when ctx ends.
func (s *slots) reserve(ctx context.Context) int {
	for {
		n, freed := s.tryReserve()
		if n > 0 {
			return n
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return 0
		}
	}
}

func (s *slots) tryReserve() (n int, freed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = max(min(s.free, batchSize), 0)
	s.free -= n
	return n, s.freed
}

func (s *slots) release(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free += n; s.free > 0 {
		close(s.freed)
		s.freed = make(chan struct{})
	}
}

func (r *receivers) receiveBatch(
	ctx context.Context, limit int, poll time.Duration,
) ([]types.Message, error) {
	grace, stop := retry.Grace(ctx, lastReceive)
	defer stop()
	call, cancel := context.WithTimeout(grace, poll+callTimeout)
	defer cancel()
	out, err := r.api.ReceiveMessage(call, &sqs.ReceiveMessageInput{
		QueueUrl:            aws.String(r.cfg.URL),
		MaxNumberOfMessages: int32(limit), //nolint:gosec // at most batchSize
		WaitTimeSeconds:     int32(poll.Seconds()),
		VisibilityTimeout:   seconds(r.cfg.VisibilityTimeout),
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{
			types.MessageSystemAttributeNameApproximateReceiveCount,
			types.MessageSystemAttributeNameSentTimestamp,
			types.MessageSystemAttributeNameSenderId,
		},
	})
	if err != nil {
		return nil, err
	}
	return out.Messages[:min(limit, len(out.Messages))], nil
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
				Sender:   m.Attributes[string(types.MessageSystemAttributeNameSenderId)],
			},
			handle: aws.ToString(m.ReceiptHandle),
		})
	}
	return out
}

// sentAt returns when SQS accepted the message, or now if SQS does not say: an event without a time of its
// own is as old as its message, and one of 1970 would be past every deadline.
func sentAt(m types.Message) time.Time {
	sent, _ := strconv.ParseInt(m.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64)
	if sent <= 0 {
		return time.Now()
	}
	return time.UnixMilli(sent)
}
