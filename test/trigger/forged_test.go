package trigger

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// TestForgedTags: somebody who may tag the group says that a trigger has raised its capacity and its maximum, and has
// suspended a process that an operator has suspended. Nothing of the group changes by that.
func TestForgedTags(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"resume": {"resume"},
		"surge":  {"--mode", "unhealthy", "--surge", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t, latest(4))
			_, err := a.autoScaling().SuspendProcesses(t.Context(), &autoscaling.SuspendProcessesInput{
				AutoScalingGroupName: aws.String(group), ScalingProcesses: []string{"HealthCheck"},
			})
			a.must(err)
			a.tag(refresh.SurgeTag, "0-1000")
			a.tag(refresh.MaxTag, "1-10")
			a.tag(refresh.SuspendedTag, "HealthCheck")
			a.trigger(args...).waitExit(0, `raised the desired capacity from 0 to 1000, .* show 0 of that: the rest stays`)
			out, err := a.autoScaling().DescribeAutoScalingGroups(t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{})
			a.must(err)
			g := out.AutoScalingGroups[0]
			if *g.DesiredCapacity != 4 || *g.MaxSize != 10 || len(g.SuspendedProcesses) != 1 {
				t.Errorf("desired %d, maximum %d, suspended %v", *g.DesiredCapacity, *g.MaxSize, g.SuspendedProcesses)
			}
		})
	}
}
