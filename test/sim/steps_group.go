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

// suspend has a group replace no instances that are marked unhealthy, for a time.
func (w groupEvents) suspend(s Step) error {
	if _, _, ok := w.clusterOf(s.On); !ok {
		return nil
	}
	w.log.add("step", s.Do, "group", s.On, "for", s.For)
	processes := []string{"ReplaceUnhealthy"}
	_, err := w.client().SuspendProcesses(context.Background(), &autoscaling.SuspendProcessesInput{
		AutoScalingGroupName: &s.On, ScalingProcesses: processes,
	})
	w.work.Go(func() {
		time.Sleep(s.For)
		_, _ = w.client().ResumeProcesses(context.Background(), &autoscaling.ResumeProcessesInput{ // It has no error.
			AutoScalingGroupName: &s.On, ScalingProcesses: processes,
		})
	})
	return err
}

// standBy moves an instance to Standby, as an operator does, and back after a time; never if the time is zero.
func (w groupEvents) standBy(group, id string, during time.Duration) error {
	_, _, desired := w.aws.Sizes(group)
	_, err := w.client().EnterStandby(context.Background(), &autoscaling.EnterStandbyInput{
		AutoScalingGroupName: &group, InstanceIds: []string{id}, ShouldDecrementDesiredCapacity: new(true),
	})
	if err == nil {
		w.rollouts.leave(group, id, desired)
	}
	if err != nil || during == 0 {
		return err
	}
	w.work.Go(func() {
		time.Sleep(during)
		_, err := w.client().ExitStandby(context.Background(), &autoscaling.ExitStandbyInput{
			AutoScalingGroupName: &group, InstanceIds: []string{id},
		})
		if err == nil {
			w.rollouts.returned(group, id)
		}
		w.log.add("step", "standby ended", "node", id, "error", err)
	})
	return nil
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
