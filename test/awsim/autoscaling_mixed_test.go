package awsim_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/node-drainer/node-drainer/test/awsim"
)

func specification(name, version string) *types.LaunchTemplateSpecification {
	return &types.LaunchTemplateSpecification{LaunchTemplateName: new(name), Version: new(version)}
}

// policy is a mixed instances policy of version 1 of the template node, with these overrides.
func policy(overrides ...types.LaunchTemplateOverrides) *types.MixedInstancesPolicy {
	return &types.MixedInstancesPolicy{LaunchTemplate: &types.LaunchTemplate{
		LaunchTemplateSpecification: specification("node", "1"), Overrides: overrides,
	}}
}

// mixedGroup creates a group of three instances with the policy, with two templates to choose from.
func mixedGroup(t *testing.T, p *types.MixedInstancesPolicy) (*awsim.Server, *autoscaling.Client) {
	t.Helper()
	s := start(t, awsim.Options{})
	for name, image := range map[string]string{"node": "ami-1", "arm": "ami-arm"} {
		_, err := s.CreateLaunchTemplate(name, image)
		must(t, err)
		_, err = s.AddTemplateVersion(name, image+"-2")
		must(t, err)
	}
	c := groupClient(t, s)
	do(t, c.CreateAutoScalingGroup, &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: new(groupName), MinSize: new(int32(0)), MaxSize: new(int32(6)),
		DesiredCapacity: new(int32(3)), AvailabilityZones: []string{"eu-central-1a"}, MixedInstancesPolicy: p,
	})
	settled(t, s)
	return s, c
}

func groupOf(t *testing.T, c *autoscaling.Client) types.AutoScalingGroup {
	t.Helper()
	out := do(t, c.DescribeAutoScalingGroups, &autoscaling.DescribeAutoScalingGroupsInput{
		AutoScalingGroupNames: []string{groupName},
	})
	return out.AutoScalingGroups[0]
}

// told writes out a policy's overrides as "type weight template:version image", with - for what it has not.
func told(p *types.MixedInstancesPolicy) string {
	or := func(s *string) string {
		if s == nil {
			return "-"
		}
		return *s
	}
	var out []string
	for _, o := range p.LaunchTemplate.Overrides {
		template := "-"
		if s := o.LaunchTemplateSpecification; s != nil {
			template = *s.LaunchTemplateName + ":" + or(s.Version)
		}
		out = append(out, strings.Join([]string{or(o.InstanceType), or(o.WeightedCapacity), template, or(o.ImageId)}, " "))
	}
	return strings.Join(out, ", ")
}

