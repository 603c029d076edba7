package awsim

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"
)

// unkept are the parameters of a message that the API has but that are not kept here. Some of them are
// refused, so that a client does not miss them later.
type unkept struct {
	MessageAttributes       map[string]any
	MessageDeduplicationID  string `json:"MessageDeduplicationId"`
	MessageSystemAttributes any    // AWSTraceHeader: accepted without effect.
	MessageGroupID          any    `json:"MessageGroupId"` // Fairness among tenants: accepted without effect.
}

func (u unkept) check() error {
	if len(u.MessageAttributes) > 0 {
		return errorf("UnsupportedOperation", "Message attributes are not kept here.")
	}
	if u.MessageDeduplicationID != "" {
		return errorf("InvalidParameterValue", "The request includes a parameter that is not valid for this "+
			"queue type.")
	}
	return nil
}

type sendRequest struct {
	queueRequest
	MessageBody  string
	DelaySeconds *int
	unkept
}

type sendAnswer struct {
	MessageID        string `json:"MessageId"`
	MD5OfMessageBody string
}

func send(now time.Time, q *queue, in sendRequest) (any, error) {
	return accept(now, q, in.MessageBody, in.DelaySeconds, in.unkept)
}

// accept checks a message and sends it.
func accept(now time.Time, q *queue, body string, delaySeconds *int, extra unkept) (sendAnswer, error) {
	delay := q.attrs.delay
	if delaySeconds != nil {
		delay = time.Duration(*delaySeconds) * time.Second
	}
	switch {
	case extra.check() != nil:
		return sendAnswer{}, extra.check()
	case body == "":
		return sendAnswer{}, errorf("MissingParameter", "The request must contain the parameter MessageBody.")
	case len(body) > q.attrs.maxSize:
		return sendAnswer{}, errorf("InvalidParameterValue", "One or more parameters are invalid. Reason: "+
			"Message must be shorter than %d bytes.", q.attrs.maxSize)
	case !validBody(body):
		return sendAnswer{}, errorf("InvalidMessageContents", "Invalid binary character was found in the "+
			"message body, the set of allowed characters is #x9 | #xA | #xD | [#x20 to #xD7FF] | "+
			"[#xE000 to #xFFFD] | [#x10000 to #x10FFFF].")
	case delay < 0 || delay > 900*time.Second:
		return sendAnswer{}, errorf("InvalidParameterValue", "Value %d for parameter DelaySeconds is invalid. "+
			"Reason: DelaySeconds must be >= 0 and <= 900.", int(delay.Seconds()))
	}
	q.advance(now)
	return sendAnswer{q.send(now, body, delay), md5Hex(body)}, nil
}

func validBody(body string) bool {
	for _, r := range body {
		control := r < 0x20 && r != '\t' && r != '\n' && r != '\r'
		if control || r == 0xFFFE || r == 0xFFFF {
			return false
		}
	}
	return true
}

type receiveRequest struct {
	queueRequest
	MaxNumberOfMessages         *int
	WaitTimeSeconds             *int
	VisibilityTimeout           *int
	AttributeNames              []string
	MessageSystemAttributeNames []string
	MessageAttributeNames       []string
	ReceiveRequestAttemptID     string `json:"ReceiveRequestAttemptId"`
}

type receivedMessage struct {
	MessageID     string `json:"MessageId"`
	ReceiptHandle string
	MD5OfBody     string
	Body          string
	Attributes    map[string]string `json:",omitempty"`
}

type receiveAnswer struct {
	Messages []receivedMessage `json:",omitempty"`
}

