package mode

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// begunWriter keeps in a tag of a group when the rollout to its target began.
type begunWriter interface {
	WriteBegun(ctx context.Context, group string, b refresh.Begun) error
	RemoveBegun(ctx context.Context, group string) error
}

// Beginning ends a rollout in batches that would replace what the group has launched for its target: whatever the
// mistake is, in the comparison or in the group, the next instance would be outdated as well, without an end.
type Beginning struct {
	group     *loop.Group
	aws       begunWriter
	begun     refresh.Begun
	continued bool            // An earlier run has begun the rollout to the target.
	known     map[string]bool // The instances of the group when the rollout began, or this run continued it.
}

// NewBeginning returns the beginning of a rollout that this run has not looked at yet.
func NewBeginning(g *loop.Group, aws begunWriter) *Beginning { return &Beginning{group: g, aws: aws} }

// check returns how the rollout ends if an instance is to be replaced that was launched after it began. It records the
// beginning before the first instance is replaced.
func (b *Beginning) check(ctx context.Context) error {
	s := b.group.State
	a := s.Assess()
	if b.begun.Target != a.Target.Key {
		if err := b.begin(ctx, a.Target.Key); err != nil {
			return err
		}
	}
	replaceable := s.Replaceable()
	effective := slices.ContainsFunc(s.Group.Instances, func(i refresh.Instance) bool {
		return b.launchedSince(i) && !a.Verdicts[i.ID].Outdated
	})
	for _, i := range s.Group.Instances {
		// If the group has launched what it should, one whose source is unknown was attached.
		reason, compared := a.Verdicts[i.ID].ByComparison(effective)
		if !compared || !slices.Contains(replaceable, i.ID) || i.Terminating() || !b.launchedSince(i) {
			continue
		}
		return loop.EndWith(report.Ineffective, fmt.Sprintf("instance %s was launched after the rollout began, at %s, and "+
			"is outdated as well: %s; nothing more is replaced, since the next one would be outdated, too: find out why the "+
			"group does not launch what it should, then run trigger resume --asg %s", i.ID,
			b.begun.At.UTC().Format(time.RFC3339), reason.Text, text.ShellWord(b.group.Name)))

	}
	return nil
}

// begin records that the rollout to the target begins, unless an earlier run has.
func (b *Beginning) begin(ctx context.Context, target string) error {
	g := b.group.State.Group
	begun, recorded := refresh.BegunOf(g)
	if b.continued = recorded && begun.Target == target; !b.continued {
		ctx, cancel := loop.Uncancelled(ctx)
		defer cancel()
		begun = refresh.Begun{Target: target, At: time.Now()}
		if err := b.aws.WriteBegun(ctx, b.group.Name, begun); err != nil {
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
func (b *Beginning) launchedSince(i refresh.Instance) bool {
	if b.known[i.ID] {
		return b.continued && i.Launched.After(b.begun.At)
	}
	return i.Launched.IsZero() || b.begun.Precedes(i.Launched)
}

// End forgets the beginning of a rollout that has left nothing to be replaced.
func (b *Beginning) End(ctx context.Context, outcome report.Outcome) {
	reached := outcome == report.Done || outcome == report.Nothing ||
		outcome == report.Incomplete && !b.group.State.IsDue()
	if reached && !b.group.State.Deleted {
		b.Forget(ctx)
	}
}

// Forget removes the tag, if there may be one.
func (b *Beginning) Forget(ctx context.Context) {
	g := b.group
	if _, recorded := refresh.BegunOf(g.State.Group); !recorded && b.begun.Target == "" {
		return
	}
	ctx, cancel := loop.Uncancelled(ctx)
	defer cancel()
	if err := b.aws.RemoveBegun(ctx, g.Name); err != nil {
		g.Progress.Note(refresh.Warn, "the tag %s could not be removed: %v", refresh.BegunTag, err)
	}
}
