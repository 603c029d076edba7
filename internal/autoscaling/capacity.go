package autoscaling

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Capacity raises the desired capacity of groups and their maximum size, and lowers them again.
type Capacity struct{ tagger }

// Raise raises the desired capacity of the group from what it was described as. It tags the group with the surge, which
// includes what is left of an earlier one. It fails, and changes nothing, if that would exceed the group's maximum.
// The tag says from before the call until after it that the capacity is being raised. If the answer was lost, or the
// process ended, refresh.Surge.Confirm says whether it was.
func (w Capacity) Raise(ctx context.Context, g refresh.Group, by int) (refresh.Surge, error) {
	s := refresh.RaisedBy(g, by, time.Now())
	switch {
	case by <= 0:
		return refresh.Surge{}, fmt.Errorf("raise the desired capacity of group %s by %d: it must be more", g.Name, by)
	case s.To > g.Max:
		return refresh.Surge{}, fmt.Errorf(
			"the desired capacity of group %s cannot be raised from %d to %d: its maximum is %d (see --raise-max)",
			g.Name, s.Before, s.To, g.Max)
	}
	return w.raise(ctx, g, s)
}

// raise raises the desired capacity of the group to s.To.
func (w Capacity) raise(ctx context.Context, g refresh.Group, s refresh.Surge) (refresh.Surge, error) {
	if err := w.tag(ctx, g.Name, refresh.SurgeTag, s.String()); err != nil {
		return refresh.Surge{}, err
	}
	err := w.setDesired(ctx, g.Name, s.To)
	if isValidation(err) {
		// Nothing was raised. The tag does no harm if it stays: Lower removes it.
		_ = w.WriteSurge(ctx, g.Name, refresh.Surge{From: s.From, To: s.Before})
	}
	if err != nil {
		return s, err
	}
	raised := refresh.Surge{From: s.From, To: s.To}
	return raised, w.WriteSurge(ctx, g.Name, raised)
}

// Lower lowers the desired capacity by what is left of the surge, and removes the tag. It returns the new desired
// capacity. What other clients have added since Raise stays.
func (w Capacity) Lower(ctx context.Context, g refresh.Group) (desired int, err error) {
	if _, tagged := g.Tags[refresh.SurgeTag]; !tagged {
		return g.Desired, nil
	}
	s, _ := refresh.SurgeOf(g)
	if desired = g.Desired - s.Left(g); desired < g.Desired {
		if err := w.setDesired(ctx, g.Name, desired); err != nil {
			return g.Desired, err
		}
	}
	return desired, w.untag(ctx, g.Name, refresh.SurgeTag)
}

// WriteSurge writes what is left of the surge into the tag of the group. When nothing is, it removes the tag: what
// others ask for from now on is not the trigger's to take back.
func (w Capacity) WriteSurge(ctx context.Context, group string, s refresh.Surge) error {
	if s.To <= s.From {
		return w.untag(ctx, group, refresh.SurgeTag)
	}
	return w.tag(ctx, group, refresh.SurgeTag, s.String())
}

func (w Capacity) setDesired(ctx context.Context, group string, desired int) error {
	_, err := call(ctx, retriedTimeout, w.api.SetDesiredCapacity, &sdk.SetDesiredCapacityInput{
		AutoScalingGroupName: &group, DesiredCapacity: new(toInt32(&desired)), HonorCooldown: aws.Bool(false),
	})
	return wrap(err, "set the desired capacity of group %s to %d", group, desired)
}
