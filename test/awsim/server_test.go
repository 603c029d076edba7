package awsim_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// start is a server that ends with the test.
func start(t testing.TB, opts awsim.Options) *awsim.Server {
	t.Helper()
	s, err := awsim.New(opts)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// transport is a client's own connections, which end with the test.
func transport(t testing.TB) *http.Client {
	t.Helper()
	tr := &http.Transport{MaxIdleConnsPerHost: 32}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func queueClient(t testing.TB, s *awsim.Server) *sqs.Client {
	t.Helper()
	return sqs.New(sqs.Options{
		Region:       "eu-central-1",
		BaseEndpoint: new(s.URL()),
		Credentials:  credentials.NewStaticCredentialsProvider("test", "secret", ""),
		HTTPClient:   cloud.InMemory(transport(t)),
		Retryer:      aws.NopRetryer{},
	})
}

// code is the code of an error as the SDK reports it.
func code(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

// status is what the SDK reports of an answer's HTTP status.
func status(err error) int {
	var answer interface{ HTTPStatusCode() int }
	if errors.As(err, &answer) {
		return answer.HTTPStatusCode()
	}
	return 0
}

// TestRefusals are the answers to what is not simulated, or not signed.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	client := transport(t)
	for name, c := range map[string]struct{ key, target, body, want string }{
		"unsigned EC2":    {body: "Version=2016-11-15&Action=DescribeInstances", want: "<Response><Errors><Error><Code>MissingAuthenticationToken</Code>"},
		"unknown version": {key: "key", body: "Version=1999-01-01&Action=X", want: "<Code>NoSuchVersion</Code>"},
		"unknown action":  {key: "key", body: "Version=2011-01-01&Action=X", want: "<Type>Sender</Type><Code>InvalidAction</Code>"},
		"unknown target":  {key: "key", target: "Kinesis.X", want: "<Code>NoSuchVersion</Code>"},
		"unknown field":   {key: "key", target: "AmazonSQS.ReceiveMessage", body: `{"Foo":1}`, want: `#SerializationException"`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL(), strings.NewReader(c.body))
		must(t, err)
		if c.key != "" {
			req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+c.key+"/20260101/eu-central-1/x/aws4_request")
		}
		if c.target != "" {
			req.Header.Set("X-Amz-Target", c.target)
		}
		resp, err := client.Do(req)
		must(t, err)
		body, err := io.ReadAll(resp.Body)
		must(t, errors.Join(err, resp.Body.Close()))
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), c.want) {
			t.Errorf("%s: answered %d %s", name, resp.StatusCode, body)
		}
	}
	if got := s.Requests(); len(got) != 1 || got["sqs.ReceiveMessage"] != 1 {
		t.Errorf("what was refused before it reached an action was counted: %v", got)
	}
}

// TestLargeAnswers shows that a client reads large answers whole, though the server takes no time for them: see
// cloud.InMemory.
func TestLargeAnswers(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	client := queueClient(t, s)
	var readers sync.WaitGroup
	for i := range 5 {
		url := s.CreateQueue(fmt.Sprintf("large-%d", i), nil)
		s.Send(url, strings.Repeat("x", 64<<10))
		readers.Go(func() {
			for call := range 100 {
				out, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url})
				if err != nil || len(out.Messages) != 1 {
					t.Errorf("call %d: %v, %v", call, out, err)
					return
				}
				s.ExpireVisibility(url)
			}
		})
	}
	readers.Wait()
}

// TestCloseEndsPolls shows that a server in use closes at once, with nothing left running.
func TestCloseEndsPolls(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	url := s.CreateQueue("jobs", nil)
	client := queueClient(t, s)
	polled := make(chan error, 1)
	go func() {
		_, err := client.ReceiveMessage(context.Background(), &sqs.ReceiveMessageInput{QueueUrl: &url, WaitTimeSeconds: 20})
		polled <- err
	}()
	must(t, s.WaitRequests(t.Context(), "sqs", "ReceiveMessage", 1))
	must(t, s.Close())
	if err := <-polled; err == nil {
		t.Error("the poll ended as if nothing had happened")
	}
}
