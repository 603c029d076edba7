package autoscaling

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

const (
	// callTimeout bounds a call of the agent, whose client does not retry: an endpoint that does not answer must
	// not stop the heartbeats.
	callTimeout = 10 * time.Second
	// retriedTimeout bounds a call of the trigger, with all of the SDK's retries.
	retriedTimeout = time.Minute
)

// ReaderAPI are the calls of a Reader. None of them changes anything.
type ReaderAPI interface {
	GroupsAPI
	sdk.DescribeScalingActivitiesAPIClient
}

// GroupsAPI are the calls that describe groups.
type GroupsAPI interface {
	SettingsAPI
	sdk.DescribeAutoScalingGroupsAPIClient
	sdk.DescribeInstanceRefreshesAPIClient
	sdk.DescribeWarmPoolAPIClient
	DescribeLifecycleHooks(context.Context, *sdk.DescribeLifecycleHooksInput,
		...func(*sdk.Options)) (*sdk.DescribeLifecycleHooksOutput, error)
}

// HealthAPI is the call of Health.
type HealthAPI interface {
	SetInstanceHealth(context.Context, *sdk.SetInstanceHealthInput,
		...func(*sdk.Options)) (*sdk.SetInstanceHealthOutput, error)
}

// API are the calls of Hooks.
type API interface {
	GroupsAPI
	HealthAPI
	sdk.DescribeAutoScalingInstancesAPIClient
	sdk.DescribeTagsAPIClient
	RecordLifecycleActionHeartbeat(context.Context, *sdk.RecordLifecycleActionHeartbeatInput,
		...func(*sdk.Options)) (*sdk.RecordLifecycleActionHeartbeatOutput, error)
	CompleteLifecycleAction(context.Context, *sdk.CompleteLifecycleActionInput,
		...func(*sdk.Options)) (*sdk.CompleteLifecycleActionOutput, error)
}

// ChangesAPI are the calls of a Writer.
type ChangesAPI interface {
	HealthAPI
	StartInstanceRefresh(context.Context, *sdk.StartInstanceRefreshInput,
		...func(*sdk.Options)) (*sdk.StartInstanceRefreshOutput, error)
	CancelInstanceRefresh(context.Context, *sdk.CancelInstanceRefreshInput,
		...func(*sdk.Options)) (*sdk.CancelInstanceRefreshOutput, error)
	RollbackInstanceRefresh(context.Context, *sdk.RollbackInstanceRefreshInput,
		...func(*sdk.Options)) (*sdk.RollbackInstanceRefreshOutput, error)
	SuspendProcesses(context.Context, *sdk.SuspendProcessesInput,
		...func(*sdk.Options)) (*sdk.SuspendProcessesOutput, error)
	ResumeProcesses(context.Context, *sdk.ResumeProcessesInput,
		...func(*sdk.Options)) (*sdk.ResumeProcessesOutput, error)
	SetDesiredCapacity(context.Context, *sdk.SetDesiredCapacityInput,
		...func(*sdk.Options)) (*sdk.SetDesiredCapacityOutput, error)
	TerminateInstanceInAutoScalingGroup(context.Context, *sdk.TerminateInstanceInAutoScalingGroupInput,
		...func(*sdk.Options)) (*sdk.TerminateInstanceInAutoScalingGroupOutput, error)
	SetInstanceProtection(context.Context, *sdk.SetInstanceProtectionInput,
		...func(*sdk.Options)) (*sdk.SetInstanceProtectionOutput, error)
	UpdateAutoScalingGroup(context.Context, *sdk.UpdateAutoScalingGroupInput,
		...func(*sdk.Options)) (*sdk.UpdateAutoScalingGroupOutput, error)
	EnterStandby(context.Context, *sdk.EnterStandbyInput,
		...func(*sdk.Options)) (*sdk.EnterStandbyOutput, error)
	ExitStandby(context.Context, *sdk.ExitStandbyInput,
		...func(*sdk.Options)) (*sdk.ExitStandbyOutput, error)
	CreateOrUpdateTags(context.Context, *sdk.CreateOrUpdateTagsInput,
		...func(*sdk.Options)) (*sdk.CreateOrUpdateTagsOutput, error)
	DeleteTags(context.Context, *sdk.DeleteTagsInput,
		...func(*sdk.Options)) (*sdk.DeleteTagsOutput, error)
}

// call makes one call, which may take as long as limit. Beside an error it returns an empty answer, not nil.
func call[In, Out any](
	ctx context.Context, limit time.Duration,
	do func(context.Context, *In, ...func(*sdk.Options)) (*Out, error), in *In, options ...func(*sdk.Options),
) (*Out, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, err := do(ctx, in, options...)
	return cmp.Or(out, new(Out)), err
}

