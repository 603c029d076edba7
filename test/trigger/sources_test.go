package trigger

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// moveDefault makes version 2 of the launch template its default.
func (a *account) moveDefault() {
	a.t.Helper()
	_, err := a.ec2().ModifyLaunchTemplate(a.t.Context(), &ec2.ModifyLaunchTemplateInput{
		LaunchTemplateName: aws.String(template), DefaultVersion: aws.String("2"),
	})
	a.must(err)
}

// update changes the group.
func (a *account) update(in *autoscaling.UpdateAutoScalingGroupInput) {
	a.t.Helper()
	in.AutoScalingGroupName = aws.String(group)
	_, err := a.autoScaling().UpdateAutoScalingGroup(a.t.Context(), in)
	a.must(err)
}

// useTemplate has the group launch from another template, which is named by its id.
func (a *account) useTemplate(name, image string) {
	a.t.Helper()
	id, err := a.CreateLaunchTemplate(name, image)
	a.must(err)
	a.update(&autoscaling.UpdateAutoScalingGroupInput{LaunchTemplate: &types.LaunchTemplateSpecification{
		LaunchTemplateId: aws.String(id), Version: aws.String("$Default"),
	}})
}

// age makes instances 100 days old.
func (a *account) age(ids []string) {
	a.t.Helper()
	for _, id := range ids {
		a.must(a.SetLaunchTime(id, time.Now().Add(-100*24*time.Hour)))
	}
}

// TestWhatIsReplaced: the trigger replaces the instances that the group would launch in another way today, and no
// others. Then none is outdated any more.
func TestWhatIsReplaced(t *testing.T) {
	t.Parallel()
	inBatches := []string{"--mode", "unhealthy", "--batch", "4"}
	for name, tt := range map[string]struct {
		group    awsim.Group
		before   func(a *account, old []string)
		args     []string
		replaced int
		says     string
		is       func(i awsim.Instance) bool
	}{
		"$Default, which has moved": {
			group:    awsim.Group{LaunchTemplateVersion: "$Default"},
			before:   func(a *account, _ []string) { a.moveDefault() },
			replaced: 4, is: func(i awsim.Instance) bool { return i.Version == 2 },
		},
		"another template, by its id": {
			before:   func(a *account, _ []string) { a.useTemplate("other", "ami-3") },
			replaced: 4, is: func(i awsim.Instance) bool { return i.Image == "ami-3" },
		},
		"a type that was removed from the overrides": {
			group: awsim.Group{LaunchTemplateVersion: "1", Overrides: []awsim.Override{
				{InstanceType: "m5.large"}, {InstanceType: "m5.xlarge"},
			}},
			before: func(a *account, _ []string) {
				a.update(&autoscaling.UpdateAutoScalingGroupInput{MixedInstancesPolicy: &types.MixedInstancesPolicy{
					LaunchTemplate: &types.LaunchTemplate{
						Overrides: []types.LaunchTemplateOverrides{{InstanceType: aws.String("m5.xlarge")}},
					},
				}})
			},
			replaced: 2, is: func(i awsim.Instance) bool { return i.Type == "m5.xlarge" && i.Version == 1 },
		},
		"an override with a template of its own": {
			group: awsim.Group{LaunchTemplateVersion: "1", Overrides: []awsim.Override{
				{InstanceType: "m5.large"}, {InstanceType: "m6g.large", LaunchTemplate: "arm", LaunchTemplateVersion: "$Latest"},
			}},
			before:   func(a *account, _ []string) { a.addVersion("arm", "ami-arm-2") },
			replaced: 2, is: func(i awsim.Instance) bool { return i.Type != "m6g.large" || i.Image == "ami-arm-2" },
		},
		"a parameter with another AMI": {
			group:  awsim.Group{LaunchTemplate: "aliased", LaunchTemplateVersion: "1"},
			before: func(a *account, _ []string) { a.SetParameter(parameter, "ami-4") }, args: inBatches,
			replaced: 4, is: func(i awsim.Instance) bool { return i.Image == "ami-4" },
		},
		"instances that are too old": {
			group: awsim.Group{LaunchTemplateVersion: "1"}, before: func(a *account, old []string) { a.age(old[:2]) },
			args: append(inBatches, "--max-age", "720h"), replaced: 2, says: `2 instances replaced`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.group.MinHealthy, tt.group.MaxHealthy = 100, 200
			a := newAccount(t, tt.group)
			old := ids(a.Instances(group))
			if tt.before != nil {
				tt.before(a, old)
			}
			if !slices.Contains(tt.args, "unhealthy") {
				tt.args = append(slices.Clone(tt.args), "--surge", "100%")
			}
			a.trigger(tt.args...).waitExit(0, tt.says)
			replaced := 4
			for _, i := range a.waitInService(group, 4) {
				if slices.Contains(old, i.ID) {
					replaced--
				}
				if tt.is != nil && !tt.is(i) {
					t.Errorf("there is an instance %+v", i)
				}
			}
			if replaced != tt.replaced {
				t.Errorf("%d instances were replaced, want %d", replaced, tt.replaced)
			}
			a.trigger(append([]string{"plan", "--detailed-exitcode"}, tt.args...)...).waitExit(0)
		})
	}
}
