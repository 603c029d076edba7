//go:build e2e

package e2e

import (
	"net/url"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// updateOverrides gives the group's mixed instances policy other overrides.
func (a *amazon) updateOverrides(overrides ...types.LaunchTemplateOverrides) {
	a.t.Helper()
	_, err := a.groups().UpdateAutoScalingGroup(a.t.Context(), &autoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String(group), MixedInstancesPolicy: &types.MixedInstancesPolicy{
			LaunchTemplate: &types.LaunchTemplate{Overrides: overrides},
		},
	})
	a.must(err)
}

// moveDefault makes version 2 of the launch template its default.
func (a *amazon) moveDefault() {
	a.t.Helper()
	_, err := a.templates().ModifyLaunchTemplate(a.t.Context(), &ec2.ModifyLaunchTemplateInput{
		LaunchTemplateName: aws.String(launchTemplate), DefaultVersion: aws.String("2"),
	})
	a.must(err)
}

// useTemplate has the group launch from another template, which is named by its id.
func (a *amazon) useTemplate(name, image string) {
	a.t.Helper()
	id, err := a.CreateLaunchTemplate(name, image)
	a.must(err)
	_, err = a.groups().UpdateAutoScalingGroup(a.t.Context(), &autoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String(group), LaunchTemplate: &types.LaunchTemplateSpecification{
			LaunchTemplateId: aws.String(id), Version: aws.String("$Default"),
		},
	})
	a.must(err)
}

// age makes instances 100 days old.
func (a *amazon) age(ids ...string) {
	a.t.Helper()
	for _, id := range ids {
		a.must(a.SetLaunchTime(id, time.Now().Add(-100*24*time.Hour)))
	}
}

