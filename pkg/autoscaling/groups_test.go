package autoscaling

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/google/go-cmp/cmp"
)

// states reads the states of n instances concurrently.
func states(t *testing.T, h *Hooks, n int, check func(i int, s State, err error)) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			s, err := h.State(t.Context(), fmt.Sprintf("i-%08x", i))
			check(i, s, err)
		})
	}
	wg.Wait()
}

func TestStateSharesCalls(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		values := []string{"InService", "Terminating:Wait", "Terminated", ""}
		f.state = func(_ context.Context, id string) (string, error) {
			var i int
			_, err := fmt.Sscanf(id, "i-%x", &i)
			return values[i%len(values)], err
		}
		states(t, h, 60, func(i int, s State, err error) {
			if err != nil || string(s) != values[i%len(values)] {
				t.Errorf("instance %d is %q, %v; want %q", i, s, err, values[i%len(values)])
			}
		})
		if len(f.asked) != 2 || len(f.asked[0])+len(f.asked[1]) != 60 || max(len(f.asked[0]), len(f.asked[1])) > 50 {
			t.Errorf("%d calls for 60 questions: %v", len(f.asked), f.asked)
		}
		f.asked = nil
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { _, _ = h.State(t.Context(), instanceID) })
		}
		wg.Wait()
		if len(f.asked) != 1 || len(f.asked[0]) != 1 {
			t.Errorf("three questions for one instance make the calls %v", f.asked)
		}
	})
}

func TestStateErrors(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		f.state = func(context.Context, string) (string, error) { return "", errThrottled }
		states(t, h, 60, func(i int, s State, err error) {
			if !errors.Is(err, errThrottled) || s != "" {
				t.Errorf("instance %d is %q, %v", i, s, err)
			}
		})
		f.state = func(ctx context.Context, _ string) (string, error) { <-ctx.Done(); return "", ctx.Err() }
		start := time.Now()
		_, err := h.State(t.Context(), instanceID)
		if took := time.Since(start); err == nil || took > callTimeout+time.Second {
			t.Errorf("an endpoint that does not answer: %v after %v", err, took)
		}
	})
}

func groupOf(name string, states ...string) types.AutoScalingGroup {
	g := types.AutoScalingGroup{AutoScalingGroupName: aws.String(name)}
	for i, s := range states {
		g.Instances = append(g.Instances, types.Instance{
			InstanceId: aws.String(fmt.Sprint(name, "-", i)), LifecycleState: types.LifecycleState(s),
		})
	}
	return g
}

func TestMembers(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		f.groups = func(filter types.Filter, page string) (*sdk.DescribeAutoScalingGroupsOutput, error) {
			out := &sdk.DescribeAutoScalingGroupsOutput{}
			switch {
			case aws.ToString(filter.Name) == "tag:eks:cluster-name":
				out.AutoScalingGroups = []types.AutoScalingGroup{groupOf("c", "Pending:Wait")}
			case page == "":
				out.AutoScalingGroups, out.NextToken = []types.AutoScalingGroup{groupOf("a", "InService")}, aws.String("2")
			default:
				out.AutoScalingGroups = []types.AutoScalingGroup{groupOf("b", "Terminating:Wait", "InService")}
			}
			return out, nil
		}
		f.state = func(_ context.Context, id string) (string, error) {
			return map[string]string{"other-1": "Terminating:Wait"}[id], nil
		}
		got, err := h.Members(t.Context(), "blue", []string{"a-0", "other-1", "b-1", "other-2"})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]Member{
			"a-0":     {"a", "a-0", "InService"},
			"b-0":     {"b", "b-0", "Terminating:Wait"},
			"b-1":     {"b", "b-1", "InService"},
			"c-0":     {"c", "c-0", "Pending:Wait"},
			"other-1": {groupName, "other-1", "Terminating:Wait"},
		}
		delete(got, "") // of the fake's empty instance
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("members:\n%s", diff)
		}
		if diff := cmp.Diff([][]string{{"other-1", "other-2"}}, f.asked); diff != "" {
			t.Errorf("the call for instances outside of the cluster's groups:\n%s", diff)
		}
	})
}

func TestMembersOfManyInstances(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		var known []string
		for i := range 120 {
			known = append(known, fmt.Sprint("i-", i))
		}
		if got, err := h.Members(t.Context(), "blue", known); err != nil || len(got) < 120 {
			t.Errorf("got %d members, %v", len(got), err)
		}
		if n := len(f.asked); n != 3 {
			t.Errorf("%d calls, want 3 of at most 50 instances", n)
		}
	})
}

func TestMembersFails(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		f.groups = func(types.Filter, string) (*sdk.DescribeAutoScalingGroupsOutput, error) {
			return nil, errThrottled
		}
		if got, err := h.Members(t.Context(), "blue", nil); got != nil || !errors.Is(err, errThrottled) {
			t.Errorf("got %v, %v: an incomplete list must not be returned", got, err)
		}
	})
}

