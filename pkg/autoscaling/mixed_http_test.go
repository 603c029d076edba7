package autoscaling

import (
	"reflect"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// TestHTTPStartKeepsTheMixedPolicy: the API replaces the whole policy, so what a refresh does not change must come back
// as it was.
func TestHTTPStartKeepsTheMixedPolicy(t *testing.T) {
	t.Parallel()
	s, r, w := simulateTrigger(t)
	base, err := s.CreateLaunchTemplate("node", "ami-1")
	must(t, err)
	arm, err := s.CreateLaunchTemplate("arm", "ami-1")
	must(t, err)
	policy := mixedPolicy()
	policy.LaunchTemplate.LaunchTemplateSpecification = byID(base, "$Latest")
	policy.LaunchTemplate.Overrides = []types.LaunchTemplateOverrides{
		{InstanceType: aws.String("m5.large"), WeightedCapacity: aws.String("1")},
		{InstanceType: aws.String("m6g.large"), WeightedCapacity: aws.String("1"), LaunchTemplateSpecification: byID(arm, "$Default")},
	}
	_, err = w.api.(*sdk.Client).CreateAutoScalingGroup(bounded(t), &sdk.CreateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String("workers"), MinSize: aws.Int32(0), MaxSize: aws.Int32(2),
		AvailabilityZones: []string{"eu-central-1a"}, MixedInstancesPolicy: policy,
	})
	must(t, err)
	must(t, s.PutHook("workers", awsim.Hook{Name: "drain"}))
	must(t, s.AddInstance("workers", machineID(0), ""))
	g, err := r.Group(bounded(t), "workers")
	must(t, err)
	target := refresh.Target{Source: refresh.Source{Mixed: &refresh.Mixed{Template: refresh.Template{ID: base, Version: "1"}, Overrides: slices.Clone(g.Source.Mixed.Overrides)}}}
	target.Source.Mixed.Overrides[1].Template = &refresh.Template{ID: arm, Version: "1"}
	id, err := w.Start(bounded(t), g, target, true, refresh.Preferences{MinHealthy: new(100), MaxHealthy: new(200)})
	must(t, err)
	one, err := r.Refresh(bounded(t), "workers", id)
	must(t, err)
	got, was := policyOf(one.Desired), policyOf(&g.Source)
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

func policyOf(s *refresh.Source) types.MixedInstancesPolicy {
	return s.Mixed.Policy.(types.MixedInstancesPolicy)
}
