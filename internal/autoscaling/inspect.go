package autoscaling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"golang.org/x/time/rate"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// hooksInterval is the time between two DescribeLifecycleHooks of an Inspector, which describes one group only.
const hooksInterval = 200 * time.Millisecond

// InspectedGroup is what an installation needs of a group.
type InspectedGroup struct {
	Name      string
	Tags      map[string]string
	Clusters  []string // that the tags name
	Instances []string // ids
	WarmPool  bool
}

// InspectedHook is what an installation needs of a lifecycle hook.
type InspectedHook struct {
	Name       string
	Transition Transition
	Target     string // ARN of a queue or a topic; empty if EventBridge delivers
	RoleARN    string // with which Auto Scaling sends to the target
	Default    Result
	Timing     Timing
}

// Inspector reads what a check of an installation needs, through the caches and the client of an agent. It describes
// the hooks of at most five groups a second.
type Inspector struct {
	hooks *Hooks
	turns *rate.Limiter
}

// NewInspector returns an Inspector.
func NewInspector(h *Hooks) *Inspector {
	return &Inspector{hooks: h, turns: rate.NewLimiter(rate.Every(hooksInterval), 1)}
}

// Groups describes the groups whose tags name the cluster: one call for each of the three forms of the tag, and each
// further hundred groups. It needs autoscaling:DescribeAutoScalingGroups.
func (i *Inspector) Groups(ctx context.Context, cluster string) ([]InspectedGroup, error) {
	found := map[string]InspectedGroup{}
	for _, filter := range clusterFilters(cluster) {
		in := &sdk.DescribeAutoScalingGroupsInput{Filters: []types.Filter{filter}}
		if err := i.describe(ctx, in, found); err != nil {
			return nil, err
		}
	}
	var groups []InspectedGroup
	for _, g := range found {
		if slices.Contains(g.Clusters, cluster) {
			groups = append(groups, g)
		}
	}
	return sortedByName(groups), nil
}

// Others describes the groups of instances; of their instances only these: one call for each fifty instances, and each
// hundred groups. It needs autoscaling:DescribeAutoScalingInstances too.
func (i *Inspector) Others(ctx context.Context, instances []string) ([]InspectedGroup, error) {
	members := map[string]Member{}
	for some := range slices.Chunk(instances, describeMax) {
		err := readRepeatedly(ctx, func() error { return i.hooks.describeMembers(ctx, some, members) })
		if err != nil {
			return nil, err
		}
	}
	of := map[string][]string{}
	for id, m := range members {
		of[m.Group] = append(of[m.Group], id)
	}
	found := map[string]InspectedGroup{}
	var names []string
	for name := range of {
		names = append(names, name)
	}
	slices.Sort(names)
	for some := range slices.Chunk(names, groupsPage) {
		in := &sdk.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: some}
		if err := i.describe(ctx, in, found); err != nil {
			return nil, err
		}
	}
	var groups []InspectedGroup
	for _, g := range found {
		g.Instances = of[g.Name] // Those that were asked for.
		groups = append(groups, g)
	}
	return sortedByName(groups), nil
}

func sortedByName(groups []InspectedGroup) []InspectedGroup {
	slices.SortFunc(groups, func(x, y InspectedGroup) int {
		if x.Name < y.Name {
			return -1
		}
		return 1
	})
	return groups
}

func (i *Inspector) describe(
	ctx context.Context, in *sdk.DescribeAutoScalingGroupsInput, found map[string]InspectedGroup,
) error {
	return eachGroup(ctx, retryingAPI{i.hooks.api}, membersTimeout, in, func(g types.AutoScalingGroup) {
		found[aws.ToString(g.AutoScalingGroupName)] = toInspected(g)
	})
}

