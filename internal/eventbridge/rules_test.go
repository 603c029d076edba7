package eventbridge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/service/eventbridge"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/internal/eventbridge"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/harness"
)

// client returns a client of a simulated EventBridge.
func client(t *testing.T) (*awsim.Server, *sdk.Client) {
	t.Helper()
	server := awsim.NewUnconnected(awsim.Options{})
	t.Cleanup(func() { _ = server.Close() })
	return server, sdk.NewFromConfig(harness.UnconnectedConfig(server, "agent"))
}

// TestRules: the rules of the target are found on all pages, with their patterns and states, and no others.
func TestRules(t *testing.T) {
	t.Parallel()
	server, api := client(t)
	queue := server.QueueARN(server.CreateQueue("node-drainer", nil))
	const pattern = `{"source":["aws.ec2"]}`
	var want []eventbridge.Rule
	for i := range 5 {
		name := fmt.Sprint("rule-", i)
		if err := server.PutRule(name, queue, pattern); err != nil {
			t.Fatal(err)
		}
		want = append(want, eventbridge.Rule{Name: name, Pattern: pattern, Enabled: i != 3})
	}
	server.DisableRule("rule-3")
	server.AddNamedRule("other", server.QueueARN(server.CreateQueue("others", nil)))
	got, err := eventbridge.Rules(t.Context(), api, queue)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if none, err := eventbridge.Rules(t.Context(), api, queue+"-2"); err != nil || len(none) > 0 {
		t.Errorf("a queue without rules has %v, %v", none, err)
	}
}

// TestDenied: a missing permission is an error, and not a target without rules.
func TestDenied(t *testing.T) {
	t.Parallel()
	for action, doing := range map[string]string{
		eventbridge.ActionList: "list the rules of arn:", eventbridge.ActionDescribe: "describe rule all: ",
	} {
		server, api := client(t)
		queue := server.QueueARN(server.CreateQueue("node-drainer", nil))
		server.AddRule(queue)
		server.Withdraw("agent", action, 0)
		rules, err := eventbridge.Rules(t.Context(), api, queue)
		if len(rules) > 0 || !cloud.IsDenied(err) || !strings.HasPrefix(err.Error(), doing) {
			t.Errorf("without %s got %v, %v", action, rules, err)
		}
	}
}
