package hold

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// CapacityWriter raises the desired capacity, and lowers it again, also by terminating single instances.
type CapacityWriter interface {
	Raise(ctx context.Context, g refresh.Group, by int) (refresh.Surge, error)
	Lower(ctx context.Context, g refresh.Group) (desired int, err error)
	Terminate(ctx context.Context, instanceID string) error
	maxWriter
	WriteSurge(ctx context.Context, group string, s refresh.Surge) error
}

// ConfirmTakes is how long Confirm waits until Auto Scaling has launched what is desired.
const ConfirmTakes = 5 * time.Minute

// Capacity changes the desired capacity of the group.
type Capacity struct {
	Group   *loop.Group
	AWS     CapacityWriter
	doubted time.Time              // when Confirm was called first; zero if nothing is in doubt
	ours    map[refresh.Surge]bool // what this process has written into the tag of the surge: from and to
}

// Raise raises the desired capacity, and the maximum before if it is too small: once for all of the surge, in whatever
// steps the capacity is raised.
func (c *Capacity) Raise(ctx context.Context, by int) error {
	s := c.Group.State
	if err := c.RaiseMax(ctx, max(s.Group.Desired+by, s.Facts().MostInstances(s.Group))); err != nil {
		return err
	}
	surge, err := c.AWS.Raise(ctx, s.Group, by)
	if err != nil {
		return err
	}
	c.own(surge)
	c.Group.Progress.Note(refresh.OK, "desired capacity raised from %d to %d", surge.From, surge.To)
	return nil
}

// RaiseMax raises the maximum size, if it is smaller and may be raised.
func (c *Capacity) RaiseMax(ctx context.Context, to int) error {
	raised, err := maxSize{c.Group, c.AWS}.raise(ctx, to)
	if raised != "" {
		c.Group.Progress.Note(refresh.OK, "%s", raised)
	}
	return err
}

// Confirm finds out how much of a surge that InDoubt reports was added to the desired capacity, and corrects the tag.
// It waits until the activities of the group show that.
func (c *Capacity) Confirm(ctx context.Context) (*loop.Wait, error) {
	g := c.Group
	if !c.InDoubt() {
		c.doubted = time.Time{}
		return nil, nil
	}
	if c.doubted.IsZero() {
		c.doubted = time.Now()
	}
	surge, _ := refresh.SurgeOf(g.State.Group)
	since := time.Now().Add(-refresh.SurgeKept)
	changes, err := g.Planner.Reader.CapacityChanges(ctx, g.Name, since)
	if err != nil {
		return nil, err
	}
	confirmed := surge.Confirm(changes)
	isWhole := confirmed.To == surge.To
	if !isWhole && !refresh.Launched(g.State.Group) && time.Since(c.doubted) < ConfirmTakes {
		return &loop.Wait{}, nil
	}
	c.doubted = time.Time{}
	switch by := confirmed.To - confirmed.From; {
	case isWhole:
		g.Progress.Note(refresh.OK, "an earlier run has raised the desired capacity from %d to %d", surge.From, surge.To)
	case surge.InDoubt(g.State.Group.Desired) && by == surge.Before-surge.From:
		g.Progress.Note(refresh.OK, "the desired capacity is %d by another client, and stays", g.State.Group.Desired)
	default:
		g.Progress.Note(refresh.Warn, "the tag %s says that a trigger has raised the desired capacity from %d to %d, and "+
			"the activities of the group since %s show %d of that: the rest stays", refresh.SurgeTag, surge.From, surge.To,
			since.UTC().Format(time.DateOnly), by)
	}
	return nil, c.Write(ctx, confirmed)
}

// InDoubt reports whether it is not known how much of the surge was added to the desired capacity: the tag is not what
// this process has written, or its last call may not have been made. AWS may describe a raise as it was before its end.
func (c *Capacity) InDoubt() bool {
	now := c.Group.State.Group
	surge, raised := refresh.SurgeOf(now)
	return raised && (!c.ours[refresh.Surge{From: surge.From, To: surge.To}] || surge.InDoubt(now.Desired))
}

