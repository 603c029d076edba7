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

// TestMembersKeepsWhatItHasRead: a call that fails is made again, and if it fails for long, the rest is read without it.
func TestMembersKeepsWhatItHasRead(t *testing.T) {
	known := make([]string, 120)
	for i := range known {
		known[i] = fmt.Sprintf("i-%08x", i)
	}
	second := func(id string) bool { return id >= known[50] && id < known[100] }
	for _, tt := range []struct {
		name      string
		groups    int // how many descriptions of groups fail, of each page
		chunks    int // how many descriptions of the second fifty instances
		err       error
		want      error
		described bool // the second fifty
		least     time.Duration
	}{
		{"one call is throttled", 1, 1, errThrottled, nil, true, 500 * time.Millisecond},
		{"fifty instances for long", 0, 100, errThrottled, errThrottled, false, 3 * time.Second},
		{"all groups for long", 100, 0, errThrottled, errThrottled, true, 10 * time.Second},
		{"all groups, without permission", 100, 0, errDenied, errDenied, true, 0},
	} {
		t.Run(tt.name, inBubble(func(t *testing.T, f *fakeAPI, h *Hooks) {
			pages, chunks := map[string]int{}, 0
			f.groups = func(filter types.Filter, page string) (*sdk.DescribeAutoScalingGroupsOutput, error) {
				key := aws.ToString(filter.Name) + page
				if pages[key]++; pages[key] <= tt.groups {
					return nil, tt.err
				}
				if filter.Values[0] != "kubernetes.io/cluster/blue" {
					return &sdk.DescribeAutoScalingGroupsOutput{}, nil
				}
				if page == "" {
					return &sdk.DescribeAutoScalingGroupsOutput{
						AutoScalingGroups: []types.AutoScalingGroup{groupOf("a", "Pending:Wait")}, NextToken: aws.String("2"),
					}, nil
				}
				return &sdk.DescribeAutoScalingGroupsOutput{AutoScalingGroups: []types.AutoScalingGroup{groupOf("b", "InService")}}, nil
			}
			f.state = func(_ context.Context, id string) (string, error) {
				if id == known[50] {
					chunks++
				}
				if second(id) && chunks <= tt.chunks {
					return "", tt.err
				}
				return "Terminating:Wait", nil
			}
			start := time.Now()
			members, err := h.Members(t.Context(), "blue", known)
			if !errors.Is(err, tt.want) || err != nil && tt.want == nil {
				t.Errorf("got the error %v, want %v", err, tt.want)
			}
			if took := time.Since(start); took < tt.least || took > membersTimeout {
				t.Errorf("took %v, want at least %v", took, tt.least)
			}
			for _, id := range known {
				want := State("Terminating:Wait")
				if second(id) && !tt.described {
					want = Undescribed
				}
				if members[id].State != want {
					t.Fatalf("%s is %q, want %q", id, members[id].State, want)
				}
			}
			if _, ok := members["b-0"]; ok != (tt.groups < 100) {
				t.Errorf("an instance of the second page is a member: %v", ok)
			}
		}))
	}
}

// TestMembersOfAWarmPool: instances of a pool need not be Nodes, and the description of their group does not list them.
func TestMembersOfAWarmPool(t *testing.T) {
	for _, tt := range []struct {
		name  string
		err   error
		fails int
		want  map[string]Member
	}{
		{"two pages", nil, 0, map[string]Member{
			"a-0": {"a", "a-0", "InService"}, "i-1": {"a", "i-1", "Warmed:Pending:Wait"}, "i-2": {"a", "i-2", "Warmed:Stopped"},
		}},
		{"throttled", errThrottled, 3, map[string]Member{
			"a-0": {"a", "a-0", "InService"}, "i-1": {"a", "i-1", "Warmed:Pending:Wait"}, "i-2": {"a", "i-2", "Warmed:Stopped"},
		}},
		{"without permission", errDenied, 100, map[string]Member{"a-0": {"a", "a-0", "InService"}}},
	} {
		t.Run(tt.name, inBubble(func(t *testing.T, f *fakeAPI, h *Hooks) {
			f.groups = func(types.Filter, string) (*sdk.DescribeAutoScalingGroupsOutput, error) { // all three filters match
				g := groupOf("a", "InService")
				g.WarmPoolConfiguration = &types.WarmPoolConfiguration{}
				return &sdk.DescribeAutoScalingGroupsOutput{AutoScalingGroups: []types.AutoScalingGroup{g}}, nil
			}
			f.pool = func(n int, group, page string) (*sdk.DescribeWarmPoolOutput, error) {
				if n < tt.fails {
					return nil, tt.err
				}
				one := func(id string, s types.LifecycleState) []types.Instance {
					return []types.Instance{{InstanceId: &id, LifecycleState: s}}
				}
				if page == "" {
					return &sdk.DescribeWarmPoolOutput{Instances: one("i-1", "Warmed:Pending:Wait"), NextToken: &group}, nil
				}
				return &sdk.DescribeWarmPoolOutput{Instances: one("i-2", "Warmed:Stopped")}, nil
			}
			members, err := h.Members(t.Context(), "blue", nil)
			if diff := cmp.Diff(tt.want, members); diff != "" || (err != nil) != (len(tt.want) == 1) {
				t.Errorf("%v\n%s", err, diff)
			}
			if got := len(f.called("pool")); tt.fails == 0 && got != 2 {
				t.Errorf("%d calls for a pool of two pages", got)
			}
		}))
	}
}

