package rollout

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// capacityWriter raises the desired capacity, and lowers it again, also by terminating single instances.
type capacityWriter interface {
	Raise(ctx context.Context, g refresh.Group, by int) (refresh.Surge, error)
	Lower(ctx context.Context, g refresh.Group) (desired int, err error)
	Terminate(ctx context.Context, instanceID string) error
	maxWriter
	WriteSurge(ctx context.Context, group string, s refresh.Surge) error
}

// confirmTakes is how long confirm waits until Auto Scaling has launched what is desired.
const confirmTakes = 5 * time.Minute

// capacity changes the desired capacity of the group.
type capacity struct {
	group *group
	aws   capacityWriter
}

// set raises or lowers the desired capacity, as next decides. It describes the group just before: an autoscaler may
// have changed the capacity since the last time, and the new one would undo that.
func (c capacity) set(ctx context.Context, next func() refresh.Step) error {
	g := c.group
	if err := g.describe(ctx); err != nil {
		return err
	}
	switch step := next(); {
	case step.Confirm:
		return c.confirm(ctx)
	case step.Raise > 0:
		return c.raise(ctx, step.Raise)
	case step.Lower:
		return c.lower(ctx)
	}
	return nil
}

// raise raises the desired capacity, and the maximum before if it is too small: once for all of the surge, in whatever
// steps the capacity is raised.
func (c capacity) raise(ctx context.Context, by int) error {
	s := c.group.state
	if err := c.raiseMax(ctx, max(s.group.Desired+by, s.facts().MostInstances(s.group))); err != nil {
		return err
	}
	surge, err := c.aws.Raise(ctx, s.group, by)
	if err != nil {
		return err
	}
	c.group.progress.note(refresh.OK, "desired capacity raised from %d to %d", surge.From, surge.To)
	return nil
}

// raiseMax raises the maximum size, if it is smaller and may be raised.
func (c capacity) raiseMax(ctx context.Context, to int) error {
	raised, err := maxSize{c.group, c.aws}.raise(ctx, to)
	if raised != "" {
		c.group.progress.note(refresh.OK, "%s", raised)
	}
	return err
}

// confirm finds out who has raised the desired capacity, if that is in doubt, and corrects the tag. It waits until the
// activities of the group show that.
func (c capacity) confirm(ctx context.Context) error {
	g := c.group
	for end := time.Now().Add(confirmTakes); c.inDoubt() && !refresh.Launched(g.state.group) && time.Now().Before(end); {
		if err := g.describeAgain(ctx, 0); err != nil {
			return err
		}
	}
	if !c.inDoubt() {
		return nil
	}
	now := g.state.group
	surge, _ := refresh.SurgeOf(now)
	changes, err := g.planner.reader.CapacityChanges(ctx, g.name, surge.Since.Add(-time.Minute))
	if err != nil {
		return err
	}
	confirmed := surge.Confirm(now.Desired, changes)
	if confirmed.To == surge.To {
		g.progress.note(refresh.OK, "an earlier call has raised the desired capacity from %d to %d", surge.Before, surge.To)
	} else {
		g.progress.note(refresh.OK, "the desired capacity is %d by another client, and stays", now.Desired)
	}
	return c.write(ctx, confirmed)
}

func (c capacity) inDoubt() bool {
	now := c.group.state.group
	surge, _ := refresh.SurgeOf(now)
	return surge.InDoubt(now.Desired)
}

// lower takes back what is left of the surge.
func (c capacity) lower(ctx context.Context) error {
	now := c.group.state.group
	desired, err := c.aws.Lower(ctx, now)
	switch {
	case err != nil:
		return err
	case desired < now.Desired:
		c.group.progress.note(refresh.OK, "desired capacity lowered from %d to %d", now.Desired, desired)
	default:
		c.group.progress.note(refresh.OK, "the desired capacity stays %d: nothing of the surge can be taken back", desired)
	}
	return nil
}

// terminate terminates an instance together with a part of the surge. The tag names the instance from before the call
// until after it, so that another process knows whether that part is left.
func (c capacity) terminate(ctx context.Context, id string) error {
	surge, _ := refresh.SurgeOf(c.group.state.group)
	surge.Raising, surge.Before, surge.Terminating = false, 0, id
	if err := c.write(ctx, surge); err != nil {
		return err
	}
	terminated := c.aws.Terminate(ctx, id)
	if terminated != nil && !errors.Is(terminated, refresh.ErrGone) {
		return terminated
	}
	surge.Terminating = ""
	if terminated == nil {
		surge.To--
	}
	if err := c.write(ctx, surge); err != nil {
		return err
	}
	return terminated
}

// keepSurge removes an instance from the tag that a killed run was about to terminate with a part of the surge: when
// the group replaces it, that part stays.
func (c capacity) keepSurge(ctx context.Context) error {
	g := c.group.state.group
	surge, raised := refresh.SurgeOf(g)
	if !raised || surge.String() == g.Tags[refresh.SurgeTag] {
		return nil
	}
	return c.write(ctx, surge)
}

func (c capacity) write(ctx context.Context, s refresh.Surge) error {
	if err := c.aws.WriteSurge(ctx, c.group.name, s); err != nil {
		return err
	}
	g := &c.group.state.group
	g.Tags = withTag(g.Tags, refresh.SurgeTag, s.String()) // One that is empty is none to SurgeOf.
	return nil
}

// withTag returns the tags with another one.
func withTag(tags map[string]string, key, value string) map[string]string {
	if tags = maps.Clone(tags); tags == nil {
		tags = map[string]string{}
	}
	tags[key] = value
	return tags
}
