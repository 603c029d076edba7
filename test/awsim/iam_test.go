package awsim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// limited are clients with one access key, of a server with a queue and two groups, of which one bears the cluster's tag.
type limited struct {
	server *awsim.Server
	queue  string
	sqs    *sqs.Client
	groups *autoscaling.Client
	ec2    *ec2.Client
	sts    *sts.Client
}

func newLimited(t *testing.T) *limited {
	t.Helper()
	s := start(t, awsim.Options{})
	cfg := aws.Config{
		Region: "eu-central-1", BaseEndpoint: new(s.URL()), HTTPClient: transport(t),
		Credentials: credentials.NewStaticCredentialsProvider("limited", "secret", ""),
		Retryer:     func() aws.Retryer { return aws.NopRetryer{} },
	}
	for name, tags := range map[string]map[string]string{"ours": {"cluster": "prod"}, "theirs": {"cluster": "test"}} {
		must(t, s.CreateGroup(awsim.Group{Name: name, Max: 5, Tags: tags}))
		must(t, s.AddInstance(name, "i-0000000000000"+name[:4], "eu-central-1a"))
	}
	s.CreateQueue("other", nil)
	return &limited{
		s, s.CreateQueue("queue", nil), sqs.NewFromConfig(cfg), autoscaling.NewFromConfig(cfg), ec2.NewFromConfig(cfg),
		sts.NewFromConfig(cfg),
	}
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
			var tags []astypes.Tag
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
	keys := `, "Condition": {"ForAllValues:StringEquals": {"aws:TagKeys": ["mine", "too"]}, "StringLike": {"aws:ResourceTag/cluster": "pr*"}}`
	for name, tt := range map[string]struct {
		policies []string
		call     func(ctx context.Context, l *limited) error
		refused  string // As the SDK reports it; "" if the call is done.
		told     string
	}{
		"nothing is allowed":              {nil, receive, "AccessDenied", "limited sqs:ReceiveMessage arn:aws:sqs:eu-central-1:123456789012:queue"},
		"on the queue":                    {[]string{allowing(`"sqs:ReceiveMessage"`, `"arn:aws:sqs:*:*:queue"`, "")}, receive, "", ""},
		"in one of several policies":      {[]string{allowing(`"sts:GetCallerIdentity"`, `"*"`, ""), allowing(`["sqs:ReceiveMessage"]`, `"*"`, "")}, receive, "", ""},
		"on another queue":                {[]string{allowing(`"sqs:ReceiveMessage"`, `"arn:aws:sqs:*:*:other"`, "")}, receive, "AccessDenied", "sqs:ReceiveMessage"},
		"another action":                  {[]string{allowing(`"sqs:DeleteMessage"`, `"*"`, "")}, receive, "AccessDenied", "sqs:ReceiveMessage"},
		"a batch, by the action for one":  {[]string{allowing(`"sqs:DeleteMessage"`, `"*"`, "")}, deleteBatch, "", ""},
		"EC2 has words of its own":        {[]string{}, instances, "UnauthorizedOperation", "limited ec2:DescribeInstances *"},
		"what describes":                  {[]string{allowing(`"ec2:DescribeInstances"`, `"*"`, "")}, instances, "", ""},
		"a group with the tag":            {[]string{allowing(`"autoscaling:SetDesiredCapacity"`, everyGroup, ofProd)}, resize("ours"), "", ""},
		"a group with another tag":        {[]string{allowing(`"autoscaling:SetDesiredCapacity"`, everyGroup, ofProd)}, resize("theirs"), "AccessDenied", "autoScalingGroupName/theirs"},
		"no group":                        {[]string{allowing(`"autoscaling:SetDesiredCapacity"`, everyGroup, ofProd)}, resize("nobodys"), "AccessDenied", "autoScalingGroupName/nobodys"},
		"an instance of such a group":     {[]string{allowing(`"autoscaling:SetInstanceHealth"`, everyGroup, ofProd)}, mark("i-0000000000000ours"), "", ""},
		"an instance of another group":    {[]string{allowing(`"autoscaling:SetInstanceHealth"`, everyGroup, ofProd)}, mark("i-0000000000000thei"), "AccessDenied", "theirs"},
		"a group by its name":             {[]string{allowing(`"autoscaling:SetDesiredCapacity"`, `["arn:aws:autoscaling:*:autoScalingGroupName/our?"]`, "")}, resize("ours"), "", ""},
		"StringEquals knows no wildcards": {[]string{allowing(`"autoscaling:SetDesiredCapacity"`, everyGroup, strings.Replace(ofProd, "prod", "pr*", 1))}, resize("ours"), "AccessDenied", "ours"},
		"tags with these keys":            {[]string{allowing(`"autoscaling:CreateOrUpdateTags"`, everyGroup, keys)}, tag("ours/mine", "ours/too"), "", ""},
		"a tag with another key":          {[]string{allowing(`"autoscaling:CreateOrUpdateTags"`, everyGroup, keys)}, tag("ours/mine", "ours/cluster"), "AccessDenied", "CreateOrUpdateTags"},
		"one of the tags at other groups": {[]string{allowing(`"autoscaling:CreateOrUpdateTags"`, everyGroup, keys)}, tag("ours/mine", "theirs/mine"), "AccessDenied", "theirs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLimited(t)
			must(t, l.server.Allow("limited", tt.policies...))
			err := tt.call(t.Context(), l)
			if code(err) != tt.refused {
				t.Errorf("%v, want %q", err, tt.refused)
			}
			told := strings.Join(l.server.Unauthorized(), "\n")
			if answer, ok := errors.AsType[*awshttp.ResponseError](err); (tt.refused != "") != (ok && answer.HTTPStatusCode() == 403) ||
				!strings.Contains(told, tt.told) || tt.told == "" && told != "" {
				t.Errorf("%v; told: %q", err, told)
			}
			if _, err := l.sts.GetCallerIdentity(t.Context(), nil); err != nil {
				t.Errorf("nobody can be denied this: %v", err)
			}
		})
	}
}

