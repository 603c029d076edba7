package awsim_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/node-drainer/node-drainer/test/awsim"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		fault  awsim.Fault
		code   string // As the SDK reports it.
		status int
		failed bool
		sent   int // Messages in the queue after one send.
		logged string
	}{
		{name: "of another service", fault: awsim.Fault{Service: "ec2", Code: "Throttling"}, sent: 1},
		{name: "of another action", fault: awsim.Fault{Action: "ReceiveMessage", Code: "Throttling"}, sent: 1},
		{
			name: "error", fault: awsim.Fault{Code: "RequestThrottled", Status: 403}, code: "RequestThrottled",
			status: 403, failed: true, logged: "RequestThrottled",
		},
		{name: "error without a status", fault: awsim.Fault{
			Service: "sqs", Action: "SendMessage",
			Code: "AccessDenied",
		}, code: "AccessDenied", status: 400, failed: true, logged: "AccessDenied"},
		{
			name: "status without a code", fault: awsim.Fault{Status: 503}, code: "InternalFailure", status: 503,
			failed: true, logged: "InternalFailure",
		},
		{name: "dropped", fault: awsim.Fault{Drop: true}, failed: true, logged: "Dropped"},
		{
			name: "applied, but answered with an error", fault: awsim.Fault{Status: 500, AfterApply: true},
			code: "InternalFailure", status: 500, failed: true, sent: 1, logged: "InternalFailure",
		},
		{
			name: "applied, but dropped", fault: awsim.Fault{Drop: true, AfterApply: true}, failed: true, sent: 1,
			logged: "Dropped",
		},
		{name: "only slow", fault: awsim.Fault{Latency: 50 * time.Millisecond}, sent: 1},
		{name: "that does not match", sent: 1, fault: awsim.Fault{
			Status: 500,
			Match:  func(_ url.Values, body []byte) bool { return strings.Contains(string(body), "other") },
		}},
		{
			name: "that matches", code: "InternalFailure", status: 500, failed: true, logged: "InternalFailure",
			fault: awsim.Fault{
				Status: 500,
				Match:  func(_ url.Values, body []byte) bool { return strings.Contains(string(body), "hello") },
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, awsim.Options{})
			queue, hello := s.CreateQueue("jobs", nil), "hello"
			s.Inject(c.fault)
			begun := time.Now()
			_, err := queueClient(t, s).SendMessage(t.Context(), &sqs.SendMessageInput{
				QueueUrl:    &queue,
				MessageBody: &hello,
			})
			if (err != nil) != c.failed || code(err) != c.code || status(err) != c.status {
				t.Errorf("the SDK says %v", err)
			}
			if took := time.Since(begun); took < c.fault.Latency {
				t.Errorf("it took %v", took)
			}
			if got := s.Queue(queue).Visible; got != c.sent {
				t.Errorf("%d messages were sent", got)
			}
			calls := s.Calls("sqs", "SendMessage")
			if len(calls) != 1 || calls[0].Code != c.logged || calls[0].Key != "test" ||
				!strings.Contains(string(calls[0].Body), `"hello"`) {
				t.Errorf("the calls are %+v", calls)
			}
		})
	}
}

func TestFaultTimes(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	client := queueClient(t, s)
	list := func() string {
		_, err := client.ListQueues(t.Context(), nil)
		return code(err)
	}
	s.Inject(awsim.Fault{Code: "First", Times: 2})
	remove := s.Inject(awsim.Fault{Code: "Second"})
	got := []string{list(), list(), list(), list()}
	remove()
	remove()
	if got := strings.Join(append(got, list()), " "); got != "First First Second Second " {
		t.Errorf("the answers were %q", got)
	}
}
