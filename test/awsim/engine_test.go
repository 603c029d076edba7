package awsim_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// mark sets an instance's health as somebody outside Auto Scaling does.
func mark(t testing.TB, c *autoscaling.Client, instanceID, health string, grace *bool) {
	t.Helper()
	do(t, c.SetInstanceHealth, &autoscaling.SetInstanceHealthInput{
		InstanceId: new(instanceID), HealthStatus: new(health), ShouldRespectGracePeriod: grace,
	})
}

// inState are the ids of the group's instances in one state, in order of their launch.
func inState(s *awsim.Server, state string) []string {
	var out []string
	for _, i := range s.Instances(groupName) {
		if i.State == state {
			out = append(out, i.ID)
		}
	}
	return out
}

// settled waits until all instances of the group are in service, and returns them.
func settled(t testing.TB, s *awsim.Server) []awsim.Instance {
	t.Helper()
	for _, i := range s.Instances(groupName) {
		must(t, s.WaitState(within(t), i.ID, "InService"))
	}
	return s.Instances(groupName)
}

func TestCapacityIsKept(t *testing.T) {
	world := &cluster{}
	s := start(t, awsim.Options{Machines: world, Seed: 7})
	must(t, s.CreateGroup(awsim.Group{Name: groupName, Max: 9, Desired: 6}))
	c := groupClient(t, s)
	perZone := map[string]int{}
	before := settled(t, s)
	for _, i := range before {
		perZone[i.Zone]++
	}
	if len(before) != 6 || perZone["eu-central-1a"] != 2 || perZone["eu-central-1b"] != 2 ||
		perZone["eu-central-1c"] != 2 {
		t.Errorf("got %v", before)
	}
	do(t, c.SetInstanceProtection, &autoscaling.SetInstanceProtectionInput{
		AutoScalingGroupName: new(groupName), InstanceIds: []string{before[0].ID},
		ProtectedFromScaleIn: new(true),
	})
	must(t, desire(t.Context(), c, 5))
	must(t, s.WaitState(within(t), before[1].ID, "Terminated"))
	must(t, s.Terminate(before[2].ID, false))
	must(t, s.WaitState(within(t), before[2].ID, "Terminated"))
	if after := settled(t, s); len(after) != 5 || after[0].ID != before[0].ID {
		t.Errorf("got %v", after)
	}
	if len(world.launched) != 7 || len(world.ended) != 2 {
		t.Errorf("launched %v, ended %v", world.launched, world.ended)
	}
}

func TestMarkedInstancesGoAtOnceWithoutPolicy(t *testing.T) {
	s := start(t, awsim.Options{})
	must(t, s.CreateGroup(awsim.Group{Name: groupName, Max: 3, Desired: 3}))
	must(t, s.PutHook(groupName, awsim.Hook{Name: "drain"}))
	before := settled(t, s)
	c := groupClient(t, s)
	for _, i := range before {
		mark(t, c, i.ID, "Unhealthy", new(false))
	}
	if waiting := inState(s, "Terminating:Wait"); len(waiting) != 3 {
		t.Errorf("not all terminate: %v", s.Instances(groupName))
	}
	for _, i := range s.Instances(groupName)[3:] {
		must(t, s.WaitState(within(t), i.ID, "InService"))
	}
	if serving := inState(s, "InService"); len(serving) != 3 {
		t.Errorf("not replaced: %v", s.Instances(groupName))
	}
}

