package ec2

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/errgroup"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Complete fills in what only EC2 knows of the groups' instances: when they were launched, or last started,
// and their AMI. refresh.NeedsEC2 reports whether that is needed. What EC2 does not know stays empty.
func (r *LaunchReader) Complete(ctx context.Context, groups []refresh.Group) error {
	instances := map[string][]*refresh.Instance{} // by id
	for _, g := range groups {
		for n := range g.Instances {
			i := &g.Instances[n]
			instances[i.ID] = append(instances[i.ID], i)
		}
	}
	calls, ctx := errgroup.WithContext(ctx)
	calls.SetLimit(callsAtOnce)
	for some := range slices.Chunk(slices.Sorted(maps.Keys(instances)), describeMax) {
		calls.Go(func() error {
			return eachInstance(ctx, r.api, retriedTimeout, "instance-id", some, func(known types.Instance) {
				for _, i := range instances[aws.ToString(known.InstanceId)] {
					i.Launched = aws.ToTime(known.LaunchTime)
					// The AMI that Auto Scaling describes is newer: it changes with a replaced root volume. Source:
					// Instance.ImageId in the API reference.
					i.ImageID = cmp.Or(i.ImageID, aws.ToString(known.ImageId))
				}
			})
		})
	}
	return calls.Wait()
}
