package autoscaling

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// recorded is the ledger's entry of the hook's action.
func recorded(t *testing.T, s *awsim.Server, hook string) awsim.Action {
	t.Helper()
	for _, a := range s.Ledger() {
		if a.Hook == hook {
			return a
		}
	}
	t.Fatalf("the ledger has no action of %s", hook)
	return awsim.Action{}
}

// actionOf is the action of the hook as a message names it.
func actionOf(t *testing.T, s *awsim.Server, hook string) Action {
	t.Helper()
	a := recorded(t, s, hook)
	return Action{
		Group: a.Group, Hook: a.Hook, InstanceID: a.InstanceID, Token: a.Token, Launch: a.Transition == awsim.Launching,
	}
}

func TestHTTPHoldAndComplete(t *testing.T) {
	t.Parallel()
	s, h, f := simulateHooks(t, awsim.Hook{Name: "drain", HeartbeatTimeout: 3 * time.Second, GlobalTimeout: time.Minute})
	h.cfg.HeartbeatInterval = 300 * time.Millisecond
	a := actionOf(t, s, "drain")
	must(t, h.Hold(bounded(t), a, waits(3200*time.Millisecond)))
	got := recorded(t, s, "drain")
	if beats := len(got.Heartbeats); !got.ClosedAt.IsZero() || beats < 2 || f.beats > beats || f.beats < beats-1 {
		t.Fatalf("after more than its timeout, the action is %+v; %d heartbeats were reported", got, f.beats)
	}
	must(t, h.Complete(bounded(t), a, Continue))
	got = recorded(t, s, "drain")
	if got.ClosedBy != awsim.ByCompletion || got.Result != "CONTINUE" || got.HeartbeatsAfterClose > 0 {
		t.Errorf("the action is %+v", got)
	}
	must(t, h.Complete(bounded(t), a, Continue)) // again, as after a restart
	state, err := h.State(bounded(t), instanceID)
	if err != nil || !state.Gone() && !state.Unknown() {
		t.Errorf("the instance is %q, %v", state, err)
	}
	if got, err := h.Clusters(bounded(t), groupName); err != nil || !slices.Equal(got, []string{"blue"}) {
		t.Errorf("clusters %v, %v", got, err)
	}
}

// TestHTTPMembersOfAWarmPool: a machine that is stopped in the pool is a member.
func TestHTTPMembersOfAWarmPool(t *testing.T) {
	t.Parallel()
	s, h, _ := simulateHooks(t, awsim.Hook{Name: "launch", Transition: awsim.Launching})
	_, err := h.api.(*sdk.Client).PutWarmPool(bounded(t), &sdk.PutWarmPoolInput{
		AutoScalingGroupName: aws.String(groupName), MinSize: aws.Int32(1), MaxGroupPreparedCapacity: aws.Int32(1),
	})
	must(t, err)
	must(t, s.WaitInstances(bounded(t), groupName, func(all []awsim.Instance) bool {
		return slices.ContainsFunc(all, func(i awsim.Instance) bool { return i.State == "Warmed:Pending:Wait" })
	}))
	members, err := h.Members(bounded(t), "blue", nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(slices.Collect(maps.Values(members)), func(m Member) bool {
		return m.State == "Warmed:Pending:Wait" && m.Group == groupName
	}) {
		t.Errorf("the members are %v", members)
	}
}

func TestHTTPComplete(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		fault       awsim.Fault
		token       string // instead of the action's own
		completions int
		by          string // what the last completion named; empty if Auto Scaling does not know the token
	}{
		{"executed, but answered with an error", awsim.Fault{AfterApply: true, Status: 400, Code: "Throttling", Times: 1}, "", 2, "token"},
		{"dropped calls", awsim.Fault{Drop: true, Times: 2}, "", 1, "token"},
		{"an old token", awsim.Fault{Service: "none"}, token, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, h, f := simulateHooks(t, awsim.Hook{Name: "drain"})
			tt.fault.Action = "CompleteLifecycleAction"
			s.Inject(tt.fault)
			a := actionOf(t, s, "drain")
			a.Token = cmp.Or(tt.token, a.Token)
			err := h.Complete(bounded(t), a, Continue)
			got := recorded(t, s, "drain")
			if tt.by == "" {
				if !errors.Is(err, ErrUnknownToken) || !got.ClosedAt.IsZero() {
					t.Errorf("the call ended with %v, and the action is %+v", err, got)
				}
				return
			}
			must(t, err)
			if got.ClosedBy != awsim.ByCompletion || got.Result != "CONTINUE" || len(got.Completions) != tt.completions ||
				got.Completions[tt.completions-1].By != tt.by {
				t.Errorf("the action is %+v; failures %v", got, f.fails)
			}
		})
	}
}