func TestMixedInstancesPolicy(t *testing.T) {
	p := policy(
		types.LaunchTemplateOverrides{InstanceType: new("c5.large"), WeightedCapacity: new("1")},
		types.LaunchTemplateOverrides{InstanceType: new("c7g.large"), WeightedCapacity: new("2"), LaunchTemplateSpecification: specification("arm", "$Latest")},
		types.LaunchTemplateOverrides{InstanceType: new("m5.large"), WeightedCapacity: new("3"), ImageId: new("ami-own")},
	)
	p.InstancesDistribution = &types.InstancesDistribution{
		OnDemandBaseCapacity: new(int32(1)), SpotAllocationStrategy: new("price-capacity-optimized"),
	}
	s, c := mixedGroup(t, p)
	g := groupOf(t, c)
	if g.LaunchTemplate != nil || g.LaunchConfigurationName != nil || g.MixedInstancesPolicy == nil {
		t.Fatalf("got %+v", g)
	}
	base, d := g.MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification, g.MixedInstancesPolicy.InstancesDistribution
	if *base.LaunchTemplateName != "node" || *base.Version != "1" || !strings.HasPrefix(*base.LaunchTemplateId, "lt-") {
		t.Errorf("the base is %+v", base)
	}
	if got, want := told(g.MixedInstancesPolicy),
		"c5.large 1 - -, c7g.large 2 arm:$Latest -, m5.large 3 - ami-own"; got != want {
		t.Errorf("the overrides are %s", got)
	}
	if *d.OnDemandBaseCapacity != 1 || *d.OnDemandPercentageAboveBaseCapacity != 100 ||
		*d.OnDemandAllocationStrategy != "prioritized" || *d.SpotAllocationStrategy != "price-capacity-optimized" ||
		d.SpotInstancePools != nil {
		t.Errorf("the distribution is %+v", d)
	}
	var got []string
	for i, one := range g.Instances {
		image := "-"
		if one.ImageId != nil {
			image = *one.ImageId
		}
		machine := describe(t, machineClient(t, s), &ec2.DescribeInstancesInput{InstanceIds: []string{*one.InstanceId}})[0]
		if *one.InstanceType != string(machine.InstanceType) || *one.WeightedCapacity != fmt.Sprint(i+1) {
			t.Errorf("got %+v of %+v", one, machine)
		}
		got = append(got, strings.Join([]string{
			*one.InstanceType, *one.LaunchTemplate.LaunchTemplateName + ":" + *one.LaunchTemplate.Version, image, *machine.ImageId,
		}, " "))
	}
	if want := []string{
		"c5.large node:1 - ami-1", "c7g.large arm:2 - ami-arm-2", "m5.large node:1 ami-own ami-own",
	}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestInstanceRequirements(t *testing.T) {
	_, c := mixedGroup(t, policy(types.LaunchTemplateOverrides{InstanceRequirements: &types.InstanceRequirements{
		VCpuCount:            &types.VCpuCountRequest{Min: new(int32(2)), Max: new(int32(4))},
		MemoryMiB:            &types.MemoryMiBRequest{Min: new(int32(4096))},
		AllowedInstanceTypes: []string{"m*", "c5.*", "c5.xlarge"},
		CpuManufacturers:     []types.CpuManufacturer{types.CpuManufacturerIntel},
	}}))
	g := groupOf(t, c)
	got := g.MixedInstancesPolicy.LaunchTemplate.Overrides[0].InstanceRequirements
	if *got.VCpuCount.Min != 2 || *got.VCpuCount.Max != 4 || *got.MemoryMiB.Min != 4096 || got.MemoryMiB.Max != nil ||
		!slices.Equal(got.AllowedInstanceTypes, []string{"m*", "c5.*", "c5.xlarge"}) ||
		!slices.Equal(got.CpuManufacturers, []types.CpuManufacturer{types.CpuManufacturerIntel}) {
		t.Errorf("got %+v", got)
	}
	if kind := *g.Instances[0].InstanceType; kind != "c5.xlarge" {
		t.Errorf("launched %s", kind)
	}
}

func TestMixedInstancesPolicyIsUpdated(t *testing.T) {
	c5 := types.LaunchTemplateOverrides{InstanceType: new("c5.large")}
	for name, row := range map[string]struct {
		update       autoscaling.UpdateAutoScalingGroupInput
		base         string
		overrides    string
		distribution int32 // OnDemandBaseCapacity.
	}{
		"what is not named stays": {
			update: autoscaling.UpdateAutoScalingGroupInput{MaxSize: new(int32(7))},
			base:   "node:1", overrides: "c5.large - - -", distribution: 1,
		},
		"the distribution alone": {
			update: autoscaling.UpdateAutoScalingGroupInput{MixedInstancesPolicy: &types.MixedInstancesPolicy{
				InstancesDistribution: &types.InstancesDistribution{OnDemandBaseCapacity: new(int32(5))},
			}},
			base: "node:1", overrides: "c5.large - - -", distribution: 5,
		},
		"the base alone": {
			update: autoscaling.UpdateAutoScalingGroupInput{MixedInstancesPolicy: &types.MixedInstancesPolicy{
				LaunchTemplate: &types.LaunchTemplate{LaunchTemplateSpecification: specification("arm", "2")},
			}},
			base: "arm:2", overrides: "c5.large - - -", distribution: 1,
		},
		"the overrides alone": {
			update: autoscaling.UpdateAutoScalingGroupInput{MixedInstancesPolicy: &types.MixedInstancesPolicy{
				LaunchTemplate: &types.LaunchTemplate{Overrides: []types.LaunchTemplateOverrides{
					{InstanceType: new("m5.large")}, {InstanceType: new("m6i.large")},
				}},
			}},
			base: "node:1", overrides: "m5.large - - -, m6i.large - - -", distribution: 1,
		},
		"an empty list of overrides": {
			update: autoscaling.UpdateAutoScalingGroupInput{MixedInstancesPolicy: &types.MixedInstancesPolicy{
				LaunchTemplate: &types.LaunchTemplate{Overrides: []types.LaunchTemplateOverrides{}},
			}},
			base: "node:1", distribution: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := policy(c5)
			p.InstancesDistribution = &types.InstancesDistribution{OnDemandBaseCapacity: new(int32(1))}
			_, c := mixedGroup(t, p)
			row.update.AutoScalingGroupName = new(groupName)
			do(t, c.UpdateAutoScalingGroup, &row.update)
			got := groupOf(t, c).MixedInstancesPolicy
			base := got.LaunchTemplate.LaunchTemplateSpecification
			if *base.LaunchTemplateName+":"+*base.Version != row.base || told(got) != row.overrides ||
				*got.InstancesDistribution.OnDemandBaseCapacity != row.distribution {
				t.Errorf("got %+v with %s", base, told(got))
			}
		})
	}
}