// own records that this process has written the surge.
func (c *Capacity) own(s refresh.Surge) {
	if c.ours == nil {
		c.ours = map[refresh.Surge]bool{}
	}
	c.ours[refresh.Surge{From: s.From, To: s.To}] = true
}

// Lower takes back what is left of the surge.
func (c *Capacity) Lower(ctx context.Context) error {
	before := c.Group.State.Group.Desired
	desired, err := c.TakeBack(ctx)
	switch {
	case err != nil:
		return err
	case desired < before:
		c.Group.Progress.Note(refresh.OK, "desired capacity lowered from %d to %d", before, desired)
	default:
		c.Group.Progress.Note(refresh.OK, "the desired capacity stays %d: nothing of the surge can be taken back", desired)
	}
	return nil
}

// TakeBack takes back what is left of the surge, and returns the desired capacity. Auto Scaling would choose what to
// terminate, and knows nothing of nodes: new instances that do not serve yet are terminated before, each with its part.
func (c *Capacity) TakeBack(ctx context.Context) (desired int, err error) {
	s := c.Group.State
	surge, _ := refresh.SurgeOf(s.Group)
	a, left := s.Assess(), surge.Left(s.Group)
	for _, id := range refresh.NotServing(s.Group, s.NotReady()) {
		if left == 0 {
			break
		}
		if s.IsToBeReplaced(id, a) {
			continue
		}
		switch err := c.AWS.Terminate(ctx, id); {
		case errors.Is(err, refresh.ErrGone):
		case err != nil:
			return s.Group.Desired, err
		default:
			left--
			c.Group.Progress.Note(refresh.OK, "%s, which does not serve yet, terminated, and the desired capacity lowered by "+
				"one", id)
		}
	}
	if left < surge.Left(s.Group) {
		if err := c.without(ctx, surge, surge.Left(s.Group)-left); err != nil {
			return s.Group.Desired, err
		}
	}
	return c.AWS.Lower(ctx, s.Group)
}

// without records what is left of the surge after so many instances were terminated with a part of it each: what others
// have raised is none of it. If one of them was terminating already, Auto Scaling has lowered nothing with it, and does
// not say so: that is read.
func (c *Capacity) without(ctx context.Context, surge refresh.Surge, terminated int) error {
	before := c.Group.State.Group.Desired
	if err := c.Group.Describe(ctx); err != nil {
		return err
	}
	lowered := min(max(before-c.Group.State.Group.Desired, 0), terminated)
	return c.Write(ctx, refresh.Surge{From: surge.From, To: surge.To - lowered})
}

// Terminate terminates an instance together with a part of the surge. The tag names the instance from before the call
// until after it, so that another process knows whether that part is left. It does not after a call that has failed: if
// somebody else terminates the instance later, its part is left.
func (c *Capacity) Terminate(ctx context.Context, id string) error {
	surge, _ := refresh.SurgeOf(c.Group.State.Group)
	surge.Raising, surge.Before, surge.Terminating = false, 0, id
	if err := c.Write(ctx, surge); err != nil {
		return err
	}
	terminated := c.AWS.Terminate(ctx, id)
	surge.Terminating = ""
	if terminated == nil {
		surge.To--
		c.Group.State.Group.Desired-- // as AWS describes it later
	}
	if err := c.Write(ctx, surge); err != nil && (terminated == nil || errors.Is(terminated, refresh.ErrGone)) {
		return err
	}
	return terminated
}

// KeepSurge removes an instance from the tag that a killed run was about to terminate with a part of the surge: when
// the group replaces it, that part stays.
func (c *Capacity) KeepSurge(ctx context.Context) error {
	g := c.Group.State.Group
	surge, raised := refresh.SurgeOf(g)
	if !raised || surge.String() == g.Tags[refresh.SurgeTag] {
		return nil
	}
	return c.Write(ctx, surge)
}

// Write records a surge of this process.
func (c *Capacity) Write(ctx context.Context, s refresh.Surge) error {
	c.own(s)
	if err := c.AWS.WriteSurge(ctx, c.Group.Name, s); err != nil {
		return err
	}
	g := &c.Group.State.Group
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
