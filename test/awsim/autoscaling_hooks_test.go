package awsim_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// complete completes the only open action of the instance and hook, by its instance id.
func complete(t testing.TB, c *autoscaling.Client, hook, instanceID, result string) error {
	t.Helper()
	_, err := c.CompleteLifecycleAction(t.Context(), &autoscaling.CompleteLifecycleActionInput{
		AutoScalingGroupName:  new(groupName),
		LifecycleHookName:     new(hook),
		InstanceId:            new(instanceID),
		LifecycleActionResult: new(result),
	})
	return err
}

func TestTerminationWaitsForItsHook(t *testing.T) {
	world := &cluster{pods: map[string][]string{instanceID: {"default/a"}}}
	s := workers(t, awsim.Options{Machines: world}, awsim.Hook{Name: "drain"})
	c := groupClient(t, s)
	out := do(t, c.TerminateInstanceInAutoScalingGroup,
		&autoscaling.TerminateInstanceInAutoScalingGroupInput{
			InstanceId: new(instanceID), ShouldDecrementDesiredCapacity: new(true),
		})
	if out.Activity == nil || *out.Activity.AutoScalingGroupName != groupName {
		t.Errorf("activity: %+v", out.Activity)
	}
	must(t, s.WaitState(within(t), instanceID, "Terminating:Wait"))
	token := only(t, s).Token
	beat := &autoscaling.RecordLifecycleActionHeartbeatInput{
		AutoScalingGroupName: new(groupName), LifecycleHookName: new("drain"),
		LifecycleActionToken: new(token),
	}
	_, err := c.RecordLifecycleActionHeartbeat(t.Context(), beat)
	must(t, err)
	do(t, c.CompleteLifecycleAction, &autoscaling.CompleteLifecycleActionInput{
		AutoScalingGroupName: new(groupName), LifecycleHookName: new("drain"),
		LifecycleActionToken: new(token), LifecycleActionResult: new("CONTINUE"),
	})
	must(t, s.WaitState(within(t), instanceID, "Terminated"))
	if _, err := c.RecordLifecycleActionHeartbeat(t.Context(), beat); code(err) != "ValidationError" {
		t.Errorf("a late heartbeat: %v", err)
	}
	if err := complete(t, c, "drain", instanceID, "CONTINUE"); code(err) != "ValidationError" {
		t.Errorf("a second completion: %v", err)
	}
	got := only(t, s)
	switch {
	case got.ClosedBy != awsim.ByCompletion, got.Result != "CONTINUE", got.Transition != awsim.Terminating:
		t.Errorf("closed wrongly: %+v", got)
	case len(got.Heartbeats) != 1, got.HeartbeatsAfterClose != 1:
		t.Errorf("heartbeats: %+v", got)
	case len(got.Completions) != 2, got.Completions[0].By != "token", got.Completions[0].Err != "",
		got.Completions[1].By != "instance", got.Completions[1].Err == "":
		t.Errorf("completions: %+v", got.Completions)
	case !slices.Equal(got.PodsAtClose, []string{"default/a"}), !slices.Equal(got.Killed, []string{"default/a"}):
		t.Errorf("pods: %+v", got)
	}
	if len(s.Instances(groupName)) != 0 || len(world.launched) != 0 {
		t.Errorf("the capacity was not lowered: %v, launched %v", s.Instances(groupName), world.launched)
	}
}

func TestPodsThatAreNotKnownAreNoEmptyNode(t *testing.T) {
	world := &cluster{err: errors.New("the API server is down")}
	s := workers(t, awsim.Options{Machines: world}, awsim.Hook{Name: "drain"})
	must(t, s.Terminate(instanceID, true))
	must(t, complete(t, groupClient(t, s), "drain", instanceID, "CONTINUE"))
	if got := only(t, s); got.PodsError != "the API server is down" {
		t.Errorf("got %+v", got)
	}
}

func TestTwoHooks(t *testing.T) {
	for name, row := range map[string]struct {
		first string
		open  int
		other awsim.ClosedBy
	}{
		"CONTINUE lets the other go on":       {first: "CONTINUE", open: 1},
		"ABANDON stops the other one at once": {first: "ABANDON", other: awsim.ByAbandon},
	} {
		t.Run(name, func(t *testing.T) {
			s := workers(t, awsim.Options{}, awsim.Hook{Name: "drain"}, awsim.Hook{Name: "backup"})
			must(t, s.Terminate(instanceID, true))
			if all := s.Ledger(); len(all) != 2 || all[0].Token == all[1].Token {
				t.Fatalf("not two actions of their own: %+v", all)
			}
			c := groupClient(t, s)
			must(t, complete(t, c, "drain", instanceID, row.first))
			open := 0
			for _, act := range s.Ledger() {
				if act.ClosedAt.IsZero() {
					open++
				} else if act.Hook == "backup" && act.ClosedBy != row.other {
					t.Errorf("backup was closed by %s", act.ClosedBy)
				}
			}
			if open != row.open {
				t.Errorf("%d actions are open, want %d", open, row.open)
			}
			if row.open > 0 {
				if state := s.Instances(groupName)[0].State; state != "Terminating:Wait" {
					t.Errorf("the instance did not wait for the second hook: %s", state)
				}
				must(t, complete(t, c, "backup", instanceID, "CONTINUE"))
			}
			must(t, s.WaitState(within(t), instanceID, "Terminated"))
		})
	}
}

