package autoscaling

import (
	"context"
	"errors"
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
	// membersTimeout bounds Members: what it has read by then must be handled although AWS hangs.
	membersTimeout = time.Minute
)

// Member is an instance of an Auto Scaling group.
type Member struct {
	Group, InstanceID string
	State             State
}

// Members returns, by id, the instances of every group whose tags name the cluster, and those of the known
// instances that are in other groups. It reads groups first: one call describes all instances of a hundred
// groups. Beside an error it returns what could be read, and known instances that could not as Undescribed.
func (g *Groups) Members(ctx context.Context, cluster string, known []string) (map[string]Member, error) {
	ctx, cancel := context.WithTimeout(ctx, membersTimeout)
	defer cancel()
	l := memberList{groups: g, members: map[string]Member{}}
	for _, filter := range clusterFilters(cluster) {
		l.addGroups(ctx, filter)
	}
	l.addOthers(ctx, known)
	return l.members, errors.Join(l.errs...)
}

// memberList is what Members has read.
type memberList struct {
	groups  *Groups
	members map[string]Member
	errs    []error
}

// addGroups adds the instances of the groups that match the filter.
func (l *memberList) addGroups(ctx context.Context, filter types.Filter) {
	in := &sdk.DescribeAutoScalingGroupsInput{Filters: []types.Filter{filter}}
	l.note(eachGroup(ctx, retryingAPI{l.groups.api}, membersTimeout, in, func(g types.AutoScalingGroup) {
		for _, i := range g.Instances {
			l.add(aws.ToString(g.AutoScalingGroupName), i)
		}
	}))
}

func (l *memberList) add(group string, i types.Instance) {
	id := aws.ToString(i.InstanceId)
	l.members[id] = Member{group, id, State(i.LifecycleState)}
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

// DescribeAutoScalingGroups describes one page.
func (r retryingAPI) DescribeAutoScalingGroups(
	ctx context.Context, in *sdk.DescribeAutoScalingGroupsInput, options ...func(*sdk.Options),
) (out *sdk.DescribeAutoScalingGroupsOutput, err error) {
	err = readRepeatedly(ctx, func() (err error) {
		out, err = call(ctx, callTimeout, r.API.DescribeAutoScalingGroups, in, options...)
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
