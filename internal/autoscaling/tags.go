package autoscaling

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// tagger tags groups, and remembers which tags they have of the trigger.
type tagger struct {
	api  ChangesAPI
	tags *remembered
	done *written
}

// remembered are the values of the tags by which the trigger records what it has changed, by group and key.
type remembered struct {
	mu sync.Mutex
	of map[string]map[string]string
}

// set remembers that the group has the tag, or has it no more if the value is empty. It does so only for a group for
// which Remember was called.
func (r *remembered) set(group, key, value string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch known := r.of[group]; {
	case known == nil || !refresh.IsRecord(key):
	case value == "":
		delete(known, key)
	default:
		known[key] = value
	}
}

// Remember takes the records among the group's tags, and what is written into them from now on, for WithRemoved. What
// was remembered of the group before is forgotten.
func (w tagger) Remember(g refresh.Group) {
	known := maps.Clone(g.Tags)
	maps.DeleteFunc(known, func(key, _ string) bool { return !refresh.IsRecord(key) })
	if known == nil {
		known = map[string]string{}
	}
	w.tags.mu.Lock()
	defer w.tags.mu.Unlock()
	w.tags.of[g.Name] = known
}

// Forget forgets what Remember has begun.
func (w tagger) Forget(group string) {
	w.tags.mu.Lock()
	defer w.tags.mu.Unlock()
	delete(w.tags.of, group)
}

// WithRemoved returns the group, as it was described, with those of the remembered tags that it lacks, and their keys:
// another client has removed them, as infrastructure as code does with tags that it does not know. There are none when
// the lease that was written last has expired, or another trigger has the group's: that one may have given back what
// they record.
func (w tagger) WithRemoved(g refresh.Group) (refresh.Group, []string) {
	w.tags.mu.Lock()
	missing := maps.Clone(w.tags.of[g.Name])
	w.tags.mu.Unlock()
	ours, held := refresh.LeaseOf(refresh.Group{Tags: missing})
	if _, other := refresh.HeldByOther(g, ours.Holder, time.Now()); !held || other || time.Now().After(ours.Expires) {
		return g, nil
	}
	maps.DeleteFunc(missing, func(key, _ string) bool { _, has := g.Tags[key]; return has })
	keys := slices.Sorted(maps.Keys(missing))
	if len(keys) == 0 {
		return g, nil
	}
	if g.Tags = maps.Clone(g.Tags); g.Tags == nil {
		g.Tags = map[string]string{}
	}
	maps.Copy(g.Tags, missing)
	return g, keys
}

// WriteAgain writes the tags of these keys, as the group has them, with a call for each: no statement of deploy/iam
// allows all of them, and a call must be allowed by one.
func (w tagger) WriteAgain(ctx context.Context, g refresh.Group, keys []string) error {
	for _, key := range keys {
		if err := w.tag(ctx, g.Name, key, g.Tags[key]); err != nil {
			return err
		}
	}
	return nil
}

// groupResource is the type of what the tags of Auto Scaling are on. Source: Tag in the API reference.
const groupResource = "auto-scaling-group"

func (w tagger) tag(ctx context.Context, group, key, value string) error {
	return w.tagAll(ctx, group, map[string]string{key: value})
}

// tagAll sets all of the tags with one call.
func (w tagger) tagAll(ctx context.Context, group string, tags map[string]string) error {
	in, keys := &sdk.CreateOrUpdateTagsInput{}, slices.Sorted(maps.Keys(tags))
	for _, key := range keys {
		in.Tags = append(in.Tags, types.Tag{
			ResourceId: &group, ResourceType: aws.String(groupResource), Key: &key, Value: aws.String(tags[key]),
			PropagateAtLaunch: aws.Bool(false),
		})
	}
	_, err := call(ctx, retriedTimeout, w.api.CreateOrUpdateTags, in)
	for key, value := range tags {
		w.done.add(group, key, value, err)
	}
	if err != nil {
		return wrap(err, "tag group %s with %s", group, strings.Join(keys, ", "))
	}
	for key, value := range tags {
		w.tags.set(group, key, value)
	}
	return nil
}

func (w tagger) untag(ctx context.Context, group, key string) error {
	w.tags.set(group, key, "")
	_, err := call(ctx, retriedTimeout, w.api.DeleteTags, &sdk.DeleteTagsInput{Tags: []types.Tag{{
		ResourceId: &group, ResourceType: aws.String(groupResource), Key: &key,
	}}})
	w.done.add(group, key, "", err)
	return wrap(err, "remove the tag %s from group %s", key, group)
}

// WriteLease writes the lease into a tag of the group, whoever has one.
func (w tagger) WriteLease(ctx context.Context, group string, l refresh.Lease) error {
	return w.tag(ctx, group, refresh.LeaseTag, l.String())
}

// RemoveLease removes the lease of the group.
func (w tagger) RemoveLease(ctx context.Context, group string) error {
	return w.untag(ctx, group, refresh.LeaseTag)
}

// WriteBegun writes into a tag of the group when the rollout to a target began.
func (w tagger) WriteBegun(ctx context.Context, group string, b refresh.Begun) error {
	return w.tag(ctx, group, refresh.BegunTag, b.String())
}

// RemoveBegun removes the beginning of the group's rollout.
func (w tagger) RemoveBegun(ctx context.Context, group string) error {
	return w.untag(ctx, group, refresh.BegunTag)
}

// WriteFailed writes into a tag of the group that the rollout to a target failed.
func (w tagger) WriteFailed(ctx context.Context, group string, f refresh.Failed) error {
	return w.tag(ctx, group, refresh.FailedTag, f.String())
}

// RemoveFailed removes the failure of the group.
func (w tagger) RemoveFailed(ctx context.Context, group string) error {
	return w.untag(ctx, group, refresh.FailedTag)
}
