package autoscaling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/smithy-go"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	groupName  = "workers"
	instanceID = "i-0123456789abcdef0"
	queueURL   = "https://sqs.eu-central-1.amazonaws.com/123456789012/node-drainer"
	token      = "87654321-4321-4321-4321-210987654321"

	terminating = "autoscaling:EC2_INSTANCE_TERMINATING"
	launching   = "autoscaling:EC2_INSTANCE_LAUNCHING"
)

var (
	action = Action{Group: groupName, Hook: "drain", InstanceID: instanceID, Token: token}

	errNotActive = &smithy.GenericAPIError{
		Code: "ValidationError", Message: "No active Lifecycle Action found with token " + token,
	}
	errNoHook    = &smithy.GenericAPIError{Code: "ValidationError", Message: "No Lifecycle Hook found with name: drain"}
	errThrottled = &smithy.GenericAPIError{Code: "Throttling", Message: "Rate exceeded"}
	errDenied    = &smithy.GenericAPIError{Code: "AccessDenied", Message: "is not authorized to perform"}
	errDropped   = errors.New("connection reset by peer")
	errStop      = errors.New("the process stops")
)

// fakeAPI is Auto Scaling as each test wants it, in the time of the bubble that it was created in, and the observer of
// its Hooks. What is not set answers for an instance that waits for the only terminating hook of its group, which has a
// timeout of a minute.
type fakeAPI struct {
	sdk.DescribeScalingActivitiesAPIClient // nil: see TestCapacityChanges

	API
	start    time.Time
	beat     func(ctx context.Context, n int, in *sdk.RecordLifecycleActionHeartbeatInput) error
	complete func(ctx context.Context, n int, in *sdk.CompleteLifecycleActionInput) error
	state    func(ctx context.Context, id string) (string, error) // "" is an instance of no group
	hooks    func(ctx context.Context, n int) ([]types.LifecycleHook, error)
	groups   func(filter types.Filter, page string) (*sdk.DescribeAutoScalingGroupsOutput, error)
	tags     func(ctx context.Context, page string) (*sdk.DescribeTagsOutput, error)

	pool      func(n int, group, page string) (*sdk.DescribeWarmPoolOutput, error)
	refreshes func(n int, group string) (*sdk.DescribeInstanceRefreshesOutput, error)

	mu     sync.Mutex
	beats  int                        // that were reported
	fails  []string                   // that were reported
	calls  map[string][]time.Duration // since the start
	asked  [][]string                 // the instances of each description
	tokens []string                   // of each completion; "" without one
	filter []types.Filter             // of the last description of tags
}

func newAPI() *fakeAPI { return &fakeAPI{start: time.Now(), calls: map[string][]time.Duration{}} }

// record returns how many calls of the kind came before. During it, notes may write into the fake.
func (f *fakeAPI) record(call string, notes ...func()) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[call] = append(f.calls[call], time.Since(f.start))
	for _, note := range notes {
		note()
	}
	return len(f.calls[call]) - 1
}

func (f *fakeAPI) called(call string) []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls[call])
}

func (f *fakeAPI) DescribeAccountSettings(
	context.Context, *sdk.DescribeAccountSettingsInput, ...func(*sdk.Options),
) (*sdk.DescribeAccountSettingsOutput, error) {
	return &sdk.DescribeAccountSettingsOutput{}, nil
}

func (f *fakeAPI) RecordLifecycleActionHeartbeat(
	ctx context.Context, in *sdk.RecordLifecycleActionHeartbeatInput, _ ...func(*sdk.Options),
) (*sdk.RecordLifecycleActionHeartbeatOutput, error) {
	n := f.record("beat")
	if f.beat != nil {
		return nil, f.beat(ctx, n, in)
	}
	return nil, ctx.Err()
}

func (f *fakeAPI) CompleteLifecycleAction(
	ctx context.Context, in *sdk.CompleteLifecycleActionInput, _ ...func(*sdk.Options),
) (*sdk.CompleteLifecycleActionOutput, error) {
	n := f.record("complete", func() { f.tokens = append(f.tokens, aws.ToString(in.LifecycleActionToken)) })
	if f.complete != nil {
		return nil, f.complete(ctx, n, in)
	}
	return nil, ctx.Err()
}