func TestPolicyLaunchesFirst(t *testing.T) {
	s := start(t, awsim.Options{})
	must(t, s.CreateGroup(awsim.Group{Name: groupName, Max: 2, Desired: 2, MinHealthy: 100, MaxHealthy: 110}))
	must(t, s.PutHook(groupName, awsim.Hook{Name: "drain"}))
	before := settled(t, s)
	must(t, s.PutHook(groupName, awsim.Hook{Name: "ready", Transition: awsim.Launching}))
	c := groupClient(t, s)
	for _, i := range before {
		mark(t, c, i.ID, "Unhealthy", new(false))
	}
	for n := range before {
		if serving := inState(s, "InService"); len(serving) != 2 {
			t.Fatalf("round %d: capacity fell: %v", n, s.Instances(groupName))
		}
		fresh := s.Instances(groupName)[2+n].ID
		must(t, s.WaitState(within(t), fresh, "Pending:Wait"))
		must(t, complete(t, c, "ready", fresh, "CONTINUE"))
		if waiting := inState(s, "Terminating:Wait"); len(waiting) != n+1 {
			t.Fatalf("round %d: %v", n, s.Instances(groupName))
		}
	}
	if serving := inState(s, "InService"); len(serving) != 2 || len(s.Instances(groupName)) != 4 {
		t.Errorf("in the end: %v", s.Instances(groupName))
	}
}

func TestMarksThatChangeNothing(t *testing.T) {
	for name, row := range map[string]struct {
		group   awsim.Group
		suspend string
		grace   *bool
		health  string
	}{
		"within the grace period":    {group: awsim.Group{GracePeriod: 1 << 40}, health: "Healthy"},
		"ReplaceUnhealthy suspended": {suspend: "ReplaceUnhealthy", grace: new(false), health: "Unhealthy"},
		"Terminate suspended":        {suspend: "Terminate", grace: new(false), health: "Unhealthy"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, awsim.Options{})
			row.group.Name = groupName
			must(t, s.CreateGroup(row.group))
			must(t, s.AddInstance(groupName, instanceID, ""))
			c := groupClient(t, s)
			if row.suspend != "" {
				do(t, c.SuspendProcesses, &autoscaling.SuspendProcessesInput{
					AutoScalingGroupName: new(groupName), ScalingProcesses: []string{row.suspend},
				})
			}
			mark(t, c, instanceID, "Unhealthy", row.grace)
			got := s.Instances(groupName)
			if len(got) != 1 || got[0].State != "InService" || got[0].Health != row.health {
				t.Errorf("got %v", got)
			}
			if row.suspend == "" {
				return
			}
			do(t, c.ResumeProcesses, &autoscaling.ResumeProcessesInput{AutoScalingGroupName: new(groupName)})
			must(t, s.WaitState(within(t), instanceID, "Terminated"))
		})
	}
}

func TestMarkIsTakenBack(t *testing.T) {
	s := start(t, awsim.Options{})
	must(t, s.CreateGroup(awsim.Group{Name: groupName, Max: 1, Desired: 1, MinHealthy: 100, MaxHealthy: 200}))
	id := settled(t, s)[0].ID
	must(t, s.PutHook(groupName, awsim.Hook{Name: "ready", Transition: awsim.Launching}))
	must(t, s.PutHook(groupName, awsim.Hook{Name: "drain"}))
	c := groupClient(t, s)
	mark(t, c, id, "Unhealthy", new(false))
	fresh := s.Instances(groupName)[1].ID
	must(t, s.WaitState(within(t), fresh, "Pending:Wait"))
	mark(t, c, id, "Healthy", nil)
	if waiting := inState(s, "Terminating:Wait"); !slices.Equal(waiting, []string{fresh}) {
		t.Errorf("terminated: %v", waiting)
	}
	if got := s.Instances(groupName)[0]; got.ID != id || got.State != "InService" || got.Health != "Healthy" {
		t.Errorf("got %+v", got)
	}
}

// Once its termination has begun, no mark brings an instance back.
func TestMarkIsTakenBackTooLate(t *testing.T) {
	s := workers(t, awsim.Options{}, awsim.Hook{Name: "drain"})
	c := groupClient(t, s)
	mark(t, c, instanceID, "Unhealthy", new(false))
	must(t, s.WaitState(within(t), instanceID, "Terminating:Wait"))
	mark(t, c, instanceID, "Healthy", nil)
	must(t, complete(t, c, "drain", instanceID, "CONTINUE"))
	must(t, s.WaitState(within(t), instanceID, "Terminated"))
}

