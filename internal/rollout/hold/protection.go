package hold

import (
	"context"
	"slices"

	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// protectionWriter protects instances of a group from scale in, and lists them in tags of the group. Protect returns
// those that it has not protected; Unprotect ends it for those of the tags.
type protectionWriter interface {
	Protect(ctx context.Context, g refresh.Group, ids []string) (rest []string, err error)
	Unprotect(ctx context.Context, g refresh.Group) (unprotected []string, err error)
}

// protection protects the instances that Config.Exclude keeps from scale in: when the group shrinks meanwhile, Auto
// Scaling terminates instances of the oldest launch template first. Instances that a user has protected are left alone.
type protection struct {
	group *loop.Group
	aws   protectionWriter
}

func (protection) kind() refresh.HoldKind { return refresh.HoldProtection }

func (p protection) held(g refresh.Group) string { return heldOf(g, p.kind()) }

func (p protection) take(ctx context.Context) (done string, err error) {
	s := p.group.State
	if !p.group.Config.Mode.InBatches() || len(p.group.Config.Exclude) == 0 {
		return "", nil
	}
	excluded := s.Policy.Excluded(s.Group.Instances)
	ids := s.Group.InstanceIDs(func(i refresh.Instance) bool {
		return excluded[i.ID] != "" && i.InService() && !i.Protected
	})
	if len(ids) == 0 {
		return "", nil
	}
	rest, err := p.aws.Protect(ctx, s.Group, ids)
	if err == nil && len(rest) > 0 {
		p.group.Progress.Note(refresh.Warn, "%s not protected from scale in, because the tags of the group list no more: %s",
			text.Plural(len(rest), "instance is", "instances are"), text.First(rest, plan.MostNames))
	}
	protected := slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(rest, id) })
	return list("protected from scale in for the rollout: ", protected), err
}

func (p protection) giveBack(ctx context.Context) (done, left string, err error) {
	g, err := p.group.Read(ctx)
	if err != nil {
		return "", "", err
	}
	unprotected, err := p.aws.Unprotect(ctx, g)
	return list("not protected from scale in any more: ", unprotected), "", err
}
