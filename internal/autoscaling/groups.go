package autoscaling

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/internal/batch"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

const (
	// describeMax is the most instances of one DescribeAutoScalingInstances call.
	describeMax = 50
	// describeWindow is how long a question for an instance waits for others: a burst of messages costs one
	// call.
	describeWindow = 50 * time.Millisecond
	// groupsPage is the most groups of one page of DescribeAutoScalingGroups, and the most names of one call.
	groupsPage = 100
	// keepGroup is how long hooks and tags of a group are kept.
	keepGroup = 5 * time.Minute
	// keepMissing is for how long a hook that was not among the hooks of its group does not exist.
	keepMissing = 10 * time.Second
	// keepRollout is how long it is kept whether a group has a rollout. Its nodes join one by one, and each of them is
	// a question.
	keepRollout = 30 * time.Second
	// newestRefreshes is how many refreshes are read to find the active one. A group has one active at most, and
	// the newest are described first.
	newestRefreshes = 10
)

// Groups reads what the agent has to know of Auto Scaling groups and their instances. It changes nothing.
type Groups struct {
	api   API
	names []string // of the hooks that the agent answers; none for all of them
	queue string   // the end of its ARN

	instances batch.Batcher[string, Member]
	hooks     cache[[]types.LifecycleHook] // by group
	clusters  cache[[]string]
	rollouts  cache[bool]
}

func newGroups(api API, cfg Config, queueURL string) *Groups {
	g := &Groups{api: api, names: cfg.Names, queue: arnSuffix(queueURL)}
	g.instances = batch.Batcher[string, Member]{Max: describeMax, Window: describeWindow, Call: g.describe}
	g.hooks.read, g.hooks.keep = g.readHooks, keepGroup
	g.clusters.read, g.clusters.keep = g.readClusters, keepGroup
	g.rollouts.read, g.rollouts.keep = g.readRolloutActive, keepRollout
	return g
}

// arnSuffix returns the end of the ARN of an SQS queue, account and name, which are the path of its URL.
func arnSuffix(queueURL string) string {
	u, err := url.Parse(queueURL)
	if err != nil {
		return queueURL
	}
	return strings.ReplaceAll(u.Path, "/", ":")
}

// State returns the state of an instance. Concurrent questions share a call.
func (g *Groups) State(ctx context.Context, instanceID string) (State, error) {
	member, err := g.instances.Do(ctx, instanceID)
	return member.State, err
}

// GroupOf returns the group that an instance is in; "" if it is in none. Concurrent questions share a call.
func (g *Groups) GroupOf(ctx context.Context, instanceID string) (string, error) {
	member, err := g.instances.Do(ctx, instanceID)
	return member.Group, err
}

func (g *Groups) describe(ctx context.Context, ids []string) []batch.Result[Member] {
	members := map[string]Member{}
	err := g.describeMembers(ctx, slices.Compact(slices.Sorted(slices.Values(ids))), members)
	return batch.Results(ids, members, err)
}

func (g *Groups) describeMembers(ctx context.Context, ids []string, members map[string]Member) error {
	out, err := call(ctx, callTimeout, g.api.DescribeAutoScalingInstances,
		&sdk.DescribeAutoScalingInstancesInput{InstanceIds: ids})
	for _, i := range out.AutoScalingInstances {
		id := aws.ToString(i.InstanceId)
		members[id] = Member{aws.ToString(i.AutoScalingGroupName), id, State(aws.ToString(i.LifecycleState))}
	}
	return wrap(err, "describe Auto Scaling instances")
}

// hook describes a group's hook. If it is not among the hooks that were read before, it may be new: they are
// read again, but not for each of many messages that name hooks which do not exist.
func (g *Groups) hook(ctx context.Context, group, name string) (types.LifecycleHook, error) {
	for range 2 {
		all, err := g.hooks.get(ctx, group)
		if err != nil {
			return types.LifecycleHook{}, err
		}
		for _, h := range all {
			if aws.ToString(h.LifecycleHookName) == name {
				return h, nil
			}
		}
		g.hooks.forget(group, keepMissing)
	}
	return types.LifecycleHook{}, fmt.Errorf("group %s has no lifecycle hook %s: %w", group, name, ErrGone)
}

