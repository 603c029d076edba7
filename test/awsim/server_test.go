package awsim_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// start is a server that ends with the test.
func start(t testing.TB, opts awsim.Options) *awsim.Server {
	t.Helper()
	s, err := awsim.New(opts)
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
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

func TestCallerIdentity(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{Account: "210987654321"})
	client := sts.New(sts.Options{
		Region:       "eu-central-1",
		BaseEndpoint: new(s.URL()),
		Credentials:  credentials.NewStaticCredentialsProvider("test", "secret", ""),
		HTTPClient:   cloud.InMemory(transport(t)),
		Retryer:      aws.NopRetryer{},
	})
	out, err := client.GetCallerIdentity(t.Context(), nil)
	must(t, err)
	if *out.Account != "210987654321" || *out.Arn != "arn:aws:iam::210987654321:user/awsim" {
		t.Errorf("the caller is %s, %s", *out.Account, *out.Arn)
	}
}

// TestRefusals are the answers to what no SDK would send.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const signed = "AWS4-HMAC-SHA256 Credential=key/20260101/eu-central-1/x/aws4_request, SignedHeaders=host, " +
		"Signature=0"
	s := start(t, awsim.Options{})
	client := transport(t)
	for _, c := range []struct {
		name, authorization, target, body string
		status                            int
		want                              string
	}{
		{
			"unsigned Query", "", "", "Version=2011-06-15&Action=GetCallerIdentity", 403,
			"<Code>MissingAuthenticationToken</Code>",
		},
		{
			"unsigned EC2", " ", "", "Version=2016-11-15&Action=DescribeInstances", 403,
			"<Response><Errors><Error><Code>MissingAuthenticationToken</Code>",
		},
		{
			"unsigned JSON", "Basic x", "AmazonSQS.ListQueues", "{}", 403,
			`"__type":"com.amazon.coral.service#MissingAuthenticationToken"`,
		},
		{"unknown version", signed, "", "Version=1999-01-01&Action=X", 400, "<Code>NoSuchVersion</Code>"},
		{
			"a form that names SQS", signed, "", "Version=AmazonSQS&Action=ListQueues", 400,
			"<Code>NoSuchVersion</Code>",
		},
		{
			"unknown action", signed, "", "Version=2011-01-01&Action=X", 400,
			"<Type>Sender</Type><Code>InvalidAction</Code>",
		},
		{"unknown action of SQS", signed, "AmazonSQS.X", "{}", 400, `#InvalidAction"`},
		{"unknown target", signed, "Kinesis.X", "{}", 400, `#UnknownOperationException"`},
		{
			"a target that is a version", signed, "2011-06-15.GetCallerIdentity", "{}", 400,
			`#UnknownOperationException"`,
		},
		{"not a form", signed, "", "%zz", 400, "<Code>MalformedQueryString</Code>"},
		{"not JSON", signed, "AmazonSQS.ListQueues", "{", 400, `#SerializationException"`},
		{
			"a field that SQS does not have", signed, "AmazonSQS.ListQueues", `{"Foo":1}`, 400,
			`#SerializationException"`,
		},
		{"a body without end", signed, "", strings.Repeat("x", 8<<20+1), 413, "RequestEntityTooLarge"},
	} {
		t.Run(c.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL(), strings.NewReader(c.body))
			must(t, err)
			req.Header.Set("Authorization", c.authorization)
			if c.target != "" {
				req.Header.Set("X-Amz-Target", c.target)
			}
			resp, err := client.Do(req)
			must(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != c.status || !strings.Contains(string(body), c.want) {
				t.Errorf("answered %d %s (%v)", resp.StatusCode, body, err)
			}
		})
	}
	if got := s.Requests(); len(got) != 1 || got["sqs.ListQueues"] != 2 {
		t.Errorf("what was refused before it reached an action was counted: %v", got)
	}
}

// TestCloseWaitsForConnections shows that no goroutine of net/http's outlives a server that has refused
// a request before it was read whole: the connection is then held for half a second more.
func TestCloseWaitsForConnections(t *testing.T) {
	s := start(t, awsim.Options{})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL(), endless{})
	must(t, err)
	if resp, err := transport(t).Do(req); err == nil { // Else the connection ended before the answer was read.
		must(t, resp.Body.Close())
	}
	must(t, s.Close())
	stacks := make([]byte, 1<<20)
	if all := string(stacks[:runtime.Stack(stacks, true)]); strings.Contains(all, "closeWriteAndWait") {
		t.Errorf("a connection outlives its server:\n%s", all)
	}
}

// endless is a body without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

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
		_, err := client.ReceiveMessage(context.Background(), &sqs.ReceiveMessageInput{
			QueueUrl:        &url,
			WaitTimeSeconds: 20,
		})
		polled <- err
	}()
	must(t, s.WaitRequests(t.Context(), "sqs", "ReceiveMessage", 1))
	begun := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-polled; err == nil {
		t.Error("the poll ended as if nothing had happened")
	}
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("closing took %v", took)
	}
}
