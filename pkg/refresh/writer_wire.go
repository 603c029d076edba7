package refresh

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// wire is the preferences as they are sent: what to do about matching, protected and standing-by instances
// always, since the API's defaults are not the console's; the rest as far as it is said.
func (p Preferences) wire() *types.RefreshPreferences {
	out := &types.RefreshPreferences{
		MinHealthyPercentage:      optional32(p.MinHealthy),
		MaxHealthyPercentage:      optional32(p.MaxHealthy),
		InstanceWarmup:            wireSeconds(p.Warmup),
		CheckpointDelay:           wireSeconds(p.CheckpointDelay),
		BakeTime:                  wireSeconds(p.Bake),
		AutoRollback:              aws.Bool(p.AutoRollback),
		SkipMatching:              aws.Bool(p.SkipMatching),
		ScaleInProtectedInstances: types.ScaleInProtectedInstancesIgnore,
		StandbyInstances:          types.StandbyInstancesIgnore,
	}
	if p.Protected != "" {
		out.ScaleInProtectedInstances = types.ScaleInProtectedInstances(p.Protected)
	}
	if p.Standby != "" {
		out.StandbyInstances = types.StandbyInstances(p.Standby)
	}
	for _, percent := range p.Checkpoints {
		out.CheckpointPercentages = append(out.CheckpointPercentages, int32Of(percent))
	}
	if len(p.Alarms) > 0 {
		out.AlarmSpecification = &types.AlarmSpecification{Alarms: p.Alarms}
	}
	return out
}

func optional32(n *int) *int32 {
	if n == nil {
		return nil
	}
	return new(int32Of(*n))
}

// wireSeconds rounds up: to wait for less than was asked for would be the worse mistake.
func wireSeconds(d *time.Duration) *int32 {
	if d == nil {
		return nil
	}
	return new(int32Of(int((*d + time.Second - 1) / time.Second)))
}

// int32Of keeps a number within what the API can be told; AWS refuses what is out of its own bounds.
func int32Of(n int) int32 {
	return int32(min(max(n, math.MinInt32), math.MaxInt32))
}

// desiredConfiguration is the target as StartInstanceRefresh takes it; nil for a launch configuration.
func desiredConfiguration(g Group, t Target) (*types.DesiredConfiguration, error) {
	switch {
	case t.Source.Mixed != nil:
		policy, err := pinnedPolicy(g, *t.Source.Mixed)
		return &types.DesiredConfiguration{MixedInstancesPolicy: policy}, err
	case t.Source.Template != nil:
		return &types.DesiredConfiguration{LaunchTemplate: specification(*t.Source.Template)}, nil
	default:
		return nil, nil
	}
}

// specification names a template by its id alone, or its name alone, and the version. Auto Scaling describes
// templates by both, and takes one. Source: LaunchTemplateSpecification in the API reference.
func specification(t Template) *types.LaunchTemplateSpecification {
	out := &types.LaunchTemplateSpecification{Version: aws.String(cmp.Or(t.Version, defaultVersion))}
	if t.ID != "" {
		out.LaunchTemplateId = aws.String(t.ID)
	} else {
		out.LaunchTemplateName = aws.String(t.Name)
	}
	return out
}

// pinnedPolicy is the group's mixed instances policy with the target's templates and versions. The API
// replaces the whole policy, so all else is sent back as it was described.
func pinnedPolicy(g Group, target Mixed) (*types.MixedInstancesPolicy, error) {
	own := g.Source.Mixed
	if own == nil || own.Policy == nil || own.Policy.wire.LaunchTemplate == nil ||
		len(target.Overrides) != len(own.Overrides) {
		return nil, fmt.Errorf("the target is not made of the mixed instances policy of group %s", g.Name)
	}
	policy, launch := own.Policy.wire, *own.Policy.wire.LaunchTemplate
	policy.LaunchTemplate = &launch
	launch.LaunchTemplateSpecification = specification(target.Template)
	launch.Overrides = slices.Clone(launch.Overrides)
	for i, o := range target.Overrides {
		if t := cmp.Or(o.Template, own.Overrides[i].Template); t != nil {
			launch.Overrides[i].LaunchTemplateSpecification = specification(*t)
		}
	}
	return &policy, nil
}