func (f *fakeAPI) DescribeAutoScalingInstances(
	ctx context.Context, in *sdk.DescribeAutoScalingInstancesInput, _ ...func(*sdk.Options),
) (*sdk.DescribeAutoScalingInstancesOutput, error) {
	f.record("state", func() { f.asked = append(f.asked, in.InstanceIds) })
	all := []types.AutoScalingInstanceDetails{{}} // one without an id
	for _, id := range in.InstanceIds {
		state, err := "Terminating:Wait", error(nil)
		if f.state != nil {
			state, err = f.state(ctx, id)
		}
		if err != nil {
			return nil, err
		}
		if state != "" {
			all = append(all, types.AutoScalingInstanceDetails{
				InstanceId: aws.String(id), LifecycleState: aws.String(state), AutoScalingGroupName: aws.String(groupName),
			})
		}
	}
	return &sdk.DescribeAutoScalingInstancesOutput{AutoScalingInstances: all}, nil
}

func (f *fakeAPI) DescribeLifecycleHooks(
	ctx context.Context, _ *sdk.DescribeLifecycleHooksInput, _ ...func(*sdk.Options),
) (*sdk.DescribeLifecycleHooksOutput, error) {
	n := f.record("hooks")
	if f.hooks == nil {
		return &sdk.DescribeLifecycleHooksOutput{LifecycleHooks: []types.LifecycleHook{
			{}, lifecycleHook("launch", launching, 60), lifecycleHook("drain", terminating, 60),
		}}, nil
	}
	hooks, err := f.hooks(ctx, n)
	return &sdk.DescribeLifecycleHooksOutput{LifecycleHooks: hooks}, err
}

func (f *fakeAPI) DescribeTags(
	ctx context.Context, in *sdk.DescribeTagsInput, _ ...func(*sdk.Options),
) (*sdk.DescribeTagsOutput, error) {
	f.record("tags", func() { f.filter = in.Filters })
	if f.tags == nil {
		return &sdk.DescribeTagsOutput{}, nil
	}
	return f.tags(ctx, aws.ToString(in.NextToken))
}

func (f *fakeAPI) DescribeAutoScalingGroups(
	_ context.Context, in *sdk.DescribeAutoScalingGroupsInput, _ ...func(*sdk.Options),
) (*sdk.DescribeAutoScalingGroupsOutput, error) {
	if f.groups == nil {
		return &sdk.DescribeAutoScalingGroupsOutput{}, nil
	}
	return f.groups(in.Filters[0], aws.ToString(in.NextToken))
}

func (f *fakeAPI) DescribeWarmPool(
	_ context.Context, in *sdk.DescribeWarmPoolInput, _ ...func(*sdk.Options),
) (*sdk.DescribeWarmPoolOutput, error) {
	return f.pool(f.record("pool"), aws.ToString(in.AutoScalingGroupName), aws.ToString(in.NextToken))
}

func (f *fakeAPI) DescribeInstanceRefreshes(
	_ context.Context, in *sdk.DescribeInstanceRefreshesInput, _ ...func(*sdk.Options),
) (*sdk.DescribeInstanceRefreshesOutput, error) {
	return f.refreshes(f.record("refreshes"), aws.ToString(in.AutoScalingGroupName))
}

func lifecycleHook(name, transition string, heartbeat int32) types.LifecycleHook {
	return types.LifecycleHook{
		LifecycleHookName: aws.String(name), LifecycleTransition: aws.String(transition),
		HeartbeatTimeout: aws.Int32(heartbeat), GlobalTimeout: aws.Int32(min(100*heartbeat, 172_800)),
	}
}

func twoHooks(context.Context, int) ([]types.LifecycleHook, error) {
	return []types.LifecycleHook{
		lifecycleHook("other", terminating, 3600), lifecycleHook("drain", terminating, 60),
	}, nil
}

// HeartbeatSent and AutoScalingFailed record what Hooks reports.
func (f *fakeAPI) HeartbeatSent(Action) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beats++
}

func (f *fakeAPI) AutoScalingFailed(operation string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails = append(f.fails, fmt.Sprintf("%s: %v", operation, err))
}

func newHooks(api API, observer Observer) *Hooks {
	return New(api, Config{ConfirmTimeout: time.Minute, Margin: 30 * time.Second}, queueURL, observer)
}

// bubble runs a test of Hooks over a fake Auto Scaling in virtual time. A shared call may outlive its caller by its
// timeout.
func bubble(t *testing.T, test func(t *testing.T, f *fakeAPI, h *Hooks)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(callTimeout)
		f := newAPI()
		test(t, f, newHooks(f, f))
	})
}

func inBubble(test func(t *testing.T, f *fakeAPI, h *Hooks)) func(t *testing.T) {
	return func(t *testing.T) { bubble(t, test) }
}

// waits is work that takes a while, unless its context ends.
func waits(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