// TestSources: whatever a group launches from, those of its instances are replaced that it would not launch like this
// today, and no others; then none is outdated any more.
func TestSources(t *testing.T) {
	aliased := awsim.Group{LaunchTemplate: "aliased", LaunchTemplateVersion: "1"}
	for name, tt := range map[string]struct {
		group  awsim.Group
		before func(a *amazon, old []string)
		args   []string
		goes   int
		says   string
		is     func(i awsim.Instance) bool
	}{
		"$Default, which has moved": {
			group:  awsim.Group{LaunchTemplateVersion: "$Default"},
			before: func(a *amazon, _ []string) { a.moveDefault() },
			goes:   4, is: func(i awsim.Instance) bool { return i.Version == 2 },
		},
		"$Default, which has not moved": {
			group: awsim.Group{LaunchTemplateVersion: "$Default"},
			is:    func(i awsim.Instance) bool { return i.Version == 1 },
		},
		"another template, by its id": {
			before: func(a *amazon, _ []string) { a.useTemplate("other", "ami-3") },
			goes:   4, is: func(i awsim.Instance) bool { return i.Image == "ami-3" },
		},
		"a type that was taken from the overrides": {
			group: awsim.Group{LaunchTemplateVersion: "1", Overrides: []awsim.Override{
				{InstanceType: "m5.large"}, {InstanceType: "m5.xlarge"},
			}},
			before: func(a *amazon, _ []string) {
				a.updateOverrides(types.LaunchTemplateOverrides{InstanceType: aws.String("m5.xlarge")})
			},
			goes: 2, is: func(i awsim.Instance) bool { return i.Type == "m5.xlarge" && i.Version == 1 },
		},
		"an override with a template of its own": {
			group: awsim.Group{LaunchTemplateVersion: "1", Overrides: []awsim.Override{
				{InstanceType: "m5.large"}, {InstanceType: "m6g.large", LaunchTemplate: "arm", LaunchTemplateVersion: "$Latest"},
			}},
			before: func(a *amazon, _ []string) {
				_, err := a.AddTemplateVersion("arm", "ami-arm-2")
				a.must(err)
			},
			goes: 2, is: func(i awsim.Instance) bool { return i.Type != "m6g.large" || i.Image == "ami-arm-2" },
		},
		"an override with another AMI": {
			group: awsim.Group{LaunchTemplateVersion: "1", Overrides: []awsim.Override{
				{InstanceType: "m5.large", ImageID: "ami-3"},
			}},
			before: func(a *amazon, _ []string) {
				a.updateOverrides(types.LaunchTemplateOverrides{
					InstanceType: aws.String("m5.large"), ImageId: aws.String("ami-4"),
				})
			},
			args: []string{"--skip-matching=false"}, goes: 4, is: func(i awsim.Instance) bool { return i.Image == "ami-4" },
		},
		"a parameter that says another AMI": {
			group: aliased, args: []string{"--all"},
			before: func(a *amazon, _ []string) { a.SetParameter("/ami", "ami-4") },
			goes:   4, is: func(i awsim.Instance) bool { return i.Image == "ami-4" },
		},
		"a parameter that says another AMI, in batches": {
			group: aliased, args: []string{"--mode", "unhealthy", "--batch", "4"},
			before: func(a *amazon, _ []string) { a.SetParameter("/ami", "ami-4") },
			goes:   4, is: func(i awsim.Instance) bool { return i.Image == "ami-4" },
		},
		"some that are too old": {
			group:  awsim.Group{LaunchTemplateVersion: "1"},
			before: func(a *amazon, old []string) { a.age(old[:2]...) },
			args:   []string{"--mode", "unhealthy", "--max-age", "720h", "--batch", "2"}, goes: 2, says: `2 instances replaced`,
		},
		"none that is too old": {
			group:  awsim.Group{LaunchTemplateVersion: "1"},
			before: func(a *amazon, old []string) { a.age(old...) },
			args:   []string{"--mode", "unhealthy", "--max-age", "7200h"}, says: `no instance is outdated`,
		},
		"all": {
			group: awsim.Group{LaunchTemplateVersion: "1"}, args: []string{"--all"}, goes: 4,
		},
		"all, in batches": {
			group: awsim.Group{LaunchTemplateVersion: "1"}, args: []string{"--all", "--mode", "unhealthy", "--batch", "50%"}, goes: 4,
		},
		"without matching": {
			group: awsim.Group{LaunchTemplateVersion: "1"}, args: []string{"--skip-matching=false"}, goes: 4,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := tt.group
			g.MinHealthy, g.MaxHealthy = 100, 200
			a := newAmazon(t, g, false)
			old := ids(a.Instances(group))
			if tt.before != nil {
				tt.before(a, old)
			}
			if !slices.Contains(tt.args, "unhealthy") {
				tt.args = append(tt.args, "--surge", "100%")
			}
			a.trigger(tt.args...).ends(0, tt.says)
			left := 0
			for _, i := range a.serving(4) {
				if slices.Contains(old, i.ID) {
					left++
				}
				if tt.is != nil && !tt.is(i) {
					t.Errorf("there is an instance %+v", i)
				}
			}
			if gone := len(old) - left; gone != tt.goes {
				t.Errorf("%d instances were replaced, want %d", gone, tt.goes)
			}
			if !slices.Contains(tt.args, "--all") && !slices.Contains(tt.args, "--skip-matching=false") {
				a.trigger(append([]string{"plan", "--detailed-exitcode"}, tt.args...)...).ends(0)
			}
		})
	}
}

// serving waits until the group has so many instances, and all are in service.
func (a *amazon) serving(n int) []awsim.Instance {
	a.t.Helper()
	return inService(a.t, a.Server, group, n)
}

// TestChosenInstance: one is named, and goes; nobody else does.
func TestChosenInstance(t *testing.T) {
	t.Parallel()
	a := newAmazon(t, launchingFirst(4), false)
	old := ids(a.Instances(group))
	a.trigger("--mode", "unhealthy", "--instance", old[2]).ends(0, `1 instance replaced`)
	now := ids(a.serving(4))
	for n, id := range old {
		if slices.Contains(now, id) == (n == 2) {
			t.Errorf("of %v, %s was named, and now there are %v", old, old[2], now)
		}
	}
	a.trigger("--mode", "unhealthy", "--instance", "i-0123456789abcdef0").ends(0, `none of the instances .*i-0123456789abcdef0`)
}

