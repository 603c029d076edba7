package awsim_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// ruleClient is a client with an access key.
func ruleClient(t testing.TB, s *awsim.Server, key string) *eventbridge.Client {
	t.Helper()
	return eventbridge.New(eventbridge.Options{
		Region: "eu-central-1", BaseEndpoint: new(s.URL()), HTTPClient: transport(t), Retryer: aws.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider(key, "secret", ""),
	})
}

// TestReadRules: a rule can be read with its pattern and its state. A disabled rule sends nothing.
func TestReadRules(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	c := ruleClient(t, s, "test")
	queue := s.QueueARN(s.CreateQueue("q", nil))
	s.AddNamedRule("spot", queue, awsim.SpotWarning)
	for _, state := range []string{"ENABLED", "DISABLED"} {
		rule := do(t, c.DescribeRule, &eventbridge.DescribeRuleInput{Name: new("spot")})
		if *rule.EventPattern != `{"detail-type":["`+awsim.SpotWarning+`"]}` || string(rule.State) != state ||
			*rule.Arn != "arn:aws:events:eu-central-1:123456789012:rule/spot" {
			t.Errorf("got %s %s %s", *rule.Arn, *rule.EventPattern, rule.State)
		}
		want := map[string]int{"ENABLED": 1}[state]
		if sent := s.Publish(`{"source": "aws.ec2", "detail-type": "` + awsim.SpotWarning + `"}`); sent != want {
			t.Errorf("a rule that is %s sends %d messages", state, sent)
		}
		s.DisableRule("spot")
	}
	_, err := c.DescribeRule(t.Context(), &eventbridge.DescribeRuleInput{Name: new("none")})
	if code(err) != "ResourceNotFoundException" {
		t.Errorf("no rule is %v", err)
	}
	_, err = c.ListRuleNamesByTarget(t.Context(), &eventbridge.ListRuleNamesByTargetInput{TargetArn: new("")})
	if code(err) != "ValidationException" {
		t.Errorf("no target is %v", err)
	}
}

// TestRulePermissions: a policy can limit the description of rules to some, but not their list.
func TestRulePermissions(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	c := ruleClient(t, s, "limited")
	queue := s.QueueARN(s.CreateQueue("q", nil))
	s.AddNamedRule("ours-spot", queue)
	s.AddNamedRule("theirs", queue)
	const ours = `"arn:aws:events:eu-central-1:123456789012:rule/ours-*"`
	must(t, s.Allow("limited", allowing(`"events:DescribeRule"`, ours, "")))
	for name, want := range map[string]string{"ours-spot": "", "theirs": "AccessDeniedException", "ours-none": "ResourceNotFoundException"} {
		if _, err := c.DescribeRule(t.Context(), &eventbridge.DescribeRuleInput{Name: &name}); code(err) != want {
			t.Errorf("the rule %s: %v, want %q", name, err, want)
		}
	}
	input := &eventbridge.ListRuleNamesByTargetInput{TargetArn: &queue}
	if _, err := c.ListRuleNamesByTarget(t.Context(), input); code(err) != "AccessDeniedException" {
		t.Errorf("the list of rules: %v", err)
	}
	must(t, s.Allow("limited", allowing(`"events:ListRuleNamesByTarget"`, `"*"`, "")))
	if names := do(t, c.ListRuleNamesByTarget, input).RuleNames; strings.Join(names, " ") != "ours-spot theirs" {
		t.Errorf("got %q", names)
	}
	if err := s.Allow("limited", allowing(`"events:ListRuleNamesByTarget"`, ours, "")); err == nil {
		t.Error("a policy that AWS would never apply was taken")
	}
}
