package refresh

import (
	"reflect"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

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
				{InstanceRequirements: &types.InstanceRequirements{}, ImageId: aws.String("ami-1")},
			},
		},
	}
}

func TestToGroup(t *testing.T) {
	t.Parallel()
	type group = types.AutoScalingGroup
	for _, tt := range []struct {
		name string
		g    group
		want Group
	}{
		{"nothing is said", group{}, Group{}},
		{"a launch configuration", group{LaunchConfigurationName: aws.String("lc")}, Group{Source: Source{Configuration: "lc"}}},
		{
			"a launch template without a version",
			group{LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("node")}},
			Group{Source: Source{Template: &Template{Name: "node"}}},
		},
		{"a mixed instances policy that is empty", group{MixedInstancesPolicy: &types.MixedInstancesPolicy{}}, Group{Source: Source{Mixed: &Mixed{
			Policy: &Policy{},
		}}}},
		{"a mixed instances policy", group{MixedInstancesPolicy: mixedPolicy()}, Group{Weighted: true, Source: Source{Mixed: &Mixed{
			Template: Template{"lt-1", "node", "$Latest"},
			Overrides: []Override{
				{Type: "m5.large"},
				{Type: "m6g.large", Template: &Template{"lt-2", "arm", "$Default"}},
				{Requirements: true, ImageID: "ami-1"},
			},
			Policy: &Policy{*mixedPolicy()},
		}}}},
		{"weights of one are instances", group{MixedInstancesPolicy: &types.MixedInstancesPolicy{LaunchTemplate: &types.LaunchTemplate{
			Overrides: []types.LaunchTemplateOverrides{{WeightedCapacity: aws.String("1")}},
		}}}, Group{Source: Source{Mixed: &Mixed{Overrides: []Override{{}}, Policy: &Policy{types.MixedInstancesPolicy{LaunchTemplate: &types.LaunchTemplate{
			Overrides: []types.LaunchTemplateOverrides{{WeightedCapacity: aws.String("1")}},
		}}}}}}},
		{"units are instances", group{DesiredCapacityType: aws.String("units")}, Group{}},
		{"a capacity in vCPUs", group{DesiredCapacityType: aws.String("vcpu")}, Group{Weighted: true}},
		{"the grace period is the warmup", group{HealthCheckGracePeriod: aws.Int32(300)}, Group{Warmup: 5 * time.Minute}},
		{
			"the group's own warmup comes before it, also one of 0",
			group{HealthCheckGracePeriod: aws.Int32(300), DefaultInstanceWarmup: aws.Int32(0)},
			Group{},
		},
		{
			"a maintenance policy",
			group{InstanceMaintenancePolicy: &types.InstanceMaintenancePolicy{MinHealthyPercentage: aws.Int32(90), MaxHealthyPercentage: aws.Int32(110)}},
			Group{Maintenance: Maintenance{new(90), new(110)}},
		},
		{
			"a maintenance policy that was cleared",
			group{InstanceMaintenancePolicy: &types.InstanceMaintenancePolicy{MinHealthyPercentage: aws.Int32(-1), MaxHealthyPercentage: aws.Int32(-1)}},
			Group{},
		},
		{"a service manages it", group{Operator: &types.Operator{Principal: aws.String("eks.amazonaws.com")}}, Group{Operator: "eks.amazonaws.com"}},
		{"a warm pool", group{WarmPoolConfiguration: &types.WarmPoolConfiguration{}}, Group{WarmPool: true}},
		{"a suspended process", group{SuspendedProcesses: []types.SuspendedProcess{{ProcessName: aws.String("Launch")}}}, Group{Suspended: []string{"Launch"}}},
		{"a tag", group{Tags: []types.TagDescription{{Key: aws.String("team"), Value: aws.String("x")}}}, Group{Tags: map[string]string{"team": "x"}}},
		{"an instance of which nothing is said", group{Instances: []types.Instance{{}}}, Group{Instances: []Instance{{}}}},
		{
			"instances",
			group{Instances: []types.Instance{
				{InstanceId: aws.String("i-1"), HealthStatus: aws.String("Unhealthy"), LifecycleState: types.LifecycleStateInService, LaunchTemplate: spec("lt-1", "node", "7")},
				{InstanceId: aws.String("i-2"), HealthStatus: aws.String("Healthy"), ProtectedFromScaleIn: aws.Bool(true), LaunchConfigurationName: aws.String("lc"), ImageId: aws.String("ami-1")},
			}},
			Group{Instances: []Instance{
				{ID: "i-1", State: "InService", Template: &Template{"lt-1", "node", "7"}},
				{ID: "i-2", Healthy: true, Protected: true, Configuration: "lc", ImageID: "ami-1"},
			}},
		},
	} {
		got := toGroup(tt.g)
		if tt.want.Tags == nil {
			tt.want.Tags = map[string]string{}
		}
		if tt.want.Instances == nil {
			tt.want.Instances = []Instance{}
		}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestToHook(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		h    types.LifecycleHook
		want Hook
	}{
		{"nothing is said", types.LifecycleHook{}, Hook{GlobalTimeout: 48 * time.Hour}},
		{"of a launch", types.LifecycleHook{LifecycleTransition: aws.String("autoscaling:EC2_INSTANCE_LAUNCHING"), HeartbeatTimeout: aws.Int32(30)}, Hook{GlobalTimeout: 50 * time.Minute}},
		{"the API's own bound", types.LifecycleHook{HeartbeatTimeout: aws.Int32(30), GlobalTimeout: aws.Int32(60)}, Hook{GlobalTimeout: time.Minute}},
	} {
		if got := toHook(tt.h); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestToRefresh(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	type refresh = types.InstanceRefresh
	for _, tt := range []struct {
		name string
		r    refresh
		want Refresh
	}{
		{"nothing is said", refresh{}, Refresh{}},
		{"a desired configuration that is empty", refresh{DesiredConfiguration: &types.DesiredConfiguration{}}, Refresh{}},
		{"of a launch template", refresh{DesiredConfiguration: &types.DesiredConfiguration{LaunchTemplate: spec("lt-1", "node", "7")}}, Refresh{Desired: &Source{Template: &Template{"lt-1", "node", "7"}}}},
		{"of a mixed instances policy", refresh{DesiredConfiguration: &types.DesiredConfiguration{MixedInstancesPolicy: &types.MixedInstancesPolicy{}}}, Refresh{Desired: &Source{Mixed: &Mixed{Policy: &Policy{}}}}},
		{
			"under way",
			refresh{Status: types.InstanceRefreshStatusInProgress, StatusReason: aws.String("Waiting."), StartTime: &start, PercentageComplete: aws.Int32(20), InstancesToUpdate: aws.Int32(4)},
			Refresh{Status: StatusInProgress, Reason: "Waiting.", Started: start, Percent: 20, ToUpdate: 4},
		},
		{
			"rolled back",
			refresh{Status: types.InstanceRefreshStatusRollbackSuccessful, EndTime: &start, RollbackDetails: &types.RollbackDetails{RollbackReason: aws.String("An alarm.")}},
			Refresh{Status: StatusRollbackSuccessful, Ended: start, RollbackReason: "An alarm."},
		},
		{
			"with preferences",
			refresh{Preferences: &types.RefreshPreferences{
				MinHealthyPercentage: aws.Int32(0), InstanceWarmup: aws.Int32(0), BakeTime: aws.Int32(60), SkipMatching: aws.Bool(true),
				CheckpointPercentages: []int32{50}, AlarmSpecification: &types.AlarmSpecification{Alarms: []string{"a"}},
				StandbyInstances: types.StandbyInstancesWait,
			}},
			Refresh{Preferences: Preferences{
				MinHealthy: new(0), Warmup: new(time.Duration(0)), Bake: new(time.Minute), SkipMatching: true, Checkpoints: []int{50},
				Alarms: []string{"a"}, Standby: "Wait",
			}},
		},
	} {
		if got := toRefresh(tt.r); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestRefreshAge(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	old, young, pending := Refresh{Started: at}, Refresh{Started: at.Add(time.Second)}, Refresh{}
	for _, tt := range []struct {
		name string
		x, y Refresh
		want int
	}{
		{"the one that started first is the older", old, young, -1},
		{"one that has not started is the newest", pending, young, 1},
		{"and so the other way round", young, pending, -1},
		{"two that have not started are alike", pending, pending, 0},
	} {
		if got := tt.x.age(tt.y); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}
