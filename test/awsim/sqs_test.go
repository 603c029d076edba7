package awsim_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// receive is one ReceiveMessage of up to ten messages.
func receive(t *testing.T, client *sqs.Client, url string, wait int32) []types.Message {
	t.Helper()
	return do(t, client.ReceiveMessage, &sqs.ReceiveMessageInput{
		QueueUrl: &url, MaxNumberOfMessages: 10, WaitTimeSeconds: wait,
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{"ApproximateReceiveCount"},
	}).Messages
}

func TestLongPollEndsWithItsClient(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	url, client := s.CreateQueue("jobs", nil), queueClient(t, s)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &url, WaitTimeSeconds: 20})
		left <- err
	}()
	must(t, s.WaitRequests(t.Context(), "sqs", "ReceiveMessage", 1))
	leave()
	if err := <-left; err == nil {
		t.Fatal("the poll ended as if nothing had happened")
	}
	for s.Calls("sqs", "ReceiveMessage")[0].Code != "Dropped" {
		receive(t, client, url, 0) // The server learns of it by itself; this only passes the time.
	}
	s.Send(url, "a")
	if got := receive(t, client, url, 0); len(got) != 1 || got[0].Attributes["ApproximateReceiveCount"] != "1" {
		t.Errorf("the message had been handed to nobody: %+v", got)
	}
}

func TestBatches(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	client, url := queueClient(t, s), s.CreateQueue("jobs", nil)
	s.Send(url, "<&ü>")
	handle := receive(t, client, url, 0)[0].ReceiptHandle
	changed := do(t, client.ChangeMessageVisibilityBatch, &sqs.ChangeMessageVisibilityBatchInput{
		QueueUrl: &url,
		Entries: []types.ChangeMessageVisibilityBatchRequestEntry{
			{Id: new("a"), ReceiptHandle: handle, VisibilityTimeout: 60},
			{Id: new("b"), ReceiptHandle: handle, VisibilityTimeout: 43201},
			{Id: new("c"), ReceiptHandle: new("garbage"), VisibilityTimeout: 60},
		},
	})
	if len(changed.Successful) != 1 || len(changed.Failed) != 2 || *changed.Failed[1].Id != "c" ||
		*changed.Failed[1].Code != "ReceiptHandleIsInvalid" || !changed.Failed[1].SenderFault {
		t.Errorf("changed %+v", changed)
	}
	for ids, want := range map[string]string{
		"":                      "AWS.SimpleQueueService.EmptyBatchRequest",
		"a b c d e f g h i j k": "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
		"a b a":                 "AWS.SimpleQueueService.BatchEntryIdsNotDistinct",
		"a/b":                   "AWS.SimpleQueueService.InvalidBatchEntryId",
		"a b":                   "",
	} {
		entries := []types.DeleteMessageBatchRequestEntry{}
		for id := range strings.FieldsSeq(ids) {
			entries = append(entries, types.DeleteMessageBatchRequestEntry{Id: &id, ReceiptHandle: handle})
		}
		_, err := client.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{QueueUrl: &url, Entries: entries})
		if code(err) != want {
			t.Errorf("%q: %v, want %s", ids, err, want)
		}
	}
	if got, want := s.Queue(url), (awsim.QueueStats{Deleted: 1, Received: 1}); got != want {
		t.Errorf("the queue is %+v", got)
	}
}

// TestQueueErrors are errors as the SDK sees them: by code and, where the model has one, by type.
func TestQueueErrors(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	client, url := queueClient(t, s), s.CreateQueue("jobs", nil)
	for name, c := range map[string]struct {
		in   sqs.ReceiveMessageInput
		want string
	}{
		"no such queue":   {sqs.ReceiveMessageInput{QueueUrl: new(url + "-none")}, "AWS.SimpleQueueService.NonExistentQueue"},
		"eleven messages": {sqs.ReceiveMessageInput{QueueUrl: &url, MaxNumberOfMessages: 11}, "InvalidParameterValue"},
		"21 seconds":      {sqs.ReceiveMessageInput{QueueUrl: &url, WaitTimeSeconds: 21}, "InvalidParameterValue"},
	} {
		_, err := client.ReceiveMessage(t.Context(), &c.in)
		if _, ok := errors.AsType[*types.QueueDoesNotExist](err); code(err) != c.want || ok != (name == "no such queue") {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// TestLose: what is lost was accepted, and is not in the queue. What is held, in flight or not, can be seen.
func TestLose(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	client, url := queueClient(t, s), s.CreateQueue("jobs", nil)
	s.Send(url, "a")
	receive(t, client, url, 0)
	s.Lose(url, 1)
	s.Send(url, "lost")
	s.Send(url, "b")
	if held := s.Held(url); !slices.Equal(held, []string{"a", "b"}) {
		t.Errorf("held: %v", held)
	}
	if lost := s.Lost(url); !slices.Equal(lost, []string{"lost"}) {
		t.Errorf("lost: %v", lost)
	}
}
