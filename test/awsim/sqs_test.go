package awsim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// poll is one ReceiveMessage of up to ten messages, with all attributes.
func poll(ctx context.Context, client *sqs.Client, url string, wait int32) ([]types.Message, error) {
	out, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &url, MaxNumberOfMessages: 10, WaitTimeSeconds: wait,
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"},
	})
	if err != nil {
		return nil, err
	}
	return out.Messages, nil
}

func receive(t *testing.T, client *sqs.Client, url string, wait int32) []types.Message {
	t.Helper()
	messages, err := poll(t.Context(), client, url, wait)
	must(t, err)
	return messages
}

// polling is the number of messages that a long poll of its own goroutine gets.
func polling(t *testing.T, client *sqs.Client, url string) <-chan int {
	got := make(chan int, 1)
	go func() {
		messages, err := poll(t.Context(), client, url, 20)
		if err != nil {
			t.Error(err)
		}
		got <- len(messages)
	}()
	return got
}

// TestMessageLife walks through a message's life as the agent leads it.
func TestMessageLife(t *testing.T) {
	t.Parallel()
	s, ctx := start(t, awsim.Options{}), t.Context()
	client := queueClient(t, s)
	created := do(t, client.CreateQueue, &sqs.CreateQueueInput{
		QueueName:  new("jobs"),
		Attributes: map[string]string{"VisibilityTimeout": "1"},
	})
	url := *created.QueueUrl
	sent := do(t, client.SendMessage, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: new("<&ü>")})
	first := receive(t, client, url, 0)
	if len(first) != 1 || *first[0].Body != "<&ü>" || *first[0].MessageId != *sent.MessageId {
		t.Fatalf("received %+v", first)
	}
	do(t, client.SetQueueAttributes, &sqs.SetQueueAttributesInput{
		QueueUrl: &url, Attributes: map[string]string{"VisibilityTimeout": "600"}, // From the next receive on.
	})
	again := receive(t, client, url, 20) // Ends when the visibility does.
	const firstReceipt = "ApproximateFirstReceiveTimestamp"
	if len(again) != 1 || again[0].Attributes["ApproximateReceiveCount"] != "2" ||
		again[0].Attributes[firstReceipt] != first[0].Attributes[firstReceipt] ||
		again[0].Attributes["SentTimestamp"] == "" || again[0].Attributes["SenderId"] == "" {
		t.Fatalf("received again %+v", again)
	}
	do(t, client.ChangeMessageVisibility, &sqs.ChangeMessageVisibilityInput{
		QueueUrl:      &url,
		ReceiptHandle: again[0].ReceiptHandle, VisibilityTimeout: 0,
	})
	third := receive(t, client, url, 0)
	for i, handle := range []*string{first[0].ReceiptHandle, third[0].ReceiptHandle} {
		do(t, client.DeleteMessage, &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: handle})
		if got, want := s.Queue(url), (awsim.QueueStats{InFlight: 1 - i, Deleted: i, Received: 3}); got != want {
			t.Errorf("after deletion %d the queue is %+v", i, got)
		}
	}
	if err := s.WaitDrained(ctx, url); err != nil {
		t.Error(err)
	}
}

// TestLongPoll shows what ends a poll: a message, whatever way it comes, or the end of the client.
func TestLongPoll(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		wake func(s *awsim.Server, url string)
	}{
		{"a message that is sent", func(s *awsim.Server, url string) { s.Send(url, "b") }},
		{"a message that comes back", func(s *awsim.Server, url string) { s.ExpireVisibility(url) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, awsim.Options{})
			url, client := s.CreateQueue("jobs", nil), queueClient(t, s)
			s.Send(url, "a")
			receive(t, client, url, 0)
			begun, got := time.Now(), polling(t, client, url)
			must(t, s.WaitRequests(t.Context(), "sqs", "ReceiveMessage", 2))
			c.wake(s, url)
			if n, took := <-got, time.Since(begun); n != 1 || took > 18*time.Second {
				t.Errorf("received %d after %v", n, took)
			}
		})
	}
	t.Run("a client that goes away", func(t *testing.T) {
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
	})
}

