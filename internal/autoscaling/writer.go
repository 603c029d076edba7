package autoscaling

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Writer changes groups. Its errors contain AWS's own message, and are compared by errors.Is with those of
// package refresh.
type Writer struct {
	Health
	Capacity
	Standby
	tagger
	api ChangesAPI
}

// NewWriter returns a Writer. The client must retry what AWS throttles.
func NewWriter(api ChangesAPI) *Writer {
	tags := tagger{api, &remembered{of: map[string]map[string]string{}}, &written{of: map[string]map[string]record{}}}
	return &Writer{Health{api: api, limit: retriedTimeout}, Capacity{tags}, Standby{tags}, tags, api}
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
	doing := "start an instance refresh of group " + g.Name
	if len(p.Alarms) > 0 { // Source: "Undo changes with a rollback" in the user guide.
		doing += ", which needs its alarms in the state OK: " + strings.Join(p.Alarms, ", ")
	}
	return aws.ToString(out.InstanceRefreshId), wrap(err, "%s", doing)
}

// Cancel cancels the group's active refresh. Instances that are being replaced are replaced: if awaited, the refresh
// ends when they are, drains included, and otherwise at once. The error is refresh.ErrNoRefresh if none is active.
func (w *Writer) Cancel(ctx context.Context, group string, awaited bool) (id string, err error) {
	out, err := call(ctx, retriedTimeout, w.api.CancelInstanceRefresh,
		&sdk.CancelInstanceRefreshInput{AutoScalingGroupName: &group, WaitForTransitioningInstances: &awaited})
	return aws.ToString(out.InstanceRefreshId), wrap(err, "cancel the instance refresh of group %s", group)
}

// Rollback starts the rollback of the group's active refresh. Errors: refresh.ErrNoRefresh,
// refresh.ErrIrreversible.
func (w *Writer) Rollback(ctx context.Context, group string) (id string, err error) {
	out, err := call(ctx, retriedTimeout, w.api.RollbackInstanceRefresh,
		&sdk.RollbackInstanceRefreshInput{AutoScalingGroupName: &group})
	return aws.ToString(out.InstanceRefreshId), wrap(err, "roll the instance refresh of group %s back", group)
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

// GetAttemptToken is the wrapped retryer's. Without it the SDK takes this for one that limits no rate of attempts.
func (r throttledRetryer) GetAttemptToken(ctx context.Context) (func(error) error, error) {
	if limits, ok := r.Retryer.(aws.RetryerV2); ok {
		return limits.GetAttemptToken(ctx)
	}
	return r.GetInitialToken(), nil
}

// IsErrorRetryable reports whether AWS throttled the call.
func (r throttledRetryer) IsErrorRetryable(err error) bool {
	return cloud.IsThrottle(err) && r.Retryer.IsErrorRetryable(err)
}

// Suspend suspends those of the processes that are not suspended yet, and returns them. It first adds them to
// a tag of the group, so that a later run can resume them after an interruption. What another client has
// suspended is not added.
func (w *Writer) Suspend(ctx context.Context, g refresh.Group, processes []string) ([]string, error) {
	ours := refresh.SuspendedBy(g)
	wanted := without(processes, g.Suspended)
	if len(wanted) == 0 {
		return nil, nil
	}
	if added := without(wanted, ours); len(added) > 0 {
		if err := w.tag(ctx, g.Name, refresh.SuspendedTag, strings.Join(append(ours, added...), " ")); err != nil {
			return nil, err
		}
	}
	if err := w.suspend(ctx, g.Name, wanted); err != nil {
		return nil, err
	}
	return wanted, nil
}

// without returns those that are not among the others.
func without(all, others []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(one string) bool { return slices.Contains(others, one) })
}

// Release resumes what Suspend has suspended, removes the tag, and returns the processes. If some are named, it resumes
// no others, and the tag keeps those.
func (w *Writer) Release(ctx context.Context, g refresh.Group, only ...string) ([]string, error) {
	ours := refresh.SuspendedBy(g)
	released, left := ours, []string(nil)
	if len(only) > 0 {
		left = without(ours, only)
		released = without(ours, left)
	}
	if len(released) == 0 {
		return nil, nil
	}
	if err := w.resume(ctx, g.Name, released); err != nil {
		return nil, err
	}
	if len(left) > 0 {
		return released, w.tag(ctx, g.Name, refresh.SuspendedTag, strings.Join(left, " "))
	}
	return released, w.untag(ctx, g.Name, refresh.SuspendedTag)
}

func (w *Writer) suspend(ctx context.Context, group string, processes []string) error {
	_, err := call(ctx, retriedTimeout, w.api.SuspendProcesses,
		&sdk.SuspendProcessesInput{AutoScalingGroupName: &group, ScalingProcesses: processes})
	return wrap(err, "suspend the processes %s of group %s", strings.Join(processes, ", "), group)
}

func (w *Writer) resume(ctx context.Context, group string, processes []string) error {
	_, err := call(ctx, retriedTimeout, w.api.ResumeProcesses,
		&sdk.ResumeProcessesInput{AutoScalingGroupName: &group, ScalingProcesses: processes})
	return wrap(err, "resume the processes %s of group %s", strings.Join(processes, ", "), group)
}
