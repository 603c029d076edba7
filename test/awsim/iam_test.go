package awsim_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// limited is a server with a queue and two groups, of which one bears the cluster's tag, and clients of it with the
// access key test.
type limited struct {
	server *awsim.Server
	queue  string
	sqs    *sqs.Client
	groups *autoscaling.Client
	ec2    *ec2.Client
}

func newLimited(t *testing.T) *limited {
	t.Helper()
	s := start(t, awsim.Options{})
	for name, tags := range map[string]map[string]string{"ours": {"cluster": "prod"}, "theirs": {"cluster": "test"}} {
		must(t, s.CreateGroup(awsim.Group{Name: name, Max: 5, Tags: tags}))
		must(t, s.AddInstance(name, "i-0000000000000"+name[:4], "eu-central-1a"))
	}
	must(t, s.AddInstance("ours", "i-0000000000000ffff", ""))
	must(t, s.AddInstance("theirs", "i-0000000000000eeee", ""))
	return &limited{s, s.CreateQueue("queue", nil), queueClient(t, s), groupClient(t, s), machineClient(t, s)}
}

func allowing(actions, on, condition string) string {
	return fmt.Sprintf(`{"Version": "2012-10-17", "Statement": [{"Sid": "S", "Effect": "Allow", "Action": %s, "Resource": %s%s}]}`,
		actions, on, condition)
}

const (
	everyGroup = `"arn:aws:autoscaling:eu-central-1:123456789012:autoScalingGroup:*:autoScalingGroupName/*"`
	ofProd     = `, "Condition": {"StringEquals": {"aws:ResourceTag/cluster": "prod"}}`
)

