package app

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/check"
	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/internal/cloudwatch"
	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/eventbridge"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// noInstance and noAlarm are what trials ask for: AWS knows neither.
const (
	noInstance = "i-00000000000000000"
	noAlarm    = "node-drainer-check"
)

// awsReader reads what a check needs of AWS.
type awsReader struct {
	*autoscaling.Inspector
	aws       aws.Config
	queue     queue.API
	url       string
	instances ec2.API
	alarms    cloudwatch.API
	rules     eventbridge.API
}

// Identity returns whom AWS takes the agent for.
func (r awsReader) Identity(ctx context.Context) (cloud.Identity, error) {
	return cloud.Identify(ctx, r.aws)
}

// Queue returns the attributes of the agent's queue.
func (r awsReader) Queue(ctx context.Context) (queue.Attributes, error) {
	return queue.Inspect(ctx, r.queue, r.url)
}

// Rules returns the EventBridge rules that have the target.
func (r awsReader) Rules(ctx context.Context, targetARN string) ([]eventbridge.Rule, error) {
	return eventbridge.Rules(ctx, r.rules, targetARN)
}

// Known returns the instances that EC2 knows.
func (r awsReader) Known(ctx context.Context, instances []string) (map[string]bool, error) {
	return ec2.New(r.instances).Known(ctx, instances)
}

// Try makes a call that needs the permission.
func (r awsReader) Try(ctx context.Context, action, group, hook string) (err error) {
	switch {
	case strings.HasPrefix(action, "sqs:"):
		return queue.Try(ctx, r.queue, r.url, action)
	case action == check.ActionStatus:
		_, err = ec2.New(r.instances).Scheduled(ctx, noInstance)
	case action == check.ActionSpot:
		_, err = ec2.New(r.instances).SpotRequest(ctx, noInstance)
	case action == check.ActionAlarms:
		_, err = cloudwatch.New(r.alarms).IsInAlarm(ctx, noAlarm, noInstance)
	default:
		err = r.Inspector.Try(ctx, action, group, hook)
	}
	return err
}
