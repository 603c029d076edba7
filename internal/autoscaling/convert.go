package autoscaling

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// statusHealthy is the health status of a healthy instance, in the API's words.
const statusHealthy = "Healthy"

func toGroup(g types.AutoScalingGroup) refresh.Group {
	out := refresh.Group{
		Name:        aws.ToString(g.AutoScalingGroupName),
		Desired:     whole(g.DesiredCapacity),
		Min:         whole(g.MinSize),
		Max:         whole(g.MaxSize),
		Source:      toSource(g.MixedInstancesPolicy, g.LaunchTemplate, g.LaunchConfigurationName),
		Instances:   convert(g.Instances, toInstance),
		Tags:        map[string]string{},
		Maintenance: toMaintenance(g.InstanceMaintenancePolicy),
		Warmup:      warmup(g),
		WarmPool:    g.WarmPoolConfiguration != nil,
		Weighted:    weighted(g),
		Operator:    aws.ToString(cmp.Or(g.Operator, &types.Operator{}).Principal),

		LargestWeight: slices.Max(append(weights(g), 0)),
		LoadBalanced:  len(g.LoadBalancerNames)+len(g.TargetGroupARNs)+len(g.TrafficSources) > 0,
	}
	if p := g.InstanceLifecyclePolicy; p != nil && p.RetentionTriggers != nil {
		out.Retains = p.RetentionTriggers.TerminateHookAbandon == types.RetentionActionRetain
	}
	if p := g.AvailabilityZoneImpairmentPolicy; p != nil && aws.ToBool(p.ZonalShiftEnabled) {
		out.IgnoresImpaired = p.ImpairedZoneHealthCheckBehavior == types.ImpairedZoneHealthCheckBehaviorIgnoreUnhealthy
	}
	for _, t := range g.Tags {
		out.Tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	for _, p := range g.SuspendedProcesses {
		out.Suspended = append(out.Suspended, aws.ToString(p.ProcessName))
	}
	return out
}

// warmup is what a refresh uses if its preferences name none: the group's default warmup, if defined, else
// its health check grace period. Source: RefreshPreferences.InstanceWarmup in the API reference.
func warmup(g types.AutoScalingGroup) time.Duration {
	if g.DefaultInstanceWarmup != nil {
		return seconds(g.DefaultInstanceWarmup)
	}
	return seconds(g.HealthCheckGracePeriod)
}

// weighted reports whether the group's numbers are of capacity units. A weight of 1 is an instance. Sources:
// LaunchTemplateOverrides.WeightedCapacity and AutoScalingGroup.DesiredCapacityType in the API reference.
func weighted(g types.AutoScalingGroup) bool {
	if kind := aws.ToString(g.DesiredCapacityType); kind != "" && kind != "units" {
		return true
	}
	return slices.ContainsFunc(weights(g), func(weight int) bool { return weight != 1 })
}

// weights are those that the group's overrides name.
func weights(g types.AutoScalingGroup) (all []int) {
	policy := cmp.Or(g.MixedInstancesPolicy, &types.MixedInstancesPolicy{})
	launch := cmp.Or(policy.LaunchTemplate, &types.LaunchTemplate{})
	for _, o := range launch.Overrides {
		if weight, err := strconv.Atoi(aws.ToString(o.WeightedCapacity)); err == nil {
			all = append(all, weight)
		}
	}
	return all
}

// toMaintenance reads a bound of -1 as none: -1 clears what was set before.
func toMaintenance(p *types.InstanceMaintenancePolicy) refresh.Maintenance {
	if p == nil {
		return refresh.Maintenance{}
	}
	bound := func(percent *int32) *int {
		if percent == nil || *percent < 0 {
			return nil
		}
		return new(int(*percent))
	}
	return refresh.Maintenance{MinHealthy: bound(p.MinHealthyPercentage), MaxHealthy: bound(p.MaxHealthyPercentage)}
}

// toSource returns what a group launches from. It has one of the three.
func toSource(
	p *types.MixedInstancesPolicy, t *types.LaunchTemplateSpecification, configuration *string,
) refresh.Source {
	if p == nil {
		return refresh.Source{Template: toTemplate(t), Configuration: aws.ToString(configuration)}
	}
	launch := cmp.Or(p.LaunchTemplate, &types.LaunchTemplate{})
	out := refresh.Source{
		Template: cmp.Or(toTemplate(launch.LaunchTemplateSpecification), &refresh.Template{}), Mixed: true, Policy: *p,
	}
	for _, o := range launch.Overrides {
		required := cmp.Or(o.InstanceRequirements, &types.InstanceRequirements{})
		out.Overrides = append(out.Overrides, refresh.Override{
			Type:         aws.ToString(o.InstanceType),
			Requirements: o.InstanceRequirements != nil,
			Allowed:      required.AllowedInstanceTypes,
			Excluded:     required.ExcludedInstanceTypes,
			Template:     toTemplate(o.LaunchTemplateSpecification),
			ImageID:      aws.ToString(o.ImageId),
		})
	}
	return out
}

func toTemplate(t *types.LaunchTemplateSpecification) *refresh.Template {
	if t == nil {
		return nil
	}
	return &refresh.Template{
		ID:      aws.ToString(t.LaunchTemplateId),
		Name:    aws.ToString(t.LaunchTemplateName),
		Version: aws.ToString(t.Version),
	}
}

func toInstance(i types.Instance) refresh.Instance {
	return refresh.Instance{
		ID:            aws.ToString(i.InstanceId),
		Zone:          aws.ToString(i.AvailabilityZone),
		Type:          aws.ToString(i.InstanceType),
		State:         string(i.LifecycleState),
		Healthy:       aws.ToString(i.HealthStatus) == statusHealthy,
		Protected:     aws.ToBool(i.ProtectedFromScaleIn),
		Configuration: aws.ToString(i.LaunchConfigurationName),
		Template:      toTemplate(i.LaunchTemplate),
		ImageID:       aws.ToString(i.ImageId),
	}
}

func toHook(h types.LifecycleHook) refresh.Hook {
	return refresh.Hook{
		Name:             aws.ToString(h.LifecycleHookName),
		Terminating:      aws.ToString(h.LifecycleTransition) == string(Terminating),
		Target:           aws.ToString(h.NotificationTargetARN),
		HeartbeatTimeout: timingOf(h).Heartbeat,
		GlobalTimeout:    timingOf(h).Global,
	}
}

func toRefresh(r types.InstanceRefresh) refresh.Refresh {
	return refresh.Refresh{
		ID:          aws.ToString(r.InstanceRefreshId),
		Group:       aws.ToString(r.AutoScalingGroupName),
		Status:      string(r.Status),
		Reason:      aws.ToString(r.StatusReason),
		Percent:     whole(r.PercentageComplete),
		ToUpdate:    whole(r.InstancesToUpdate),
		Started:     aws.ToTime(r.StartTime),
		Ended:       aws.ToTime(r.EndTime),
		Desired:     toDesired(r.DesiredConfiguration),
		Preferences: toPreferences(r.Preferences),

		RollbackReason: aws.ToString(cmp.Or(r.RollbackDetails, &types.RollbackDetails{}).RollbackReason),
	}
}

func toDesired(d *types.DesiredConfiguration) *refresh.Source {
	if d == nil || d.MixedInstancesPolicy == nil && d.LaunchTemplate == nil {
		return nil
	}
	return new(toSource(d.MixedInstancesPolicy, d.LaunchTemplate, nil))
}

func toPreferences(p *types.RefreshPreferences) refresh.Preferences {
	if p == nil {
		return refresh.Preferences{}
	}
	out := refresh.Preferences{
		MinHealthy:      optional(p.MinHealthyPercentage, whole),
		MaxHealthy:      optional(p.MaxHealthyPercentage, whole),
		Warmup:          optional(p.InstanceWarmup, seconds),
		CheckpointDelay: optional(p.CheckpointDelay, seconds),
		Bake:            optional(p.BakeTime, seconds),
		AutoRollback:    aws.ToBool(p.AutoRollback),
		SkipMatching:    aws.ToBool(p.SkipMatching),
		Protected:       string(p.ScaleInProtectedInstances),
		Standby:         string(p.StandbyInstances),
		Alarms:          cmp.Or(p.AlarmSpecification, &types.AlarmSpecification{}).Alarms,
	}
	for _, percent := range p.CheckpointPercentages {
		out.Checkpoints = append(out.Checkpoints, int(percent))
	}
	return out
}

func whole(n *int32) int { return int(aws.ToInt32(n)) }

// optional converts a value that may be missing.
func optional[In, Out any](in *In, convert func(*In) Out) *Out {
	if in == nil {
		return nil
	}
	return new(convert(in))
}

// convert converts each value.
func convert[In, Out any](in []In, one func(In) Out) []Out {
	out := make([]Out, len(in))
	for i, v := range in {
		out[i] = one(v)
	}
	return out
}