// TestMembersOfAServiceThatHangs: the resync is not held up for longer than its limit.
func TestMembersOfAServiceThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		known := make([]string, 5000)
		for i := range known {
			known[i] = fmt.Sprintf("i-%08x", i)
		}
		f.state = func(ctx context.Context, _ string) (string, error) { <-ctx.Done(); return "", ctx.Err() }
		start := time.Now()
		members, err := h.Members(t.Context(), "blue", known)
		if took := time.Since(start); err == nil || took > membersTimeout || members[known[4999]].State != Undescribed {
			t.Errorf("after %v: %v", took, err)
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
		with("topic", terminating, "arn:aws:sns:eu-central-1:123456789012:node-drainer"),
		with("namesake", terminating, "arn:aws:sqs:eu-central-1:123456789012:not-node-drainer"),
		with("launch", launching, "arn:aws:sqs:eu-central-1:123456789012:node-drainer"),
	}
	for _, tt := range []struct {
		name  string
		names []string
		of    Transition
		want  []OwnHook
	}{
		{"hooks that notify the queue", nil, Terminating, []OwnHook{{"drain", true}}},
		{"of the transition", nil, Launching, []OwnHook{{"launch", true}}},
		{
			"with names, only those",
			[]string{"logs", "drain", "launch"},
			Terminating,
			[]OwnHook{{"drain", true}, {"logs", false}},
		},
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

// TestNotifiesOthers: for whom a message about a hook is.
func TestNotifiesOthers(t *testing.T) {
	hook := func(name, transition, target string) types.LifecycleHook {
		return types.LifecycleHook{LifecycleHookName: &name, LifecycleTransition: &transition, NotificationTargetARN: &target}
	}
	const arn = "arn:aws:sqs:eu-central-1:123456789012:"
	ours := hook("ours", terminating, arn+"node-drainer")
	for _, tt := range []struct {
		name  string
		hooks []types.LifecycleHook
		err   error
		names []string
		want  bool
	}{
		{"it notifies our queue", []types.LifecycleHook{hook("drain", terminating, arn+"node-drainer")}, nil, nil, false},
		{"it notifies another queue", []types.LifecycleHook{hook("drain", terminating, arn+"backup")}, nil, nil, true},
		{"a topic", []types.LifecycleHook{ours, hook("drain", terminating, "arn:aws:sns:eu-central-1:123456789012:t")}, nil, nil, false},
		{"no target", []types.LifecycleHook{hook("drain", terminating, ""), hook("backup", terminating, "")}, nil, nil, false},
		{"no target, beside ours", []types.LifecycleHook{hook("drain", terminating, ""), ours}, nil, nil, true},
		{
			"no target, beside ours for launches",
			[]types.LifecycleHook{hook("drain", terminating, ""), hook("ours", launching, arn+"node-drainer")},
			nil, nil, false,
		},
		{"HOOK_NAMES lists it", []types.LifecycleHook{hook("drain", terminating, arn+"backup")}, nil, []string{"drain"}, false},
		{"no such hook", []types.LifecycleHook{ours}, nil, nil, false},
		{"Auto Scaling refuses to tell", nil, errDenied, nil, false},
		{"Auto Scaling does not answer", nil, errThrottled, nil, false},
	} {
		t.Run(tt.name, inBubble(func(t *testing.T, f *fakeAPI, h *Hooks) {
			f.hooks = func(context.Context, int) ([]types.LifecycleHook, error) { return tt.hooks, tt.err }
			h.names = tt.names
			got, err := h.NotifiesOthers(t.Context(), groupName, "drain")
			if wantErr := errors.Is(tt.err, errThrottled) || tt.name == "no such hook"; got != tt.want || (err != nil) != wantErr {
				t.Errorf("got %v, %v", got, err)
			}
		}))
	}
}

// TestRolloutActive covers every status of a refresh that the SDK knows, and the lease of a trigger.
func TestRolloutActive(t *testing.T) {
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
			if got, err := h.RolloutActive(t.Context(), groupName); got != active || err != nil {
				t.Errorf("%s: active %v, %v", status, got, err)
			}
			if _, err := h.RolloutActive(t.Context(), "other"); !errors.Is(err, errThrottled) {
				t.Errorf("got %v, want the error of the call", err)
			}
		})
	}
}

// TestLeaseIsARollout: while a trigger has the lease of a group, its instances are being replaced. The clock of the
// trigger may be slow.
func TestLeaseIsARollout(t *testing.T) {
	for name, tt := range map[string]struct {
		tag    string
		active bool
		failed error
	}{
		"no lease":                           {},
		"a lease":                            {tag: "ci-1/42 2000-01-01T00:01:00Z", active: true},
		"a lease that has just expired":      {tag: "ci-1/42 2000-01-01T00:00:00Z", active: true},
		"a lease that expired some time ago": {tag: "ci-1/42 1999-12-31T23:54:59Z"},
		"tags that cannot be read":           {failed: errThrottled},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
				f.refreshes = func(int, string) (*sdk.DescribeInstanceRefreshesOutput, error) {
					return &sdk.DescribeInstanceRefreshesOutput{}, nil
				}
				f.tags = func(context.Context, string) (*sdk.DescribeTagsOutput, error) {
					tag := types.TagDescription{Key: aws.String("node-drainer.io/lease"), Value: &tt.tag}
					return &sdk.DescribeTagsOutput{Tags: []types.TagDescription{tag}}, tt.failed
				}
				if got, err := h.RolloutActive(t.Context(), groupName); got != tt.active || !errors.Is(err, tt.failed) {
					t.Errorf("active %v, %v", got, err)
				}
			})
		})
	}
}
