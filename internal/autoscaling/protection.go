package autoscaling

import (
	"context"
	"maps"
	"slices"

	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// protectMax is the most instances of one call of SetInstanceProtection.
const protectMax = 50

// Protect protects the instances from scale in, which must be in service. It first lists them in tags of the group, so
// that a later run can end that after an interruption. It returns those that it has not protected, because the tags
// cannot list more.
func (w *Writer) Protect(ctx context.Context, g refresh.Group, ids []string) (rest []string, err error) {
	all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(refresh.ProtectedBy(g), ids))))
	tags, rest := refresh.ListProtected(all)
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if err := w.tag(ctx, g.Name, key, tags[key]); err != nil {
			return nil, err
		}
	}
	return rest, w.setProtection(ctx, g.Name, without(ids, rest), true)
}

// Unprotect ends what Protect has done for the instances that are still there, removes the tags, and returns the
// instances. It changes no other instance. AWS may describe what Protect has done late.
func (w *Writer) Unprotect(ctx context.Context, g refresh.Group) ([]string, error) {
	ours := refresh.ProtectedBy(g)
	ids := g.InstanceIDs(func(i refresh.Instance) bool {
		return slices.Contains(ours, i.ID) && (i.InService() || i.Standby())
	})
	if err := w.setProtection(ctx, g.Name, ids, false); err != nil {
		return nil, err
	}
	for _, key := range slices.Backward(refresh.ProtectedTags()) {
		if _, tagged := g.Tags[key]; !tagged {
			continue
		}
		if err := w.untag(ctx, g.Name, key); err != nil {
			return ids, err
		}
	}
	return ids, nil
}

func (w *Writer) setProtection(ctx context.Context, group string, ids []string, protected bool) error {
	for some := range slices.Chunk(ids, protectMax) {
		_, err := call(ctx, retriedTimeout, w.api.SetInstanceProtection, &sdk.SetInstanceProtectionInput{
			AutoScalingGroupName: &group, InstanceIds: some, ProtectedFromScaleIn: &protected,
		})
		if err != nil {
			return wrap(err, "change the protection from scale in of instances of group %s", group)
		}
	}
	return nil
}