// TestOrderOfBatches: batches go by zone or by age, and have the time between them that was asked for.
func TestOrderOfBatches(t *testing.T) {
	const between = time.Second
	for _, order := range []string{"zone", "age"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			a := newAmazon(t, launchingFirst(4), false)
			zones, old := map[string]string{}, ids(a.Instances(group))
			for _, i := range a.Instances(group) {
				zones[i.ID] = i.Zone
			}
			for n, id := range old { // The last is the oldest.
				a.must(a.SetLaunchTime(id, time.Now().Add(-time.Duration(n+1)*time.Hour)))
			}
			a.trigger("--mode", "unhealthy", "--order", order, "--between", between.String()).ends(0, `4 instances replaced`)
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

// TestWhatAWSDoesNotCompare: an AMI that a parameter names is not seen by skip matching, so that nothing would be
// replaced. That is told at once, with what to do; who goes on nevertheless is told again in the end.
func TestWhatAWSDoesNotCompare(t *testing.T) {
	t.Parallel()
	a := newAmazon(t, awsim.Group{LaunchTemplate: "aliased", LaunchTemplateVersion: "1"}, false)
	a.SetParameter("/ami", "ami-4")
	a.trigger().ends(1, `skip-matching: AWS would replace nothing.*--skip-matching=false`)
	a.trigger("--allow", "skip-matching").ends(7, `4 instances are still outdated: .*ami-4`)
}

// TestUnreadableParameter: a group whose AMI cannot be known is refused, and another goes on.
func TestUnreadableParameter(t *testing.T) {
	t.Parallel()
	a := newAmazon(t, awsim.Group{LaunchTemplate: "aliased", LaunchTemplateVersion: "1"}, false)
	a.Inject(awsim.Fault{
		Service: "ec2", Action: "DescribeLaunchTemplateVersions", Code: "InvalidParameterValue",
		Match: func(v url.Values, _ []byte) bool { return v.Get("ResolveAlias") == "true" },
	})
	a.trigger().ends(1, `workers  refused: .*parameter that names the AMI of launch template aliased \(.*\) version 1 cannot be read`)
	if calls := changing(a.Server); len(calls) > 0 {
		t.Errorf("the trigger called %v", calls)
	}
}

// TestMissingVersion: what cannot be launched is refused before anything is done.
func TestMissingVersion(t *testing.T) {
	t.Parallel()
	a := newAmazon(t, awsim.Group{LaunchTemplateVersion: "1"}, false)
	a.trigger("--launch-template-version", "9").ends(1, `version 9 does not exist`)
	_, err := a.AddTemplateVersion(launchTemplate, "ami-3") // A latest version is always there.
	a.must(err)
	_, err = a.groups().UpdateAutoScalingGroup(t.Context(), &autoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String(group), LaunchTemplate: &types.LaunchTemplateSpecification{
			LaunchTemplateName: aws.String(launchTemplate), Version: aws.String("2"),
		},
	})
	a.must(err)
	a.Inject(awsim.Fault{ // The version is deleted.
		Service: "ec2", Action: "DescribeLaunchTemplateVersions", Code: "InvalidLaunchTemplateId.VersionNotFound",
		Match: func(v url.Values, _ []byte) bool {
			for key := range v {
				if regexp.MustCompile(`^LaunchTemplateVersion\.`).MatchString(key) && v.Get(key) == "2" {
					return true
				}
			}
			return false
		},
	})
	for _, mode := range []string{"refresh", "unhealthy"} {
		a.trigger("--mode", mode).ends(1, `version 2 does not exist`)
	}
	if calls := changing(a.Server); len(calls) > 0 {
		t.Errorf("the trigger called %v", calls)
	}
}
