package refresh

import (
	"reflect"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// TestHTTPStartKeepsTheMixedPolicy: the API replaces the whole policy, so what a refresh does not change must come back
// as it was.
func TestHTTPStartKeepsTheMixedPolicy(t *testing.T) {
	t.Parallel()
	s, r, w := simulated(t)
	base, arm := launchTemplate(t, s, "node", 2), launchTemplate(t, s, "arm", 2)
	policy := mixedPolicy()
	policy.LaunchTemplate.LaunchTemplateSpecification = byID(base, "$Latest")
	policy.LaunchTemplate.Overrides = []types.LaunchTemplateOverrides{
		{InstanceType: aws.String("m5.large"), WeightedCapacity: aws.String("1")},
		{InstanceType: aws.String("m6g.large"), WeightedCapacity: aws.String("1"), LaunchTemplateSpecification: byID(arm, "$Default")},
	}
	_, err := w.api.(*autoscaling.Client).CreateAutoScalingGroup(bounded(t), &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String("workers"), MinSize: aws.Int32(0), MaxSize: aws.Int32(2),
		AvailabilityZones: []string{"eu-central-1a"}, MixedInstancesPolicy: policy,
	})
	done(t, err)
	done(t, s.PutHook("workers", awsim.Hook{Name: "drain"}))
	done(t, s.AddInstance("workers", machineID(0), ""))
	g, err := r.Group(bounded(t), "workers")
	done(t, err)
	target := Target{Source: Source{Mixed: &Mixed{Template: Template{ID: base, Version: "1"}, Overrides: slices.Clone(g.Source.Mixed.Overrides)}}}
	target.Source.Mixed.Overrides[1].Template = &Template{ID: arm, Version: "1"}
	id, err := w.Start(bounded(t), g, target, true, Preferences{MinHealthy: new(100), MaxHealthy: new(200)})
	done(t, err)
	one, err := r.Refresh(bounded(t), "workers", id)
	done(t, err)
	got, was := one.Desired.Mixed.Policy.wire, g.Source.Mixed.Policy.wire
	if !reflect.DeepEqual(got.InstancesDistribution, was.InstancesDistribution) {
		t.Errorf("the distribution was %+v and is %+v", was.InstancesDistribution, got.InstancesDistribution)
	}
	if o := got.LaunchTemplate.Overrides; len(o) != 2 || *o[0].WeightedCapacity != "1" || o[0].LaunchTemplateSpecification != nil ||
		*o[1].LaunchTemplateSpecification.LaunchTemplateId != arm || *o[1].LaunchTemplateSpecification.Version != "1" {
		t.Errorf("the overrides are %+v", o)
	}
	if got := got.LaunchTemplate.LaunchTemplateSpecification; *got.LaunchTemplateId != base || *got.Version != "1" {
		t.Errorf("the template is %+v", got)
	}
}

func byID(id, version string) *types.LaunchTemplateSpecification {
	return &types.LaunchTemplateSpecification{LaunchTemplateId: aws.String(id), Version: aws.String(version)}
}
