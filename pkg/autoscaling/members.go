package autoscaling

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// Member is an instance of an Auto Scaling group.
type Member struct {
	Group, InstanceID string
	State             State
}

// groupsPage is the most groups of one page of DescribeAutoScalingGroups.
const groupsPage = 100

// Members returns the instances of every group whose tags name the cluster, and those of the known instances
// that are in other groups. It asks for groups first: one call tells of all instances of a hundred of them.
func (h *Hooks) Members(ctx context.Context, cluster string, known []string) (map[string]Member, error) {
	members := map[string]Member{}
	for _, filter := range clusterFilters(cluster) {
		if err := h.groupMembers(ctx, filter, members); err != nil {
			return nil, err
		}
	}
	others := slices.DeleteFunc(slices.Clone(known), func(id string) bool {
		_, ok := members[id]
		return ok
	})
	for some := range slices.Chunk(others, describeMax) {
		if err := h.describeMembers(ctx, some, members); err != nil {
			return nil, err
		}
	}
	return members, nil
}

// clusterFilters select the groups that clusterOf gives to the cluster. Filters of one call narrow each
// other, so each has a call of its own.
func clusterFilters(cluster string) []types.Filter {
	return []types.Filter{
		{Name: aws.String("tag-key"), Values: []string{
			"kubernetes.io/cluster/" + cluster, "k8s.io/cluster-autoscaler/" + cluster,
		}},
		{Name: aws.String("tag:eks:cluster-name"), Values: []string{cluster}},
		{Name: aws.String("tag:aws:eks:cluster-name"), Values: []string{cluster}},
	}
}

func (h *Hooks) groupMembers(ctx context.Context, filter types.Filter, members map[string]Member) error {
	in := &sdk.DescribeAutoScalingGroupsInput{
		Filters: []types.Filter{filter}, MaxRecords: aws.Int32(groupsPage),
	}
	pages := sdk.NewDescribeAutoScalingGroupsPaginator(h.api, in)
	for pages.HasMorePages() {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		out, err := pages.NextPage(ctx)
		cancel()
		if err != nil {
			return fmt.Errorf("describe the groups of the cluster: %w", err)
		}
		for _, g := range out.AutoScalingGroups {
			for _, i := range g.Instances {
				id := deref(i.InstanceId)
				members[id] = Member{deref(g.AutoScalingGroupName), id, State(i.LifecycleState)}
			}
		}
	}
	return nil
}

func (h *Hooks) describeMembers(ctx context.Context, ids []string, members map[string]Member) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := h.api.DescribeAutoScalingInstances(ctx,
		&sdk.DescribeAutoScalingInstancesInput{InstanceIds: ids})
	if err != nil {
		return fmt.Errorf("describe Auto Scaling instances: %w", err)
	}
	for _, i := range out.AutoScalingInstances {
		id := deref(i.InstanceId)
		members[id] = Member{deref(i.AutoScalingGroupName), id, State(deref(i.LifecycleState))}
	}
	return nil
}

// Transition is what a lifecycle hook waits for, in Auto Scaling's own words.
type Transition string

// The transitions.
const (
	Launching   Transition = "autoscaling:EC2_INSTANCE_LAUNCHING"
	Terminating Transition = "autoscaling:EC2_INSTANCE_TERMINATING"
)

// OwnHooks returns the names of the group's hooks for the transition that this agent answers: those that
// HOOK_NAMES lists; if it lists none, those that send to the agent's queue, and those without a target, which
// EventBridge tells of. Other targets belong to others.
func (h *Hooks) OwnHooks(ctx context.Context, group string, t Transition) ([]string, error) {
	all, err := h.listed.get(ctx, group)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, l := range all {
		if deref(l.LifecycleTransition) == string(t) && h.answers(l) {
			names = append(names, deref(l.LifecycleHookName))
		}
	}
	return names, nil
}

func (h *Hooks) answers(l types.LifecycleHook) bool {
	if len(h.cfg.Names) > 0 {
		return h.HandlesHook(deref(l.LifecycleHookName))
	}
	target := deref(l.NotificationTargetARN)
	return target == "" || strings.HasSuffix(target, h.queue)
}

// HandlesHook tells whether HOOK_NAMES leaves the hook to this agent.
func (h *Hooks) HandlesHook(hook string) bool {
	return len(h.cfg.Names) == 0 || slices.Contains(h.cfg.Names, hook)
}

// arnOf returns the end of the ARN of an SQS queue, account and name, which are the path of its URL.
func arnOf(queueURL string) string {
	u, err := url.Parse(queueURL)
	if err != nil {
		return queueURL
	}
	return strings.ReplaceAll(u.Path, "/", ":")
}

// MarkUnhealthy has the group of an instance replace it: by its maintenance policy, else the instance goes
// first. The grace period of a new instance does not protect it. The error is ErrGone if the instance is in
// no group.
func (h *Hooks) MarkUnhealthy(ctx context.Context, instanceID string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := h.api.SetInstanceHealth(ctx, &sdk.SetInstanceHealthInput{
		InstanceId: aws.String(instanceID), HealthStatus: aws.String("Unhealthy"),
		ShouldRespectGracePeriod: aws.Bool(false),
	})
	switch {
	case isValidation(err):
		return fmt.Errorf("%w: %w", ErrGone, err)
	case err != nil:
		return fmt.Errorf("mark instance %s unhealthy: %w", instanceID, err)
	}
	return nil
}
