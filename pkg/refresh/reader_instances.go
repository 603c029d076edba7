package refresh

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/errgroup"
)

// idsPerCall is the most values of a filter. Source: "Filtering" in the EC2 API reference.
const idsPerCall = 200

// Complete fills in what only EC2 tells of the groups' instances: when they were launched, or last started,
// and their AMI. It is needed for Criteria.MaxAge, and where NeedsEC2 says so. What EC2 does not know stays
// empty.
func (r *Reader) Complete(ctx context.Context, groups []Group) error {
	var ids []string
	for _, g := range groups {
		for _, i := range g.Instances {
			ids = append(ids, i.ID)
		}
	}
	known, err := r.machines(ctx, slices.Compact(slices.Sorted(slices.Values(ids))))
	if err != nil {
		return err
	}
	for _, g := range groups {
		for n := range g.Instances {
			g.Instances[n].complete(known[g.Instances[n].ID])
		}
	}
	return nil
}

// complete takes over what EC2 says. The AMI that Auto Scaling tells is newer: it knows of replaced root
// volumes. Source: Instance.ImageId in the API reference.
func (i *Instance) complete(machine types.Instance) {
	i.Launched = aws.ToTime(machine.LaunchTime)
	i.ImageID = cmp.Or(i.ImageID, aws.ToString(machine.ImageId))
}

// machines asks EC2 for instances. It asks by a filter: an id that EC2 does not know would fail the whole
// call as a parameter.
func (r *Reader) machines(ctx context.Context, ids []string) (map[string]types.Instance, error) {
	known := map[string]types.Instance{}
	var mu sync.Mutex
	calls, ctx := errgroup.WithContext(ctx)
	calls.SetLimit(callsAtOnce)
	for some := range slices.Chunk(ids, idsPerCall) {
		calls.Go(func() error {
			return r.someMachines(ctx, some, func(i types.Instance) {
				mu.Lock()
				defer mu.Unlock()
				known[aws.ToString(i.InstanceId)] = i
			})
		})
	}
	return known, calls.Wait()
}

func (r *Reader) someMachines(ctx context.Context, ids []string, found func(types.Instance)) error {
	pages := ec2.NewDescribeInstancesPaginator(r.instances, &ec2.DescribeInstancesInput{
		Filters: []types.Filter{{Name: aws.String("instance-id"), Values: ids}},
	})
	for pages.HasMorePages() {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		out, err := pages.NextPage(ctx)
		cancel()
		if err != nil {
			return fmt.Errorf("describe instances: %w", err)
		}
		for _, reservation := range out.Reservations {
			for _, i := range reservation.Instances {
				found(i)
			}
		}
	}
	return nil
}
