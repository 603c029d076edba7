package trigger

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// TestWarmPool: only the instances of the warm pool are outdated, which the description of the group does not list. An
// instance refresh replaces them.
func TestWarmPool(t *testing.T) {
	t.Parallel()
	a := newAccount(t, awsim.Group{Desired: 2, LaunchTemplateVersion: "1"})
	a.setVersion("2")
	_, err := a.autoScaling().PutWarmPool(t.Context(), &autoscaling.PutWarmPoolInput{
		AutoScalingGroupName: aws.String(group), MaxGroupPreparedCapacity: aws.Int32(4),
	})
	a.must(err)
	var before []string
	a.must(a.WaitInstances(waits(t), group, func(now []awsim.Instance) bool {
		before = pooled(now)
		return len(before) == 2
	}))
	a.setVersion("1")

	a.trigger("plan", "--detailed-exitcode").waitExit(2, `2 of 4 instances are outdated`, `Warmed:Stopped`)
	a.trigger().waitExit(0, `2 instances replaced`)
	after := pooled(a.Instances(group))
	for _, id := range before {
		if slices.Contains(after, id) {
			t.Errorf("%s is still in the warm pool", id)
		}
	}
}

// pooled returns the instances that rest in the warm pool.
func pooled(all []awsim.Instance) []string {
	return ids(slices.DeleteFunc(slices.Clone(all), func(i awsim.Instance) bool { return i.State != "Warmed:Stopped" }))
}

// setVersion changes the version of the template that the group launches from.
func (a *account) setVersion(version string) {
	a.t.Helper()
	_, err := a.autoScaling().UpdateAutoScalingGroup(a.t.Context(), &autoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String(group),
		LaunchTemplate:       &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String(template), Version: &version},
	})
	a.must(err)
}
