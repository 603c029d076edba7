package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/node-drainer/node-drainer/internal/batch"
	"github.com/node-drainer/node-drainer/internal/pause"
)

// errMissing stands for an entry that SQS left out of its answer to a batch.
var errMissing = errors.New("SQS did not answer for this message")

// renew keeps what is in hand invisible: every third of the visibility timeout, so that one failed call
// loses nothing.
func (c *Consumer) renew(ctx context.Context) {
	for pause.For(ctx, c.cfg.VisibilityTimeout/3) {
		var wg sync.WaitGroup
		for _, ch := range c.renewals(time.Now()) {
			wg.Go(func() {
				if _, err := c.visibilities.Do(ctx, ch); err != nil && ctx.Err() == nil {
					c.observer.QueueFailed("keep a message invisible", err)
				}
			})
		}
		wg.Wait()
	}
}

// renewals lists what is to be kept invisible. Towards the end of the twelve hours that SQS allows, a delivery
// is left to end; the message then comes back with a new receipt handle, which take notes.
func (c *Consumer) renewals(now time.Time) []change {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]change, 0, len(c.held))
	for _, h := range c.held {
		left := maxVisibility - now.Sub(h.receivedAt) - time.Second
		if v := min(c.cfg.VisibilityTimeout, left.Truncate(time.Second)); v > 0 {
			out = append(out, change{h.handle, v})
		}
	}
	return out
}

func (c *Consumer) deleteBatch(ctx context.Context, changes []change) []batch.Result[struct{}] {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	entries := make([]types.DeleteMessageBatchRequestEntry, len(changes))
	for i, ch := range changes {
		entries[i] = types.DeleteMessageBatchRequestEntry{Id: entryID(i), ReceiptHandle: aws.String(ch.handle)}
	}
	out, err := c.api.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{
		QueueUrl: aws.String(c.cfg.URL), Entries: entries,
	})
	if err != nil {
		return all(len(changes), err)
	}
	results := all(len(changes), errMissing)
	for _, ok := range out.Successful {
		record(results, ok.Id, nil)
	}
	return failures(results, out.Failed)
}

func (c *Consumer) visibilityBatch(ctx context.Context, changes []change) []batch.Result[struct{}] {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	entries := make([]types.ChangeMessageVisibilityBatchRequestEntry, len(changes))
	for i, ch := range changes {
		entries[i] = types.ChangeMessageVisibilityBatchRequestEntry{
			Id: entryID(i), ReceiptHandle: aws.String(ch.handle), VisibilityTimeout: seconds(ch.visibility),
		}
	}
	out, err := c.api.ChangeMessageVisibilityBatch(ctx, &sqs.ChangeMessageVisibilityBatchInput{
		QueueUrl: aws.String(c.cfg.URL), Entries: entries,
	})
	if err != nil {
		return all(len(changes), err)
	}
	results := all(len(changes), errMissing)
	for _, ok := range out.Successful {
		record(results, ok.Id, nil)
	}
	return failures(results, out.Failed)
}

func entryID(i int) *string { return aws.String(strconv.Itoa(i)) }

func all(n int, err error) []batch.Result[struct{}] {
	results := make([]batch.Result[struct{}], n)
	for i := range results {
		results[i].Err = err
	}
	return results
}

func failures(results []batch.Result[struct{}], failed []types.BatchResultErrorEntry) []batch.Result[struct{}] {
	for _, f := range failed {
		record(results, f.Id, fmt.Errorf("%s: %s", aws.ToString(f.Code), aws.ToString(f.Message)))
	}
	return results
}

// record notes the result of the entry that SQS names; an id that we did not send is passed over.
func record(results []batch.Result[struct{}], id *string, err error) {
	if i, convErr := strconv.Atoi(aws.ToString(id)); convErr == nil && i >= 0 && i < len(results) {
		results[i].Err = err
	}
}

// seconds rounds d up to whole seconds, which is what SQS takes.
func seconds(d time.Duration) int32 { return int32((d + time.Second - 1) / time.Second) }
