package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/node-drainer/node-drainer/internal/batch"
	"github.com/node-drainer/node-drainer/internal/retry"
)

// errMissing stands for an entry that SQS left out of its answer to a batch.
var errMissing = errors.New("SQS did not answer for this message")

const (
	// firstDelete is the pause after a delete that failed; each is twice as long as the one before.
	firstDelete = 250 * time.Millisecond
	// renewalWait is how long a renewal is waited for that is on its way: one that takes longer is lost, most
	// likely, and the process may be about to end.
	renewalWait = time.Second
	// deleteTries is how often a delete is tried in all.
	deleteTries = 5
)

// finish deletes the message or sets when it is visible again, with its newest receipt handle. If SQS does
// not take that, the message comes back by itself, and its handler runs once more.
func (c *Consumer) finish(ctx context.Context, id string, outcome Outcome, after time.Duration) error {
	if outcome == Deleted || outcome == Dropped {
		return c.remove(ctx, id)
	}
	if ctx.Err() != nil {
		<-c.closed // It is for others, and not for a receive of this process that is still open.
	}
	h := c.letGo(id)
	if h.renewed != nil { // What is on its way to SQS could come after the change, and hide the message again.
		select {
		case <-h.renewed:
		case <-time.After(renewalWait):
		}
	}
	_, err := c.visibilities.Do(context.WithoutCancel(ctx), change{handle: h.handle, visibility: after})
	return err
}

// remove deletes the message. It stays in hand until that is done: if it is delivered once more meanwhile, no
// second handler runs, and the next attempt has the newest receipt handle. When ctx has ended there is no
// next attempt.
func (c *Consumer) remove(ctx context.Context, id string) (err error) {
	defer c.letGo(id)
	for try := range deleteTries {
		_, err = c.deletes.Do(context.WithoutCancel(ctx), change{handle: c.settling(id)})
		if err == nil || !retry.Sleep(ctx, firstDelete<<try) {
			break
		}
	}
	return err
}

// settling has the message not renewed any more, and returns its newest receipt handle.
func (c *Consumer) settling(id string) (handle string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[id].done = true
	return c.held[id].handle
}

// letGo has the message no longer in hand, and returns what it was.
func (c *Consumer) letGo(id string) held {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := *c.held[id]
	delete(c.held, id)
	return h
}

// renew keeps what is in hand invisible: every third of the visibility timeout, so that one failed call
// loses nothing.
func (c *Consumer) renew(ctx context.Context) {
	every := time.NewTicker(c.cfg.VisibilityTimeout / 3)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			c.renewAll(ctx)
		}
	}
}

// renewAll sends one round of renewals. No call of it goes on beyond the time of the next round, which is for
// all messages again: so what waits for an SQS that hangs does not grow.
func (c *Consumer) renewAll(ctx context.Context) {
	round, cancel := context.WithTimeout(ctx, c.cfg.VisibilityTimeout/3)
	defer cancel()
	var wg sync.WaitGroup
	for some := range slices.Chunk(c.renewals(time.Now()), batchSize) {
		wg.Go(func() {
			for i, result := range c.visibilityBatch(round, some) {
				if result.Err != nil && ctx.Err() == nil && c.wanted(some[i]) {
					c.observer.QueueFailed("keep a message invisible", result.Err)
				}
			}
		})
	}
	wg.Wait()
}

// renewals lists what is to be kept invisible. Towards the end of the twelve hours that SQS allows, a
// delivery is left to end; the message then comes back with a new receipt handle, which take notes.
func (c *Consumer) renewals(now time.Time) []change {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]change, 0, len(c.held))
	for id, h := range c.held {
		left := maxVisibility - now.Sub(h.receivedAt) - time.Second
		if v := min(c.cfg.VisibilityTimeout, left.Truncate(time.Second)); v > 0 && !h.done {
			out = append(out, change{h.handle, v, id})
		}
	}
	return out
}

// wanted tells whether the change is still to be made: a renewal is void once its handler has returned, and
// must not hide what was just made visible.
func (c *Consumer) wanted(ch change) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isWanted(ch)
}

// isWanted needs mu.
func (c *Consumer) isWanted(ch change) bool {
	h := c.held[ch.renews]
	return ch.renews == "" || h != nil && h.handle == ch.handle && !h.done
}

// sending tells whether the change is still to be made, and has whoever lets the message go wait until it is
// answered.
func (c *Consumer) sending(ch change, answered chan struct{}) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isWanted(ch) {
		return false
	}
	if ch.renews != "" {
		c.held[ch.renews].renewed = answered
	}
	return true
}

// enter waits for the turn of a call, and bounds both together: when this process stops, all that it has in
// hand is given back at once, and SQS may hang. leave ends the call's turn, if it has come.
func enter(ctx context.Context, calls chan struct{}) (call context.Context, leave func(), err error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	select {
	case calls <- struct{}{}:
		return call, func() { cancel(); <-calls }, nil
	case <-call.Done():
		return call, cancel, context.Cause(call)
	}
}

func (c *Consumer) deleteBatch(ctx context.Context, changes []change) []batch.Result[struct{}] {
	ctx, leave, err := enter(ctx, c.deleting)
	defer leave()
	if err != nil {
		return all(len(changes), err)
	}
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
	ctx, leave, err := enter(ctx, c.changing)
	defer leave()
	if err != nil {
		return all(len(changes), err)
	}
	answered := make(chan struct{})
	defer close(answered)
	results := all(len(changes), errMissing)
	entries := make([]types.ChangeMessageVisibilityBatchRequestEntry, 0, len(changes))
	for i, ch := range changes {
		if !c.sending(ch, answered) {
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
	out, err := c.api.ChangeMessageVisibilityBatch(ctx, &sqs.ChangeMessageVisibilityBatchInput{
		QueueUrl: aws.String(c.cfg.URL), Entries: entries,
	})
	if err != nil {
		return all(len(changes), err)
	}
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

func failures(
	results []batch.Result[struct{}], failed []types.BatchResultErrorEntry,
) []batch.Result[struct{}] {
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
func seconds(d time.Duration) int32 {
	return int32((d + time.Second - 1) / time.Second) //nolint:gosec // at most twelve hours
}