func toInspected(g types.AutoScalingGroup) InspectedGroup {
	out := InspectedGroup{
		Name: aws.ToString(g.AutoScalingGroupName), Tags: map[string]string{}, WarmPool: g.WarmPoolConfiguration != nil,
	}
	for _, t := range g.Tags {
		key, value := aws.ToString(t.Key), aws.ToString(t.Value)
		out.Tags[key] = value
	}
	out.Clusters = refresh.ClustersOf(out.Tags)
	for _, one := range g.Instances {
		out.Instances = append(out.Instances, aws.ToString(one.InstanceId))
	}
	return out
}

// Hooks describes the group's lifecycle hooks. The answer is kept for five minutes, for the agent too. It needs
// autoscaling:DescribeLifecycleHooks.
func (i *Inspector) Hooks(ctx context.Context, group string) ([]InspectedHook, error) {
	if err := i.turns.Wait(ctx); err != nil {
		return nil, fmt.Errorf("wait for the turn to describe hooks: %w", cmp.Or(context.Cause(ctx), err))
	}
	var all []types.LifecycleHook
	err := readRepeatedly(ctx, func() (err error) {
		all, err = i.hooks.hooks.get(ctx, group)
		return err
	})
	return convert(all, toInspectedHook), err
}

func toInspectedHook(h types.LifecycleHook) InspectedHook {
	return InspectedHook{
		Name: aws.ToString(h.LifecycleHookName), Transition: Transition(aws.ToString(h.LifecycleTransition)),
		Target: aws.ToString(h.NotificationTargetARN), RoleARN: aws.ToString(h.RoleARN),
		Default: Result(aws.ToString(h.DefaultResult)), Timing: timingOf(h),
	}
}

// Settings describes the settings of the account. It needs autoscaling:DescribeAccountSettings.
func (i *Inspector) Settings(ctx context.Context) (all []AccountSetting, err error) {
	err = readRepeatedly(ctx, func() (err error) {
		all, err = describeSettings(ctx, i.hooks.api, callTimeout)
		return err
	})
	return all, err
}

// The permissions that Try tries.
const (
	ActionHeartbeat = "autoscaling:RecordLifecycleActionHeartbeat"
	ActionComplete  = "autoscaling:CompleteLifecycleAction"
	ActionTags      = "autoscaling:DescribeTags"
	ActionInstances = "autoscaling:DescribeAutoScalingInstances"
	ActionPool      = "autoscaling:DescribeWarmPool"
	ActionRefreshes = "autoscaling:DescribeInstanceRefreshes"
)

// noToken is the token of no lifecycle action: tokens have 36 characters. noInstance is no instance.
const (
	noToken    = "00000000-0000-0000-0000-000000000000"
	noInstance = "i-00000000000000000"
)

// Try makes one call that needs the permission, about the group, and changes nothing. Heartbeats and completions have a
// token that no lifecycle action has, so that Auto Scaling refuses them as a ValidationError if they are permitted, and
// as AccessDenied otherwise. That it checks the permission first is not documented. The error is that of Auto Scaling.
func (i *Inspector) Try(ctx context.Context, action, group, hook string) error {
	api := i.hooks.api
	var err error
	switch action {
	case ActionHeartbeat:
		err = i.hooks.heartbeat(ctx, Action{Group: group, Hook: hook, Token: noToken})
	case ActionComplete:
		_, err = call(ctx, callTimeout, api.CompleteLifecycleAction, &sdk.CompleteLifecycleActionInput{
			AutoScalingGroupName: &group, LifecycleHookName: &hook, LifecycleActionToken: new(noToken),
			LifecycleActionResult: new(string(Continue)),
		})
	case ActionTags:
		_, err = i.hooks.Clusters(ctx, group)
	case ActionInstances:
		err = i.hooks.describeMembers(ctx, []string{noInstance}, map[string]Member{})
	case ActionPool:
		err = eachPooled(ctx, api, callTimeout, group, func([]types.Instance) {})
	case ActionRefreshes:
		_, err = i.hooks.RolloutActive(ctx, group)
	default:
		err = errors.New(action + " cannot be tried")
	}
	return err
}
