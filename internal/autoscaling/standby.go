package autoscaling

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Standby moves instances of groups into Standby, and terminates them there.
type Standby struct{ tagger }

// maxStandby is how many instances one call can move. Source: EnterStandby in the API reference.
const maxStandby = 20

// EnterStandby moves instances in service into Standby without lowering the desired capacity, so that the group
// launches a replacement for each. No lifecycle hook runs. The error is ErrGone if one of them is not in service: then
// some may have been moved.
func (w Standby) EnterStandby(ctx context.Context, group string, ids []string) error {
	for chunk := range slices.Chunk(ids, maxStandby) {
		_, err := call(ctx, retriedTimeout, w.api.EnterStandby, &sdk.EnterStandbyInput{
			AutoScalingGroupName: &group, InstanceIds: chunk, ShouldDecrementDesiredCapacity: aws.Bool(false),
		})
		if err != nil {
			return wrap(err, "move instances of group %s into Standby: %s", group, strings.Join(chunk, ", "))
		}
	}
	return nil
}

// ExitStandby moves instances from Standby back into service. AWS raises the desired capacity by as many. The error is
// ErrGone if one of them is not in Standby: then some may have been moved.
func (w Standby) ExitStandby(ctx context.Context, group string, ids []string) error {
	for chunk := range slices.Chunk(ids, maxStandby) {
		_, err := call(ctx, retriedTimeout, w.api.ExitStandby,
			&sdk.ExitStandbyInput{AutoScalingGroupName: &group, InstanceIds: chunk})
		if err != nil {
			return wrap(err, "move instances of group %s out of Standby: %s", group, strings.Join(chunk, ", "))
		}
	}
	return nil
}

// TerminateStandby terminates an instance in Standby. The desired capacity stays: such an instance does not count for
// it since EnterStandby has not lowered it, so that nothing is launched either. The group's terminating hooks run. The
// error is ErrGone if the instance is gone, or terminating.
func (w Standby) TerminateStandby(ctx context.Context, instanceID string) error {
	_, err := call(ctx, retriedTimeout, w.api.TerminateInstanceInAutoScalingGroup,
		&sdk.TerminateInstanceInAutoScalingGroupInput{
			InstanceId: &instanceID, ShouldDecrementDesiredCapacity: aws.Bool(false),
		}, onlyThrottled)
	return wrap(err, "terminate instance %s in Standby", instanceID)
}

// WriteStandby writes the record into tags of the group, which must have been described since they changed last.
func (w Standby) WriteStandby(ctx context.Context, g refresh.Group, record refresh.StandbyRecord) error {
	set, remove := refresh.StandbyTags(g, record)
	if len(set) > 0 {
		if err := w.tagAll(ctx, g.Name, set); err != nil {
			return err
		}
	}
	for _, key := range remove {
		if err := w.untag(ctx, g.Name, key); err != nil {
			return err
		}
	}
	return nil
}
