package autoscaling

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Raise tags the group with the surge, then raises its desired capacity from what it was described as. It
// fails, and changes nothing, if that would exceed the group's maximum. A group that has the tag already is
// raised to what the tag says, so that Raise can be repeated when its answer was lost; if another client has
// lowered the desired capacity since, Raise starts from there.
func (w *Writer) Raise(ctx context.Context, g refresh.Group, by int) (refresh.Surge, error) {
	s, begun := refresh.SurgeOf(g)
	if begun && g.Desired > s.From {
		return s, nil // already raised
	}
	if begun = begun && g.Desired == s.From; !begun {
		s = refresh.Surge{From: g.Desired, To: g.Desired + by}
	}
	switch {
	case by <= 0:
		return refresh.Surge{}, fmt.Errorf("raise the desired capacity of group %s by %d: it must be more", g.Name, by)
	case s.To > g.Max:
		return refresh.Surge{}, fmt.Errorf(
			"the desired capacity of group %s cannot be raised from %d to %d: its maximum is %d",
			g.Name, s.From, s.To, g.Max)
	}
	if !begun {
		if err := w.tag(ctx, g.Name, refresh.SurgeTag, s.String()); err != nil {
			return refresh.Surge{}, err
		}
	}
	err := w.setDesired(ctx, g.Name, s.To)
	if isValidation(err) {
		// Nothing was raised. The tag does no harm if it stays: Lower removes it.
		_ = w.untag(ctx, g.Name, refresh.SurgeTag)
	}
	return s, err
}

// Lower sets the desired capacity back to what it was before Raise, removes the tag, and reports whether it
// set the capacity. A part of the surge may be undone already, by instances that were terminated. A desired
// capacity that is higher than Raise made it, or lower than before, was set by another client and stays.
func (w *Writer) Lower(ctx context.Context, g refresh.Group) (restored bool, err error) {
	if _, tagged := g.Tags[refresh.SurgeTag]; !tagged {
		return false, nil
	}
	if s, ok := refresh.SurgeOf(g); ok && s.From < g.Desired && g.Desired <= s.To {
		if err := w.setDesired(ctx, g.Name, max(s.From, g.Min)); err != nil {
			return false, err
		}
		restored = true
	}
	return restored, w.untag(ctx, g.Name, refresh.SurgeTag)
}

func (w *Writer) setDesired(ctx context.Context, group string, desired int) error {
	_, err := call(ctx, retriedTimeout, w.api.SetDesiredCapacity, &sdk.SetDesiredCapacityInput{
		AutoScalingGroupName: &group, DesiredCapacity: new(toInt32(&desired)), HonorCooldown: aws.Bool(false),
	})
	return wrap(err, "set the desired capacity of group %s to %d", group, desired)
}
