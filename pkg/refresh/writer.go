package refresh

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
)

// ChangesAPI are the calls to Auto Scaling of a Writer.
type ChangesAPI interface {
	StartInstanceRefresh(context.Context, *autoscaling.StartInstanceRefreshInput,
		...func(*autoscaling.Options)) (*autoscaling.StartInstanceRefreshOutput, error)
	CancelInstanceRefresh(context.Context, *autoscaling.CancelInstanceRefreshInput,
		...func(*autoscaling.Options)) (*autoscaling.CancelInstanceRefreshOutput, error)
	RollbackInstanceRefresh(context.Context, *autoscaling.RollbackInstanceRefreshInput,
		...func(*autoscaling.Options)) (*autoscaling.RollbackInstanceRefreshOutput, error)
	SetInstanceHealth(context.Context, *autoscaling.SetInstanceHealthInput,
		...func(*autoscaling.Options)) (*autoscaling.SetInstanceHealthOutput, error)
	SuspendProcesses(context.Context, *autoscaling.SuspendProcessesInput,
		...func(*autoscaling.Options)) (*autoscaling.SuspendProcessesOutput, error)
	ResumeProcesses(context.Context, *autoscaling.ResumeProcessesInput,
		...func(*autoscaling.Options)) (*autoscaling.ResumeProcessesOutput, error)
	SetDesiredCapacity(context.Context, *autoscaling.SetDesiredCapacityInput,
		...func(*autoscaling.Options)) (*autoscaling.SetDesiredCapacityOutput, error)
	TerminateInstanceInAutoScalingGroup(context.Context, *autoscaling.TerminateInstanceInAutoScalingGroupInput,
		...func(*autoscaling.Options)) (*autoscaling.TerminateInstanceInAutoScalingGroupOutput, error)
	CreateOrUpdateTags(context.Context, *autoscaling.CreateOrUpdateTagsInput,
		...func(*autoscaling.Options)) (*autoscaling.CreateOrUpdateTagsOutput, error)
	DeleteTags(context.Context, *autoscaling.DeleteTagsInput,
		...func(*autoscaling.Options)) (*autoscaling.DeleteTagsOutput, error)
}

// Verdicts of a Writer's calls, by errors.Is. The message is AWS's own.
var (
	ErrInProgress   = errors.New("an instance refresh is in progress")
	ErrNoRefresh    = errors.New("no instance refresh is in progress")
	ErrIrreversible = errors.New("the instance refresh cannot be rolled back")
	ErrGone         = errors.New("the instance is gone, or terminating")
)

// codeValidation is the API's code for all that is wrong with a request.
const codeValidation = "ValidationError"