func TestMixedInstancesPolicyGivesWayToATemplate(t *testing.T) {
	_, c := mixedGroup(t, policy(types.LaunchTemplateOverrides{InstanceType: new("c5.large")}))
	do(t, c.UpdateAutoScalingGroup, &autoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: new(groupName), LaunchTemplate: specification("node", "$Default"),
	})
	if g := groupOf(t, c); g.MixedInstancesPolicy != nil || *g.LaunchTemplate.Version != "$Default" {
		t.Errorf("got %+v", g)
	}
}

func TestSourcesThatAreRefused(t *testing.T) {
	override := func(o ...types.LaunchTemplateOverrides) *types.MixedInstancesPolicy { return policy(o...) }
	both := &types.LaunchTemplateSpecification{
		LaunchTemplateName: new("node"), LaunchTemplateId: new("lt-1"), Version: new("1"),
	}
	_, c := mixedGroup(t, policy())
	for name, in := range map[string]types.DesiredConfiguration{
		"a template and a policy":            {LaunchTemplate: specification("node", "1"), MixedInstancesPolicy: policy()},
		"a policy without a template":        {MixedInstancesPolicy: &types.MixedInstancesPolicy{InstancesDistribution: &types.InstancesDistribution{OnDemandBaseCapacity: new(int32(1))}}},
		"a template by both id and name":     {LaunchTemplate: both},
		"a template by neither":              {LaunchTemplate: &types.LaunchTemplateSpecification{Version: new("1")}},
		"an override's template by both":     {MixedInstancesPolicy: override(types.LaunchTemplateOverrides{LaunchTemplateSpecification: both})},
		"an override's template unknown":     {MixedInstancesPolicy: override(types.LaunchTemplateOverrides{LaunchTemplateSpecification: specification("no", "1")})},
		"an override's version unknown":      {MixedInstancesPolicy: override(types.LaunchTemplateOverrides{LaunchTemplateSpecification: specification("arm", "9")})},
		"a weight of one type only":          {MixedInstancesPolicy: override(types.LaunchTemplateOverrides{WeightedCapacity: new("1")}, types.LaunchTemplateOverrides{InstanceType: new("c5.large")})},
		"a weight of nothing":                {MixedInstancesPolicy: override(types.LaunchTemplateOverrides{WeightedCapacity: new("0")})},
		"both a type and requirements of it": {MixedInstancesPolicy: override(types.LaunchTemplateOverrides{InstanceType: new("c5.large"), InstanceRequirements: &types.InstanceRequirements{MemoryMiB: &types.MemoryMiBRequest{Min: new(int32(1))}, VCpuCount: &types.VCpuCountRequest{Min: new(int32(1))}}})},
	} {
		_, err := c.StartInstanceRefresh(t.Context(), &autoscaling.StartInstanceRefreshInput{
			AutoScalingGroupName: new(groupName), DesiredConfiguration: &in,
		})
		if code(err) != "ValidationError" || status(err) != 400 {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestRefreshToAMixedInstancesPolicy(t *testing.T) {
	c5 := types.LaunchTemplateOverrides{InstanceType: new("c5.large")}
	m5 := types.LaunchTemplateOverrides{InstanceType: new("m5.large")}
	arm := types.LaunchTemplateOverrides{InstanceType: new("c5.large"), LaunchTemplateSpecification: specification("arm", "1")}
	next := policy(c5)
	next.LaunchTemplate.LaunchTemplateSpecification.Version = new("2")
	for name, row := range map[string]struct {
		before, desired *types.MixedInstancesPolicy
		replaced        int
	}{
		"the same again":                          {before: policy(c5, m5), desired: policy(c5, m5)},
		"one type more":                           {before: policy(c5), desired: policy(c5, m5)},
		"one type less":                           {before: policy(c5, m5), desired: policy(c5), replaced: 1},
		"another version of the base":             {before: policy(c5), desired: next, replaced: 3},
		"version 1 of another template":           {before: policy(c5), desired: policy(arm), replaced: 3},
		"the type of the template":                {before: policy(m5), desired: policy()},
		"a type that the base has not":            {before: policy(), desired: policy(c5), replaced: 3},
		"another image, which is not compared":    {before: policy(c5), desired: policy(types.LaunchTemplateOverrides{InstanceType: new("c5.large"), ImageId: new("ami-own")})},
		"requirements that the instances satisfy": {before: policy(c5, m5), desired: policy(types.LaunchTemplateOverrides{InstanceRequirements: &types.InstanceRequirements{AllowedInstanceTypes: []string{"c5.*"}, MemoryMiB: &types.MemoryMiBRequest{Min: new(int32(1))}, VCpuCount: &types.VCpuCountRequest{Min: new(int32(1))}}}), replaced: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := mixedGroup(t, row.before)
			before := s.Instances(groupName)
			do(t, c.StartInstanceRefresh, &autoscaling.StartInstanceRefreshInput{
				AutoScalingGroupName: new(groupName),
				DesiredConfiguration: &types.DesiredConfiguration{MixedInstancesPolicy: row.desired},
				Preferences: &types.RefreshPreferences{
					SkipMatching: new(true), MinHealthyPercentage: new(int32(100)), MaxHealthyPercentage: new(int32(200)),
					InstanceWarmup: new(int32(0)),
				},
			})
			_, err := s.WaitRefresh(within(t), groupName, "Successful")
			must(t, err)
			got := refreshes(t, c)[0].DesiredConfiguration
			if got.LaunchTemplate != nil || told(got.MixedInstancesPolicy) != told(row.desired) {
				t.Errorf("the refresh tells %+v", got)
			}
			if g := groupOf(t, c); told(g.MixedInstancesPolicy) != told(row.desired) {
				t.Errorf("afterwards the group has %s", told(g.MixedInstancesPolicy))
			}
			gone := 0
			for _, i := range before {
				if !slices.ContainsFunc(s.Instances(groupName), func(x awsim.Instance) bool {
					return x.ID == i.ID && x.State == "InService"
				}) {
					gone++
				}
			}
			if gone != row.replaced {
				t.Errorf("%d replaced: %+v", gone, s.Instances(groupName))
			}
		})
	}
}

func TestRollbackToAMixedInstancesPolicy(t *testing.T) {
	c5 := types.LaunchTemplateOverrides{InstanceType: new("c5.large")}
	for name, row := range map[string]struct {
		template *types.LaunchTemplateSpecification // Of the override that the group had.
		code     string
	}{
		"of fixed versions":       {template: specification("arm", "1")},
		"an override of $Latest":  {template: specification("arm", "$Latest"), code: "IrreversibleInstanceRefresh"},
		"an override of $Default": {template: specification("arm", "$Default"), code: "IrreversibleInstanceRefresh"},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := mixedGroup(t, policy(c5, types.LaunchTemplateOverrides{
				InstanceType: new("c7g.large"), LaunchTemplateSpecification: row.template,
			}))
			must(t, s.PutHook(groupName, awsim.Hook{Name: "ready", Transition: awsim.Launching}))
			_, err := c.StartInstanceRefresh(t.Context(), toVersion2(nil))
			must(t, err)
			_, err = c.RollbackInstanceRefresh(t.Context(),
				&autoscaling.RollbackInstanceRefreshInput{AutoScalingGroupName: new(groupName)})
			if row.code != "" {
				if code(err) != row.code {
					t.Errorf("got %v", err)
				}
				return
			}
			must(t, err)
			if g := groupOf(t, c); told(g.MixedInstancesPolicy) != "c5.large - - -, c7g.large - arm:1 -" {
				t.Errorf("got %s", told(g.MixedInstancesPolicy))
			}
		})
	}
}

