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

func TestStateSharesCalls(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		values := []string{"InService", "Terminating:Wait", "Terminated", ""}
		f.state = func(_ context.Context, id string) (string, error) {
			var i int
			_, err := fmt.Sscanf(id, "i-%x", &i)
			return values[i%len(values)], err
		}
		var wg sync.WaitGroup
		for i := range 60 {
			wg.Go(func() {
				s, err := h.State(t.Context(), fmt.Sprintf("i-%08x", i))
				if err != nil || string(s) != values[i%len(values)] {
					t.Errorf("instance %d is %q, %v; want %q", i, s, err, values[i%len(values)])
				}
			})
		}
		wg.Wait()
		if len(f.asked) != 2 || len(f.asked[0])+len(f.asked[1]) != 60 || max(len(f.asked[0]), len(f.asked[1])) > 50 {
			t.Errorf("%d calls for 60 questions: %v", len(f.asked), f.asked)
		}
		f.asked = nil
		for range 3 {
			wg.Go(func() { _, _ = h.State(t.Context(), instanceID) })
		}
		wg.Wait()
		if len(f.asked) != 1 || len(f.asked[0]) != 1 {
			t.Errorf("three questions for one instance make the calls %v", f.asked)
		}
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
		f.groups = func(types.Filter, string) (*sdk.DescribeAutoScalingGroupsOutput, error) { return nil, errThrottled }
		if got, err := h.Members(t.Context(), "blue", nil); got != nil || !errors.Is(err, errThrottled) {
			t.Errorf("got %v, %v: an incomplete list must not be returned", got, err)
		}
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
		known := []string{"a-0", "b-1"}
		want := map[string]Member{
			"":    {}, // the fake's empty instance
			"a-0": {"a", "a-0", "InService"}, "b-0": {"b", "b-0", "Terminating:Wait"},
			"b-1": {"b", "b-1", "InService"}, "c-0": {"c", "c-0", "Pending:Wait"},
		}
		for i := range 120 {
			id := fmt.Sprint("other-", i)
			known, want[id] = append(known, id), Member{groupName, id, "Terminating:Wait"}
		}
		delete(want, "other-7")
		f.state = func(_ context.Context, id string) (string, error) {
			return map[bool]string{true: "Terminating:Wait"}[id != "other-7"], nil
		}
		got, err := h.Members(t.Context(), "blue", known)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v, members:\n%s", err, diff)
		}
		if len(f.asked) != 3 || len(f.asked[0]) != 50 || f.asked[0][0] != "other-0" {
			t.Errorf("the calls for instances outside of the cluster's groups, of at most 50, are %q", f.asked)
		}
	})
}

func TestOwnHooks(t *testing.T) {
	with := func(name, transition, target string) types.LifecycleHook {
		return types.LifecycleHook{LifecycleHookName: &name, LifecycleTransition: &transition, NotificationTargetARN: &target}
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

// TestRefreshActive covers every status that the SDK knows.
func TestRefreshActive(t *testing.T) {
	want := map[types.InstanceRefreshStatus]bool{
		"Pending": true, "InProgress": true, "Baking": true, "Cancelling": true, "RollbackInProgress": true,
		"Successful": false, "Failed": false, "Cancelled": false, "RollbackFailed": false, "RollbackSuccessful": false,
	}
	for _, status := range types.InstanceRefreshStatus("").Values() {
		active, known := want[status]
		if !known {
			t.Errorf("%s is new: add it here", status)
		}
		bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
			f.refreshes = func(_ int, group string) (*sdk.DescribeInstanceRefreshesOutput, error) {
				return &sdk.DescribeInstanceRefreshesOutput{
					InstanceRefreshes: []types.InstanceRefresh{{Status: "Successful"}, {Status: status}, {Status: "Cancelled"}},
				}, map[bool]error{false: errThrottled}[group == groupName]
			}
			if got, err := h.RefreshActive(t.Context(), groupName); got != active || err != nil {
				t.Errorf("%s: active %v, %v", status, got, err)
			}
			if _, err := h.RefreshActive(t.Context(), "other"); !errors.Is(err, errThrottled) {
				t.Errorf("got %v, want the error of the call", err)
			}
		})
	}
}
