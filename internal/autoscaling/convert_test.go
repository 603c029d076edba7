package autoscaling

import (
	"reflect"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

func template(id, name, version string) *refresh.Template {
	return &refresh.Template{ID: id, Name: name, Version: version}
}

func spec(id, name, version string) *types.LaunchTemplateSpecification {
	return &types.LaunchTemplateSpecification{
		LaunchTemplateId: aws.String(id), LaunchTemplateName: aws.String(name), Version: aws.String(version),
	}
}

// mixedPolicy has an override of each kind.
func mixedPolicy() *types.MixedInstancesPolicy {
	return &types.MixedInstancesPolicy{
		InstancesDistribution: &types.InstancesDistribution{OnDemandBaseCapacity: aws.Int32(2)},
		LaunchTemplate: &types.LaunchTemplate{
			LaunchTemplateSpecification: spec("lt-1", "node", "$Latest"),
			Overrides: []types.LaunchTemplateOverrides{
				{InstanceType: aws.String("m5.large"), WeightedCapacity: aws.String("2")},
				{InstanceType: aws.String("m6g.large"), LaunchTemplateSpecification: spec("lt-2", "arm", "$Default")},
				{InstanceRequirements: &types.InstanceRequirements{AllowedInstanceTypes: []string{"c7g.*"}}, ImageId: aws.String("ami-1")},
			},
		},
	}
}

// impaired returns a group with an impairment policy.
func impaired(enabled bool, behavior types.ImpairedZoneHealthCheckBehavior) types.AutoScalingGroup {
	return types.AutoScalingGroup{AvailabilityZoneImpairmentPolicy: &types.AvailabilityZoneImpairmentPolicy{
		ZonalShiftEnabled: &enabled, ImpairedZoneHealthCheckBehavior: behavior,
	}}
}

func retaining(a types.RetentionAction) types.AutoScalingGroup {
	return types.AutoScalingGroup{InstanceLifecyclePolicy: &types.InstanceLifecyclePolicy{
		RetentionTriggers: &types.RetentionTriggers{TerminateHookAbandon: a},
	}}
}

func TestToGroup(t *testing.T) {
	t.Parallel()
	type group = types.AutoScalingGroup
	ones := &types.MixedInstancesPolicy{LaunchTemplate: &types.LaunchTemplate{
		Overrides: []types.LaunchTemplateOverrides{{WeightedCapacity: aws.String("1")}},
	}}
	maintained := func(low, high int32) group {
		return group{InstanceMaintenancePolicy: &types.InstanceMaintenancePolicy{MinHealthyPercentage: &low, MaxHealthyPercentage: &high}}
	}
	for _, tt := range []struct {
		name string
		g    group
		want refresh.Group
	}{
		{"empty", group{}, refresh.Group{}},
		{"a launch configuration", group{LaunchConfigurationName: aws.String("lc")}, refresh.Group{Source: refresh.Source{Configuration: "lc"}}},
		{"a launch template without a version", group{LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("node")}}, refresh.Group{Source: refresh.Source{Template: &refresh.Template{Name: "node"}}}},
		{"a mixed instances policy that is empty", group{MixedInstancesPolicy: &types.MixedInstancesPolicy{}}, refresh.Group{Source: refresh.Source{
			Template: &refresh.Template{}, Mixed: true, Policy: types.MixedInstancesPolicy{},
		}}},
		{"a mixed instances policy", group{MixedInstancesPolicy: mixedPolicy()}, refresh.Group{Weighted: true, LargestWeight: 2, Source: refresh.Source{
			Template: template("lt-1", "node", "$Latest"), Mixed: true, Policy: *mixedPolicy(), Overrides: []refresh.Override{
				{Type: "m5.large"},
				{Type: "m6g.large", Template: template("lt-2", "arm", "$Default")},
				{Requirements: true, Allowed: []string{"c7g.*"}, ImageID: "ami-1"},
			},
		}}},
		{"weights of one are instances", group{MixedInstancesPolicy: ones}, refresh.Group{LargestWeight: 1, Source: refresh.Source{
			Template: &refresh.Template{}, Mixed: true, Policy: *ones, Overrides: []refresh.Override{{}},
		}}},
		{"units are instances", group{DesiredCapacityType: aws.String("units")}, refresh.Group{}},
		{"a capacity in vCPUs", group{DesiredCapacityType: aws.String("vcpu")}, refresh.Group{Weighted: true}},
		{"the grace period is the warmup", group{HealthCheckGracePeriod: aws.Int32(300)}, refresh.Group{Warmup: 5 * time.Minute}},
		{"the group's default warmup has priority, also one of 0", group{HealthCheckGracePeriod: aws.Int32(300), DefaultInstanceWarmup: aws.Int32(0)}, refresh.Group{}},
		{"a maintenance policy", maintained(90, 110), refresh.Group{Maintenance: refresh.Maintenance{MinHealthy: new(90), MaxHealthy: new(110)}}},
		{"a maintenance policy that was cleared", maintained(-1, -1), refresh.Group{}},
		{"retained if a hook is abandoned", retaining(types.RetentionActionRetain), refresh.Group{Retains: true}},
		{"terminated if a hook is abandoned", retaining(types.RetentionActionTerminate), refresh.Group{}},
		{"managed by a service", group{Operator: &types.Operator{Principal: aws.String("eks.amazonaws.com")}}, refresh.Group{Operator: "eks.amazonaws.com"}},
		{"unhealthy instances are ignored during a zonal shift", impaired(true, types.ImpairedZoneHealthCheckBehaviorIgnoreUnhealthy), refresh.Group{IgnoresImpaired: true}},
		{"unhealthy instances are replaced during a zonal shift", impaired(true, types.ImpairedZoneHealthCheckBehaviorReplaceUnhealthy), refresh.Group{}},
		{"zonal shifts are not enabled", impaired(false, types.ImpairedZoneHealthCheckBehaviorIgnoreUnhealthy), refresh.Group{}},
		{"a warm pool", group{WarmPoolConfiguration: &types.WarmPoolConfiguration{}}, refresh.Group{WarmPool: true}},
		{"a load balancer", group{LoadBalancerNames: []string{"classic"}}, refresh.Group{LoadBalanced: true}},
		{"a target group", group{TargetGroupARNs: []string{"arn"}}, refresh.Group{LoadBalanced: true}},
		{"a traffic source", group{TrafficSources: []types.TrafficSourceIdentifier{{Identifier: aws.String("arn")}}}, refresh.Group{LoadBalanced: true}},
		{"a suspended process", group{SuspendedProcesses: []types.SuspendedProcess{{ProcessName: aws.String("Launch")}}}, refresh.Group{Suspended: []string{"Launch"}}},
		{"a tag", group{Tags: []types.TagDescription{{Key: aws.String("team"), Value: aws.String("x")}}}, refresh.Group{Tags: map[string]string{"team": "x"}}},
		{"an empty instance", group{Instances: []types.Instance{{}}}, refresh.Group{Instances: []refresh.Instance{{}}}},
		{
			"instances",
			group{Instances: []types.Instance{
				{InstanceId: aws.String("i-1"), HealthStatus: aws.String("Unhealthy"), LifecycleState: types.LifecycleStateInService, LaunchTemplate: spec("lt-1", "node", "7")},
				{InstanceId: aws.String("i-2"), HealthStatus: aws.String("Healthy"), ProtectedFromScaleIn: aws.Bool(true), LaunchConfigurationName: aws.String("lc"), ImageId: aws.String("ami-1")},
			}},
			refresh.Group{Instances: []refresh.Instance{
				{ID: "i-1", State: "InService", Template: template("lt-1", "node", "7")},
				{ID: "i-2", Healthy: true, Protected: true, Configuration: "lc", ImageID: "ami-1"},
			}},
		},
	} {
		got := toGroup(tt.g)
		if tt.want.Tags == nil {
			tt.want.Tags = map[string]string{}
		}
		if tt.want.Instances == nil {
			tt.want.Instances = []refresh.Instance{}
		}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestToRefresh(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	type described = types.InstanceRefresh
	for _, tt := range []struct {
		name string
		r    described
		want refresh.Refresh
	}{
		{"empty", described{}, refresh.Refresh{}},
		{"a desired configuration that is empty", described{DesiredConfiguration: &types.DesiredConfiguration{}}, refresh.Refresh{}},
		{"of a launch template", described{DesiredConfiguration: &types.DesiredConfiguration{LaunchTemplate: spec("lt-1", "node", "7")}}, refresh.Refresh{Desired: &refresh.Source{Template: template("lt-1", "node", "7")}}},
		{"of a mixed instances policy", described{DesiredConfiguration: &types.DesiredConfiguration{MixedInstancesPolicy: &types.MixedInstancesPolicy{}}}, refresh.Refresh{Desired: &refresh.Source{Template: &refresh.Template{}, Mixed: true, Policy: types.MixedInstancesPolicy{}}}},
		{
			"in progress",
			described{Status: types.InstanceRefreshStatusInProgress, StatusReason: aws.String("Waiting."), StartTime: &start, PercentageComplete: aws.Int32(20), InstancesToUpdate: aws.Int32(4)},
			refresh.Refresh{Status: refresh.StatusInProgress, Reason: "Waiting.", Started: start, Percent: 20, ToUpdate: 4},
		},
		{
			"rolled back",
			described{Status: types.InstanceRefreshStatusRollbackSuccessful, EndTime: &start, RollbackDetails: &types.RollbackDetails{RollbackReason: aws.String("An alarm.")}},
			refresh.Refresh{Status: refresh.StatusRollbackSuccessful, Ended: start, RollbackReason: "An alarm."},
		},
	} {
		if got := toRefresh(tt.r); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
