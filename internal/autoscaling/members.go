package autoscaling

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/internal/retry"
)

const (
	// readAttempts is how often Members makes a call that fails. Most throttled calls succeed within seconds.
	readAttempts = 4
	// poolPage is the most instances of one page of DescribeWarmPool.
	poolPage = 50
	// membersTimeout bounds Members: what it has read by then must be handled although AWS hangs.
	membersTimeout = time.Minute
)

// Member is an instance of an Auto Scaling group.
type Member struct {
	Group, InstanceID string
	State             State
}

// Members returns, by id, the instances of every group whose tags name the cluster, those of its warm pool
// included, and those of the known instances that are in other groups. It reads groups first: one call
// describes all instances of a hundred groups, except for their warm pools, which need not be Nodes
// either. Beside an error it returns what could be read, and known instances that could not as
// Undescribed.
func (g *Groups) Members(ctx context.Context, cluster string, known []string) (map[string]Member, error) {
	ctx, cancel := context.WithTimeout(ctx, membersTimeout)
	defer cancel()
	l := memberList{groups: g, members: map[string]Member{}, pools: map[string]bool{}}
	for _, filter := range clusterFilters(cluster) {
		l.addGroups(ctx, filter)
	}
	for _, group := range slices.Sorted(maps.Keys(l.pools)) {
		l.addPool(ctx, group)
	}
	l.addOthers(ctx, known)
	return l.members, errors.Join(l.errs...)
}

// memberList is what Members has read.
type memberList struct {
	groups  *Groups
	members map[string]Member
	pools   map[string]bool // the groups that have a warm pool
	errs    []error
}

// addGroups adds the instances of the groups that match the filter.
func (l *memberList) addGroups(ctx context.Context, filter types.Filter) {
	in := &sdk.DescribeAutoScalingGroupsInput{Filters: []types.Filter{filter}}
	l.note(eachGroup(ctx, retryingAPI{l.groups.api}, membersTimeout, in, func(g types.AutoScalingGroup) {
		l.add(g.AutoScalingGroupName, g.Instances)
		if g.WarmPoolConfiguration != nil {
			l.pools[aws.ToString(g.AutoScalingGroupName)] = true
		}
	}))
}

// addPool adds the instances in the group's warm pool.
func (l *memberList) addPool(ctx context.Context, group string) {
	l.note(eachPooled(ctx, retryingAPI{l.groups.api}, membersTimeout, group, func(pooled []types.Instance) {
		l.add(&group, pooled)
	}))
}

func (l *memberList) add(group *string, instances []types.Instance) {
	for _, i := range instances {
		id := aws.ToString(i.InstanceId)
		l.members[id] = Member{aws.ToString(group), id, State(i.LifecycleState)}
	}
}

// addOthers adds those of the instances that are not in the list yet.
func (l *memberList) addOthers(ctx context.Context, ids []string) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		_, ok := l.members[id]
		return ok
	})
	for some := range slices.Chunk(ids, describeMax) {
		err := readRepeatedly(ctx, func() error { return l.groups.describeMembers(ctx, some, l.members) })
		if l.note(err); err == nil {
			continue
		}
		for _, id := range some {
			l.members[id] = Member{InstanceID: id, State: Undescribed}
		}
	}
}

func (l *memberList) note(err error) {
	if err != nil {
		l.errs = append(l.errs, err)
	}
}

// retryingAPI repeats the calls that Members makes page by page, so that no page is read twice.
type retryingAPI struct{ API }

// DescribeWarmPool describes one page.
func (r retryingAPI) DescribeWarmPool(
	ctx context.Context, in *sdk.DescribeWarmPoolInput, options ...func(*sdk.Options),
) (*sdk.DescribeWarmPoolOutput, error) {
	return callRepeatedly(ctx, r.API.DescribeWarmPool, in, options)
}

// DescribeAutoScalingGroups describes one page.
func (r retryingAPI) DescribeAutoScalingGroups(
	ctx context.Context, in *sdk.DescribeAutoScalingGroupsInput, options ...func(*sdk.Options),
) (*sdk.DescribeAutoScalingGroupsOutput, error) {
	return callRepeatedly(ctx, r.API.DescribeAutoScalingGroups, in, options)
}

func callRepeatedly[In, Out any](
	ctx context.Context, do func(context.Context, *In, ...func(*sdk.Options)) (*Out, error), in *In,
	options []func(*sdk.Options),
) (out *Out, err error) {
	err = readRepeatedly(ctx, func() (err error) {
		out, err = call(ctx, callTimeout, do, in, options...)
		return err
	})
	return out, err
}

// readRepeatedly calls read until it succeeds, Auto Scaling refuses it, or it has failed readAttempts times.
func readRepeatedly(ctx context.Context, read func() error) error {
	failures := 0
	return retry.Do(ctx, retry.Backoff(firstRetry, longestRetry), read, func(err error) bool {
		failures++
		return failures == readAttempts || isRefused(err)
	}, func(error) {})
}
