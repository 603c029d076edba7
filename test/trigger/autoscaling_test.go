package trigger

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// autoscale asks for instances, and removes some, at random, until ctx ends.
func (s *scaled) autoscale(ctx context.Context) {
	client := autoscaling.NewFromConfig((&process{scaled: s, name: "autoscaler"}).config())
	for {
		select {
		case <-time.After(time.Duration(1+s.dice.IntN(60))*time.Second + 123*time.Millisecond):
		case <-ctx.Done():
			return
		}
		if err := s.scale(ctx, client); err != nil {
			s.Error(err)
		}
	}
}

// scale asks for more, or removes an instance that is in service. No call of a trigger is served in between.
func (s *scaled) scale(ctx context.Context, client *autoscaling.Client) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.autoscaler != nil && s.deployed(ctx).Replicas == 0 {
		return nil
	}
	g := s.describe(ctx)
	if s.dice.IntN(4) > 0 {
		more := min(1+s.dice.IntN(2), 20-s.asked, int(*g.MaxSize-*g.DesiredCapacity))
		if isAmbiguous(g, more) {
			return nil
		}
		s.asked += more
		s.peak = max(s.peak, s.asked+s.removed)
		_, err := client.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{
			AutoScalingGroupName: aws.String(group), DesiredCapacity: new(*g.DesiredCapacity + int32(more)),
		})
		return err
	}
	all := slices.DeleteFunc(s.aws.Instances(group), func(i awsim.Instance) bool { return i.State != "InService" })
	if s.asked == 1 || len(all) == 0 {
		return nil
	}
	s.asked, s.removed = s.asked-1, s.removed+1
	_, err := client.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{
		InstanceId: aws.String(all[s.dice.IntN(len(all))].ID), ShouldDecrementDesiredCapacity: aws.Bool(true),
	})
	return err
}

// isAmbiguous reports whether the change would be the same as the one that a trigger which was killed has begun a moment
// ago: then it cannot know which of the two was made.
func isAmbiguous(g types.AutoScalingGroup, more int) bool {
	now := refresh.Group{Tags: map[string]string{}}
	for _, t := range g.Tags {
		now.Tags[*t.Key] = *t.Value
	}
	surge, _ := refresh.SurgeOf(now)
	desired := int(*g.DesiredCapacity)
	return surge.Raising && desired == surge.Before && desired+more == surge.To && time.Since(surge.Since) < 2*time.Minute
}

// TestResumeFindsTheSurge: a trigger was killed between the call that raised the desired capacity from 4 to 6 and the
// record of it, and another client has asked for one more since.
func TestResumeFindsTheSurge(t *testing.T) {
	t.Parallel()
	a := newAccount(t, latest(4))
	a.tag(refresh.SurgeTag, refresh.RaisedBy(refresh.Group{Desired: 4}, 2, time.Now()).String())
	a.resize(6)
	a.resize(7)
	a.trigger("resume").waitExit(0, `raised the desired capacity from 4 to 6`, `lowered from 7 to 5`)
}
