package autoscaling

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// fromPreferences returns the preferences in the API's type. What to do about matching, protected and standby
// instances is sent always, since the API's defaults differ from the console's; the rest is sent if it is
// set.
func fromPreferences(p refresh.Preferences) *types.RefreshPreferences {
	out := &types.RefreshPreferences{
		MinHealthyPercentage:      optional(p.MinHealthy, toInt32),
		MaxHealthyPercentage:      optional(p.MaxHealthy, toInt32),
		InstanceWarmup:            optional(p.Warmup, wholeSeconds),
		CheckpointDelay:           optional(p.CheckpointDelay, wholeSeconds),
		BakeTime:                  optional(p.Bake, wholeSeconds),
		AutoRollback:              aws.Bool(p.AutoRollback),
		SkipMatching:              aws.Bool(p.SkipMatching),
		ScaleInProtectedInstances: types.ScaleInProtectedInstances(cmp.Or(p.Protected, "Ignore")),
		StandbyInstances:          types.StandbyInstances(cmp.Or(p.Standby, "Ignore")),
	}
	for _, percent := range p.Checkpoints {
		out.CheckpointPercentages = append(out.CheckpointPercentages, toInt32(&percent))
	}
	if len(p.Alarms) > 0 {
		out.AlarmSpecification = &types.AlarmSpecification{Alarms: p.Alarms}
	}
	return out
}

// wholeSeconds rounds up, so that AWS never waits for less than was requested.
func wholeSeconds(d *time.Duration) int32 {
	return toInt32(new(int((*d + time.Second - 1) / time.Second)))
}

// toInt32 keeps a number within what the API can express. AWS refuses what is out of its own bounds.
func toInt32(n *int) int32 { return int32(min(max(*n, math.MinInt32), math.MaxInt32)) }

// desiredConfiguration is the target in the API's type; nil for a launch configuration.
func desiredConfiguration(g refresh.Group, t refresh.Target) (*types.DesiredConfiguration, error) {
	switch {
	case t.Source.Mixed:
		policy, err := pinnedPolicy(g, t.Source)
		return &types.DesiredConfiguration{MixedInstancesPolicy: policy}, err
	case t.Source.Template != nil:
		return &types.DesiredConfiguration{LaunchTemplate: specification(*t.Source.Template)}, nil
	default:
		return nil, nil
	}
}

// specification names a template by its id, or by its name if it has no id, and the version. Auto Scaling
// describes templates by both, and accepts only one. Source: LaunchTemplateSpecification in the API
// reference.
func specification(t refresh.Template) *types.LaunchTemplateSpecification {
	out := &types.LaunchTemplateSpecification{Version: aws.String(cmp.Or(t.Version, refresh.DefaultVersion))}
	if t.ID != "" {
		out.LaunchTemplateId = aws.String(t.ID)
	} else {
		out.LaunchTemplateName = aws.String(t.Name)
	}
	return out
}

// pinnedPolicy is the group's mixed instances policy with the target's templates and versions. The API
// replaces the whole policy, so all else is sent back as it was described.
func pinnedPolicy(g refresh.Group, target refresh.Source) (*types.MixedInstancesPolicy, error) {
	policy, described := g.Source.Policy.(types.MixedInstancesPolicy)
	if !described || policy.LaunchTemplate == nil || len(target.Overrides) != len(g.Source.Overrides) {
		return nil, fmt.Errorf("pin the launch templates of group %s: its mixed instances policy has changed", g.Name)
	}
	launch := *policy.LaunchTemplate
	policy.LaunchTemplate = &launch
	launch.LaunchTemplateSpecification = specification(*target.Template)
	launch.Overrides = slices.Clone(launch.Overrides)
	for i, o := range target.Overrides {
		if o.Template != nil {
			launch.Overrides[i].LaunchTemplateSpecification = specification(*o.Template)
		}
	}
	return &policy, nil
}
