package autoscaling

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"golang.org/x/time/rate"

	"github.com/node-drainer/node-drainer/internal/batch"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

const (
	// refreshesPage is the most refreshes of one DescribeInstanceRefreshes (MaxRecords).
	refreshesPage = 100
	// groupWindow is how long Group waits for more groups that one call can describe.
	groupWindow = 5 * time.Millisecond
	// refreshInterval is the time between two DescribeInstanceRefreshes, which describes one group only. Auto Scaling
	// throttles all clients of an account and Region together.
	refreshInterval = 500 * time.Millisecond
	// longestDescribeAgain is the longest pause until a group is described again that was described late.
	longestDescribeAgain = 2 * time.Second
)

// Reader describes groups and their instance refreshes. It changes nothing. Instance refreshes it describes at most
// twice a second, of however many groups.
type Reader struct {
	api       ReaderAPI
	described batch.Batcher[string, refresh.Group]
	refreshes *rate.Limiter
	account   cache[refresh.Maintenance]
	written   *written // of a Writer; nil without one
}

// NewReader returns a Reader. The client must retry what AWS throttles.
func NewReader(api ReaderAPI) *Reader {
	r := &Reader{api: api, refreshes: rate.NewLimiter(rate.Every(refreshInterval), 1)}
	r.described = batch.Batcher[string, refresh.Group]{Max: groupsPage, Window: groupWindow, Call: r.describeBatch}
	r.account.read, r.account.keep = r.readAccountPolicy, keepGroup
	return r
}

// Follow has Group describe nothing as it was before the Writer has written its records.
func (r *Reader) Follow(w *Writer) { r.written = w.done }

// Group describes one group. Concurrent questions share a call. The error is refresh.ErrNoGroup if there is
// none of the name. If AWS describes the group as it was before a change, Group describes it again.
func (r *Reader) Group(ctx context.Context, name string) (refresh.Group, error) {
	for pauses := retry.Backoff(firstRetry, longestDescribeAgain); ; {
		g, err := r.describeOne(ctx, name)
		if err != nil || r.written == nil || !r.written.isAfter(g) {
			return g, err
		}
		if !retry.Sleep(ctx, pauses.Step()) {
			return refresh.Group{}, fmt.Errorf("describe group %s as it is now: %w", name, context.Cause(ctx))
		}
	}
}

func (r *Reader) describeOne(ctx context.Context, name string) (refresh.Group, error) {
	g, err := r.described.Do(ctx, name)
	if err == nil && g.Name != name {
		err = fmt.Errorf("group %s: %w", name, refresh.ErrNoGroup)
	}
	g.Instances = slices.Clone(g.Instances) // callers write into them
	return g, err
}

// Pool describes the instances in the group's warm pool, which Group and Find leave out.
func (r *Reader) Pool(ctx context.Context, group string) (pooled []refresh.Instance, err error) {
	err = eachPooled(ctx, r.api, retriedTimeout, group, func(page []types.Instance) {
		pooled = append(pooled, convert(page, toInstance)...)
	})
	return pooled, err
}

func (r *Reader) describeBatch(ctx context.Context, names []string) []batch.Result[refresh.Group] {
	groups := map[string]refresh.Group{}
	found, err := r.Named(ctx, names)
	for _, g := range found {
		groups[g.Name] = g
	}
	return batch.Results(names, groups, err)
}

// Named describes the groups of the names. A name without a group is left out. It costs one call for each hundred.
func (r *Reader) Named(ctx context.Context, names []string) ([]refresh.Group, error) {
	var found []refresh.Group
	for some := range slices.Chunk(names, groupsPage) {
		groups, err := r.describe(ctx, &sdk.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: some})
		if err != nil {
			return nil, err
		}
		found = append(found, groups...)
	}
	return found, nil
}

// describe describes groups, without those that are being deleted: nothing in them can be replaced, and what a hook
// holds leaves with it. Source: AutoScalingGroup.Status in the API reference.
func (r *Reader) describe(ctx context.Context, in *sdk.DescribeAutoScalingGroupsInput) ([]refresh.Group, error) {
	var found []refresh.Group
	err := eachGroup(ctx, r.api, retriedTimeout, in, func(g types.AutoScalingGroup) {
		if g.Status == nil {
			found = append(found, toGroup(g))
		}
	})
	r.addAccountPolicy(ctx, found)
	return found, err
}

// Hooks returns the group's lifecycle hooks.
func (r *Reader) Hooks(ctx context.Context, group string) ([]refresh.Hook, error) {
	all, err := describeHooks(ctx, r.api, retriedTimeout, group)
	return convert(all, toHook), err
}

// Refreshes returns the instance refreshes of the group, the newest first: at most a hundred, of the last six
// weeks.
func (r *Reader) Refreshes(ctx context.Context, group string) ([]refresh.Refresh, error) {
	found, err := r.describeRefreshes(ctx, &sdk.DescribeInstanceRefreshesInput{
		AutoScalingGroupName: &group, MaxRecords: new(int32(refreshesPage)),
	})
	slices.SortStableFunc(found, func(x, y refresh.Refresh) int { return compareAge(y, x) })
	return found, err
}

// describeRefreshes makes a call when it is its turn.
func (r *Reader) describeRefreshes(
	ctx context.Context, in *sdk.DescribeInstanceRefreshesInput,
) ([]refresh.Refresh, error) {
	if err := r.refreshes.Wait(ctx); err != nil {
		return nil, fmt.Errorf("wait for the turn to describe instance refreshes: %w", cmp.Or(context.Cause(ctx), err))
	}
	return describeRefreshes(ctx, r.api, retriedTimeout, in)
}

// compareAge compares by the start; a refresh that has not started yet is the newest.
func compareAge(x, y refresh.Refresh) int {
	if x.Started.IsZero() || y.Started.IsZero() {
		return -x.Started.Compare(y.Started)
	}
	return x.Started.Compare(y.Started)
}

// Refresh describes one instance refresh of the group. It is an error if there is none of the id.
func (r *Reader) Refresh(ctx context.Context, group, id string) (refresh.Refresh, error) {
	found, err := r.describeRefreshes(ctx, &sdk.DescribeInstanceRefreshesInput{
		AutoScalingGroupName: &group, InstanceRefreshIds: []string{id},
	})
	if err != nil {
		return refresh.Refresh{}, err
	}
	i := slices.IndexFunc(found, func(one refresh.Refresh) bool { return one.ID == id })
	if i < 0 {
		return refresh.Refresh{}, fmt.Errorf("group %s has no instance refresh %s", group, id)
	}
	return found[i], nil
}
