package ec2

import (
	"cmp"
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/node-drainer/node-drainer/internal/batch"
	"github.com/node-drainer/node-drainer/internal/cloud"
)

// SpotStatus is the status code of the Spot Instance request of an instance, in EC2's own words. It is empty
// for an instance without a request.
type SpotStatus string

// Running reports whether the instance runs, and EC2 has not begun to interrupt it. Source: "Spot request
// status codes" in the Amazon EC2 user guide.
func (s SpotStatus) Running() bool {
	return s == "fulfilled" || s == "request-canceled-and-instance-running"
}

// SpotStatus returns the status of the instance's Spot Instance request. Concurrent questions share a call.
func (i *Instances) SpotStatus(ctx context.Context, id string) (SpotStatus, error) {
	return i.spot.Do(ctx, id)
}

// describeSpot asks by the filter for instances: as a parameter, a request that EC2 does not know would fail
// the whole call.
func (i *Instances) describeSpot(ctx context.Context, ids []string) []batch.Result[SpotStatus] {
	found := map[string]SpotStatus{}
	pages := sdk.NewDescribeSpotInstanceRequestsPaginator(i.api, &sdk.DescribeSpotInstanceRequestsInput{
		Filters: []types.Filter{{Name: aws.String("instance-id"), Values: unique(ids)}},
	})
	const doing = "describe Spot Instance requests"
	err := cloud.EachPage(ctx, callTimeout, doing, pages, func(out *sdk.DescribeSpotInstanceRequestsOutput) {
		for _, r := range out.SpotInstanceRequests {
			status := cmp.Or(r.Status, &types.SpotInstanceStatus{})
			found[aws.ToString(r.InstanceId)] = SpotStatus(aws.ToString(status.Code))
		}
	})
	return batch.Results(ids, found, err)
}