func TestManyAreTerminatedTogether(t *testing.T) {
	s := start(t, awsim.Options{})
	must(t, s.CreateServing(awsim.Group{Name: groupName, Max: 150, Desired: 150}))
	must(t, s.CreateServing(awsim.Group{Name: "other", Max: 1, Desired: 1}))
	var ids []string
	for _, i := range s.Instances(groupName) {
		ids = append(ids, i.ID)
	}
	c := groupClient(t, s)
	for name, row := range map[string]struct {
		group *string
		ids   []string
		one   *string
		fails bool
		gone  int
	}{
		"more than a hundred":       {group: new(groupName), ids: ids[:101], fails: true},
		"without their group":       {ids: ids[:2], fails: true},
		"one is of another group":   {group: new(groupName), ids: append([]string{s.Instances("other")[0].ID}, ids[0]), fails: true},
		"a hundred, and no more":    {group: new(groupName), ids: ids[:100], gone: 100},
		"one by the old parameter":  {one: &ids[100], gone: 1},
		"neither one nor many":      {group: new(groupName), fails: true},
		"the last of them together": {group: new(groupName), ids: ids[101:], gone: 49},
	} {
		out, err := c.TerminateInstanceInAutoScalingGroup(t.Context(),
			&autoscaling.TerminateInstanceInAutoScalingGroupInput{
				AutoScalingGroupName: row.group, InstanceIds: row.ids, InstanceId: row.one,
				ShouldDecrementDesiredCapacity: new(true),
			})
		switch {
		case row.fails:
			if code(err) != "ValidationError" {
				t.Errorf("%s: got %v", name, err)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case row.one != nil && (out.Activity == nil || len(out.Activities) != 0),
			row.one == nil && (out.Activity != nil || len(out.Activities) != row.gone):
			t.Errorf("%s: got %+v and %d activities", name, out.Activity, len(out.Activities))
		}
	}
	for _, id := range ids {
		must(t, s.WaitState(within(t), id, "Terminated"))
	}
}

// An instance that has not come into service yet is in its grace period too, however long it takes.
func TestMarkOfAnInstanceThatLaunches(t *testing.T) {
	s := start(t, awsim.Options{})
	must(t, s.CreateGroup(awsim.Group{Name: groupName, Max: 1, GracePeriod: time.Hour}))
	must(t, s.PutHook(groupName, awsim.Hook{Name: "ready", Transition: awsim.Launching}))
	c := groupClient(t, s)
	must(t, desire(t.Context(), c, 1))
	id := s.Instances(groupName)[0].ID
	must(t, s.WaitState(within(t), id, "Pending:Wait"))
	mark(t, c, id, "Unhealthy", nil)
	if got := s.Instances(groupName)[0].Health; got != "Healthy" {
		t.Errorf("a mark that respects the grace period made it %s", got)
	}
	mark(t, c, id, "Unhealthy", new(false))
	must(t, complete(t, c, "ready", id, "CONTINUE"))
	must(t, s.WaitState(within(t), id, "Terminated"))
}

func TestStandbyAndDetach(t *testing.T) {
	s := workers(t, awsim.Options{}, awsim.Hook{Name: "drain"})
	c := groupClient(t, s)
	ids := []string{instanceID}
	do(t, c.EnterStandby, &autoscaling.EnterStandbyInput{
		AutoScalingGroupName: new(groupName), InstanceIds: ids,
		ShouldDecrementDesiredCapacity: new(true),
	})
	if got := inState(s, "Standby"); !slices.Equal(got, ids) {
		t.Errorf("got %v", s.Instances(groupName))
	}
	do(t, c.ExitStandby, &autoscaling.ExitStandbyInput{AutoScalingGroupName: new(groupName), InstanceIds: ids})
	do(t, c.DetachInstances, &autoscaling.DetachInstancesInput{
		AutoScalingGroupName: new(groupName), InstanceIds: ids,
		ShouldDecrementDesiredCapacity: new(true),
	})
	if got := s.Instances(groupName); len(got) != 0 || len(s.Ledger()) != 0 {
		t.Errorf("got %v and %v", got, s.Ledger())
	}
	do(t, c.AttachInstances, &autoscaling.AttachInstancesInput{
		AutoScalingGroupName: new(groupName), InstanceIds: ids,
	})
	if got := inState(s, "InService"); !slices.Equal(got, ids) {
		t.Errorf("got %v", s.Instances(groupName))
	}
}

func TestForcedDeletionAsksNoHook(t *testing.T) {
	s := workers(t, awsim.Options{}, awsim.Hook{Name: "drain"})
	do(t, groupClient(t, s).DeleteAutoScalingGroup, &autoscaling.DeleteAutoScalingGroupInput{
		AutoScalingGroupName: new(groupName), ForceDelete: new(true),
	})
	must(t, s.WaitState(within(t), instanceID, "Terminated"))
	if got := s.Ledger(); len(got) != 0 {
		t.Errorf("a hook ran: %v", got)
	}
}

func TestActivitiesTellTheStory(t *testing.T) {
	s := workers(t, awsim.Options{}, awsim.Hook{Name: "drain"})
	must(t, s.Terminate(instanceID, true))
	c := groupClient(t, s)
	read := func() string {
		out := do(t, c.DescribeScalingActivities,
			&autoscaling.DescribeScalingActivitiesInput{AutoScalingGroupName: new(groupName)})
		if *out.Activities[0].Description != "Terminating EC2 instance: "+instanceID {
			out.Activities[0], out.Activities[1] = out.Activities[1], out.Activities[0] // Begun in one millisecond.
		}
		return string(out.Activities[0].StatusCode)
	}
	if got := read(); got != "MidLifecycleAction" {
		t.Errorf("while the hook runs: %s", got)
	}
	must(t, complete(t, c, "drain", instanceID, "CONTINUE"))
	must(t, s.WaitState(within(t), instanceID, "Terminated"))
	if got := read(); got != "Successful" {
		t.Errorf("in the end: %s", got)
	}
}

func TestWaitsEnd(t *testing.T) {
	s := workers(t, awsim.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.WaitClosed(ctx, instanceID); err == nil {
		t.Error("WaitClosed outlived its context")
	}
	if err := s.WaitState(ctx, instanceID, "Terminated"); err == nil {
		t.Error("WaitState outlived its context")
	}
	waited := make(chan error)
	go func() { waited <- s.WaitState(context.Background(), instanceID, "Terminated") }()
	must(t, s.Close())
	if err := <-waited; err == nil {
		t.Error("WaitState outlived its server")
	}
}

// While nobody looks after an instance's health, its launch may be abandoned when its machine is long gone.
func TestLaunchOfADeadMachineIsAbandoned(t *testing.T) {
	s := start(t, awsim.Options{})
	must(t, s.CreateGroup(awsim.Group{Name: groupName, Max: 1}))
	must(t, s.PutHook(groupName, awsim.Hook{Name: "ready", Transition: awsim.Launching}))
	c := groupClient(t, s)
	do(t, c.SuspendProcesses, &autoscaling.SuspendProcessesInput{
		AutoScalingGroupName: new(groupName), ScalingProcesses: []string{"HealthCheck"},
	})
	must(t, desire(t.Context(), c, 1))
	id := s.Instances(groupName)[0].ID
	must(t, s.WaitState(within(t), id, "Pending:Wait"))
	do(t, machineClient(t, s).TerminateInstances, &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	dead := &ec2.DescribeInstancesInput{InstanceIds: []string{id}}
	must(t, ec2.NewInstanceTerminatedWaiter(machineClient(t, s), func(o *ec2.InstanceTerminatedWaiterOptions) {
		o.MinDelay = 10 * time.Millisecond
	}).Wait(t.Context(), dead, time.Minute))
	must(t, complete(t, c, "ready", id, "ABANDON"))
	must(t, s.WaitState(within(t), id, "Terminated"))
}
