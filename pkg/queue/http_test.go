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

// simulatedSQS returns a simulated AWS, and the SDK's client of its SQS.
func simulatedSQS(t *testing.T) (*awsim.Server, *sqs.Client) {
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
		Retryer:      aws.NopRetryer{},
	})
}

// waitDrained waits until the queue is empty.
func waitDrained(t *testing.T, s *awsim.Server, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := s.WaitDrained(ctx, url); err != nil {
		t.Fatal(err)
	}
}

// TestHTTP handles messages over HTTP, some of them twice, while the first calls of some operations fail. What is in
// flight at the end is visible at once.
func TestHTTP(t *testing.T) {
	t.Parallel()
	s, client := simulatedSQS(t)
	url := s.CreateQueue("jobs", nil)
	for action, fault := range map[string]awsim.Fault{
		"GetQueueAttributes": {Code: "AccessDenied", Status: 403},
		"ReceiveMessage":     {Status: 500},
		"DeleteMessageBatch": {Drop: true},
	} {
		fault.Service, fault.Action, fault.Times = "sqs", action, 1
		s.Inject(fault)
	}
	var mu sync.Mutex
	got, started := map[string]Message{}, make(chan struct{})
	r := run(t, client, Config{URL: url, VisibilityTimeout: time.Hour}, func(ctx context.Context, m Message) error {
		mu.Lock()
		got[m.ID] = m
		mu.Unlock()
		switch body := string(m.Body); {
		case body == "failed" && m.Receives == 1:
			return errWork
		case body == "released" && m.Receives == 1:
			return Release(errWork)
		case body == "unfinished":
			close(started)
			return untilStopped(ctx, m)
		}
		return nil
	})
	sent := map[string]string{}
	for _, body := range []string{`{"a":"ü"}`, "not JSON <&>", `"x"`, "failed", "released"} {
		sent[s.Send(url, body)] = body
	}
	waitDrained(t, s, url)
	s.Send(url, "unfinished")
	<-started
	r.stop(t)
	for id, body := range sent {
		m, receives := got[id], 1
		if body == "failed" || body == "released" {
			receives = 2
		}
		if string(m.Body) != body || m.Receives != receives || m.Sender != "AIDATEST" || time.Since(m.SentAt).Abs() > time.Minute {
			t.Errorf("sent %q, handled %+v", body, m)
		}
	}
	if stats := s.Queue(url); stats.Deleted != 5 || stats.Received != 8 || stats.Visible != 1 || !r.Ready() {
		t.Errorf("the queue is %+v, ready %v", stats, r.Ready())
	}
	if want := []string{"read the attributes of " + url, "receive messages"}; !slices.Equal(r.failures, want) {
		t.Errorf("failures %q, want %q", r.failures, want)
	}
}

func TestHTTPRedrive(t *testing.T) {
	t.Parallel()
	s, client := simulatedSQS(t)
	dead := s.CreateQueue("dead", nil)
	policy, err := json.Marshal(map[string]any{"deadLetterTargetArn": s.QueueARN(dead), "maxReceiveCount": 1})
	if err != nil {
		t.Fatal(err)
	}
	url := s.CreateQueue("jobs", map[string]string{"RedrivePolicy": string(policy)})
	r := run(t, client, Config{URL: url}, reject)
	id := s.Send(url, "no job")
	waitDrained(t, s, url)
	r.stop(t)
	if !slices.Equal(r.outcomes(id), []Outcome{Rejected}) {
		t.Errorf("outcomes %v", r.outcomes(id))
	}
	if stats := s.Queue(dead); stats.Visible != 1 {
		t.Errorf("the dead-letter queue is %+v", stats)
	}
}
