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
	var released time.Time
	run(t, client, Config{URL: url, VisibilityTimeout: time.Hour}, func(_ context.Context, m Message) error {
		if seen.add(m); m.Receives == 1 {
			released = time.Now()
			return Release(errWork)
		}
		if took := time.Since(released); took > 5*time.Second {
			t.Errorf("came back after %v", took)
		}
		return nil
	})
	s.Send(url, "job")
	if err := s.WaitDrained(within(t), url); err != nil || !slices.Equal(seen.got, []int{1, 2}) {
		t.Errorf("receive counts %v, %v", seen.got, err)
	}
}

func TestHTTPRejectedMessage(t *testing.T) {
	t.Parallel()
	for _, redrive := range []bool{true, false} {
		s, client := world(t)
		dead := s.CreateQueue("dead", nil)
		attrs := map[string]string{}
		if redrive {
			policy, err := json.Marshal(map[string]any{"deadLetterTargetArn": s.QueueARN(dead), "maxReceiveCount": 2})
			if err != nil {
				t.Fatal(err)
			}
			attrs["RedrivePolicy"] = string(policy)
		}
		url := s.CreateQueue("jobs", attrs)
		var seen receipts
		r := run(t, client, Config{URL: url}, func(_ context.Context, m Message) error {
			seen.add(m)
			return Reject(errWork)
		})
		id := s.Send(url, "no job")
		want, outcomes := []int{1, 2}, []Outcome{Rejected, Rejected}
		if !redrive {
			// Nobody waits for the pauses of four deliveries.
			want, outcomes = []int{1, 2, 3, 4, 5}, []Outcome{Rejected, Rejected, Rejected, Rejected, Dropped}
			for n := range 4 {
				eventually(t, func() bool { return len(r.outcomes(id)) > n })
				s.ExpireVisibility(url)
			}
		}
		if err := s.WaitDrained(within(t), url); err != nil {
			t.Fatal(err)
		}
		r.end()
		if !slices.Equal(seen.got, want) || !slices.Equal(r.outcomes(id), outcomes) {
			t.Errorf("redrive %v: receive counts %v, outcomes %v", redrive, seen.got, r.outcomes(id))
		}
		if got := s.Queue(dead).Visible == 1; got != redrive {
			t.Errorf("redrive %v: the dead-letter queue is %+v", redrive, s.Queue(dead))
		}
	}
}

// eventually polls for what the simulator has no wait for.
func eventually(t *testing.T, fact func() bool) {
	t.Helper()
	for ctx := within(t); !fact(); {
		if ctx.Err() != nil {
			t.Fatal("waited in vain")
		}
		time.Sleep(5 * time.Millisecond)
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
