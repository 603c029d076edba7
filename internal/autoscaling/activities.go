package autoscaling

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// activitiesPage is the most activities of one DescribeScalingActivities (MaxRecords).
const activitiesPage = 100

// CapacityChanges returns the changes of the capacity that the activities of the group name as their causes, the oldest
// first, of the activities that have started since then, at most six weeks ago. A change to which Auto Scaling has not
// reacted yet is not among them. It needs autoscaling:DescribeScalingActivities.
func (r *Reader) CapacityChanges(
	ctx context.Context, group string, since time.Time,
) (changes []refresh.CapacityChange, err error) {
	pages := sdk.NewDescribeScalingActivitiesPaginator(r.api, &sdk.DescribeScalingActivitiesInput{
		AutoScalingGroupName: &group, MaxRecords: new(int32(activitiesPage)),
		Filters: []types.Filter{{
			Name: aws.String("StartTimeLowerBound"), Values: []string{since.UTC().Format(time.RFC3339)},
		}},
	})
	var causes []string // the newest first
	doing := "read who has changed the desired capacity of group " + group
	err = cloud.EachPage(ctx, retriedTimeout, doing, pages, func(out *sdk.DescribeScalingActivitiesOutput) {
		for _, a := range out.Activities {
			causes = append(causes, aws.ToString(a.Cause))
		}
	})
	for _, cause := range slices.Backward(causes) {
		changes = append(changes, toChanges(cause)...)
	}
	slices.SortStableFunc(changes, func(a, b refresh.CapacityChange) int { return a.At.Compare(b.At) })
	return changes, err
}

// Auto Scaling documents no format of causes. The sentences are those of examples in its documentation, such as that of
// Get-ASScalingActivity and of Exit-ASStandby: each begins with its time, and says by how much the capacity changes, if
// it does.
var (
	sentenceBegin = regexp.MustCompile(`(?:^|\s)At (\d{4}-\d\d-\d\dT\S+) `)
	changedFrom   = regexp.MustCompile(`(?:changing the desired|(?:increas|shrink)ing the) capacity from (\d+) to (\d+)`)
)

// toChanges finds the changes of the capacity that the cause of an activity names.
func toChanges(cause string) (changes []refresh.CapacityChange) {
	begins := sentenceBegin.FindAllStringSubmatchIndex(cause, -1)
	for n, b := range begins {
		end := len(cause)
		if n+1 < len(begins) {
			end = begins[n+1][0]
		}
		sentence := cause[b[1]:end]
		at, err := time.Parse(time.RFC3339, cause[b[2]:b[3]])
		found := changedFrom.FindStringSubmatch(sentence)
		if err != nil || found == nil {
			continue
		}
		from, errFrom := strconv.Atoi(found[1])
		to, errTo := strconv.Atoi(found[2])
		if errFrom == nil && errTo == nil {
			changes = append(changes, refresh.CapacityChange{At: at, From: from, To: to, By: calledBy(sentence)})
		}
	}
	return changes
}

// calledBy is the call that a sentence of a cause names, of those that add to the desired capacity.
func calledBy(sentence string) refresh.ChangedBy {
	switch {
	case strings.HasPrefix(sentence, "a user request explicitly set group desired capacity"):
		return refresh.BySetDesired
	case strings.HasPrefix(sentence, "instance ") && strings.Contains(sentence, " was moved out of standby in response"):
		return refresh.ByExitStandby
	}
	return ""
}