func TestOwnHooks(t *testing.T) {
	with := func(name, transition, target string) types.LifecycleHook {
		l := lifecycleHook(name, transition, 60)
		if target != "" {
			l.NotificationTargetARN = aws.String(target)
		}
		return l
	}
	all := []types.LifecycleHook{
		with("drain", terminating, "arn:aws:sqs:eu-central-1:123456789012:node-drainer"),
		with("bridge", terminating, ""),
		with("logs", terminating, "arn:aws:sns:eu-central-1:123456789012:logs"),
		with("namesake", terminating, "arn:aws:sqs:eu-central-1:123456789012:not-node-drainer"),
		with("launch", launching, "arn:aws:sqs:eu-central-1:123456789012:node-drainer"),
	}
	for _, tt := range []struct {
		name  string
		names []string
		of    Transition
		want  []string
	}{
		{"hooks that notify the queue, and those of EventBridge", nil, Terminating, []string{"drain", "bridge"}},
		{"of the transition", nil, Launching, []string{"launch"}},
		{"with names, only those", []string{"logs", "launch"}, Terminating, []string{"logs"}},
	} {
		t.Run(tt.name, inBubble(func(t *testing.T, f *fakeAPI, h *Hooks) {
			f.hooks = func(context.Context, int) ([]types.LifecycleHook, error) { return all, nil }
			h.names = tt.names
			got, err := h.OwnHooks(t.Context(), groupName, tt.of)
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		}))
	}
}

func TestMarkUnhealthy(t *testing.T) {
	for _, tt := range []struct {
		name        string
		answer      error
		want, never error
	}{
		{"the group replaces it", nil, nil, ErrGone},
		{"an instance of no group", errNoInstance, ErrGone, nil},
		{"a failure is none", errThrottled, errThrottled, ErrGone},
	} {
		t.Run(tt.name, inBubble(func(t *testing.T, f *fakeAPI, h *Hooks) {
			f.health = func(in *sdk.SetInstanceHealthInput) error {
				if aws.ToString(in.HealthStatus) != "Unhealthy" || aws.ToBool(in.ShouldRespectGracePeriod) {
					t.Errorf("got %+v", in)
				}
				return tt.answer
			}
			err := h.MarkUnhealthy(t.Context(), instanceID)
			if !errors.Is(err, tt.want) || tt.never != nil && errors.Is(err, tt.never) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		}))
	}
}

func refreshes(statuses ...types.InstanceRefreshStatus) *sdk.DescribeInstanceRefreshesOutput {
	out := &sdk.DescribeInstanceRefreshesOutput{}
	for _, s := range statuses {
		out.InstanceRefreshes = append(out.InstanceRefreshes, types.InstanceRefresh{Status: s})
	}
	return out
}

// TestRefreshActive says of every status that the SDK knows whether instances may still be launched.
func TestRefreshActive(t *testing.T) {
	want := map[types.InstanceRefreshStatus]bool{
		"Pending": true, "InProgress": true, "Baking": true, "Cancelling": true, "RollbackInProgress": true,
		"Successful": false, "Failed": false, "Cancelled": false, "RollbackFailed": false, "RollbackSuccessful": false,
	}
	for _, status := range types.InstanceRefreshStatus("").Values() {
		active, known := want[status]
		if !known {
			t.Errorf("%s is new: say here what it means", status)
		}
		bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
			f.refreshes = func(int, string) (*sdk.DescribeInstanceRefreshesOutput, error) {
				return refreshes("Successful", status, "Cancelled"), nil
			}
			if got, err := h.RefreshActive(t.Context(), groupName); got != active || err != nil {
				t.Errorf("%s: active %v, %v", status, got, err)
			}
		})
	}
}

func TestRefreshActiveIsKeptFor30Seconds(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		f.refreshes = func(n int, group string) (*sdk.DescribeInstanceRefreshesOutput, error) {
			switch {
			case group != groupName:
				return refreshes(), nil
			case n == 0:
				return nil, errThrottled // not kept
			}
			return refreshes("InProgress"), nil
		}
		if _, err := h.RefreshActive(t.Context(), groupName); !errors.Is(err, errThrottled) {
			t.Errorf("got %v, want the failure", err)
		}
		for range 60 {
			if active, err := h.RefreshActive(t.Context(), groupName); !active || err != nil {
				t.Errorf("active %v, %v", active, err)
			}
			time.Sleep(time.Second)
		}
		if n := len(f.called("refreshes")); n < 3 || n > 4 {
			t.Errorf("%d calls in a minute, want one for the failure and two or three", n)
		}
		if active, err := h.RefreshActive(t.Context(), "other"); active || err != nil {
			t.Errorf("the other group: active %v, %v", active, err)
		}
	})
}