func TestBatches(t *testing.T) {
	t.Parallel()
	s, ctx := start(t, awsim.Options{}), t.Context()
	client, url := queueClient(t, s), s.CreateQueue("jobs", map[string]string{"MaximumMessageSize": "1024"})
	sent, err := client.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{
		QueueUrl: &url,
		Entries: []types.SendMessageBatchRequestEntry{
			{Id: new("a"), MessageBody: new("1")},
			{Id: new("b"), MessageBody: new(strings.Repeat("x", 1025))},
			{Id: new("c"), MessageBody: new("3")},
		},
	})
	if err != nil || len(sent.Successful) != 2 || len(sent.Failed) != 1 || *sent.Failed[0].Id != "b" ||
		*sent.Failed[0].Code != "InvalidParameterValue" || !sent.Failed[0].SenderFault {
		t.Fatalf("sent %+v, %v", sent, err)
	}
	got := receive(t, client, url, 0)
	if len(got) != 2 {
		t.Fatalf("received %+v", got)
	}
	changed, err := client.ChangeMessageVisibilityBatch(ctx, &sqs.ChangeMessageVisibilityBatchInput{
		QueueUrl: &url,
		Entries: []types.ChangeMessageVisibilityBatchRequestEntry{
			{Id: new("a"), ReceiptHandle: got[0].ReceiptHandle, VisibilityTimeout: 60},
			{Id: new("b"), ReceiptHandle: got[1].ReceiptHandle, VisibilityTimeout: 43201},
			{Id: new("c"), ReceiptHandle: new("garbage"), VisibilityTimeout: 60},
		},
	})
	if err != nil || len(changed.Successful) != 1 || len(changed.Failed) != 2 ||
		*changed.Failed[1].Code != "ReceiptHandleIsInvalid" {
		t.Fatalf("changed %+v, %v", changed, err)
	}
	deleted, err := client.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{
		QueueUrl: &url,
		Entries: []types.DeleteMessageBatchRequestEntry{
			{Id: new("a"), ReceiptHandle: got[0].ReceiptHandle},
			{Id: new("b"), ReceiptHandle: new("garbage")},
		},
	})
	if err != nil || len(deleted.Successful) != 1 || len(deleted.Failed) != 1 || s.Queue(url).Deleted != 1 {
		t.Fatalf("deleted %+v, %v", deleted, err)
	}
}

func TestBatchErrors(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	client, url := queueClient(t, s), s.CreateQueue("jobs", nil)
	for _, c := range []struct {
		name string
		ids  []string
		size int
		want string
	}{
		{"none", []string{}, 1, "AWS.SimpleQueueService.EmptyBatchRequest"},
		{
			"eleven", strings.Split("a b c d e f g h i j k", " "), 1,
			"AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
		},
		{"twice the same", []string{"a", "b", "a"}, 1, "AWS.SimpleQueueService.BatchEntryIdsNotDistinct"},
		{"a bad id", []string{"a b"}, 1, "AWS.SimpleQueueService.InvalidBatchEntryId"},
		{"too much in all", []string{"a", "b"}, 600 << 10, "AWS.SimpleQueueService.BatchRequestTooLong"},
	} {
		entries := []types.SendMessageBatchRequestEntry{}
		for _, id := range c.ids {
			entries = append(entries, types.SendMessageBatchRequestEntry{
				Id:          &id,
				MessageBody: new(strings.Repeat("x", c.size)),
			})
		}
		_, err := client.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: entries})
		if code(err) != c.want || s.Queue(url).Visible != 0 {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestQueueErrors are errors as the SDK sees them: by code and, where the model has one, by type.
func TestQueueErrors(t *testing.T) {
	t.Parallel()
	s, ctx := start(t, awsim.Options{}), t.Context()
	client, url := queueClient(t, s), s.CreateQueue("jobs", map[string]string{"DelaySeconds": "0"})
	none := s.URL() + "/123456789012/none"
	other := s.URL() + "/000000000000/jobs"
	send := func(url, body string, delay int32) error {
		_, err := client.SendMessage(ctx, &sqs.SendMessageInput{
			QueueUrl: &url, MessageBody: &body,
			DelaySeconds: delay,
		})
		return err
	}
	receive := func(most, wait int32) error {
		_, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: &url, MaxNumberOfMessages: most,
			WaitTimeSeconds: wait,
		})
		return err
	}
	create := func(name string, attrs map[string]string) error {
		_, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attrs})
		return err
	}
	const noQueue = "AWS.SimpleQueueService.NonExistentQueue"
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"no such queue", send(none, "a", 0), noQueue},
		{"another account's queue", send(other, "a", 0), noQueue},
		{"too large", send(url, strings.Repeat("x", 1<<20+1), 0), "InvalidParameterValue"},
		{"the largest", send(url, strings.Repeat("x", 1<<20), 0), ""},
		{"a control character", send(url, "\x01", 0), "InvalidMessageContents"},
		{"nothing", send(url, "", 0), "MissingParameter"},
		{"too late", send(url, "a", 901), "InvalidParameterValue"},
		{"eleven messages", receive(11, 0), "InvalidParameterValue"},
		{"21 seconds", receive(1, 21), "InvalidParameterValue"},
		{"the same queue again", create("jobs", map[string]string{"DelaySeconds": "0"}), ""},
		{
			"a different queue of the name", create("jobs", map[string]string{"DelaySeconds": "1"}),
			"QueueAlreadyExists",
		},
		{"a FIFO queue", create("jobs.fifo", nil), "InvalidParameterValue"},
		{"no such attribute", create("x", map[string]string{"Colour": "red"}), "InvalidAttributeName"},
		{"no dead-letter queue", create("x", map[string]string{"RedrivePolicy": `{"deadLetterTargetArn":` +
			`"arn:aws:sqs:eu-central-1:123456789012:none","maxReceiveCount":3}`}), "InvalidParameterValue"},
	} {
		if got := code(c.err); got != c.want {
			t.Errorf("%s: %v, want %s", c.name, c.err, c.want)
		}
	}
	var missing *types.QueueDoesNotExist
	if err := send(none, "a", 0); !errors.As(err, &missing) || missing.ErrorMessage() !=
		"The specified queue does not exist." || status(err) != 400 {
		t.Errorf("no such queue: %v", err)
	}
}

