package rollout

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// begunWriter keeps in a tag of a group when the rollout to its target began.
type begunWriter interface {
	WriteBegun(ctx context.Context, group string, b refresh.Begun) error
	RemoveBegun(ctx context.Context, group string) error
}

// beginning ends a rollout in batches that would replace what the group has launched for its target: whatever the
// mistake is, in the comparison or in the group, the next instance would be outdated as well, without an end.
type beginning struct {
	group     *group
	aws       begunWriter
	begun     refresh.Begun
	continued bool            // An earlier run has begun the rollout to the target.
	known     map[string]bool // The instances of the group when the rollout began, or this run continued it.
}

// check returns how the rollout ends if an instance is to be replaced that was launched after it began. It records the
// beginning before the first instance is replaced.
func (b *beginning) check(ctx context.Context) error {
	s := b.group.state
	a := s.assess()
	if b.begun.Target != a.target.Key {
		if err := b.begin(ctx, a.target.Key); err != nil {
			return err
		}
	}
	replaceable := s.replaceable()
	effective := slices.ContainsFunc(s.group.Instances, func(i refresh.Instance) bool {
		return b.launchedSince(i) && !a.verdicts[i.ID].Outdated
	})
	for _, i := range s.group.Instances {
		// If the group has launched what it should, one whose source is unknown was attached.
		reason, compared := a.verdicts[i.ID].ByComparison(effective)
		if !compared || !slices.Contains(replaceable, i.ID) || i.Terminating() || !b.launchedSince(i) {
			continue
		}
		return &endError{report.Ineffective, fmt.Sprintf("instance %s was launched after the rollout began, at %s, and is "+
			"outdated as well: %s; nothing more is replaced, since the next one would be outdated, too: find out why the "+
			"group does not launch what it should, then run trigger resume --asg %s", i.ID,
			b.begun.At.UTC().Format(time.RFC3339), reason.Text, b.group.name)}
	}
	return nil
}

// begin records that the rollout to the target begins, unless an earlier run has.
func (b *beginning) begin(ctx context.Context, target string) error {
	g := b.group.state.group
	begun, recorded := refresh.BegunOf(g)
	if b.continued = recorded && begun.Target == target; !b.continued {
		ctx, cancel := uncancelled(ctx)
		defer cancel()
		begun = refresh.Begun{Target: target, At: time.Now()}
		if err := b.aws.WriteBegun(ctx, b.group.name, begun); err != nil {
			return err
		}
	}
	b.begun, b.known = begun, map[string]bool{}
	for _, i := range g.Instances {
		b.known[i.ID] = true
	}
	return nil
}

// launchedSince reports whether the instance was launched after the rollout to the target began. One that comes from a
// warm pool was launched before.
func (b *beginning) launchedSince(i refresh.Instance) bool {
	if b.known[i.ID] {
		return b.continued && i.Launched.After(b.begun.At)
	}
	return i.Launched.IsZero() || b.begun.Precedes(i.Launched)
}

// end forgets the beginning of a rollout that has left nothing to be replaced.
func (b *beginning) end(ctx context.Context, outcome report.Outcome) {
	reached := outcome == report.Done || outcome == report.Nothing ||
		outcome == report.Incomplete && !b.group.state.isDue()
	if reached && !b.group.state.deleted {
		b.forget(ctx)
	}
}

// forget removes the tag, if there may be one.
func (b *beginning) forget(ctx context.Context) {
	g := b.group
	if _, recorded := refresh.BegunOf(g.state.group); !recorded && b.begun.Target == "" {
		return
	}
	ctx, cancel := uncancelled(ctx)
	defer cancel()
	if err := b.aws.RemoveBegun(ctx, g.name); err != nil {
		g.progress.note(refresh.Warn, "the tag %s could not be removed: %v", refresh.BegunTag, err)
	}
}