// TestPolicies: a call succeeds if a policy of its access key allows it, and else is refused and recorded.
func TestPolicies(t *testing.T) {
	t.Parallel()
	mark := func(id string) func(ctx context.Context, l *limited) error {
		return func(ctx context.Context, l *limited) error {
			_, err := l.groups.SetInstanceHealth(ctx, &autoscaling.SetInstanceHealthInput{InstanceId: &id, HealthStatus: new("Unhealthy")})
			return err
		}
	}
	resize := func(group string) func(ctx context.Context, l *limited) error {
		return func(ctx context.Context, l *limited) error {
			_, err := l.groups.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: &group, DesiredCapacity: new(int32(1))})
			return err
		}
	}
	tag := func(keys ...string) func(ctx context.Context, l *limited) error {
		return func(ctx context.Context, l *limited) error {
			tags := []astypes.Tag{}
			for _, key := range keys {
				group, key, _ := strings.Cut(key, "/")
				tags = append(tags, astypes.Tag{
					Key: &key, Value: new("1"), ResourceId: &group, ResourceType: new("auto-scaling-group"), PropagateAtLaunch: new(false),
				})
			}
			_, err := l.groups.CreateOrUpdateTags(ctx, &autoscaling.CreateOrUpdateTagsInput{Tags: tags})
			return err
		}
	}
	update := func(in autoscaling.UpdateAutoScalingGroupInput) func(ctx context.Context, l *limited) error {
		return func(ctx context.Context, l *limited) error {
			in.AutoScalingGroupName = new("ours")
			_, err := l.groups.UpdateAutoScalingGroup(ctx, &in)
			return err
		}
	}
	upTo := []string{allowing(`"autoscaling:UpdateAutoScalingGroup"`, everyGroup,
		`, "Condition": {"NumericLessThanEquals": {"autoscaling:MaxSize": "7"}, "Null": {"autoscaling:VPCZoneIdentifiers": "true"},
			"BoolIfExists": {"autoscaling:LaunchTemplateVersionSpecified": "false"}}`)}
	receive := func(ctx context.Context, l *limited) error {
		_, err := l.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &l.queue})
		return err
	}
	deleteBatch := func(ctx context.Context, l *limited) error {
		_, err := l.sqs.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{
			QueueUrl: &l.queue, Entries: []sqstypes.DeleteMessageBatchRequestEntry{{Id: new("1"), ReceiptHandle: new("none")}},
		})
		return err
	}
	instances := func(ctx context.Context, l *limited) error {
		_, err := l.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{})
		return err
	}
	keys := `, "Condition": {"ForAllValues:StringEquals": {"aws:TagKeys": ["mine", "too"]}, "StringEquals": {"aws:ResourceTag/cluster": "prod"}}`
	some := `, "Condition": {"ForAllValues:StringEquals": {"aws:TagKeys": ["mine", "too"]}, "Null": {"aws:TagKeys": "false"}}`
	like := `, "Condition": {"ForAllValues:StringLike": {"aws:TagKeys": ["mine-*"]}}`
	stop := func(id string) func(ctx context.Context, l *limited) error {
		return func(ctx context.Context, l *limited) error {
			_, err := l.ec2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{id}})
			return err
		}
	}
	stopping := allowing(`"ec2:StopInstances"`, `"arn:aws:ec2:*:*:instance/*"`, ofProd)
	for name, tt := range map[string]struct {
		policies []string
		call     func(ctx context.Context, l *limited) error
		refused  string // As the SDK reports it; "" if the call is done.
		told     string
	}{
		"nothing is allowed":              {nil, receive, "AccessDenied", "test sqs:ReceiveMessage arn:aws:sqs:eu-central-1:123456789012:queue"},
		"on the queue":                    {[]string{allowing(`"sqs:ReceiveMessage"`, `"arn:aws:sqs:*:*:queue"`, "")}, receive, "", ""},
		"on another queue":                {[]string{allowing(`"sqs:ReceiveMessage"`, `"arn:aws:sqs:*:*:other"`, "")}, receive, "AccessDenied", "sqs:ReceiveMessage"},
		"another action":                  {[]string{allowing(`"sqs:DeleteMessage"`, `"*"`, "")}, receive, "AccessDenied", "sqs:ReceiveMessage"},
		"a batch, by the action for one":  {[]string{allowing(`"sqs:DeleteMessage"`, `"*"`, "")}, deleteBatch, "", ""},
		"EC2 has words of its own":        {[]string{}, instances, "UnauthorizedOperation", "test ec2:DescribeInstances *"},
		"a group with the tag":            {[]string{allowing(`"autoscaling:SetDesiredCapacity"`, everyGroup, ofProd)}, resize("ours"), "", ""},
		"a group with another tag":        {[]string{allowing(`"autoscaling:SetDesiredCapacity"`, everyGroup, ofProd)}, resize("theirs"), "AccessDenied", "autoScalingGroupName/theirs"},
		"no group":                        {[]string{allowing(`"autoscaling:SetDesiredCapacity"`, everyGroup, ofProd)}, resize("nobodys"), "AccessDenied", "autoScalingGroupName/nobodys"},
		"an instance of such a group":     {[]string{allowing(`"autoscaling:SetInstanceHealth"`, everyGroup, ofProd)}, mark("i-0000000000000ours"), "", ""},
		"an instance of another group":    {[]string{allowing(`"autoscaling:SetInstanceHealth"`, everyGroup, ofProd)}, mark("i-0000000000000thei"), "AccessDenied", "theirs"},
		"tags with these keys":            {[]string{allowing(`"autoscaling:CreateOrUpdateTags"`, everyGroup, keys)}, tag("ours/mine", "ours/too"), "", ""},
		"a tag with another key":          {[]string{allowing(`"autoscaling:CreateOrUpdateTags"`, everyGroup, keys)}, tag("ours/mine", "ours/cluster"), "AccessDenied", "CreateOrUpdateTags"},
		"no tags":                         {[]string{allowing(`"autoscaling:CreateOrUpdateTags"`, `"*"`, some)}, tag(), "AccessDenied", "CreateOrUpdateTags"},
		"some tags":                       {[]string{allowing(`"autoscaling:CreateOrUpdateTags"`, everyGroup, some)}, tag("ours/mine", "ours/too"), "", ""},
		"a maximum up to the limit":       {upTo, update(autoscaling.UpdateAutoScalingGroupInput{MaxSize: new(int32(7))}), "", ""},
		"a maximum above the limit":       {upTo, update(autoscaling.UpdateAutoScalingGroupInput{MaxSize: new(int32(8))}), "AccessDenied", "UpdateAutoScalingGroup"},
		"no maximum":                      {upTo, update(autoscaling.UpdateAutoScalingGroupInput{}), "AccessDenied", "UpdateAutoScalingGroup"},
		"a maximum and a version":         {upTo, update(autoscaling.UpdateAutoScalingGroupInput{MaxSize: new(int32(7)), LaunchTemplate: specification("t", "2")}), "AccessDenied", "UpdateAutoScalingGroup"},
		"a maximum and something else":    {upTo, update(autoscaling.UpdateAutoScalingGroupInput{MaxSize: new(int32(7)), VPCZoneIdentifier: new("subnet-1")}), "AccessDenied", "UpdateAutoScalingGroup"},
		"a tag with a key like these":     {[]string{allowing(`"autoscaling:CreateOrUpdateTags"`, everyGroup, like)}, tag("ours/mine-1", "ours/mine-2"), "", ""},
		"a tag with a key unlike these":   {[]string{allowing(`"autoscaling:CreateOrUpdateTags"`, everyGroup, like)}, tag("ours/mine-1", "ours/mine"), "AccessDenied", "CreateOrUpdateTags"},
		"an instance with the tag":        {[]string{stopping}, stop("i-0000000000000ffff"), "", ""},
		"an instance with another tag":    {[]string{stopping}, stop("i-0000000000000eeee"), "UnauthorizedOperation", "instance/i-0000000000000eeee"},
		"one of the tags at other groups": {[]string{allowing(`"autoscaling:CreateOrUpdateTags"`, everyGroup, keys)}, tag("ours/mine", "theirs/mine"), "AccessDenied", "theirs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLimited(t)
			must(t, l.server.Allow("test", tt.policies...))
			err := tt.call(t.Context(), l)
			if code(err) != tt.refused {
				t.Errorf("%v, want %q", err, tt.refused)
			}
			told := strings.Join(l.server.Unauthorized(), "\n")
			if (tt.refused != "") != (status(err) == 403) || !strings.Contains(told, tt.told) ||
				tt.told == "" && told != "" {
				t.Errorf("%v; told: %q", err, told)
			}
		})
	}
}