// verdict adds to an error of a call what was to be done, and which of the verdicts it is.
func verdict(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	what := fmt.Sprintf(format, args...)
	if v := verdictOf(err); v != nil {
		return fmt.Errorf("%s: %w: %w", what, v, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// verdictOf goes by the API's code. Source: the errors of StartInstanceRefresh, CancelInstanceRefresh and
// RollbackInstanceRefresh in the API reference.
func verdictOf(err error) error {
	switch codeOf(err) {
	case "InstanceRefreshInProgress":
		return ErrInProgress
	case "ActiveInstanceRefreshNotFound":
		return ErrNoRefresh
	case "IrreversibleInstanceRefresh":
		return ErrIrreversible
	case codeValidation:
		if isGone(err) {
			return ErrGone
		}
	}
	return nil
}

// isGone goes by the message: the API has no code for an instance that is not there, or on its way out. These
// are the messages that were seen.
func isGone(err error) bool {
	text := err.Error()
	for _, part := range []string{
		"Instance Id not found", "No managed instance found", "is not part of Auto Scaling group",
		"is not in InService",
	} {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// Writer changes groups.
type Writer struct{ api ChangesAPI }

// NewWriter returns a Writer. The client retries what AWS throttles.
func NewWriter(api ChangesAPI) *Writer { return &Writer{api: api} }

// Start starts an Instance Refresh and returns its id. The desired configuration is the target's source, as
// it was resolved, or none if pin is false; a launch configuration cannot be one. Errors: ErrInProgress. If
// the answer to a first attempt was lost, the refresh in progress may be the one that it started.
func (w *Writer) Start(
	ctx context.Context, g Group, t Target, pin bool, p Preferences,
) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	in := &autoscaling.StartInstanceRefreshInput{
		AutoScalingGroupName: aws.String(g.Name), Preferences: p.wire(),
	}
	if pin {
		if in.DesiredConfiguration, err = desiredConfiguration(g, t); err != nil {
			return "", err
		}
	}
	out, err := w.api.StartInstanceRefresh(ctx, in)
	if err != nil {
		return "", verdict(err, "start an instance refresh of group %s", g.Name)
	}
	return aws.ToString(out.InstanceRefreshId), nil
}

// Cancel cancels the group's refresh. Instances that are being replaced go on. Errors: ErrNoRefresh.
func (w *Writer) Cancel(ctx context.Context, group string) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := w.api.CancelInstanceRefresh(ctx,
		&autoscaling.CancelInstanceRefreshInput{AutoScalingGroupName: aws.String(group)})
	if err != nil {
		return "", verdict(err, "cancel the instance refresh of group %s", group)
	}
	return aws.ToString(out.InstanceRefreshId), nil
}

// Rollback has the group's refresh undone. Errors: ErrNoRefresh, ErrIrreversible.
func (w *Writer) Rollback(ctx context.Context, group string) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := w.api.RollbackInstanceRefresh(ctx,
		&autoscaling.RollbackInstanceRefreshInput{AutoScalingGroupName: aws.String(group)})
	if err != nil {
		return "", verdict(err, "roll the instance refresh of group %s back", group)
	}
	return aws.ToString(out.InstanceRefreshId), nil
}

// Pause suspends the process InstanceRefresh, so that the group's refresh halts without being cancelled;
// Resume lets it go on. Source: "Suspend and resume processes" in the user guide.
func (w *Writer) Pause(ctx context.Context, group string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := w.api.SuspendProcesses(ctx, &autoscaling.SuspendProcessesInput{
		AutoScalingGroupName: aws.String(group), ScalingProcesses: []string{processRefresh},
	})
	return verdict(err, "suspend the process %s of group %s", processRefresh, group)
}

// Resume is the opposite of Pause.
func (w *Writer) Resume(ctx context.Context, group string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := w.api.ResumeProcesses(ctx, &autoscaling.ResumeProcessesInput{
		AutoScalingGroupName: aws.String(group), ScalingProcesses: []string{processRefresh},
	})
	return verdict(err, "resume the process %s of group %s", processRefresh, group)
}

// MarkUnhealthy has Auto Scaling replace the instance, whatever its grace period. Errors: ErrGone.
func (w *Writer) MarkUnhealthy(ctx context.Context, instanceID string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := w.api.SetInstanceHealth(ctx, &autoscaling.SetInstanceHealthInput{
		InstanceId: aws.String(instanceID), HealthStatus: aws.String(statusUnhealthy),
		ShouldRespectGracePeriod: aws.Bool(false),
	})
	return verdict(err, "mark instance %s unhealthy", instanceID)
}

// Terminate terminates the instance and lowers the desired capacity by one: nothing comes in its place. If
// the answer is lost, it is not sent again: that a second decrement has no effect is not documented. Who
// calls looks first what the instance is then. Errors: ErrGone.
func (w *Writer) Terminate(ctx context.Context, instanceID string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := w.api.TerminateInstanceInAutoScalingGroup(ctx,
		&autoscaling.TerminateInstanceInAutoScalingGroupInput{
			InstanceId: aws.String(instanceID), ShouldDecrementDesiredCapacity: aws.Bool(true),
		}, onlyThrottled)
	return verdict(err, "terminate instance %s", instanceID)
}

// onlyThrottled has a call sent again only if AWS has said that it did nothing.
func onlyThrottled(o *autoscaling.Options) { o.Retryer = throttledRetryer{o.Retryer} }

type throttledRetryer struct{ aws.Retryer }

// IsErrorRetryable tells whether AWS has refused the call as one too many.
func (r throttledRetryer) IsErrorRetryable(err error) bool {
	return throttled(err) && r.Retryer.IsErrorRetryable(err)
}

func throttled(err error) bool {
	return retry.IsErrorThrottles(retry.DefaultThrottles).IsErrorThrottle(err) == aws.TrueTernary
}