// receive is a long poll: it returns with the first messages, when its wait time is over, or when the client
// has disconnected. It delivers nothing to a client that has disconnected.
func (s queueAPI) receive(ctx context.Context, raw input) (any, error) {
	in, err := decodeJSON[receiveRequest](raw)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	q, err := s.find(in.QueueURL)
	if err == nil {
		err = in.fill(q.attrs)
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	var receipts []receipt
	var failure error
	deadline := time.Now().Add(time.Duration(*in.WaitTimeSeconds) * time.Second)
	err = s.await(ctx, deadline, q, func(now time.Time) bool {
		receipts, failure = s.receiveFrom(now, q, in)
		return failure != nil || len(receipts) > 0
	})
	if err != nil || failure != nil {
		return nil, errors.Join(err, failure)
	}
	return in.answer(receipts, s.server.opts.Account), nil
}

// fill puts the queue's own settings where the request has none, and checks the result.
func (in *receiveRequest) fill(attrs queueAttributes) error {
	one, wait, visibility := 1, int(attrs.wait.Seconds()), int(attrs.visibility.Seconds())
	for _, field := range []struct {
		name      string
		value     **int
		fallback  *int
		low, high int
	}{
		{"MaxNumberOfMessages", &in.MaxNumberOfMessages, &one, 1, 10},
		{"WaitTimeSeconds", &in.WaitTimeSeconds, &wait, 0, 20},
		{"VisibilityTimeout", &in.VisibilityTimeout, &visibility, 0, 43200},
	} {
		if *field.value == nil {
			*field.value = field.fallback
		}
		if v := **field.value; v < field.low || v > field.high {
			return errorf("InvalidParameterValue", "Value %d for parameter %s is invalid. "+
				"Reason: Must be between %d and %d, if provided.", v, field.name, field.low, field.high)
		}
	}
	return nil
}

// receiveFrom receives from a queue that may have been deleted since the poll began. It needs mu.
func (s queueAPI) receiveFrom(now time.Time, q *queue, in receiveRequest) ([]receipt, error) {
	if s.queues[q.name] != q {
		return nil, errorf("QueueDoesNotExist", "The specified queue does not exist.")
	}
	dead := s.queues[q.attrs.deadLetters]
	held := q.held()
	visibility := time.Duration(*in.VisibilityTimeout) * time.Second
	receipts, err := q.receive(now, *in.MaxNumberOfMessages, visibility, dead)
	if q.held() != held {
		s.signal() // Messages went to the dead-letter queue, or ended by age.
	}
	return receipts, err
}

func (in receiveRequest) answer(receipts []receipt, account string) receiveAnswer {
	wanted := slices.Concat(in.AttributeNames, in.MessageSystemAttributeNames)
	var out receiveAnswer
	for _, r := range receipts {
		out.Messages = append(out.Messages, receivedMessage{
			MessageID:     r.id,
			ReceiptHandle: r.handle,
			MD5OfBody:     md5Hex(r.body),
			Body:          r.body,
			Attributes:    r.attributes(wanted, account),
		})
	}
	return out
}

func (r receipt) attributes(wanted []string, account string) map[string]string {
	millis := func(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }
	attrs := map[string]string{
		"ApproximateReceiveCount":          strconv.Itoa(r.receives),
		"ApproximateFirstReceiveTimestamp": millis(r.first),
		"SentTimestamp":                    millis(r.sentAt),
		"SenderId":                         account,
	}
	if !slices.Contains(wanted, "All") {
		maps.DeleteFunc(attrs, func(name, _ string) bool { return !slices.Contains(wanted, name) })
	}
	return attrs
}

type deleteRequest struct {
	queueRequest
	ReceiptHandle string
}

func deleteMessage(now time.Time, q *queue, in deleteRequest) (any, error) {
	return nil, q.delete(now, in.ReceiptHandle)
}

type visibilityRequest struct {
	queueRequest
	ReceiptHandle     string
	VisibilityTimeout *int
}

func changeVisibility(now time.Time, q *queue, in visibilityRequest) (any, error) {
	return nil, change(now, q, in.ReceiptHandle, in.VisibilityTimeout)
}

func change(now time.Time, q *queue, handle string, seconds *int) error {
	if seconds == nil {
		return errorf("MissingParameter", "The request must contain the parameter VisibilityTimeout.")
	}
	return q.changeVisibility(now, handle, time.Duration(*seconds)*time.Second)
}
