package awsim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// shown is what the API describes of a group: its desired capacity, tags, suspended processes, and the health of its
// instances.
func (a *account) shown(group string) string {
	a.t.Helper()
	out, err := a.groups.DescribeAutoScalingGroups(a.t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{
		AutoScalingGroupNames: []string{group},
	})
	must(a.t, err)
	text := ""
	for _, g := range out.AutoScalingGroups {
		text += fmt.Sprint(*g.DesiredCapacity)
		for _, t := range g.Tags {
			text += fmt.Sprintf(" %s=%s", *t.Key, *t.Value)
		}
		for _, s := range g.SuspendedProcesses {
			text += " " + *s.ProcessName
		}
		for _, i := range g.Instances {
			text += " " + *i.HealthStatus
		}
	}
	return text
}

// TestGroupsAreDescribedLate: one call shows all of a group as it was at one time. What the group does is by what is so.
func TestGroupsAreDescribedLate(t *testing.T) {
	inVirtualTime(t, "a group", func(a *account) {
		t := a.t
		must(t, a.CreateGroup(awsim.Group{Name: "g", Max: 3, Desired: 1}))
		a.SetDelays(awsim.Delays{Visible: 5 * time.Second})
		time.Sleep(10 * time.Second)
		group := aws.String("g")
		a.tag("g", "a", "1")
		_, err := a.groups.SuspendProcesses(t.Context(), &autoscaling.SuspendProcessesInput{
			AutoScalingGroupName: group, ScalingProcesses: []string{"ReplaceUnhealthy"},
		})
		must(t, err)
		time.Sleep(2 * time.Second)
		a.tag("g", "a", "2")
		_, err = a.groups.SetInstanceHealth(t.Context(), &autoscaling.SetInstanceHealthInput{
			InstanceId: &a.Instances("g")[0].ID, HealthStatus: aws.String("Unhealthy"),
		})
		must(t, err)
		_, err = a.groups.SetDesiredCapacity(t.Context(), &autoscaling.SetDesiredCapacityInput{
			AutoScalingGroupName: group, DesiredCapacity: aws.Int32(2),
		})
		must(t, err)
		if n := len(a.Instances("g")); n != 2 {
			t.Errorf("the group has %d instances", n)
		}
		for _, want := range []string{
			"1 Healthy", "1 Healthy", "1 Healthy", "1 a=1 ReplaceUnhealthy Healthy", "1 a=1 ReplaceUnhealthy Healthy",
			"2 a=2 ReplaceUnhealthy Unhealthy Healthy",
		} {
			if got := a.shown("g"); got != want {
				t.Errorf("described as %q, want %q", got, want)
			}
			tags, err := a.groups.DescribeTags(t.Context(), &autoscaling.DescribeTagsInput{})
			if must(t, err); (len(tags.Tags) > 0) != (len(want) > len("1 Healthy")) {
				t.Errorf("%d tags are described, and the group as %q", len(tags.Tags), want)
			}
			time.Sleep(time.Second)
		}
	})
}

func (a *account) tag(group, key, value string) {
	a.t.Helper()
	_, err := a.groups.CreateOrUpdateTags(a.t.Context(), &autoscaling.CreateOrUpdateTagsInput{Tags: []types.Tag{{
		ResourceId: &group, ResourceType: aws.String("auto-scaling-group"), Key: &key, Value: &value,
		PropagateAtLaunch: aws.Bool(false),
	}}})
	must(a.t, err)
}
