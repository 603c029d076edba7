package awsim

import (
	"net/http"
	"time"
)

// maxBatch is how many entries a batch may have.
const maxBatch = 10

// batchEntry is an entry of any of the batch requests.
type batchEntry interface{ entryID() string }

type batchAnswer struct {
	Successful []any
	Failed     []batchFailure
}

type batchFailure struct {
	ID          string `json:"Id"`
	SenderFault bool
	Code        string
	Message     string
}

// inBatch checks a batch as a whole, then does its entries one by one: each succeeds or fails alone.
func inBatch[E batchEntry](entries []E, do func(E) (any, error)) (any, error) {
	if err := checkBatch(entries); err != nil {
		return nil, err
	}
	out := batchAnswer{Successful: []any{}, Failed: []batchFailure{}}
	for _, entry := range entries {
		done, err := do(entry)
		if err == nil {
			out.Successful = append(out.Successful, done)
			continue
		}
		failure := asError(err)
		out.Failed = append(out.Failed, batchFailure{
			ID:          entry.entryID(),
			SenderFault: failure.Status < http.StatusInternalServerError,
			Code:        queryCode(failure.Code),
			Message:     failure.Message,
		})
	}
	return out, nil
}

func checkBatch[E batchEntry](entries []E) error {
	if len(entries) == 0 {
		return errorf("EmptyBatchRequest", "There should be at least one entry in the request.")
	}
	if len(entries) > maxBatch {
		return errorf("TooManyEntriesInBatchRequest",
			"Maximum number of entries per request are %d. You have sent %d.", maxBatch, len(entries))
	}
	seen := map[string]bool{}
	for _, entry := range entries {
		id := entry.entryID()
		if !sqsName.MatchString(id) {
			return errorf("InvalidBatchEntryId", "A batch entry id can only contain alphanumeric characters, "+
				"hyphens and underscores. It can be at most 80 letters long.")
		}
		if seen[id] {
			return errorf("BatchEntryIdsNotDistinct", "Id %s repeated.", id)
		}
		seen[id] = true
	}
	return nil
}

// only is the answer to an entry that has nothing but its id.
type only struct {
	ID string `json:"Id"`
}

type sendBatchRequest struct {
	queueRequest
	Entries []sendEntry
}

type sendEntry struct {
	ID           string `json:"Id"`
	MessageBody  string
	DelaySeconds *int
	unkept
}

func (e sendEntry) entryID() string { return e.ID }

type sendEntryAnswer struct {
	ID string `json:"Id"`
	sendAnswer
}

func sendBatch(now time.Time, q *queue, in sendBatchRequest) (any, error) {
	size := 0
	for _, e := range in.Entries {
		size += len(e.MessageBody)
	}
	if size > maxMessage {
		return nil, errorf("BatchRequestTooLong",
			"Batch requests cannot be longer than %d bytes. You have sent %d bytes.", maxMessage, size)
	}
	return inBatch(in.Entries, func(e sendEntry) (any, error) {
		answer, err := accept(now, q, e.MessageBody, e.DelaySeconds, e.unkept)
		return sendEntryAnswer{e.ID, answer}, err
	})
}

type deleteBatchRequest struct {
	queueRequest
	Entries []deleteEntry
}

type deleteEntry struct {
	ID            string `json:"Id"`
	ReceiptHandle string
}

func (e deleteEntry) entryID() string { return e.ID }

func deleteMessageBatch(now time.Time, q *queue, in deleteBatchRequest) (any, error) {
	return inBatch(in.Entries, func(e deleteEntry) (any, error) {
		return only{e.ID}, q.delete(now, e.ReceiptHandle)
	})
}

type visibilityBatchRequest struct {
	queueRequest
	Entries []visibilityEntry
}

type visibilityEntry struct {
	ID                string `json:"Id"`
	ReceiptHandle     string
	VisibilityTimeout *int
}

func (e visibilityEntry) entryID() string { return e.ID }

func changeVisibilityBatch(now time.Time, q *queue, in visibilityBatchRequest) (any, error) {
	return inBatch(in.Entries, func(e visibilityEntry) (any, error) {
		return only{e.ID}, change(now, q, e.ReceiptHandle, e.VisibilityTimeout)
	})
}
