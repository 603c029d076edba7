package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// Attributes are those of a queue that matter to an installation.
type Attributes struct {
	ARN         string
	Policy      string // JSON; empty if the queue has none
	Key         string // id, ARN or alias of the KMS key; empty if SQS encrypts with keys of its own, or not at all
	FIFO        bool
	Retention   time.Duration // of a message; zero if SQS did not say
	MaxReceives int           // of the redrive policy; zero if the queue has none
}

// Inspect reads the attributes of the queue with one call. It needs sqs:GetQueueAttributes.
func Inspect(ctx context.Context, api API, url string) (Attributes, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := api.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &url,
		// SQS refuses FifoQueue for a standard queue; all attributes are never refused.
		AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		return Attributes{}, fmt.Errorf("read the attributes of the queue: %w", err)
	}
	text := func(name types.QueueAttributeName) string { return out.Attributes[string(name)] }
	seconds, _ := strconv.Atoi(text(types.QueueAttributeNameMessageRetentionPeriod))
	return Attributes{
		ARN: text(types.QueueAttributeNameQueueArn), Policy: text(types.QueueAttributeNamePolicy),
		Key: text(types.QueueAttributeNameKmsMasterKeyId), FIFO: text(types.QueueAttributeNameFifoQueue) == "true",
		Retention:   time.Duration(seconds) * time.Second,
		MaxReceives: maxReceives(text(types.QueueAttributeNameRedrivePolicy)),
	}, nil
}

// maxReceives reads a redrive policy, in which SQS writes the number as a number or as text.
func maxReceives(policy string) int {
	var redrive struct {
		MaxReceiveCount json.RawMessage `json:"maxReceiveCount"`
	}
	if json.Unmarshal([]byte(policy), &redrive) != nil {
		return 0
	}
	text := string(redrive.MaxReceiveCount)
	if unquoted, err := strconv.Unquote(text); err == nil {
		text = unquoted
	}
	n, _ := strconv.Atoi(text)
	return n
}

// The permissions that a Consumer needs besides sqs:GetQueueAttributes.
const (
	ActionReceive = "sqs:ReceiveMessage"
	ActionDelete  = "sqs:DeleteMessage"
	ActionRenew   = "sqs:ChangeMessageVisibility"
)

// noHandle is no receipt handle of SQS.
const noHandle = "node-drainer-check"

// Try makes a call that needs one of the permissions, and that SQS must refuse even if it is permitted: for a receipt
// handle that does not exist, or with more messages than one call may receive. So no message is received or deleted.
// The error is that of SQS. That SQS checks the permission before these parameters is an assumption.
func Try(ctx context.Context, api API, url, action string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	handle := noHandle
	switch action {
	case ActionReceive:
		_, err = api.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &url, MaxNumberOfMessages: batchSize + 1})
	case ActionDelete:
		_, err = api.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{
			QueueUrl: &url, Entries: []types.DeleteMessageBatchRequestEntry{{Id: aws.String("0"), ReceiptHandle: &handle}},
		})
	case ActionRenew:
		_, err = api.ChangeMessageVisibilityBatch(ctx, &sqs.ChangeMessageVisibilityBatchInput{
			QueueUrl: &url,
			Entries:  []types.ChangeMessageVisibilityBatchRequestEntry{{Id: aws.String("0"), ReceiptHandle: &handle}},
		})
	}
	return err
}
