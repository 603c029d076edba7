package awsim_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/node-drainer/node-drainer/test/awsim"
)

const topicARN = "arn:aws:sns:eu-central-1:123456789012:lifecycle"

// inbox receives all messages that are in the queue now.
func inbox(t testing.TB, s *awsim.Server, queueURL string) []map[string]any {
	t.Helper()
	c := queueClient(t, s)
	var out []map[string]any
	for {
		got := do(t, c.ReceiveMessage, &sqs.ReceiveMessageInput{
			QueueUrl: new(queueURL), MaxNumberOfMessages: 10, VisibilityTimeout: 600,
		})
		if len(got.Messages) == 0 {
			return out
		}
		for _, m := range got.Messages {
			out = append(out, object(t, *m.Body))
		}
	}
}

func object(t testing.TB, body string) map[string]any {
	t.Helper()
	var out map[string]any
	must(t, json.Unmarshal([]byte(body), &out))
	return out
}

// unwrap takes each form's envelope off, down to what Auto Scaling itself says of the action.
func unwrap(t testing.TB, m map[string]any) map[string]any {
	t.Helper()
	if m["Type"] == "Notification" {
		return unwrap(t, object(t, m["Message"].(string)))
	}
	if detail, ok := m["detail"].(map[string]any); ok {
		return detail
	}
	return m
}

func TestNotificationRoutes(t *testing.T) {
	for name, row := range map[string]struct {
		route  func(s *awsim.Server, queueARN string) (target string)
		test   bool     // Whether the hook's target gets a test notification.
		fields []string // That tell this form from the others.
	}{
		"direct": {
			route:  func(_ *awsim.Server, queueARN string) string { return queueARN },
			test:   true,
			fields: []string{"Service", "Time", "RequestId", "AccountId"},
		},
		"SNS": {
			route: func(s *awsim.Server, queueARN string) string {
				s.SubscribeTopic(topicARN, queueARN, false)
				return topicARN
			},
			test: true,
			fields: []string{
				"Type", "MessageId", "TopicArn", "Subject", "Message", "Timestamp", "SignatureVersion", "Signature",
				"SigningCertURL", "UnsubscribeURL",
			},
		},
		"SNS, raw": {
			route: func(s *awsim.Server, queueARN string) string {
				s.SubscribeTopic(topicARN, queueARN, true)
				return topicARN
			},
			test:   true,
			fields: []string{"Service", "AccountId"},
		},
		"EventBridge": {
			route: func(s *awsim.Server, queueARN string) string {
				s.AddRule(queueARN, awsim.TerminateAction)
				return ""
			},
			fields: []string{
				"version", "id", "detail-type", "source", "account", "time", "region", "resources", "detail",
			},
		},
		"EventBridge in SNS": {
			route: func(s *awsim.Server, queueARN string) string {
				s.SubscribeTopic(topicARN, queueARN, false)
				s.AddRule(topicARN, awsim.TerminateAction)
				return ""
			},
			fields: []string{"Type", "Message"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := workers(t, awsim.Options{})
			url := s.CreateQueue("events", nil)
			target := row.route(s, s.QueueARN(url))
			must(t, s.PutHook(groupName, awsim.Hook{
				Name: "drain", NotificationTargetARN: target, NotificationMetadata: "<blue> & co",
			}))
			if got := inbox(t, s, url); row.test {
				if len(got) != 1 || unwrap(t, got[0])["Event"] != "autoscaling:TEST_NOTIFICATION" ||
					unwrap(t, got[0])["LifecycleActionToken"] != nil {
					t.Fatalf("test notification: %v", got)
				}
			} else if len(got) != 0 {
				t.Fatalf("a message too many: %v", got)
			}
			must(t, s.Terminate(instanceID, true))
			if sent := s.ResendMessages(instanceID); sent != 1 {
				t.Errorf("sent again: %d", sent)
			}
			got := inbox(t, s, url)
			if len(got) != 2 || only(t, s).Sent != 2 {
				t.Fatalf("got %d messages, the ledger says %d", len(got), only(t, s).Sent)
			}
			for _, m := range got {
				for _, key := range row.fields {
					if m[key] == nil {
						t.Errorf("%s is missing in %v", key, m)
					}
				}
				assertNotification(t, unwrap(t, m), only(t, s).Token)
			}
		})
	}
}

func assertNotification(t testing.TB, got map[string]any, token string) {
	t.Helper()
	for key, want := range map[string]string{
		"LifecycleActionToken": token,
		"AutoScalingGroupName": groupName,
		"LifecycleHookName":    "drain",
		"EC2InstanceId":        instanceID,
		"LifecycleTransition":  "autoscaling:EC2_INSTANCE_TERMINATING",
		"Action":               "Terminate",
		"NotificationMetadata": "<blue> & co",
		"Origin":               "AutoScalingGroup",
		"Destination":          "EC2",
	} {
		if got[key] != want {
			t.Errorf("%s: got %v, want %s", key, got[key], want)
		}
	}
}

func TestInstanceEvents(t *testing.T) {
	s := start(t, awsim.Options{})
	url := s.CreateQueue("events", nil)
	s.AddRule(s.QueueARN(url))
	must(t, s.CreateGroup(awsim.Group{Name: groupName, Max: 1, Desired: 1}))
	id := settled(t, s)[0].ID
	must(t, s.Terminate(id, true))
	must(t, s.WaitState(within(t), id, "Terminated"))
	if n := s.Publish(awsim.SpotInterruption(s.Envelope(), id, "eu-central-1b", "terminate")); n != 1 {
		t.Errorf("published %d copies", n)
	}
	kinds := map[string]int{}
	for ctx, n := within(t), 0; n < 6 && ctx.Err() == nil; { // A state is visible before its event is published.
		for _, m := range inbox(t, s, url) {
			kinds[m["detail-type"].(string)]++
			n++
		}
	}
	want := map[string]int{
		awsim.StateChanged: 3, awsim.LaunchSuccessful: 1, awsim.TerminateSuccessful: 1, awsim.SpotWarning: 1,
	}
	if !reflect.DeepEqual(kinds, want) {
		t.Errorf("got %v", kinds)
	}
}

func TestSeedDeterminesMessage(t *testing.T) {
	e := awsim.Envelope{Account: "1", Region: "r", At: time.Unix(1700000000, 0), Seed: 5}
	n := awsim.Notification{Token: "t", Group: "g", Hook: "h", InstanceID: "i-1", Transition: awsim.Terminating}
	one := awsim.DirectMessage(e, n)
	if one != awsim.DirectMessage(e, n) {
		t.Error("one seed made two messages")
	}
	for _, absent := range []string{"NotificationMetadata", "Action", "Origin", "Destination"} {
		if strings.Contains(one, `"`+absent+`":`) {
			t.Errorf("%s is there though it is empty: %s", absent, one)
		}
	}
	orders := map[string]bool{}
	for e.Seed = range 20 {
		body := awsim.DirectMessage(e, n)
		orders[body[:strings.IndexByte(body, ':')]] = true
	}
	if len(orders) < 3 {
		t.Errorf("the keys have nearly always one order: %v", orders)
	}
}
