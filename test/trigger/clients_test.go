package trigger

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	groups "github.com/node-drainer/node-drainer/internal/autoscaling"
	alarms "github.com/node-drainer/node-drainer/internal/cloudwatch"
	"github.com/node-drainer/node-drainer/internal/cluster"
	instances "github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/rollout"
)

// clientsOf returns what a trigger without Kubernetes reads from AWS and changes there.
func clientsOf(cfg aws.Config) (rollout.Reader, rollout.Writer) {
	type writer struct {
		*groups.Writer
		*instances.Machines
		*cluster.Tainter
	}
	return readerOf(cfg), writer{Writer: groups.NewWriter(autoscaling.NewFromConfig(cfg))}
}

// readerOf returns what a trigger reads from AWS.
func readerOf(cfg aws.Config) rollout.Reader {
	type reader struct {
		*groups.Reader
		*instances.LaunchReader
		*alarms.Alarms
	}
	return reader{
		groups.NewReader(autoscaling.NewFromConfig(cfg)), instances.NewLaunchReader(ec2.NewFromConfig(cfg)),
		alarms.New(cloudwatch.NewFromConfig(cfg)),
	}
}
