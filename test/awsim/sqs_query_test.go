package awsim_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// postForm sends one call of SQS in the Query protocol, as key=value pairs.
func postForm(t *testing.T, client *http.Client, endpoint, action string, pairs ...string) (int, string) {
	t.Helper()
	form := url.Values{"Action": {action}, "Version": {"2012-11-05"}}
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		form.Set(name, value)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	must(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=old/20260101/eu-central-1/sqs/aws4_request, "+
		"SignedHeaders=host, Signature=0")
	resp, err := client.Do(req)
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(body)
}

// TestQueueQueryProtocol is one story: every step works on what the steps before it left.
func TestQueueQueryProtocol(t *testing.T) {
	t.Parallel()
	s, client := start(t, awsim.Options{}), transport(t)
	queue := s.URL() + "/123456789012/jobs"
	const namespace = ` xmlns="http://queue.amazonaws.com/doc/2012-11-05/">`
	for _, c := range []struct {
		name, endpoint, action string
		form                   []string
		status                 int
		want                   []string
	}{
		{
			name: "attributes", endpoint: s.URL(), action: "CreateQueue", status: 200,
			form: []string{
				"QueueName=jobs", "Attribute.1.Name=VisibilityTimeout", "Attribute.1.Value=60",
				"Attribute.2.Name=RedrivePolicy", "Attribute.2.Value=", "Tag.1.Key=a", "Tag.1.Value=b",
			},
			want: []string{
				"<CreateQueueResponse" + namespace + "<CreateQueueResult><QueueUrl>" + queue + "</QueueUrl>",
				"</CreateQueueResult><ResponseMetadata><RequestId>",
			},
		},
		{
			name: "list", endpoint: s.URL(), action: "ListQueues", form: []string{"MaxResults=1"}, status: 200,
			want: []string{"<ListQueuesResult><QueueUrl>" + queue + "</QueueUrl></ListQueuesResult>"},
		},
		{
			name: "batch", endpoint: queue, action: "SendMessageBatch", status: 200,
			form: []string{
				"SendMessageBatchRequestEntry.1.Id=a", "SendMessageBatchRequestEntry.1.MessageBody=<&\n",
				"SendMessageBatchRequestEntry.1.DelaySeconds=0",
				"SendMessageBatchRequestEntry.2.Id=b", "SendMessageBatchRequestEntry.2.MessageBody=",
			},
			want: []string{
				"<SendMessageBatchResultEntry><Id>a</Id><MD5OfMessageBody>",
				"<BatchResultErrorEntry><Code>MissingParameter</Code><Id>b</Id><Message>",
				"<SenderFault>true</SenderFault></BatchResultErrorEntry>",
			},
		},
		{
			name: "queue in the form", endpoint: s.URL(), action: "ReceiveMessage", status: 200,
			form: []string{
				"QueueUrl=" + queue, "AttributeName.1=SenderId", "AttributeName.2=ApproximateReceiveCount",
				"MaxNumberOfMessages=10", "WaitTimeSeconds=1",
			},
			want: []string{
				"<ReceiveMessageResult><Message><Attribute><Name>ApproximateReceiveCount</Name><Value>1</Value>" +
					"</Attribute><Attribute><Name>SenderId</Name>",
				"<Body>&lt;&amp;&#xA;</Body>",
			},
		},
		{
			name: "nothing there", endpoint: queue, action: "ReceiveMessage", status: 200,
			want: []string{"<ReceiveMessageResult></ReceiveMessageResult>"},
		},
		{
			name: "attributes asked for", endpoint: queue, action: "GetQueueAttributes", status: 200,
			form: []string{"AttributeName.1=VisibilityTimeout"},
			want: []string{"Result><Attribute><Name>VisibilityTimeout</Name><Value>60</Value></Attribute></Get"},
		},
		{
			name: "no result", endpoint: queue, action: "PurgeQueue", status: 200,
			want: []string{"<PurgeQueueResponse" + namespace + "<ResponseMetadata>"},
		},
		{
			name: "legacy code", endpoint: s.URL() + "/123456789012/none", action: "PurgeQueue", status: 400,
			want: []string{
				"<ErrorResponse" + namespace + "<Error><Type>Sender</Type>" +
					"<Code>AWS.SimpleQueueService.NonExistentQueue</Code><Message>The specified queue does not exist.<",
			},
		},
		{
			name: "message attributes", endpoint: queue, action: "SendMessage", status: 400,
			form: []string{
				"MessageBody=x", "MessageAttribute.1.Name=a",
				"MessageAttribute.1.Value.DataType=String", "MessageAttribute.1.Value.StringValue=b",
			},
			want: []string{"<Code>AWS.SimpleQueueService.UnsupportedOperation</Code>"},
		},
		{
			name: "an empty batch", endpoint: queue, action: "DeleteMessageBatch", form: []string{"Entries="},
			status: 400, want: []string{"<Code>AWS.SimpleQueueService.EmptyBatchRequest</Code>"},
		},
		{
			name: "no number", endpoint: queue, action: "ReceiveMessage", form: []string{"WaitTimeSeconds=x"},
			status: 400, want: []string{"<Code>MalformedInput</Code>"},
		},
		{
			name: "no list", endpoint: queue, action: "ReceiveMessage", form: []string{"AttributeName.x=All"},
			status: 400, want: []string{"<Code>MalformedInput</Code>"},
		},
		{
			name: "no such field", endpoint: queue, action: "PurgeQueue", form: []string{"Foo=1"},
			status: 400, want: []string{"<Code>SerializationException</Code>"},
		},
		{
			name: "no such action", endpoint: queue, action: "X", status: 400,
			want: []string{"<Type>Sender</Type><Code>InvalidAction</Code>"},
		},
	} {
		status, body := postForm(t, client, c.endpoint, c.action, c.form...)
		for _, want := range c.want {
			if status != c.status || !strings.Contains(body, want) {
				t.Errorf("%s: answered %d, no %s in %s", c.name, status, want, body)
			}
		}
	}
	calls := s.Calls("sqs", "SendMessageBatch")
	if len(calls) != 1 || calls[0].Key != "old" || calls[0].Values.Get("SendMessageBatchRequestEntry.1.Id") != "a" {
		t.Errorf("recorded %+v", calls)
	}
}
