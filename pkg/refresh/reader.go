package refresh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/node-drainer/node-drainer/internal/batch"
)

// GroupsAPI are the calls to Auto Scaling of a Reader. None of them changes anything.
type GroupsAPI interface {
	DescribeAutoScalingGroups(context.Context, *autoscaling.DescribeAutoScalingGroupsInput,
		...func(*autoscaling.Options)) (*autoscaling.DescribeAutoScalingGroupsOutput, error)
	DescribeInstanceRefreshes(context.Context, *autoscaling.DescribeInstanceRefreshesInput,
		...func(*autoscaling.Options)) (*autoscaling.DescribeInstanceRefreshesOutput, error)
	DescribeLifecycleHooks(context.Context, *autoscaling.DescribeLifecycleHooksInput,
		...func(*autoscaling.Options)) (*autoscaling.DescribeLifecycleHooksOutput, error)
}

// InstancesAPI are the calls to EC2 of a Reader. None of them changes anything.
type InstancesAPI interface {
	DescribeLaunchTemplateVersions(context.Context, *ec2.DescribeLaunchTemplateVersionsInput,
		...func(*ec2.Options)) (*ec2.DescribeLaunchTemplateVersionsOutput, error)
	DescribeInstances(context.Context, *ec2.DescribeInstancesInput,
		...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error)
}

const (
	// callTimeout bounds one call with all the SDK's retries of it.
	callTimeout = time.Minute
	// groupsPage is the most names, and the most groups, of one DescribeAutoScalingGroups (MaxRecords).
	groupsPage = 100
	// refreshesPage is the most refreshes of one DescribeInstanceRefreshes (MaxRecords).
	refreshesPage = 100
	// groupWindow is how long a question for a group waits for company.
	groupWindow = 5 * time.Millisecond
	// callsAtOnce is how many calls of one kind run side by side.
	callsAtOnce = 8
)

// ErrNoGroup is that there is no Auto Scaling group of a name, by errors.Is.
var ErrNoGroup = errors.New("there is no such Auto Scaling group")

// Reader asks AWS about groups. It cannot change anything.
type Reader struct {
	groups    GroupsAPI
	instances InstancesAPI
	described batch.Batcher[string, Group]
}

// NewReader returns a Reader. The clients retry what AWS throttles.
func NewReader(groups GroupsAPI, instances InstancesAPI) *Reader {
	r := &Reader{groups: groups, instances: instances}
	r.described = batch.Batcher[string, Group]{Max: groupsPage, Window: groupWindow, Call: r.together}
	return r
}

// Group describes one group anew. Questions that come together share a call. The error is ErrNoGroup if there
// is none of the name.
func (r *Reader) Group(ctx context.Context, name string) (Group, error) {
	return r.described.Do(ctx, name)
}

// together describes the groups of a batch of questions.
func (r *Reader) together(ctx context.Context, names []string) []batch.Result[Group] {
	found, err := r.named(ctx, names)
	results := make([]batch.Result[Group], len(names))
	for n, name := range names {
		i := slices.IndexFunc(found, func(g Group) bool { return g.Name == name })
		switch {
		case err != nil:
			results[n].Err = err
		case i < 0:
			results[n].Err = fmt.Errorf("group %s: %w", name, ErrNoGroup)
		default:
			results[n].Value = found[i]
			results[n].Value.Instances = slices.Clone(found[i].Instances) // Complete writes into them.
		}
	}
	return results
}

// Hooks returns the group's lifecycle hooks.
func (r *Reader) Hooks(ctx context.Context, group string) ([]Hook, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := r.groups.DescribeLifecycleHooks(ctx,
		&autoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: aws.String(group)})
	if err != nil {
		return nil, fmt.Errorf("describe the lifecycle hooks of group %s: %w", group, err)
	}
	hooks := make([]Hook, 0, len(out.LifecycleHooks))
	for _, h := range out.LifecycleHooks {
		hooks = append(hooks, toHook(h))
	}
	return hooks, nil
}

// Refreshes returns the newest Instance Refreshes of the group, the newest first: a hundred at most, of the
// last six weeks.
func (r *Reader) Refreshes(ctx context.Context, group string) ([]Refresh, error) {
	found, err := r.refreshes(ctx, &autoscaling.DescribeInstanceRefreshesInput{
		AutoScalingGroupName: aws.String(group), MaxRecords: aws.Int32(refreshesPage),
	})
	slices.SortStableFunc(found, func(x, y Refresh) int { return y.age(x) })
	return found, err
}

// age compares by the start; a refresh that has not started yet is the newest.
func (r Refresh) age(other Refresh) int {
	if r.Started.IsZero() || other.Started.IsZero() {
		return -r.Started.Compare(other.Started)
	}
	return r.Started.Compare(other.Started)
}

// Refresh describes one Instance Refresh of the group. That there is none of the id is an error.
func (r *Reader) Refresh(ctx context.Context, group, id string) (Refresh, error) {
	found, err := r.refreshes(ctx, &autoscaling.DescribeInstanceRefreshesInput{
		AutoScalingGroupName: aws.String(group), InstanceRefreshIds: []string{id},
	})
	if err != nil {
		return Refresh{}, err
	}
	i := slices.IndexFunc(found, func(one Refresh) bool { return one.ID == id })
	if i < 0 {
		return Refresh{}, fmt.Errorf("group %s has no instance refresh %s", group, id)
	}
	return found[i], nil
}

func (r *Reader) refreshes(
	ctx context.Context, in *autoscaling.DescribeInstanceRefreshesInput,
) ([]Refresh, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := r.groups.DescribeInstanceRefreshes(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("describe the instance refreshes of group %s: %w",
			aws.ToString(in.AutoScalingGroupName), err)
	}
	found := make([]Refresh, 0, len(out.InstanceRefreshes))
	for _, one := range out.InstanceRefreshes {
		found = append(found, toRefresh(one))
	}
	return found, nil
}
