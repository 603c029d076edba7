package refresh

import (
	"cmp"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// transitionTerminating is the transition of a hook that holds terminating instances, in the API's words.
const transitionTerminating = "autoscaling:EC2_INSTANCE_TERMINATING"

func toGroup(g types.AutoScalingGroup) Group {
	out := Group{
		Name:        aws.ToString(g.AutoScalingGroupName),
		Desired:     whole(g.DesiredCapacity),
		Min:         whole(g.MinSize),
		Max:         whole(g.MaxSize),
		Source:      toSource(g),
		Instances:   make([]Instance, 0, len(g.Instances)),
		Tags:        map[string]string{},
		Maintenance: toMaintenance(g.InstanceMaintenancePolicy),
		Warmup:      warmup(g),
		WarmPool:    g.WarmPoolConfiguration != nil,
		Weighted:    weighted(g),
	}
	if g.Operator != nil {
		out.Operator = aws.ToString(g.Operator.Principal)
	}
	for _, i := range g.Instances {
		out.Instances = append(out.Instances, toInstance(i))
	}
	for _, t := range g.Tags {
		out.Tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	for _, p := range g.SuspendedProcesses {
		out.Suspended = append(out.Suspended, aws.ToString(p.ProcessName))
	}
	return out
}

// warmup is what a refresh takes where it is told nothing: the group's default warmup, if defined, else its
// health check grace period. Source: RefreshPreferences.InstanceWarmup in the API reference.
func warmup(g types.AutoScalingGroup) time.Duration {
	if g.DefaultInstanceWarmup != nil {
		return seconds(g.DefaultInstanceWarmup)
	}
	return seconds(g.HealthCheckGracePeriod)
}

// weighted tells whether the group's numbers are of capacity units. A weight of 1 is an instance. Sources:
// LaunchTemplateOverrides.WeightedCapacity and AutoScalingGroup.DesiredCapacityType in the API reference.
func weighted(g types.AutoScalingGroup) bool {
	if kind := aws.ToString(g.DesiredCapacityType); kind != "" && kind != "units" {
		return true
	}
	if g.MixedInstancesPolicy == nil || g.MixedInstancesPolicy.LaunchTemplate == nil {
		return false
	}
	for _, o := range g.MixedInstancesPolicy.LaunchTemplate.Overrides {
		if weight := aws.ToString(o.WeightedCapacity); weight != "" && weight != "1" {
			return true
		}
	}
	return false
}

// toMaintenance takes a bound of -1 for none: it clears what was set before.
func toMaintenance(p *types.InstanceMaintenancePolicy) Maintenance {
	if p == nil {
		return Maintenance{}
	}
	bound := func(percent *int32) *int {
		if percent == nil || *percent < 0 {
			return nil
		}
		return new(int(*percent))
	}
	return Maintenance{MinHealthy: bound(p.MinHealthyPercentage), MaxHealthy: bound(p.MaxHealthyPercentage)}
}

// toSource takes a mixed instances policy before a launch template, and that before a launch configuration. A
// group has one of them.
func toSource(g types.AutoScalingGroup) Source {
	switch {
	case g.MixedInstancesPolicy != nil:
		return Source{Mixed: toMixed(g.MixedInstancesPolicy)}
	case g.LaunchTemplate != nil:
		return Source{Template: toTemplate(g.LaunchTemplate)}
	default:
		return Source{Configuration: aws.ToString(g.LaunchConfigurationName)}
	}
}

func toMixed(p *types.MixedInstancesPolicy) *Mixed {
	out := &Mixed{Policy: &Policy{*p}}
	if p.LaunchTemplate == nil {
		return out
	}
	if t := toTemplate(p.LaunchTemplate.LaunchTemplateSpecification); t != nil {
		out.Template = *t
	}
	for _, o := range p.LaunchTemplate.Overrides {
		out.Overrides = append(out.Overrides, Override{
			Type:         aws.ToString(o.InstanceType),
			Requirements: o.InstanceRequirements != nil,
			Template:     toTemplate(o.LaunchTemplateSpecification),
			ImageID:      aws.ToString(o.ImageId),
		})
	}
	return out
}

func toTemplate(t *types.LaunchTemplateSpecification) *Template {
	if t == nil {
		return nil
	}
	return &Template{
		ID:      aws.ToString(t.LaunchTemplateId),
		Name:    aws.ToString(t.LaunchTemplateName),
		Version: aws.ToString(t.Version),
	}
}

func toInstance(i types.Instance) Instance {
	return Instance{
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

// toHook fills in what the API leaves out.
func toHook(h types.LifecycleHook) Hook {
	heartbeat := cmp.Or(seconds(h.HeartbeatTimeout), defaultBeat)
	return Hook{
		Name:          aws.ToString(h.LifecycleHookName),
		Terminating:   aws.ToString(h.LifecycleTransition) == transitionTerminating,
		GlobalTimeout: cmp.Or(seconds(h.GlobalTimeout), min(holdPerBeat*heartbeat, longestHold)),
	}
}

func toRefresh(r types.InstanceRefresh) Refresh {
	out := Refresh{
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
	}
	if r.RollbackDetails != nil {
		out.RollbackReason = aws.ToString(r.RollbackDetails.RollbackReason)
	}
	return out
}

func toDesired(d *types.DesiredConfiguration) *Source {
	switch {
	case d == nil:
		return nil
	case d.MixedInstancesPolicy != nil:
		return &Source{Mixed: toMixed(d.MixedInstancesPolicy)}
	case d.LaunchTemplate != nil:
		return &Source{Template: toTemplate(d.LaunchTemplate)}
	default:
		return nil
	}
}

func toPreferences(p *types.RefreshPreferences) Preferences {
	if p == nil {
		return Preferences{}
	}
	out := Preferences{
		MinHealthy:      optional(p.MinHealthyPercentage),
		MaxHealthy:      optional(p.MaxHealthyPercentage),
		Warmup:          optionalSeconds(p.InstanceWarmup),
		CheckpointDelay: optionalSeconds(p.CheckpointDelay),
		Bake:            optionalSeconds(p.BakeTime),
		AutoRollback:    aws.ToBool(p.AutoRollback),
		SkipMatching:    aws.ToBool(p.SkipMatching),
		Protected:       string(p.ScaleInProtectedInstances),
		Standby:         string(p.StandbyInstances),
	}
	for _, percent := range p.CheckpointPercentages {
		out.Checkpoints = append(out.Checkpoints, int(percent))
	}
	if p.AlarmSpecification != nil {
		out.Alarms = p.AlarmSpecification.Alarms
	}
	return out
}

func whole(n *int32) int { return int(aws.ToInt32(n)) }

func seconds(n *int32) time.Duration { return time.Duration(aws.ToInt32(n)) * time.Second }

func optional(n *int32) *int {
	if n == nil {
		return nil
	}
	return new(int(*n))
}

func optionalSeconds(n *int32) *time.Duration {
	if n == nil {
		return nil
	}
	return new(seconds(n))
}