// TestUsedActions: calls count as what they need of a policy, also those that were refused.
func TestUsedActions(t *testing.T) {
	t.Parallel()
	l := newLimited(t)
	must(t, l.server.Allow("limited", allowing(`"sqs:DeleteMessage"`, `"*"`, "")))
	one := "none"
	_, _ = l.sqs.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &l.queue, ReceiptHandle: &one})
	_, _ = l.sqs.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{
		QueueUrl: &l.queue, Entries: []sqstypes.DeleteMessageBatchRequestEntry{{Id: &one, ReceiptHandle: &one}},
	})
	_, _ = l.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
	_, _ = l.sts.GetCallerIdentity(t.Context(), nil)
	if got, want := l.server.Used("limited"), []string{"ec2:DescribeInstances", "sqs:DeleteMessage"}; !slices.Equal(got, want) {
		t.Errorf("used: %q, want %q", got, want)
	}
	if got := l.server.Used("nobody"); len(got) > 0 {
		t.Errorf("nobody used %q", got)
	}
}

// TestOtherKeysAreNotLimited: a policy is for one access key.
func TestOtherKeysAreNotLimited(t *testing.T) {
	t.Parallel()
	l := newLimited(t)
	must(t, l.server.Allow("somebody"))
	if _, err := l.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{}); err != nil {
		t.Error(err)
	}
}

// TestInvalidPolicies: nothing in a policy is passed over.
func TestInvalidPolicies(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	for name, tt := range map[string]struct{ policy, want string }{
		"no JSON":                     {`{`, "no policy"},
		"another version":             {`{"Version": "2008-10-17", "Statement": []}`, "Version"},
		"a principal":                 {`{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": "*"}]}`, "Principal"},
		"a denial":                    {`{"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Action": "sqs:SendMessage", "Resource": "*"}]}`, `"Deny"`},
		"no resource":                 {`{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sqs:SendMessage"}]}`, "no Resource"},
		"no action":                   {allowing(`[]`, `"*"`, ""), "no Action"},
		"an action with a wildcard":   {allowing(`"sqs:*"`, `"*"`, ""), `"sqs:*"`},
		"an action that is none":      {allowing(`"sqs:Receive"`, `"*"`, ""), `"sqs:Receive"`},
		"a batch, which IAM has not":  {allowing(`"sqs:DeleteMessageBatch"`, `"*"`, ""), "Batch"},
		"a resource that is none":     {allowing(`"sqs:SendMessage"`, `"queue"`, ""), `"queue"`},
		"a place that was not filled": {allowing(`"sqs:SendMessage"`, `"arn:aws:sqs:${Region}:queue"`, ""), "Region"},
		"what describes, on a group":  {allowing(`"autoscaling:DescribeTags"`, everyGroup, ""), "on * alone"},
		"what describes, with a tag":  {allowing(`"autoscaling:DescribeTags"`, `"*"`, ofProd), "on * alone"},
		"a tag of a queue":            {allowing(`"sqs:SendMessage"`, `"*"`, ofProd), "ResourceTag"},
		"another operator":            {allowing(`"autoscaling:SetDesiredCapacity"`, `"*"`, `, "Condition": {"StringNotEquals": {"aws:ResourceTag/cluster": "prod"}}`), "StringNotEquals"},
		"another key":                 {allowing(`"autoscaling:SetDesiredCapacity"`, `"*"`, `, "Condition": {"StringEquals": {"aws:RequestTag/cluster": "prod"}}`), "RequestTag"},
		"tag keys where none are":     {allowing(`"autoscaling:SetDesiredCapacity"`, `"*"`, `, "Condition": {"ForAllValues:StringEquals": {"aws:TagKeys": "a"}}`), "TagKeys"},
	} {
		if err := s.Allow("key", tt.policy); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
}