// TestUsedActions: calls count as what they need of a policy, also those that were refused. A policy is for one
// access key.
func TestUsedActions(t *testing.T) {
	t.Parallel()
	l := newLimited(t)
	must(t, l.server.Allow("somebody"))
	do(t, l.ec2.DescribeInstances, &ec2.DescribeInstancesInput{})
	must(t, l.server.Allow("test"))
	_, _ = l.sqs.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{
		QueueUrl: &l.queue, Entries: []sqstypes.DeleteMessageBatchRequestEntry{{Id: new("1"), ReceiptHandle: new("none")}},
	})
	if got, want := l.server.Used("test"), []string{"ec2:DescribeInstances", "sqs:DeleteMessage"}; !slices.Equal(got, want) {
		t.Errorf("used: %q, want %q", got, want)
	}
	if got := l.server.Used("nobody"); len(got) > 0 {
		t.Errorf("nobody used %q", got)
	}
}

// TestInvalidPolicies: nothing in a policy is passed over.
func TestInvalidPolicies(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	for name, tt := range map[string]struct{ policy, want string }{
		"no JSON":                     {`{`, "no policy"},
		"a principal":                 {`{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "sqs:ReceiveMessage", "Resource": "*"}]}`, "Principal"},
		"a denial":                    {`{"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Action": "sqs:ReceiveMessage", "Resource": "*"}]}`, `"Deny"`},
		"a resource and not":          {`{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sqs:ReceiveMessage", "Resource": "*", "NotResource": "*"}]}`, "no Resource"},
		"no resource":                 {`{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sqs:ReceiveMessage"}]}`, "no Resource"},
		"an action with a wildcard":   {allowing(`"sqs:*"`, `"*"`, ""), `"sqs:*"`},
		"a batch, which IAM has not":  {allowing(`"sqs:DeleteMessageBatch"`, `"*"`, ""), "Batch"},
		"a place that was not filled": {allowing(`"sqs:ReceiveMessage"`, `"arn:aws:sqs:${Region}:queue"`, ""), "Region"},
		"what describes, on a group":  {allowing(`"autoscaling:DescribeTags"`, everyGroup, ""), "on * alone"},
		"what describes, with a tag":  {allowing(`"autoscaling:DescribeTags"`, `"*"`, ofProd), "on * alone"},
		"a tag of a queue":            {allowing(`"sqs:ReceiveMessage"`, `"*"`, ofProd), "ResourceTag"},
		"another operator":            {allowing(`"autoscaling:SetDesiredCapacity"`, `"*"`, `, "Condition": {"StringNotEquals": {"aws:ResourceTag/cluster": "prod"}}`), "StringNotEquals"},
		"tag keys where none are":     {allowing(`"autoscaling:SetDesiredCapacity"`, `"*"`, `, "Condition": {"ForAllValues:StringEquals": {"aws:TagKeys": "a"}}`), "TagKeys"},
	} {
		if err := s.Allow("key", tt.policy); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
}
