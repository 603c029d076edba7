package autoscaling

import (
	"context"
	"errors"

	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// RaiseMax raises the maximum size of the group. It tags the group with the one before first, so that a later run can
// restore it after an interruption. If AWS refuses, there is nothing to restore, and it removes the tag.
func (w Capacity) RaiseMax(ctx context.Context, g refresh.Group, to int) (refresh.RaisedMax, error) {
	m := refresh.RaiseMax(g, to)
	if err := w.tag(ctx, g.Name, refresh.MaxTag, m.String()); err != nil {
		return refresh.RaisedMax{}, err
	}
	err := w.setMax(ctx, g.Name, to)
	if _, before := refresh.RaisedMaxOf(g); isRefused(err) && !before {
		err = errors.Join(err, w.untag(ctx, g.Name, refresh.MaxTag))
	}
	return m, err
}

// RestoreMax restores the maximum size that the group had before RaiseMax, and removes the tag. It changes no maximum
// that another client has set since. One that is described as before it sets, too: AWS may describe it late. It reports
// whether the description has anything to restore. If the desired capacity keeps the maximum, it lowers that to the
// desired capacity only, and the tag stays.
func (w Capacity) RestoreMax(ctx context.Context, g refresh.Group) (restored bool, err error) {
	m, ok := refresh.RaisedMaxOf(g)
	switch {
	case !ok, m.Kept(g) != "" && g.Max == g.Desired:
		return false, nil
	case m.Kept(g) != "":
		_, err := w.RaiseMax(ctx, g, g.Desired)
		return false, err
	case m.IsRaised(g), g.Max == m.From:
		if err := w.setMax(ctx, g.Name, m.From); err != nil {
			return false, err
		}
	}
	return m.IsRaised(g), w.untag(ctx, g.Name, refresh.MaxTag)
}

func (w Capacity) setMax(ctx context.Context, group string, most int) error {
	_, err := call(ctx, retriedTimeout, w.api.UpdateAutoScalingGroup, &sdk.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: &group, MaxSize: new(toInt32(&most)),
	})
	return wrap(err, "set the maximum size of group %s to %d", group, most)
}
