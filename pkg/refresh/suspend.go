package refresh

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
)

// suspendedTag is the tag of a group that says which processes the trigger has suspended, separated by
// spaces.
const suspendedTag = "node-drainer.io/suspended"

// Suspendable are the processes that move instances by themselves, and that a rollout can do without: they
// would have nodes drained that are not outdated. Source: "Suspend and resume processes" in the user guide.
func Suspendable() []string { return []string{"AZRebalance", "AlarmNotification", "ScheduledActions"} }

// SuspendedBy are the processes that the trigger has suspended, by the group's tag.
func SuspendedBy(g Group) []string { return strings.Fields(g.Tags[suspendedTag]) }

// Suspend suspends those of the processes that are not suspended yet, and returns them. A tag says it before
// it is done, so that whoever comes after an interruption can take it back; what somebody else has suspended
// is not in it.
func (w *Writer) Suspend(ctx context.Context, g Group, processes []string) ([]string, error) {
	ours := SuspendedBy(g)
	before := len(ours)
	var wanted []string
	for _, p := range processes {
		if !slices.Contains(g.Suspended, p) {
			wanted = append(wanted, p)
		}
		if !slices.Contains(g.Suspended, p) && !slices.Contains(ours, p) {
			ours = append(ours, p)
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	if len(ours) > before {
		if err := w.tag(ctx, g.Name, suspendedTag, strings.Join(ours, " ")); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := w.api.SuspendProcesses(ctx, &autoscaling.SuspendProcessesInput{
		AutoScalingGroupName: aws.String(g.Name), ScalingProcesses: wanted,
	})
	if err != nil {
		return nil, verdict(err, "suspend the processes %s of group %s", strings.Join(wanted, ", "), g.Name)
	}
	return wanted, nil
}

// Release resumes what Suspend has suspended, takes the tag off, and returns the processes.
func (w *Writer) Release(ctx context.Context, g Group) ([]string, error) {
	ours := SuspendedBy(g)
	if len(ours) == 0 {
		return nil, nil
	}
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := w.api.ResumeProcesses(limited, &autoscaling.ResumeProcessesInput{
		AutoScalingGroupName: aws.String(g.Name), ScalingProcesses: ours,
	})
	if err != nil {
		return nil, verdict(err, "resume the processes %s of group %s", strings.Join(ours, ", "), g.Name)
	}
	return ours, w.untag(ctx, g.Name, suspendedTag)
}
