package queue

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// oddSQS gives answers that SQS should not give: invalid attributes, too many messages, and ids that were not
// sent.
type oddSQS struct {
	*fakeSQS
	messages  []types.Message
	delivered atomic.Bool
	deletes   atomic.Int32
}

func (s *oddSQS) ReceiveMessage(
	ctx context.Context, in *sqs.ReceiveMessageInput, opts ...func(*sqs.Options),
) (*sqs.ReceiveMessageOutput, error) {
	if s.delivered.Swap(true) {
		return s.fakeSQS.ReceiveMessage(ctx, in, opts...)
	}
	return &sqs.ReceiveMessageOutput{Messages: s.messages}, nil
}

func (s *oddSQS) DeleteMessageBatch(
	_ context.Context, in *sqs.DeleteMessageBatchInput, _ ...func(*sqs.Options),
) (*sqs.DeleteMessageBatchOutput, error) {
	s.deletes.Add(int32(len(in.Entries)))
	return &sqs.DeleteMessageBatchOutput{
		Successful: []types.DeleteMessageBatchResultEntry{
			{}, {Id: aws.String("-1")}, {Id: aws.String("99")}, {Id: aws.String("x")}, {Id: aws.String("0")},
		},
		Failed: []types.BatchResultErrorEntry{{}, {Id: aws.String("17")}, {Id: aws.String("1")}},
	}, nil
}

// ChangeMessageVisibilityBatch leaves all entries out of its answer.
func (*oddSQS) ChangeMessageVisibilityBatch(
	context.Context, *sqs.ChangeMessageVisibilityBatchInput, ...func(*sqs.Options),
) (*sqs.ChangeMessageVisibilityBatchOutput, error) {
	return &sqs.ChangeMessageVisibilityBatchOutput{}, nil
}

func TestInvalidAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &oddSQS{fakeSQS: newFake(), messages: []types.Message{
			{MessageId: aws.String("no attributes"), ReceiptHandle: aws.String("h")},
			{MessageId: aws.String("no numbers"), ReceiptHandle: aws.String("i"), Attributes: map[string]string{
				"ApproximateReceiveCount": "many", "SentTimestamp": "yesterday",
			}},
			{MessageId: aws.String("not positive"), ReceiptHandle: aws.String("j"), Attributes: map[string]string{
				"ApproximateReceiveCount": "-3", "SentTimestamp": "0",
			}},
			{MessageId: aws.String("no attributes"), ReceiptHandle: aws.String("k")},
			{},
		}}
		r := run(t, s, Config{}, work(time.Second))
		now := time.Now()
		advance(time.Minute)
		for _, m := range r.received {
			if m.Receives != 1 || !m.SentAt.Equal(now) {
				t.Errorf("%q was received %d times, and sent at %v, want now", m.ID, m.Receives, m.SentAt)
			}
		}
		// Each answer confirms only the deletion of the first entry, and the others are sent again: each in a call
		// of its own, or together with others.
		if n := s.deletes.Load(); len(r.received) != 4 || len(r.failures) > 0 || n < 4+3 || n > 4+3+2+1 {
			t.Errorf("%d deliveries, failures %v, %d deletions sent", len(r.received), r.failures, n)
		}
	})
}

// TestTooManyMessages: those without a slot are not handled, and SQS delivers them again.
func TestTooManyMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &oddSQS{fakeSQS: newFake()}
		for _, id := range []string{"a", "b", "c", "d"} {
			s.messages = append(s.messages, types.Message{MessageId: aws.String(id), ReceiptHandle: aws.String(id)})
		}
		r := run(t, s, Config{MaxInFlight: 2}, succeed)
		advance(time.Minute)
		r.stop(t)
		if len(r.received) != 2 {
			t.Errorf("%d were received, want 2", len(r.received))
		}
	})
}

func TestMissingResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConsumer(&oddSQS{}, Config{}, &recorder{})
		for _, r := range c.batches.setVisibility(t.Context(), make([]change, 2)) {
			if !errors.Is(r.Err, errMissing) {
				t.Errorf("got %v, want %v", r.Err, errMissing)
			}
		}
	})
}