func TestAbandonedLaunchIsReplaced(t *testing.T) {
	s := start(t, awsim.Options{})
	must(t, s.CreateGroup(awsim.Group{Name: groupName, Max: 3}))
	must(t, s.PutHook(groupName, awsim.Hook{Name: "ready", Transition: awsim.Launching}))
	c := groupClient(t, s)
	must(t, desire(t.Context(), c, 1))
	first := s.Instances(groupName)[0].ID
	must(t, s.WaitState(within(t), first, "Pending:Wait"))
	must(t, complete(t, c, "ready", first, "ABANDON"))
	must(t, s.WaitState(within(t), first, "Terminated"))
	second := s.Instances(groupName)[0].ID
	must(t, s.WaitState(within(t), second, "Pending:Wait"))
	must(t, complete(t, c, "ready", second, "CONTINUE"))
	must(t, s.WaitState(within(t), second, "InService"))
	if first == second || len(s.Instances(groupName)) != 1 {
		t.Errorf("first %s, then %v", first, s.Instances(groupName))
	}
}

func TestDeletedHookLetsGo(t *testing.T) {
	s := workers(t, awsim.Options{}, awsim.Hook{Name: "drain"})
	must(t, s.Terminate(instanceID, true))
	do(t, groupClient(t, s).DeleteLifecycleHook, &autoscaling.DeleteLifecycleHookInput{
		AutoScalingGroupName: new(groupName), LifecycleHookName: new("drain"),
	})
	got, err := s.WaitClosed(within(t), instanceID)
	must(t, err)
	if got.ClosedBy != awsim.ByHookDeletion || got.Result != "CONTINUE" {
		t.Errorf("got %+v", got)
	}
}

func TestRetainedWhenAbandoned(t *testing.T) {
	s := start(t, awsim.Options{})
	must(t, s.CreateGroup(awsim.Group{Name: groupName, RetainOnAbandon: true}))
	must(t, s.AddInstance(groupName, instanceID, ""))
	must(t, s.PutHook(groupName, awsim.Hook{Name: "drain"}))
	must(t, s.Terminate(instanceID, true))
	must(t, complete(t, groupClient(t, s), "drain", instanceID, "ABANDON"))
	must(t, s.WaitState(within(t), instanceID, "Terminating:Retained"))
	must(t, s.Terminate(instanceID, false))
	must(t, s.WaitState(within(t), instanceID, "Terminated"))
	if got := only(t, s); got.Result != "ABANDON" {
		t.Errorf("got %+v", got)
	}
}

func TestHookTimeoutsAsTold(t *testing.T) {
	s := workers(t, awsim.Options{},
		awsim.Hook{Name: "half", HeartbeatTimeout: 500 * time.Millisecond},
		awsim.Hook{Name: "long", HeartbeatTimeout: 2 * time.Hour},
		awsim.Hook{Name: "two", HeartbeatTimeout: 2 * time.Second, DefaultResult: "CONTINUE"})
	c := groupClient(t, s)
	do(t, c.PutLifecycleHook, &autoscaling.PutLifecycleHookInput{
		AutoScalingGroupName: new(groupName), LifecycleHookName: new("plain"),
		LifecycleTransition: new(awsim.Launching),
	})
	out := do(t, c.DescribeLifecycleHooks,
		&autoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: new(groupName)})
	type told struct {
		heartbeat, global int32
		result            string
	}
	want := map[string]told{
		"half":  {1, 50, "ABANDON"},
		"long":  {7200, 172800, "ABANDON"},
		"two":   {2, 200, "CONTINUE"},
		"plain": {3600, 172800, "ABANDON"},
	}
	for _, h := range out.LifecycleHooks {
		got := told{*h.HeartbeatTimeout, *h.GlobalTimeout, *h.DefaultResult}
		if got != want[*h.LifecycleHookName] {
			t.Errorf("%s: got %v, want %v", *h.LifecycleHookName, got, want[*h.LifecycleHookName])
		}
		delete(want, *h.LifecycleHookName)
	}
	if len(want) != 0 {
		t.Errorf("not told: %v", want)
	}
}
