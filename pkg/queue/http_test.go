package queue

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// world is a simulated SQS with a queue, and the SDK's client for it.
func world(t testing.TB) (*awsim.Server, *sqs.Client) {
	t.Helper()
	s, err := awsim.New(awsim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, sqs.New(sqs.Options{
		Region:       "eu-central-1",
		BaseEndpoint: aws.String(s.URL()),
		Credentials:  credentials.NewStaticCredentialsProvider("agent", "secret", ""),
		HTTPClient:   cloud.InMemory(&http.Client{Transport: tr}),
	})
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// receipts collects the receive counts that handlers see.
type receipts struct {
	mu  sync.Mutex
	got []int
}

func (r *receipts) add(m Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, m.Receives)
}

func TestHTTPHandleAndDelete(t *testing.T) {
	t.Parallel()
	s, client := world(t)
	url := s.CreateQueue("jobs", nil)
	var mu sync.Mutex
	got := map[string]Message{}
	r := run(t, client, Config{URL: url}, func(_ context.Context, m Message) error {
		mu.Lock()
		defer mu.Unlock()
		got[m.ID] = m
		return nil
	})
	sent := map[string]string{}
	for _, body := range []string{`{"a":"ü"}`, "not JSON <&>", `"x"`} {
		sent[s.Send(url, body)] = body
	}
	if err := s.WaitDrained(within(t), url); err != nil {
		t.Fatal(err)
	}
	r.end()
	for id, body := range sent {
		m := got[id]
		if string(m.Body) != body || m.Receives != 1 || time.Since(m.SentAt).Abs() > time.Minute {
			t.Errorf("sent %q, handled %+v", body, m)
		}
	}
	if stats := s.Queue(url); stats.Deleted != 3 || stats.Received != 3 || !r.Ready() {
		t.Errorf("the queue is %+v, ready %v", stats, r.Ready())
	}
}

func TestHTTPFailedMessageComesBack(t *testing.T) {
	t.Parallel()
	s, client := world(t)
	url := s.CreateQueue("jobs", nil)
	var seen receipts
	run(t, client, Config{URL: url}, func(_ context.Context, m Message) error {
		if seen.add(m); m.Receives == 1 {
			return errWork
		}
		return nil
	})
	s.Send(url, "job")
	if err := s.WaitDrained(within(t), url); err != nil || !slices.Equal(seen.got, []int{1, 2}) {
		t.Errorf("receive counts %v, %v", seen.got, err)
	}
}

func TestHTTPReleasedMessageComesBackAtOnce(t *testing.T) {
	t.Parallel()
	s, client := world(t)
	url := s.CreateQueue("jobs", nil)
	var seen receipts
	run(t, client, Config{URL: url, VisibilityTimeout: time.Hour}, func(_ context.Context, m Message) error {
		if seen.add(m); m.Receives == 1 {
			return Release(errWork)
		}
		return nil
	})
	s.Send(url, "job")
	if err := s.WaitDrained(within(t), url); err != nil || !slices.Equal(seen.got, []int{1, 2}) {
		t.Errorf("receive counts %v, %v", seen.got, err)
	}
}

func TestHTTPRejectedMessageInAQueueWithRedrive(t *testing.T) {
	t.Parallel()
	s, client := world(t)
	dead := s.CreateQueue("dead", nil)
	policy, err := json.Marshal(map[string]any{"deadLetterTargetArn": s.QueueARN(dead), "maxReceiveCount": 2})
	if err != nil {
		t.Fatal(err)
	}
	url := s.CreateQueue("jobs", map[string]string{"RedrivePolicy": string(policy)})
	var seen receipts
	r := run(t, client, Config{URL: url}, func(_ context.Context, m Message) error {
		seen.add(m)
		return Reject(errWork)
	})
	id := s.Send(url, "no job")
	if err := s.WaitDrained(within(t), url); err != nil {
		t.Fatal(err)
	}
	r.end()
	if !slices.Equal(seen.got, []int{1, 2}) || !slices.Equal(r.outcomes(id), []Outcome{Rejected, Rejected}) {
		t.Errorf("receive counts %v, outcomes %v", seen.got, r.outcomes(id))
	}
	if stats := s.Queue(dead); stats.Visible != 1 {
		t.Errorf("the dead-letter queue is %+v", stats)
	}
}

func TestHTTPStopShowsTheMessageAtOnce(t *testing.T) {
	t.Parallel()
	s, client := world(t)
	url := s.CreateQueue("jobs", nil)
	begun := make(chan struct{})
	r := run(t, client, Config{URL: url, VisibilityTimeout: time.Hour}, func(ctx context.Context, _ Message) error {
		close(begun)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	s.Send(url, "job")
	<-begun
	r.end()
	if stats := s.Queue(url); stats.Visible != 1 || stats.Deleted != 0 {
		t.Errorf("the queue is %+v", stats)
	}
}

func TestHTTPTroubleIsSurvived(t *testing.T) {
	t.Parallel()
	s, client := world(t)
	url := s.CreateQueue("jobs", nil)
	s.Inject(awsim.Fault{Service: "sqs", Action: "GetQueueAttributes", Code: "AccessDenied", Status: 403, Times: 1})
	s.Inject(awsim.Fault{Service: "sqs", Action: "ReceiveMessage", Status: 500, Times: 4}) // the SDK itself tries three times
	s.Inject(awsim.Fault{Service: "sqs", Action: "DeleteMessageBatch", Drop: true, Times: 1})
	r := run(t, client, Config{URL: url}, func(context.Context, Message) error { return nil })
	s.Send(url, "job")
	if err := s.WaitDrained(within(t), url); err != nil {
		t.Fatal(err)
	}
	r.end()
	want := []string{"read the attributes of " + url, "receive messages"}
	if !slices.Equal(r.failures, want) {
		t.Errorf("failures %q, want %q", r.failures, want)
	}
}
