package autoscaling

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Writer changes groups. Its errors contain AWS's own message, and are compared by errors.Is with those of
// package refresh.
type Writer struct {
	Health
	api ChangesAPI
}

// NewWriter returns a Writer. The client must retry what AWS throttles.
func NewWriter(api ChangesAPI) *Writer {
	return &Writer{Health: Health{api: api, limit: retriedTimeout}, api: api}
}

// Start starts an instance refresh and returns its id. The desired configuration is the resolved source of
// the target, or none if pin is false; a launch configuration cannot be one. The error is
// refresh.ErrInProgress if the group has an active refresh, which Start itself may have started if the answer
// to a first attempt was lost.
func (w *Writer) Start(
	ctx context.Context, g refresh.Group, t refresh.Target, pin bool, p refresh.Preferences,
) (id string, err error) {
	in := &sdk.StartInstanceRefreshInput{AutoScalingGroupName: &g.Name, Preferences: fromPreferences(p)}
	if pin {
		if in.DesiredConfiguration, err = desiredConfiguration(g, t); err != nil {
			return "", err
		}
	}
	out, err := call(ctx, retriedTimeout, w.api.StartInstanceRefresh, in)
	if err != nil {
		return "", wrap(err, "start an instance refresh of group %s", g.Name)
	}
	return aws.ToString(out.InstanceRefreshId), nil
}

// Cancel cancels the group's active refresh. Instances that are being replaced are replaced. The error is
// refresh.ErrNoRefresh if none is active.
func (w *Writer) Cancel(ctx context.Context, group string) (id string, err error) {
	out, err := call(ctx, retriedTimeout, w.api.CancelInstanceRefresh,
		&sdk.CancelInstanceRefreshInput{AutoScalingGroupName: &group})
	if err != nil {
		return "", wrap(err, "cancel the instance refresh of group %s", group)
	}
	return aws.ToString(out.InstanceRefreshId), nil
}

// Rollback starts the rollback of the group's active refresh. Errors: refresh.ErrNoRefresh,
// refresh.ErrIrreversible.
func (w *Writer) Rollback(ctx context.Context, group string) (id string, err error) {
	out, err := call(ctx, retriedTimeout, w.api.RollbackInstanceRefresh,
		&sdk.RollbackInstanceRefreshInput{AutoScalingGroupName: &group})
	if err != nil {
		return "", wrap(err, "roll the instance refresh of group %s back", group)
	}
	return aws.ToString(out.InstanceRefreshId), nil
}

// Pause suspends the process InstanceRefresh, so that the group's refresh stops replacing instances without
// being cancelled. Source: "Suspend and resume processes" in the user guide.
func (w *Writer) Pause(ctx context.Context, group string) error {
	return w.suspend(ctx, group, []string{refresh.ProcessInstanceRefresh})
}

// Resume resumes the process that Pause suspended.
func (w *Writer) Resume(ctx context.Context, group string) error {
	return w.resume(ctx, group, []string{refresh.ProcessInstanceRefresh})
}

// Terminate terminates the instance and lowers the desired capacity by one, so that it is not replaced. A
// call whose answer is lost is not sent again: the API reference does not say that a second one has no
// effect. The caller describes the instance first. The error is ErrGone if the instance is gone, or
// terminating.
func (w *Writer) Terminate(ctx context.Context, instanceID string) error {
	_, err := call(ctx, retriedTimeout, w.api.TerminateInstanceInAutoScalingGroup,
		&sdk.TerminateInstanceInAutoScalingGroupInput{
			InstanceId: &instanceID, ShouldDecrementDesiredCapacity: aws.Bool(true),
		}, onlyThrottled)
	return wrap(err, "terminate instance %s", instanceID)
}

// onlyThrottled has a call retried only if AWS answered that it did nothing.
func onlyThrottled(o *sdk.Options) { o.Retryer = throttledRetryer{o.Retryer} }

type throttledRetryer struct{ aws.Retryer }

// IsErrorRetryable reports whether AWS throttled the call.
func (r throttledRetryer) IsErrorRetryable(err error) bool {
	return cloud.IsThrottle(err) && r.Retryer.IsErrorRetryable(err)
}

// groupResource is the type of what the tags of Auto Scaling are on. Source: Tag in the API reference.
const groupResource = "auto-scaling-group"

func (w *Writer) tag(ctx context.Context, group, key, value string) error {
	_, err := call(ctx, retriedTimeout, w.api.CreateOrUpdateTags, &sdk.CreateOrUpdateTagsInput{Tags: []types.Tag{{
		ResourceId: &group, ResourceType: aws.String(groupResource), Key: &key, Value: &value,
		PropagateAtLaunch: aws.Bool(false),
	}}})
	return wrap(err, "tag group %s with %s", group, key)
}

func (w *Writer) untag(ctx context.Context, group, key string) error {
	_, err := call(ctx, retriedTimeout, w.api.DeleteTags, &sdk.DeleteTagsInput{Tags: []types.Tag{{
		ResourceId: &group, ResourceType: aws.String(groupResource), Key: &key,
	}}})
	return wrap(err, "remove the tag %s from group %s", key, group)
}
