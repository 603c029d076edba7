package sim

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// groupEvents are steps that happen to a group as a whole.
type groupEvents struct{ events }

// change does what a user does with a group.
func (w groupEvents) change(s Step, ids []string) error {
	if s.Do == "shrink" || s.Do == "grow" {
		return w.resize(s.On, s.Do == "grow")
	}
	return w.refresh(s.On, ids, s.Do == "volumes")
}

// resize gives a group its full size again, or one instance less than it has.
func (w groupEvents) resize(name string, grow bool) error {
	_, g, _ := w.clusterOf(name)
	size := g.Nodes
	if !grow {
		size = max(0, len(w.members(name))-1)
	}
	_, err := w.client().SetDesiredCapacity(context.Background(), &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: &name, DesiredCapacity: new(int32(size)),
	})
	return err
}

// refresh starts an Instance Refresh, which replaces the instances of a group, or only their root volumes.
func (w groupEvents) refresh(group string, ids []string, volumes bool) error {
	if slices.ContainsFunc(w.aws.Instances(group), func(i awsim.Instance) bool { return i.State != "InService" }) {
		return errors.New("the group is busy")
	}
	version, err := w.aws.AddTemplateVersion(launchTemplate, "ami-2")
	if err != nil {
		return err
	}
	number := strconv.Itoa(version)
	if !volumes {
		_, err = w.aws.StartRefresh(group, awsim.RefreshSpec{Version: number, MinHealthy: 50})
		for _, id := range ids {
			w.facts.announce(id, truth{kind: "terminate", from: time.Now()})
		}
		return err
	}
	_, err = w.client().StartInstanceRefresh(context.Background(), &autoscaling.StartInstanceRefreshInput{
		AutoScalingGroupName: &group, Strategy: types.RefreshStrategyReplaceRootVolume,
		Preferences: &types.RefreshPreferences{MinHealthyPercentage: aws.Int32(0)},
		DesiredConfiguration: &types.DesiredConfiguration{MixedInstancesPolicy: &types.MixedInstancesPolicy{
			LaunchTemplate: &types.LaunchTemplate{
				LaunchTemplateSpecification: &types.LaunchTemplateSpecification{
					LaunchTemplateName: aws.String(launchTemplate), Version: &number,
				},
				Overrides: []types.LaunchTemplateOverrides{{ImageId: aws.String("ami-2")}},
			},
		}},
	})
	return err
}