// TestOverridesOfAGroup creates the group in Go, as other packages' tests do.
func TestOverridesOfAGroup(t *testing.T) {
	s := start(t, awsim.Options{})
	id, err := s.CreateLaunchTemplate("arm", "ami-arm")
	must(t, err)
	_, err = s.CreateLaunchTemplate("node", "ami-1")
	must(t, err)
	must(t, s.CreateServing(awsim.Group{
		Name: groupName, Max: 3, Desired: 3, LaunchTemplate: "node", LaunchTemplateVersion: "$Latest",
		Overrides: []awsim.Override{
			{InstanceType: "c5.large", Weight: 1},
			{InstanceType: "c7g.large", Weight: 2, LaunchTemplate: id, LaunchTemplateVersion: "1"},
			{Weight: 3, ImageID: "ami-own"},
		},
	}))
	if got, want := told(groupOf(t, groupClient(t, s)).MixedInstancesPolicy),
		"c5.large 1 - -, c7g.large 2 arm:1 -, - 3 - ami-own"; got != want {
		t.Errorf("got %s", got)
	}
	var got []string
	for _, i := range s.Instances(groupName) {
		got = append(got, i.Type+" "+i.Image)
	}
	if !slices.Equal(got, []string{"c5.large ami-1", "c7g.large ami-arm", "m5.large ami-own"}) {
		t.Errorf("got %v", got)
	}
}
