package trigger

import (
	"net/url"
	"slices"
	"strings"
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
	fixed := awsim.Group{LaunchTemplateVersion: "1"}
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
			before: func(a *account, _ []string) { a.SetParameter("/ami", "ami-4") }, args: inBatches,
			replaced: 4, is: func(i awsim.Instance) bool { return i.Image == "ami-4" },
		},
		"instances that are too old": {
			group: fixed, before: func(a *account, old []string) { a.age(old[:2]) },
			args: append(inBatches, "--max-age", "720h"), replaced: 2, says: `2 instances replaced`,
		},
		"no instance that is too old": {
			group: fixed, before: func(a *account, old []string) { a.age(old) },
			args: append(inBatches, "--max-age", "7200h"), says: `no instance is outdated`,
		},
		"all":             {group: fixed, args: []string{"--all"}, replaced: 4},
		"all, in batches": {group: fixed, args: append(inBatches, "--all"), replaced: 4},
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
			if !slices.Contains(tt.args, "--all") {
				a.trigger(append([]string{"plan", "--detailed-exitcode"}, tt.args...)...).waitExit(0)
			}
		})
	}
}

// TestChosenInstance: --instance replaces that instance alone.
func TestChosenInstance(t *testing.T) {
	t.Parallel()
	a := newAccount(t, launchFirst(4))
	old := ids(a.Instances(group))
	a.trigger("--mode", "unhealthy", "--instance", old[2]).waitExit(0, `1 instance replaced`)
	now := ids(a.waitInService(group, 4))
	for n, id := range old {
		if slices.Contains(now, id) == (n == 2) {
			t.Errorf("of %v, %s was named, and now there are %v", old, old[2], now)
		}
	}
	a.trigger("--mode", "unhealthy", "--instance", "i-0123456789abcdef0").waitExit(0, `none of the instances .*i-0123456789abcdef0`)
}

// TestOrderOfBatches: --order decides which instance is marked first, and --between how long after the one before.
func TestOrderOfBatches(t *testing.T) {
	t.Parallel()
	const between = time.Second
	for _, order := range []string{"zone", "age"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t, launchFirst(4))
			zones, old := map[string]string{}, ids(a.Instances(group))
			for _, i := range a.Instances(group) {
				zones[i.ID] = i.Zone
			}
			for n, id := range old { // The last is the oldest.
				a.must(a.SetLaunchTime(id, time.Now().Add(-time.Duration(n+1)*time.Hour)))
			}
			a.trigger("--mode", "unhealthy", "--order", order, "--between", between.String()).waitExit(0, `4 instances replaced`)
			var marked, inZones []string
			calls := a.Calls("autoscaling", "SetInstanceHealth")
			for n, c := range calls {
				marked, inZones = append(marked, c.Values.Get("InstanceId")), append(inZones, zones[c.Values.Get("InstanceId")])
				if n > 0 && c.At.Sub(calls[n-1].At) < between {
					t.Errorf("%v lie between two batches, want %v", c.At.Sub(calls[n-1].At), between)
				}
			}
			slices.Reverse(old)
			if order == "age" && !slices.Equal(marked, old) {
				t.Errorf("marked in the order %v, want %v", marked, old)
			}
			if order == "zone" && !slices.IsSorted(inZones) {
				t.Errorf("marked in the zones %v", inZones)
			}
		})
	}
}

// TestWhatSkipMatchingMisses: AWS does not compare an AMI that a parameter names, so it would replace nothing. The
// preflight says so; with --allow the rollout reports what is still outdated at its end.
func TestWhatSkipMatchingMisses(t *testing.T) {
	t.Parallel()
	a := newAccount(t, awsim.Group{LaunchTemplate: "aliased", LaunchTemplateVersion: "1"})
	a.SetParameter("/ami", "ami-4")
	a.trigger().waitExit(1, `skip-matching: AWS would replace nothing.*--skip-matching=false`)
	a.trigger("--allow", "skip-matching").waitExit(7, `4 instances are still outdated: .*ami-4`)
}

// TestTemplateThatCannotBeRead: the group is refused, and nothing is changed.
func TestTemplateThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		group  awsim.Group
		args   []string
		before func(a *account)
		fault  awsim.Fault
		says   string
	}{
		"a version that does not exist": {
			group: awsim.Group{LaunchTemplateVersion: "1"}, args: []string{"--launch-template-version", "9"},
			says: `version 9 does not exist`,
		},
		"a version that was deleted": {
			group: latest(4), args: []string{"--mode", "unhealthy"},
			before: func(a *account) {
				a.addVersion(template, "ami-3") // AWS keeps the latest version.
				a.update(&autoscaling.UpdateAutoScalingGroupInput{LaunchTemplate: &types.LaunchTemplateSpecification{
					LaunchTemplateName: aws.String(template), Version: aws.String("2"),
				}})
			},
			fault: awsim.Fault{Code: "InvalidLaunchTemplateId.VersionNotFound", Match: func(v url.Values, _ []byte) bool {
				for key := range v {
					if strings.HasPrefix(key, "LaunchTemplateVersion.") && v.Get(key) == "2" {
						return true
					}
				}
				return false
			}},
			says: `version 2 does not exist`,
		},
		"a parameter that cannot be read": {
			group: awsim.Group{LaunchTemplate: "aliased", LaunchTemplateVersion: "1"},
			fault: awsim.Fault{Code: "InvalidParameterValue", Match: func(v url.Values, _ []byte) bool {
				return v.Get("ResolveAlias") == "true"
			}},
			says: `workers  refused: .*parameter that names the AMI of launch template aliased \(.*\) version 1 cannot be read`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t, tt.group)
			if tt.before != nil {
				tt.before(a)
			}
			if tt.fault.Code != "" {
				tt.fault.Service, tt.fault.Action = "ec2", "DescribeLaunchTemplateVersions"
				a.Inject(tt.fault)
			}
			a.trigger(tt.args...).waitExit(1, tt.says)
			if calls := a.changes(); len(calls) > 0 {
				t.Errorf("the trigger called %v", calls)
			}
		})
	}
}
