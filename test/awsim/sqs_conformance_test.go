//go:build e2e

package awsim_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// TestCommandLineClient walks through a message's life with a client that nobody here wrote.
func TestCommandLineClient(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	aws := func(args ...string) map[string]any {
		t.Helper()
		out, err := awscli(t, s.URL(), append(args, "--output", "json")...)
		if err != nil {
			t.Errorf("aws %s: %v", strings.Join(args, " "), err)
		}
		answer := map[string]any{}
		if out != "" && json.Unmarshal([]byte(out), &answer) != nil {
			t.Errorf("aws %s printed no JSON: %s", strings.Join(args, " "), out)
		}
		return answer
	}

	url, _ := aws("sqs", "create-queue", "--queue-name", "jobs",
		"--attributes", "VisibilityTimeout=3600")["QueueUrl"].(string)
	if want := s.URL() + "/123456789012/jobs"; url != want {
		t.Fatalf("the queue's URL is %q, want %q", url, want)
	}
	sent := aws("sqs", "send-message", "--queue-url", url, "--message-body", `{"a": "ü"}`)
	messages, _ := aws("sqs", "receive-message", "--queue-url", url, "--attribute-names", "All",
		"--wait-time-seconds", "1")["Messages"].([]any)
	if len(messages) != 1 {
		t.Fatalf("received %v", messages)
	}
	message, _ := messages[0].(map[string]any)
	attrs, _ := message["Attributes"].(map[string]any)
	if message["MessageId"] != sent["MessageId"] || message["Body"] != `{"a": "ü"}` ||
		attrs["ApproximateReceiveCount"] != "1" {
		t.Fatalf("sent %v, received %v", sent, message)
	}
	handle, _ := message["ReceiptHandle"].(string)
	var queue map[string]any
	together(func() {
		aws("sqs", "change-message-visibility", "--queue-url", url, "--receipt-handle", handle,
			"--visibility-timeout", "7200")
	}, func() {
		queue, _ = aws("sqs", "get-queue-attributes", "--queue-url", url, "--attribute-names",
			"All")["Attributes"].(map[string]any)
	})
	if queue["ApproximateNumberOfMessagesNotVisible"] != "1" || queue["VisibilityTimeout"] != "3600" ||
		queue["QueueArn"] != "arn:aws:sqs:eu-central-1:123456789012:jobs" {
		t.Fatalf("the queue's attributes are %v", queue)
	}
	aws("sqs", "delete-message", "--queue-url", url, "--receipt-handle", handle)
	if got := s.Queue(url); got != (awsim.QueueStats{Deleted: 1, Received: 1}) {
		t.Fatalf("the queue is %+v", got)
	}
	if got := s.RequestsBy("cli")["sqs.ReceiveMessage"]; got != 1 {
		t.Fatalf("%d receives were counted for the client's key", got)
	}
}

func TestCommandLineClientCaller(t *testing.T) {
	t.Parallel()
	commands{t, start(t, awsim.Options{})}.says(`"Account":"123456789012"`, "sts", "get-caller-identity")
}

// TestCommandLineClientErrors checks the words in which the client reports an error to its user, which
// come from the answer's body and headers.
func TestCommandLineClientErrors(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	url := s.CreateQueue("jobs", nil)
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{
			name: "no such queue",
			args: []string{"sqs", "get-queue-url", "--queue-name", "none"},
			want: "An error occurred (AWS.SimpleQueueService.NonExistentQueue) when calling the GetQueueUrl " +
				"operation: The specified queue does not exist.",
		},
		{
			name: "no such handle",
			args: []string{"sqs", "delete-message", "--queue-url", url, "--receipt-handle", "x"},
			want: "An error occurred (ReceiptHandleIsInvalid) when calling the DeleteMessage operation",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, err := awscli(t, s.URL(), c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
