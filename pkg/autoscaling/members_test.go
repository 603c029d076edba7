package autoscaling

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/google/go-cmp/cmp"
)

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
		delete(got, "") // of an instance of which the fake knows nothing
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("members:\n%s", diff)
		}
		if diff := cmp.Diff([][]string{{"other-1", "other-2"}}, f.asked); diff != "" {
			t.Errorf("only instances of no group with the tags are asked about, and in one call:\n%s", diff)
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
			t.Errorf("asked in %d calls, want 3 of 50 instances at most", n)
		}
	})
}

func TestMembersThatCannotBeListed(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		f.groups = func(types.Filter, string) (*sdk.DescribeAutoScalingGroupsOutput, error) {
			return nil, errThrottled
		}
		if got, err := h.Members(t.Context(), "blue", nil); got != nil || !errors.Is(err, errThrottled) {
			t.Errorf("got %v, %v: a part must not be taken for the whole", got, err)
		}
	})
}

func TestOwn(t *testing.T) {
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
		{"hooks that send to the queue, and those of EventBridge", nil, Terminating, []string{"drain", "bridge"}},
		{"of the transition asked for", nil, Launching, []string{"launch"}},
		{"if names are given, those alone", []string{"logs", "launch"}, Terminating, []string{"logs"}},
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