// codeValidation is the API's code for everything that is wrong with a request. Auto Scaling models no error
// of its own for unknown groups, hooks and instances, or for lifecycle actions that have ended.
const codeValidation = "ValidationError"

func isValidation(err error) bool { return cloud.ErrorCode(err) == codeValidation }

// wrap adds to the error of a call what was being done, and the error of package refresh that it stands for.
func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	doing := fmt.Sprintf(format, args...)
	if meaning := meaningOf(err); meaning != nil {
		return fmt.Errorf("%s: %w: %w", doing, meaning, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// meaningOf goes by the API's code. Sources: the errors of StartInstanceRefresh, CancelInstanceRefresh and
// RollbackInstanceRefresh in the API reference; "Troubleshoot launch templates" in the user guide.
func meaningOf(err error) error {
	switch cloud.ErrorCode(err) {
	case "InstanceRefreshInProgress":
		return refresh.ErrInProgress
	case "ScalingActivityInProgress":
		return refresh.ErrBusy
	case "ActiveInstanceRefreshNotFound":
		return refresh.ErrNoRefresh
	case "IrreversibleInstanceRefresh":
		return refresh.ErrIrreversible
	case "AccessDenied":
		if strings.Contains(err.Error(), "not authorized to use launch template") {
			return refresh.ErrMayNotLaunch
		}
	case codeValidation:
		if isGone(err) {
			return ErrGone
		}
	}
	return nil
}

// isGone reports whether the error says that the instance does not exist, or is terminating. The API has no
// code for that, so the message decides: these are the ones that were seen.
func isGone(err error) bool {
	return slices.ContainsFunc([]string{
		"Instance Id not found", "No managed instance found", "is not part of Auto Scaling group",
		"is not in InService", "is not in Standby",
	}, func(part string) bool { return strings.Contains(err.Error(), part) })
}

// eachGroup calls visit with every group that AWS describes for in. Each page may take as long as limit.
func eachGroup(
	ctx context.Context, api GroupsAPI, limit time.Duration, in *sdk.DescribeAutoScalingGroupsInput,
	visit func(types.AutoScalingGroup),
) error {
	in.MaxRecords = new(int32(groupsPage))
	pages := sdk.NewDescribeAutoScalingGroupsPaginator(api, in)
	const doing = "describe Auto Scaling groups"
	return cloud.EachPage(ctx, limit, doing, pages, func(out *sdk.DescribeAutoScalingGroupsOutput) {
		for _, g := range out.AutoScalingGroups {
			visit(g)
		}
	})
}

// eachPooled calls visit with the instances of each page of the group's warm pool.
func eachPooled(
	ctx context.Context, api sdk.DescribeWarmPoolAPIClient, limit time.Duration, group string,
	visit func([]types.Instance),
) error {
	in := &sdk.DescribeWarmPoolInput{AutoScalingGroupName: &group, MaxRecords: new(int32(poolPage))}
	pages := sdk.NewDescribeWarmPoolPaginator(api, in)
	doing := "describe the warm pool of group " + group
	return cloud.EachPage(ctx, limit, doing, pages, func(out *sdk.DescribeWarmPoolOutput) { visit(out.Instances) })
}

func describeHooks(
	ctx context.Context, api GroupsAPI, limit time.Duration, group string,
) ([]types.LifecycleHook, error) {
	out, err := call(ctx, limit, api.DescribeLifecycleHooks,
		&sdk.DescribeLifecycleHooksInput{AutoScalingGroupName: &group})
	return out.LifecycleHooks, wrap(err, "describe the lifecycle hooks of group %s", group)
}

func describeRefreshes(
	ctx context.Context, api GroupsAPI, limit time.Duration, in *sdk.DescribeInstanceRefreshesInput,
) ([]refresh.Refresh, error) {
	out, err := call(ctx, limit, api.DescribeInstanceRefreshes, in)
	err = wrap(err, "describe the instance refreshes of group %s", *in.AutoScalingGroupName)
	return convert(out.InstanceRefreshes, toRefresh), err
}

// Health sets the health of instances.
type Health struct {
	api   HealthAPI
	limit time.Duration // of a call
}

// MarkUnhealthy has Auto Scaling replace the instance: by the group's maintenance policy, else by terminating
// it before its replacement is launched. The grace period of a new instance does not protect it. The error is
// ErrGone if the instance is in no group, or terminating.
func (h Health) MarkUnhealthy(ctx context.Context, instanceID string) error {
	_, err := call(ctx, h.limit, h.api.SetInstanceHealth, &sdk.SetInstanceHealthInput{
		InstanceId: &instanceID, HealthStatus: new("Unhealthy"), ShouldRespectGracePeriod: new(false),
	})
	return wrap(err, "mark instance %s unhealthy", instanceID)
}
