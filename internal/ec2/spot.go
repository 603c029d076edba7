package ec2

import (
	"cmp"
	"context"
	"strings"
	"time"

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

// Marked reports whether EC2 is going to interrupt the instance two minutes after the request got this status.
func (s SpotStatus) Marked() bool { return strings.HasPrefix(string(s), "marked-for-") }

// SpotRequest is the Spot Instance request of an instance.
type SpotRequest struct {
	Status SpotStatus
	Since  time.Time // when it got this status; zero if EC2 does not say
}

// SpotRequest returns the Spot Instance request of the instance; the zero value if it has none. Concurrent questions
// share a call.
func (i *Instances) SpotRequest(ctx context.Context, id string) (SpotRequest, error) {
	return i.spot.Do(ctx, id)
}

// describeSpot asks by the filter for instances: as a parameter, a request that EC2 does not know would fail
// the whole call.
func (i *Instances) describeSpot(ctx context.Context, ids []string) []batch.Result[SpotRequest] {
	found := map[string]SpotRequest{}
	pages := sdk.NewDescribeSpotInstanceRequestsPaginator(i.api, &sdk.DescribeSpotInstanceRequestsInput{
		Filters: []types.Filter{{Name: aws.String("instance-id"), Values: unique(ids)}},
	})
	const doing = "describe Spot Instance requests"
	err := cloud.EachPage(ctx, callTimeout, doing, pages, func(out *sdk.DescribeSpotInstanceRequestsOutput) {
		for _, r := range out.SpotInstanceRequests {
			status := cmp.Or(r.Status, &types.SpotInstanceStatus{})
			found[aws.ToString(r.InstanceId)] = SpotRequest{SpotStatus(aws.ToString(status.Code)), aws.ToTime(status.UpdateTime)}
		}
	})
	return batch.Results(ids, found, err)
}
