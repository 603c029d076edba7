package rollouts

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	groups "github.com/node-drainer/node-drainer/internal/autoscaling"
	alarms "github.com/node-drainer/node-drainer/internal/cloudwatch"
	"github.com/node-drainer/node-drainer/internal/cluster"
	instances "github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/nodegroup"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// NodeWriter is how a trigger changes nodes: a cluster.Tainter, or what stands for one.
type NodeWriter interface {
	Taint(ctx context.Context, n cluster.Node, e cluster.Effect) error
	Untaint(ctx context.Context, n cluster.Node) error
	DisableScaleDown(ctx context.Context, n cluster.Node, group string) (changed bool, err error)
	EnableScaleDown(ctx context.Context, n cluster.Node) error
	RequestDrain(ctx context.Context, n cluster.Node) error
	WithdrawDrain(ctx context.Context, n cluster.Node) error
}

type (
	reader struct {
		*groups.Reader
		*instances.LaunchReader
		*alarms.Alarms
	}
	nodegroupReader struct {
		reader
		*nodegroup.Reader
	}
	writer struct {
		*groups.Writer
		*instances.Machines
		NodeWriter
	}
	nodegroupWriter struct {
		writer
		*nodegroup.Writer
	}
)

// Clients returns what reads and changes groups in a mode, as package cli makes it. The request is for mode nodegroup.
func Clients(
	cfg aws.Config, mode refresh.Mode, request nodegroup.Request, nodes NodeWriter,
) (plan.Reader, rollout.Writer) {
	machines, auto := ec2.NewFromConfig(cfg), autoscaling.NewFromConfig(cfg)
	described, changed := groups.NewReader(auto), groups.NewWriter(auto)
	described.Follow(changed)
	read := reader{described, instances.NewLaunchReader(machines), alarms.New(cloudwatch.NewFromConfig(cfg))}
	write := writer{changed, instances.NewMachines(machines), nodes}
	if mode != refresh.ModeNodegroup {
		return read, write
	}
	client := eks.NewFromConfig(cfg)
	launches := struct {
		*instances.LaunchReader
		*instances.SubnetReader
	}{read.LaunchReader, instances.NewSubnetReader(machines)}
	releases := nodegroup.NewReleases(ssm.NewFromConfig(cfg))
	return nodegroupReader{read, nodegroup.NewReader(client, read, launches, releases, request)},
		nodegroupWriter{write, nodegroup.NewWriter(client)}
}

// Retryer returns the retryer of the production clients, which does not retry the calls of a dead process.
func Retryer(isDead func() bool) aws.Retryer {
	return retryer{retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = 10
		o.MaxBackoff = 5 * time.Second
		o.RateLimiter = ratelimit.None
	}), isDead}
}

type retryer struct {
	aws.Retryer
	isDead func() bool
}

// IsErrorRetryable implements aws.Retryer.
func (r retryer) IsErrorRetryable(err error) bool {
	return !r.isDead() && r.Retryer.IsErrorRetryable(err)
}
