package awsim_test

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// drain receives and deletes in batches until the queue is empty, with several receivers, as the agent does.
func drain(t testing.TB, s *awsim.Server, url string, receivers int) {
	t.Helper()
	c := queueClient(t, s)
	var all sync.WaitGroup
	for range receivers {
		all.Go(func() {
			for {
				out, err := c.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
					QueueUrl: new(url), MaxNumberOfMessages: 10, VisibilityTimeout: 600,
				})
				if err != nil {
					t.Error(err)
					return
				}
				if len(out.Messages) == 0 {
					return
				}
				batch := make([]types.DeleteMessageBatchRequestEntry, 0, len(out.Messages))
				for i, m := range out.Messages {
					batch = append(batch, types.DeleteMessageBatchRequestEntry{
						Id: new(strconv.Itoa(i)), ReceiptHandle: m.ReceiptHandle,
					})
				}
				if _, err := c.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{
					QueueUrl: new(url), Entries: batch,
				}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// TestLateMessages: a queue's delay holds back what is sent from then on, AWS's own messages included.
func TestLateMessages(t *testing.T) {
	s := workers(t, awsim.Options{})
	url := s.CreateQueue("events", nil)
	s.AddRule(s.QueueARN(url))
	s.Send(url, "early")
	s.Delay(url, 15*time.Minute)
	must(t, s.Recommend(instanceID))
	if got := s.Queue(url); got.Visible != 1 || got.Delayed != 1 {
		t.Errorf("the queue is %+v", got)
	}
	const delay = 300 * time.Millisecond
	s.Delay(url, delay)
	c := queueClient(t, s)
	receive := func() string {
		t.Helper()
		out := do(t, c.ReceiveMessage, &sqs.ReceiveMessageInput{QueueUrl: new(url), WaitTimeSeconds: 20})
		if len(out.Messages) != 1 {
			t.Fatalf("received %+v", out.Messages)
		}
		return *out.Messages[0].Body
	}
	if body := receive(); body != "early" {
		t.Errorf("received first: %s", body)
	}
	sent := time.Now()
	must(t, s.Recommend(instanceID))
	receive()
	if took := time.Since(sent); took < delay {
		t.Errorf("the late message came after %v", took)
	}
}

// BenchmarkQueue takes 15,000 messages of 1 KiB in, the size of Karpenter's own interruption benchmark.
func BenchmarkQueue(b *testing.B) {
	const messages = 15_000
	s := start(b, awsim.Options{})
	url := s.CreateQueue("events", nil)
	body := strings.Repeat("x", 1<<10)
	took := time.Duration(0)
	for b.Loop() {
		for range messages {
			s.Send(url, body)
		}
		began := time.Now()
		drain(b, s, url, 16)
		took += time.Since(began)
	}
	b.ReportMetric(float64(messages*b.N)/took.Seconds(), "messages/s")
}
