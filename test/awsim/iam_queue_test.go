package awsim_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/node-drainer/node-drainer/deploy"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// guarded is a server with the queue node-drainer, whose policy is the one of deploy/iam with more statements.
func guarded(t *testing.T, statements string) (s *awsim.Server, queueARN string) {
	t.Helper()
	policy, err := deploy.Fill("iam/queue", deploy.Example())
	must(t, err)
	policy = strings.Replace(policy, `"Statement": [`, `"Statement": [`+statements, 1)
	s = start(t, awsim.Options{})
	return s, s.QueueARN(s.CreateQueue("node-drainer", map[string]string{"Policy": policy}))
}

const fromTopic = `{"Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Action": "sqs:SendMessage",
	"Resource": "*", "Condition": {"ArnEquals": {"aws:SourceArn": "arn:aws:sns:eu-central-1:123456789012:events"}}},`

// TestQueuePolicy: the policy in deploy/iam lets the rules of this cluster, a topic that it allows, and the role of the
// hooks send, and no other caller, whatever that is allowed by its own policies.
func TestQueuePolicy(t *testing.T) {
	t.Parallel()
	const topic = "arn:aws:sns:eu-central-1:123456789012:events"
	rule := func(name string) func(*testing.T, *awsim.Server, string) {
		return func(_ *testing.T, s *awsim.Server, queue string) {
			s.AddNamedRule(name, queue)
			s.Publish(awsim.SpotInterruption(s.Envelope(), instanceID, "eu-central-1a", "terminate"))
		}
	}
	hook := func(target, role string) func(*testing.T, *awsim.Server, string) {
		return func(t *testing.T, s *awsim.Server, queue string) {
			must(t, s.CreateGroup(awsim.Group{Name: "workers", Max: 1}))
			if target == topic {
				s.SubscribeTopic(topic, queue, false)
			} else {
				target = queue
			}
			_ = s.PutHook("workers", awsim.Hook{Name: "drain", NotificationTargetARN: target, RoleARN: role})
		}
	}
	call := func(t *testing.T, s *awsim.Server, _ string) {
		must(t, s.Allow("test", allowing(`["sqs:SendMessage", "sqs:ReceiveMessage"]`, `"*"`, "")))
		client, url := queueClient(t, s), s.CreateQueue("node-drainer", nil)
		if _, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: new("{}")}); code(err) != "AccessDenied" {
			t.Errorf("SendMessage: %v", err)
		}
		receive(t, client, url, 0) // The rest of what it may is not denied.
	}
	for name, tt := range map[string]struct {
		statements string
		send       func(t *testing.T, s *awsim.Server, queue string)
		sender     string // "" if the message does not arrive.
	}{
		"a rule of this cluster":              {"", rule("node-drainer-spot"), "AIDAevents.amazonaws.com"},
		"a rule of a cluster of similar name": {"", rule("node-drainer-eu-spot"), ""},
		"a topic that is allowed":             {fromTopic, hook(topic, ""), "AIDAsns.amazonaws.com"},
		"a topic that is not allowed":         {"", hook(topic, ""), ""},
		"the role of the hooks":               {"", hook("", "arn:aws:iam::123456789012:role/node-drainer-hooks"), "arn:aws:iam::123456789012:role/node-drainer-hooks"},
		"another role":                        {"", hook("", "arn:aws:iam::123456789012:role/other"), ""},
		"a caller whose policies allow it":    {"", call, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, queue := guarded(t, tt.statements)
			tt.send(t, s, queue)
			must(t, s.Allow("test", allowing(`"sqs:ReceiveMessage"`, `"*"`, "")))
			got := do(t, queueClient(t, s).ReceiveMessage, &sqs.ReceiveMessageInput{
				QueueUrl: new(s.CreateQueue("node-drainer", nil)), MessageSystemAttributeNames: []types.MessageSystemAttributeName{"SenderId"},
			}).Messages
			if (len(got) == 1) != (tt.sender != "") || len(got) == 1 && got[0].Attributes["SenderId"] != tt.sender {
				t.Errorf("received %+v, want one of %q", got, tt.sender)
			}
		})
	}
}

// TestDeadLetterQueuePolicy: nobody sends to the dead-letter queue, from which messages return to the queue as genuine ones.
// Who may receive them still does.
func TestDeadLetterQueuePolicy(t *testing.T) {
	t.Parallel()
	policy, err := deploy.Fill("iam/queue-dead", deploy.Example())
	must(t, err)
	s := start(t, awsim.Options{})
	url := s.CreateQueue("node-drainer-dead", map[string]string{"Policy": policy})
	s.AddNamedRule("node-drainer-spot", s.QueueARN(url))
	s.Publish(awsim.SpotInterruption(s.Envelope(), instanceID, "eu-central-1a", "terminate"))
	must(t, s.Allow("test", allowing(`["sqs:SendMessage", "sqs:ReceiveMessage"]`, `"*"`, "")))
	client := queueClient(t, s)
	if _, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: new("{}")}); code(err) != "AccessDenied" {
		t.Errorf("SendMessage: %v", err)
	}
	if got := receive(t, client, url, 0); len(got) > 0 {
		t.Errorf("received %d messages", len(got))
	}
}

// TestInvalidQueuePolicies: nothing in a queue's policy is passed over.
func TestInvalidQueuePolicies(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{
		"another operator":  `{"Effect": "Deny", "Principal": "*", "Condition": {"StringEquals": {"aws:PrincipalArn": "a"}}}`,
		"another principal": `{"Effect": "Deny", "Principal": {"AWS": "arn:aws:iam::123456789012:root"}}`,
		"another element":   `{"Effect": "Deny", "Principal": "*", "NotAction": "sqs:SendMessage"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("it was taken")
				}
			}()
			start(t, awsim.Options{}).CreateQueue("q", map[string]string{"Policy": `{"Version": "2012-10-17", "Statement": [` + statement + `]}`})
		})
	}
}
