package autoscaling

import (
	"context"
	"regexp"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// activitiesPage is the most activities of one DescribeScalingActivities (MaxRecords).
const activitiesPage = 100

// CapacityChanges returns the calls of SetDesiredCapacity that the activities of the group name as their causes, of the
// activities that have started since then, at most six weeks ago. A change to which Auto Scaling has not reacted yet is
// not among them. It needs autoscaling:DescribeScalingActivities.
func (r *Reader) CapacityChanges(
	ctx context.Context, group string, since time.Time,
) (changes []refresh.CapacityChange, err error) {
	pages := sdk.NewDescribeScalingActivitiesPaginator(r.api, &sdk.DescribeScalingActivitiesInput{
		AutoScalingGroupName: &group, MaxRecords: new(int32(activitiesPage)),
		Filters: []types.Filter{{
			Name: aws.String("StartTimeLowerBound"), Values: []string{since.UTC().Format(time.RFC3339)},
		}},
	})
	doing := "read who has changed the desired capacity of group " + group
	err = cloud.EachPage(ctx, retriedTimeout, doing, pages, func(out *sdk.DescribeScalingActivitiesOutput) {
		for _, a := range out.Activities {
			changes = append(changes, toChanges(aws.ToString(a.Cause))...)
		}
	})
	return changes, err
}

// toChanges finds the calls of SetDesiredCapacity in the cause of an activity. Auto Scaling documents no format: the
// sentence is that of examples in its documentation, such as that of Get-ASScalingActivity.
func toChanges(cause string) (changes []refresh.CapacityChange) {
	sentence := regexp.MustCompile(`At (\S+) a user request explicitly set group desired capacity ` +
		`changing the desired capacity from (\d+) to (\d+)`)
	for _, found := range sentence.FindAllStringSubmatch(cause, -1) {
		at, err := time.Parse(time.RFC3339, found[1])
		from, errFrom := strconv.Atoi(found[2])
		to, errTo := strconv.Atoi(found[3])
		if err == nil && errFrom == nil && errTo == nil {
			changes = append(changes, refresh.CapacityChange{At: at, From: from, To: to})
		}
	}
	return changes
}
