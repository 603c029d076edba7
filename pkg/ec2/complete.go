package ec2

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/errgroup"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Complete fills in what only EC2 knows of the groups' instances: when they were launched, or last started,
// and their AMI. refresh.NeedsEC2 reports whether that is needed. What EC2 does not know stays empty.
func (r *LaunchReader) Complete(ctx context.Context, groups []refresh.Group) error {
	var ids []string
	for _, g := range groups {
		for _, i := range g.Instances {
			ids = append(ids, i.ID)
		}
	}
	known, err := r.instances(ctx, unique(ids))
	if err != nil {
		return err
	}
	for _, g := range groups {
		for n := range g.Instances {
			i := &g.Instances[n]
			i.Launched = aws.ToTime(known[i.ID].LaunchTime)
			// The AMI that Auto Scaling describes is newer: it changes with a replaced root volume. Source:
			// Instance.ImageId in the API reference.
			i.ImageID = cmp.Or(i.ImageID, aws.ToString(known[i.ID].ImageId))
		}
	}
	return nil
}

func (r *LaunchReader) instances(ctx context.Context, ids []string) (map[string]types.Instance, error) {
	known := map[string]types.Instance{}
	var mu sync.Mutex
	calls, ctx := errgroup.WithContext(ctx)
	calls.SetLimit(callsAtOnce)
	for some := range slices.Chunk(ids, describeMax) {
		calls.Go(func() error {
			return eachInstance(ctx, r.api, retriedTimeout, "instance-id", some, func(i types.Instance) {
				mu.Lock()
				defer mu.Unlock()
				known[aws.ToString(i.InstanceId)] = i
			})
		})
	}
	return known, calls.Wait()
}
