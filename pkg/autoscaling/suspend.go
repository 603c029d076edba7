package autoscaling

import (
	"context"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

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

// Release resumes what Suspend has suspended, removes the tag, and returns the processes.
func (w *Writer) Release(ctx context.Context, g refresh.Group) ([]string, error) {
	ours := refresh.SuspendedBy(g)
	if len(ours) == 0 {
		return nil, nil
	}
	if err := w.resume(ctx, g.Name, ours); err != nil {
		return nil, err
	}
	return ours, w.untag(ctx, g.Name, refresh.SuspendedTag)
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