func (g *Groups) readHooks(ctx context.Context, group string) ([]types.LifecycleHook, error) {
	return describeHooks(ctx, g.api, callTimeout, group)
}

// OwnHook is a lifecycle hook that this agent answers.
type OwnHook struct {
	Name   string
	Direct bool // it notifies the agent's queue, so that it is no other agent's
}

// OwnHooks returns the group's hooks for the transition that this agent answers: those that HOOK_NAMES lists; if
// it lists none, those that notify the agent's queue. A hook without a target may be anyone's: EventBridge
// reports it to whoever asks.
func (g *Groups) OwnHooks(ctx context.Context, group string, t Transition) ([]OwnHook, error) {
	all, err := g.hooks.get(ctx, group)
	if err != nil {
		return nil, err
	}
	var own []OwnHook
	for _, h := range all {
		if aws.ToString(h.LifecycleTransition) == string(t) && g.answers(h) {
			direct := isQueue(aws.ToString(h.NotificationTargetARN), g.queue)
			own = append(own, OwnHook{aws.ToString(h.LifecycleHookName), direct})
		}
	}
	return own, nil
}

func (g *Groups) answers(h types.LifecycleHook) bool {
	if len(g.names) > 0 {
		return g.HandlesHook(aws.ToString(h.LifecycleHookName))
	}
	return isQueue(aws.ToString(h.NotificationTargetARN), g.queue)
}

// isQueue reports whether the ARN is that of the queue, or of any if that is empty, and not of a topic of the same
// name.
func isQueue(arn, queue string) bool {
	return strings.Contains(arn, ":sqs:") && strings.HasSuffix(arn, queue)
}

// NotifiesOthers reports whether a message about the hook is in the agent's queue although it is for another
// reader, as an EventBridge rule for all hooks of a group sends it. HOOK_NAMES decides; if it lists none, such
// a hook notifies another queue, or it has no target while another hook of the group notifies the agent's
// queue. If Auto Scaling refuses to describe the hooks, the message is for the agent. The error is ErrGone if the group
// has no such hook.
func (g *Groups) NotifiesOthers(ctx context.Context, group, name string) (bool, error) {
	if len(g.names) > 0 {
		return false, nil
	}
	h, err := g.hook(ctx, group, name)
	target := aws.ToString(h.NotificationTargetARN)
	switch {
	case isRefused(err):
		return false, nil
	case err != nil || target != "":
		return isQueue(target, "") && !isQueue(target, g.queue), err
	}
	own, err := g.OwnHooks(ctx, group, Transition(aws.ToString(h.LifecycleTransition)))
	return len(own) > 0, err
}

// HandlesHook reports whether HOOK_NAMES leaves the hook to this agent.
func (g *Groups) HandlesHook(hook string) bool {
	return len(g.names) == 0 || slices.Contains(g.names, hook)
}

// RolloutActive reports whether instances of the group are being replaced: by an instance refresh, also while it is
// cancelled or rolled back, or by a trigger that has a lease of the group. The answer is kept for 30 seconds.
func (g *Groups) RolloutActive(ctx context.Context, group string) (bool, error) {
	return g.rollouts.get(ctx, group)
}

func (g *Groups) readRolloutActive(ctx context.Context, group string) (bool, error) {
	found, err := describeRefreshes(ctx, g.api, callTimeout, &sdk.DescribeInstanceRefreshesInput{
		AutoScalingGroupName: &group, MaxRecords: new(int32(newestRefreshes)),
	})
	if err != nil || slices.ContainsFunc(found, refresh.Refresh.Active) {
		return err == nil, err
	}
	tags := map[string]string{}
	err = eachTag(ctx, g.api, group, func(key, value string) { tags[key] = value })
	lease, ok := refresh.LeaseOf(refresh.Group{Tags: tags})
	return ok && !lease.Expired(time.Now()), err
}
