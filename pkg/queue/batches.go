package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/node-drainer/node-drainer/internal/batch"
)

const (
	// batchSize is the most messages that SQS accepts or returns in one call.
	batchSize = 10
	// batchWindow is how long a change waits for others to be sent in the same call.
	batchWindow = 20 * time.Millisecond
	// parallelCalls bounds the concurrent calls that delete, and those that change the visibility.
	parallelCalls = 50
)

// errMissing is the result of an entry that SQS left out of its answer to a batch.
var errMissing = errors.New("SQS did not answer for this message")

// batches sends changes to SQS, many in one call.
type batches struct {
	api      API
	url      string
	inflight *inflight

	deletes      batch.Batcher[change, struct{}]
	visibilities batch.Batcher[change, struct{}]
	deleting     chan struct{} // an element for each running call
	changing     chan struct{}
}

func newBatches(api API, url string, messages *inflight) *batches {
	b := &batches{
		api: api, url: url, inflight: messages,
		deleting: make(chan struct{}, parallelCalls), changing: make(chan struct{}, parallelCalls),
	}
	b.deletes = batch.Batcher[change, struct{}]{Max: batchSize, Window: batchWindow, Call: b.delete}
	b.visibilities = batch.Batcher[change, struct{}]{Max: batchSize, Window: batchWindow, Call: b.setVisibility}
	return b
}

// acquire waits until one more call may run. Its timeout covers the wait and the call: a stopping process
// gives all its messages back at once, and must not wait forever for an SQS that hangs. release ends the
// call.
func acquire(ctx context.Context, calls chan struct{}) (call context.Context, release func(), err error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	select {
	case calls <- struct{}{}:
		return call, func() { cancel(); <-calls }, nil
	case <-call.Done():
		return call, cancel, context.Cause(call)
	}
}

func (b *batches) delete(ctx context.Context, changes []change) []batch.Result[struct{}] {
	ctx, release, err := acquire(ctx, b.deleting)
	defer release()
	if err != nil {
		return batch.Results[change, struct{}](changes, nil, err)
	}
	entries := make([]types.DeleteMessageBatchRequestEntry, len(changes))
	for i, ch := range changes {
		entries[i] = types.DeleteMessageBatchRequestEntry{Id: entryID(i), ReceiptHandle: aws.String(ch.handle)}
	}
	out, err := b.api.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{
		QueueUrl: aws.String(b.url), Entries: entries,
	})
	if err != nil {
		return batch.Results[change, struct{}](changes, nil, err)
	}
	results := batch.Results[change, struct{}](changes, nil, errMissing)
	for _, ok := range out.Successful {
		setResult(results, ok.Id, nil)
	}
	setFailures(results, out.Failed)
	return results
}

func (b *batches) setVisibility(ctx context.Context, changes []change) []batch.Result[struct{}] {
	ctx, release, err := acquire(ctx, b.changing)
	defer release()
	if err != nil {
		return batch.Results[change, struct{}](changes, nil, err)
	}
	answered := make(chan struct{})
	defer close(answered)
	results := batch.Results[change, struct{}](changes, nil, errMissing)
	entries := make([]types.ChangeMessageVisibilityBatchRequestEntry, 0, len(changes))
	for i, ch := range changes {
		if !b.inflight.start(ch, answered) {
			results[i].Err = nil
			continue
		}
		entries = append(entries, types.ChangeMessageVisibilityBatchRequestEntry{
			Id: entryID(i), ReceiptHandle: aws.String(ch.handle), VisibilityTimeout: seconds(ch.visibility),
		})
	}
	if len(entries) == 0 {
		return results
	}
	out, err := b.api.ChangeMessageVisibilityBatch(ctx, &sqs.ChangeMessageVisibilityBatchInput{
		QueueUrl: aws.String(b.url), Entries: entries,
	})
	if err != nil {
		return batch.Results[change, struct{}](changes, nil, err)
	}
	for _, ok := range out.Successful {
		setResult(results, ok.Id, nil)
	}
	setFailures(results, out.Failed)
	return results
}

func entryID(i int) *string { return aws.String(strconv.Itoa(i)) }

func setFailures(results []batch.Result[struct{}], failed []types.BatchResultErrorEntry) {
	for _, f := range failed {
		setResult(results, f.Id, fmt.Errorf("%s: %s", aws.ToString(f.Code), aws.ToString(f.Message)))
	}
}

// setResult sets the result of the entry that SQS names. It ignores an id that was not sent.
func setResult(results []batch.Result[struct{}], id *string, err error) {
	if i, convErr := strconv.Atoi(aws.ToString(id)); convErr == nil && i >= 0 && i < len(results) {
		results[i].Err = err
	}
}

// seconds rounds d up to the whole seconds that SQS accepts.
func seconds(d time.Duration) int32 {
	return int32((d + time.Second - 1) / time.Second) //nolint:gosec // at most twelve hours
}