func TestQueues(t *testing.T) {
	t.Parallel()
	s, ctx := start(t, awsim.Options{}), t.Context()
	client := queueClient(t, s)
	for i := range 3 {
		s.CreateQueue(fmt.Sprintf("jobs-%d", i), nil)
	}
	s.CreateQueue("other", nil)
	pages := sqs.NewListQueuesPaginator(client, &sqs.ListQueuesInput{
		QueueNamePrefix: new("jobs"),
		MaxResults:      new(int32(2)),
	})
	var sizes []int
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		must(t, err)
		sizes = append(sizes, len(page.QueueUrls))
	}
	if fmt.Sprint(sizes) != "[2 1]" {
		t.Errorf("the pages have %v queues", sizes)
	}

	got := do(t, client.GetQueueUrl, &sqs.GetQueueUrlInput{QueueName: new("jobs-0")})
	url := got.QueueUrl
	policy := `{"deadLetterTargetArn":"arn:aws:sqs:eu-central-1:123456789012:other","maxReceiveCount":3}`
	do(t, client.SetQueueAttributes, &sqs.SetQueueAttributesInput{
		QueueUrl:   url,
		Attributes: map[string]string{"RedrivePolicy": policy, "VisibilityTimeout": "7"},
	})
	s.Send(*url, "a")
	attrs, err := client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: url,
		AttributeNames: []types.QueueAttributeName{
			"RedrivePolicy", "VisibilityTimeout",
			"ApproximateNumberOfMessages",
		},
	})
	want := map[string]string{
		"RedrivePolicy": policy, "VisibilityTimeout": "7",
		"ApproximateNumberOfMessages": "1",
	}
	if err != nil || fmt.Sprint(attrs.Attributes) != fmt.Sprint(want) {
		t.Errorf("the attributes are %v, %v", attrs, err)
	}
	_, err = client.PurgeQueue(ctx, &sqs.PurgeQueueInput{QueueUrl: url})
	if err != nil || s.Queue(*url).Visible != 0 {
		t.Errorf("purged: %v, %+v", err, s.Queue(*url))
	}
	if _, err := client.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: url}); err != nil {
		t.Error(err)
	}
	_, err = client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: new("jobs-0")})
	if code(err) != "AWS.SimpleQueueService.NonExistentQueue" {
		t.Errorf("after its deletion: %v", err)
	}
}

// TestQueueTroubles are what a queue of the standard kind may do to its consumer, on demand.
func TestQueueTroubles(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	client, url := queueClient(t, s), s.CreateQueue("jobs", nil)
	s.Duplicate(url, 1)
	s.Send(url, "a")
	s.Send(url, "b")
	s.Lose(url, 1)
	s.Send(url, "lost")
	s.Reorder(url, true)
	var got []string
	for _, m := range receive(t, client, url, 0) {
		got = append(got, *m.Body)
	}
	if strings.Join(got, " ") != "b a a" {
		t.Errorf("received %v", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.WaitDrained(ctx, url); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the queue counts as drained: %v", err)
	}
	if held := s.Held(url); !slices.Equal(held, []string{"a", "a", "b"}) {
		t.Errorf("held while all are in flight: %v", held)
	}
}

// TestRedriveOverHTTP shows that a poll of the dead-letter queue hears of what arrives there.
func TestRedriveOverHTTP(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	client, dead := queueClient(t, s), s.CreateQueue("dead", nil)
	url := s.CreateQueue("jobs", map[string]string{"RedrivePolicy": `{"deadLetterTargetArn":` +
		`"arn:aws:sqs:eu-central-1:123456789012:dead","maxReceiveCount":"1"}`})
	s.Send(url, "a")
	receive(t, client, url, 0)
	got := polling(t, client, dead)
	must(t, s.WaitRequests(t.Context(), "sqs", "ReceiveMessage", 2))
	s.ExpireVisibility(url)
	if n := len(receive(t, client, url, 0)); n != 0 {
		t.Errorf("%d were received once more", n)
	}
	if err := s.WaitDrained(t.Context(), url); err != nil {
		t.Error(err)
	}
	if n := <-got; n != 1 {
		t.Errorf("%d dead letters", n)
	}
}
