package awsim

import (
	"cmp"
	"context"
	"crypto/md5" //nolint:gosec // SQS and its clients check messages with MD5.
	"encoding/hex"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The requests of SQS, under the names of the real API. Only what a consumer needs is simulated: a test sends
// messages, and creates queues, by the methods of SQS.

// queueAPI is the actions of the SQS API.
type queueAPI struct{ *sqs }

func sqsActions(q *sqs) map[string]actionFunc {
	s := queueAPI{q}
	actions := map[string]actionFunc{
		"GetQueueAttributes":           onQueue(q, s.getQueueAttributes),
		"SendMessage":                  s.sendMessage,
		"ReceiveMessage":               s.receive,
		"DeleteMessageBatch":           onQueue(q, deleteMessageBatch),
		"ChangeMessageVisibilityBatch": onQueue(q, changeVisibilityBatch),
	}
	maps.Copy(actions, adminActions(s))
	return actions
}

type queueRequest struct {
	QueueURL string `json:"QueueUrl"`
}

func (r queueRequest) queueURL() string { return r.QueueURL }

// onQueue makes an action of a function of the queue that the request names. The function must not wait.
func onQueue[In interface{ queueURL() string }](
	s *sqs, do func(now time.Time, q *queue, in In) (any, error),
) actionFunc {
	return func(_ context.Context, raw input) (any, error) {
		in, err := decodeJSON[In](raw)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		q, err := s.find(in.queueURL())
		if err != nil {
			return nil, err
		}
		defer s.signal()
		return do(time.Now(), q, in)
	}
}

type getQueueAttributesRequest struct {
	queueRequest
	AttributeNames []string
}

type attributesAnswer struct {
	Attributes map[string]string `json:",omitempty"`
}

func (s queueAPI) getQueueAttributes(_ time.Time, q *queue, in getQueueAttributesRequest) (any, error) {
	all := map[string]string{
		"QueueArn": s.arn(q.name), "Policy": q.policyText, "RedrivePolicy": q.redrivePolicy,
		"ApproximateNumberOfMessages": strconv.Itoa(len(q.ready)),
	}
	maps.Copy(all, q.attributes)
	if strings.HasSuffix(q.name, ".fifo") {
		all["FifoQueue"] = "true"
	}
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	if slices.Equal(in.AttributeNames, []string{"All"}) {
		return attributesAnswer{all}, nil
	}
	for _, name := range in.AttributeNames {
		known := []string{"QueueArn", "Policy", "RedrivePolicy", "KmsMasterKeyId", "ApproximateNumberOfMessages"}
		if !slices.Contains(known, name) {
			return nil, errorf("InvalidAttributeName", "Unknown Attribute %s.", name)
		}
	}
	maps.DeleteFunc(all, func(name, _ string) bool { return !slices.Contains(in.AttributeNames, name) })
	return attributesAnswer{all}, nil
}

type sendRequest struct {
	queueRequest
	MessageBody string
}

type sendAnswer struct {
	MessageID        string `json:"MessageId"`
	MD5OfMessageBody string
}

// sendMessage is for what forges messages: AWS's own deliveries do not come by the API.
func (s queueAPI) sendMessage(_ context.Context, raw input) (any, error) {
	in, err := decodeJSON[sendRequest](raw)
	if err != nil {
		return nil, err
	}
	id, err := s.deliver(in.QueueURL, in.MessageBody, s.user(raw.Key))
	return sendAnswer{id, checksum(in.MessageBody)}, err
}

// checksum is how SQS and its clients check a message.
func checksum(body string) string {
	sum := md5.Sum([]byte(body)) //nolint:gosec // See the import.
	return hex.EncodeToString(sum[:])
}

type receiveRequest struct {
	queueRequest
	MaxNumberOfMessages         *int
	WaitTimeSeconds             *int
	VisibilityTimeout           *int
	MessageSystemAttributeNames []string
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
	most, err1 := bounded("MaxNumberOfMessages", in.MaxNumberOfMessages, 1, 1, 10)
	wait, err2 := bounded("WaitTimeSeconds", in.WaitTimeSeconds, 0, 0, 20)
	visibility, err3 := bounded("VisibilityTimeout", in.VisibilityTimeout, 30, 0, 43200)
	s.mu.Lock()
	q, err4 := s.find(in.QueueURL)
	s.mu.Unlock()
	if err := cmp.Or(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	var out receiveAnswer
	deadline := time.Now().Add(time.Duration(wait) * time.Second)
	err = s.await(ctx, deadline, q, func(now time.Time) bool {
		held := len(q.messages)
		receipts := q.receive(now, most, time.Duration(visibility)*time.Second)
		for _, r := range receipts {
			r.sentAt = s.server.told(r.sentAt)
			out.Messages = append(out.Messages, r.wire(in.MessageSystemAttributeNames))
		}
		if len(q.messages) < held {
			s.signal() // Messages went to the dead-letter queue.
		}
		return len(receipts) > 0
	})
	return out, err
}

// bounded is what the request has, or else the fallback.
func bounded(name string, value *int, fallback, low, high int) (int, error) {
	if value == nil {
		return fallback, nil
	}
	if *value < low || *value > high {
		return 0, errorf("InvalidParameterValue", "Value %d for parameter %s is invalid. "+
			"Reason: Must be between %d and %d, if provided.", *value, name, low, high)
	}
	return *value, nil
}

func (r receipt) wire(attributes []string) receivedMessage {
	all := map[string]string{
		"ApproximateReceiveCount": strconv.Itoa(r.receives),
		"SenderId":                r.sender,
		"SentTimestamp":           strconv.FormatInt(r.sentAt.UnixMilli(), 10),
	}
	maps.DeleteFunc(all, func(name, _ string) bool { return !slices.Contains(attributes, name) })
	return receivedMessage{
		MessageID: r.id, ReceiptHandle: r.handle, MD5OfBody: checksum(r.body), Body: r.body, Attributes: all,
	}
}

type batchEntry struct {
	ID                string `json:"Id"`
	ReceiptHandle     string
	VisibilityTimeout int
}

type batchRequest struct {
	queueRequest
	Entries []batchEntry
}

type batchSuccess struct {
	ID string `json:"Id"`
}

type batchFailure struct {
	ID          string `json:"Id"`
	SenderFault bool
	Code        string
	Message     string
}

type batchAnswer struct {
	Successful []batchSuccess
	Failed     []batchFailure
}

func deleteMessageBatch(now time.Time, q *queue, in batchRequest) (any, error) {
	return inBatch(in.Entries, func(e batchEntry) error { return q.delete(now, e.ReceiptHandle) })
}

func changeVisibilityBatch(now time.Time, q *queue, in batchRequest) (any, error) {
	return inBatch(in.Entries, func(e batchEntry) error {
		return q.changeVisibility(now, e.ReceiptHandle, time.Duration(e.VisibilityTimeout)*time.Second)
	})
}

// inBatch checks a batch as a whole, then does its entries one by one: each succeeds or fails alone.
func inBatch(entries []batchEntry, do func(batchEntry) error) (any, error) {
	if err := checkBatch(entries); err != nil {
		return nil, err
	}
	out := batchAnswer{Successful: []batchSuccess{}, Failed: []batchFailure{}}
	for _, entry := range entries {
		err := do(entry)
		if err == nil {
			out.Successful = append(out.Successful, batchSuccess{entry.ID})
			continue
		}
		failure := asError(err)
		out.Failed = append(out.Failed, batchFailure{
			ID:          entry.ID,
			SenderFault: failure.fault() == "Sender",
			Code:        queryCode(failure.Code),
			Message:     failure.Message,
		})
	}
	return out, nil
}

// entryID is what SQS takes for the id of a batch's entry.
var entryID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)

func checkBatch(entries []batchEntry) error {
	if len(entries) == 0 {
		return errorf("EmptyBatchRequest", "There should be at least one entry in the request.")
	}
	if len(entries) > 10 {
		return errorf("TooManyEntriesInBatchRequest",
			"Maximum number of entries per request are 10. You have sent %d.", len(entries))
	}
	seen := map[string]bool{}
	for _, e := range entries {
		if !entryID.MatchString(e.ID) {
			return errorf("InvalidBatchEntryId", "A batch entry id can only contain alphanumeric characters, "+
				"hyphens and underscores. It can be at most 80 letters long.")
		}
		if seen[e.ID] {
			return errorf("BatchEntryIdsNotDistinct", "Id %s repeated.", e.ID)
		}
		seen[e.ID] = true
	}
	return nil
}
