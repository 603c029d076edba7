package awsim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/node-drainer/node-drainer/test/awsim"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault   awsim.Fault
		code    string // As the SDK reports it.
		status  int
		deleted int // Messages, by one call.
		logged  string
	}{
		"of another service": {fault: awsim.Fault{Service: "ec2", Code: "Throttling"}, deleted: 1},
		"of another action":  {fault: awsim.Fault{Action: "ReceiveMessage", Code: "Throttling"}, deleted: 1},
		"error": {
			fault: awsim.Fault{Code: "RequestThrottled", Status: 403}, code: "RequestThrottled", status: 403,
			logged: "RequestThrottled",
		},
		"error without a status": {
			fault: awsim.Fault{Service: "sqs", Action: "DeleteMessageBatch", Code: "AccessDenied"},
			code:  "AccessDenied", status: 400, logged: "AccessDenied",
		},
		"status without a code": {
			fault: awsim.Fault{Status: 503}, code: "InternalFailure", status: 503, logged: "InternalFailure",
		},
		"dropped": {fault: awsim.Fault{Drop: true}, logged: "Dropped"},
		"applied, but answered with an error": {
			fault: awsim.Fault{Status: 500, AfterApply: true}, code: "InternalFailure", status: 500, deleted: 1,
			logged: "InternalFailure",
		},
		"applied, but dropped": {fault: awsim.Fault{Drop: true, AfterApply: true}, deleted: 1, logged: "Dropped"},
		"only slow":            {fault: awsim.Fault{Latency: 50 * time.Millisecond}, deleted: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, awsim.Options{})
			url, client := s.CreateQueue("jobs", nil), queueClient(t, s)
			s.Send(url, "a")
			handle := receive(t, client, url, 0)[0].ReceiptHandle
			s.Inject(c.fault)
			begun := time.Now()
			_, err := client.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{
				QueueUrl: &url, Entries: []types.DeleteMessageBatchRequestEntry{{Id: new("a"), ReceiptHandle: handle}},
			})
			if (err != nil) != (c.logged != "") || code(err) != c.code || status(err) != c.status {
				t.Errorf("the SDK says %v", err)
			}
			if took := time.Since(begun); took < c.fault.Latency {
				t.Errorf("it took %v", took)
			}
			if got := s.Queue(url).Deleted; got != c.deleted {
				t.Errorf("%d messages were deleted", got)
			}
			calls := s.Calls("sqs", "DeleteMessageBatch")
			if len(calls) != 1 || calls[0].Code != c.logged || calls[0].Key != "test" ||
				!strings.Contains(string(calls[0].Body), *handle) {
				t.Errorf("the calls are %+v", calls)
			}
		})
	}
}

func TestFaultTimes(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	url, client := s.CreateQueue("jobs", nil), queueClient(t, s)
	call := func() string {
		_, err := client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &url})
		return code(err)
	}
	s.Inject(awsim.Fault{Code: "First", Times: 2})
	remove := s.Inject(awsim.Fault{Code: "Second"})
	got := []string{call(), call(), call(), call()}
	remove()
	remove()
	if got := strings.Join(append(got, call()), " "); got != "First First Second Second " {
		t.Errorf("the answers were %q", got)
	}
}
