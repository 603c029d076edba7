package trigger

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/harness"
)

// inStandbyMode runs triggers in mode standby, in virtual time, on a group of five instances that takes a while to
// launch them.
func inStandbyMode(t *testing.T, name string, triggers func(s *scaled)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			server := awsim.NewUnconnected(awsim.Options{Seed: 1})
			s := &scaled{
				T: t, aws: server, dice: rand.New(rand.NewPCG(1, 0)), mode: refresh.ModeStandby, began: time.Now(), asked: 5, most: 10,
			}
			s.setUp()
			server.SetDelays(awsim.Delays{Launch: 40 * time.Second, Standby: 7 * time.Second, Visible: 3 * time.Second})
			elapse(time.Minute)
			for _, name := range []string{"ci-1", "ci-2"} {
				if err := harness.Limit(server, harness.Trigger, name, ""); err != nil {
					t.Fatal(err)
				}
			}
			triggers(s)
			for _, call := range server.Unauthorized() {
				t.Errorf("not allowed by deploy/iam: %s", call)
			}
			called.Lock()
			defer called.Unlock()
			for _, action := range server.Used("ci-1") {
				called.actions[action] = true
			}
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		})
	})
}

func (s *scaled) count(state string) (n int) {
	for _, i := range s.aws.Instances(group) {
		if i.State == state {
			n++
		}
	}
	return n
}

// watchCapacity counts the fewest nodes that ran at any time: in service, or in Standby and not terminating.
func (s *scaled) watchCapacity() (stop func() (fewest int)) {
	fewest, done, ended := 1000, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-time.After(100 * time.Millisecond):
				fewest = min(fewest, s.count("InService")+s.count("Standby")+s.count("EnteringStandby"))
			case <-done:
				return
			}
		}
	}()
	return func() int {
		close(done)
		<-ended
		return fewest
	}
}

// userStandby moves the oldest instance into Standby, as a user of another client.
func (s *scaled) userStandby() (id string) {
	client := autoscaling.NewFromConfig((&process{scaled: s, name: "test"}).config())
	id = s.aws.Instances(group)[0].ID
	_, err := client.EnterStandby(s.Context(), &autoscaling.EnterStandbyInput{
		AutoScalingGroupName: aws.String(group), InstanceIds: []string{id}, ShouldDecrementDesiredCapacity: aws.Bool(true),
	})
	if err != nil {
		s.Fatal(err)
	}
	s.asked--
	elapse(time.Minute)
	return id
}

// TestStandbyMode: each batch is replaced before it leaves, and every instance passes the terminating hook, without a
// maintenance policy.
func TestStandbyMode(t *testing.T) {
	t.Parallel()
	inStandbyMode(t, "all", func(s *scaled) {
		stop := s.watchCapacity()
		if outcome := s.run("ci-1/1", 0); outcome != report.Done {
			s.Errorf("the trigger ended with %s", outcome)
		}
		if fewest := stop(); fewest < 5 {
			s.Errorf("only %d nodes were left", fewest)
		}
		s.expectNothingLeft()
		if n := len(s.aws.Ledger()); n != 5 {
			s.Errorf("%d lifecycle actions, want 5", n)
		}
		if n := s.aws.RequestsBy("ci-1")["autoscaling.EnterStandby"]; n != 3 {
			s.Errorf("%d batches, want 3", n)
		}
	})
	inStandbyMode(t, "not what a user has moved there", func(s *scaled) {
		id := s.userStandby()
		if outcome := s.run("ci-1/1", 0); outcome != report.Incomplete {
			s.Errorf("the trigger ended with %s", outcome)
		}
		if s.count("Standby") != 1 || s.count("InService") != 4 || !slices.Contains(ids(s.aws.Instances(group)), id) {
			s.Errorf("the group has %v", s.aws.Instances(group))
		}
	})
	inStandbyMode(t, "an instance is excluded, and protected meanwhile", func(s *scaled) {
		s.kept = s.aws.Instances(group)[0].ID
		if outcome := s.run("ci-1/1", 0); outcome != report.Done {
			s.Errorf("the trigger ended with %s", outcome)
		}
		s.expectNew()
		s.expectNothingLeft()
		if n := s.aws.RequestsBy("ci-1")["autoscaling.SetInstanceProtection"]; n != 2 {
			s.Errorf("the protection was changed %d times", n)
		}
	})
	inStandbyMode(t, "launches fail: nothing leaves", func(s *scaled) {
		err := s.aws.PutHook(group, awsim.Hook{Name: launchHook, Transition: awsim.Launching, HeartbeatTimeout: time.Minute})
		if err != nil {
			s.Fatal(err)
		}
		if outcome := s.run("ci-1/1", 0); outcome != report.Stalled {
			s.Errorf("the trigger ended with %s", outcome)
		}
		if s.count("Standby") != 2 || s.count("InService") != 3 {
			s.Errorf("the group has %v", s.aws.Instances(group))
		}
	})
}

// TestStandbyModeKilled: a trigger that is killed after each of its changes in turn is continued by the next one, which
// leaves alone what a user has moved into Standby.
func TestStandbyModeKilled(t *testing.T) {
	t.Parallel()
	for _, n := range sample(24) {
		inStandbyMode(t, fmt.Sprintf("after %d", n+1), func(s *scaled) {
			id := s.userStandby()
			stop := s.watchCapacity()
			s.run("ci-1/1", n+1)
			if outcome := s.run("ci-1/2", 0); outcome != report.Incomplete {
				s.Errorf("the second trigger ended with %s", outcome)
			}
			if fewest := stop(); fewest < 5 {
				s.Errorf("only %d nodes were left", fewest)
			}
			s.expectOnlyStandby(id)
		})
	}
}

// expectOnlyStandby checks that every instance but this one is new, and that nothing of a trigger remains.
func (s *scaled) expectOnlyStandby(id string) {
	s.Helper()
	for _, i := range s.aws.Instances(group) {
		if i.ID == id && i.State != "Standby" || i.ID != id && (i.Version != 2 || i.State != "InService") {
			s.Errorf("%s is %s, of version %d", i.ID, i.State, i.Version)
		}
	}
	g := s.describe(s.Context())
	if int(*g.DesiredCapacity) != s.asked || len(g.Tags) != 1 || len(g.SuspendedProcesses) > 0 {
		s.Errorf("the desired capacity is %d, left are %v, %v", *g.DesiredCapacity, g.Tags, g.SuspendedProcesses)
	}
}

// TestStandbyBesideAnAutoscaler: the capacity that an autoscaler asks for stays, also if the trigger is killed.
func TestStandbyBesideAnAutoscaler(t *testing.T) {
	t.Parallel()
	for _, n := range sample(40) {
		besideAutoscaler(t, refresh.ModeStandby, uint64(n), func(s *scaled) {
			s.run("ci-1/1", n%20+1)
			if outcome := s.run("ci-1/2", 0); outcome != report.Done && outcome != report.Nothing {
				s.Errorf("the second trigger ended with %s", outcome)
			}
		})
	}
}

// TestStandbyRefuses: the preflight of mode standby.
func TestStandbyRefuses(t *testing.T) {
	t.Parallel()
	a := newAccount(t, latest(2))
	_, err := a.autoScaling().SuspendProcesses(t.Context(), &autoscaling.SuspendProcessesInput{
		AutoScalingGroupName: aws.String(group), ScalingProcesses: []string{"Launch"},
	})
	a.must(err)
	a.trigger("--mode", "standby").waitExit(1, `nothing was changed: suspended: suspended: Launch`)
	for call := range a.changes() {
		if !strings.Contains(call, "Tags") {
			t.Errorf("the trigger called %s", call)
		}
	}
}

// kept is a trigger that keeps what it replaces in Standby.
func kept(then refresh.Then) func(s *scaled) {
	return func(s *scaled) {
		s.then, s.nodes = then, &drainedNodes{requested: map[string]time.Time{}}
	}
}

// expectKept checks that so many old instances are in Standby, drained, and stopped where that was asked for, and that
// the group is at the new version without them. A user's instance is none of them.
func (s *scaled) expectKept(n int, user string) {
	s.Helper()
	states, found := s.machines(), 0
	for _, i := range s.aws.Instances(group) {
		drained, stopped := s.nodes.drained(i.ID), states[i.ID] == "stopped"
		switch {
		case i.ID == user:
			if i.State != "Standby" || stopped || drained {
				s.Errorf("the user's instance is %s, %s, drained %t", i.State, states[i.ID], drained)
			}
		case i.State == "Standby":
			found++
			if i.Version != 1 || !drained || stopped != (s.then == refresh.ThenStop) {
				s.Errorf("%s of version %d is %s, drained %t", i.ID, i.Version, states[i.ID], drained)
			}
		case i.State != "InService" || i.Version != 2:
			s.Errorf("%s is %s, of version %d", i.ID, i.State, i.Version)
		}
	}
	if desired := int(*s.describe(s.Context()).DesiredCapacity); found != n || desired != s.asked {
		s.Errorf("%d instances are kept, want %d; the desired capacity is %d", found, n, desired)
	}
}

// machines are the states of the instances in EC2.
func (s *scaled) machines() map[string]string {
	client := ec2.NewFromConfig((&process{scaled: s, name: "test"}).config())
	out, err := client.DescribeInstances(s.Context(), &ec2.DescribeInstancesInput{})
	if err != nil {
		s.Fatal(err)
	}
	states := map[string]string{}
	for _, r := range out.Reservations {
		states[*r.Instances[0].InstanceId] = string(r.Instances[0].State.Name)
	}
	return states
}

// TestStandbyKeeps: with --then stop and keep the nodes are drained before their instances are stopped, and the
// instances stay in Standby, also if the trigger is killed after each of its changes in turn. A further run finds
// nothing to do.
func TestStandbyKeeps(t *testing.T) {
	t.Parallel()
	for _, then := range []refresh.Then{refresh.ThenStop, refresh.ThenKeep} {
		for _, n := range sample(30) {
			inStandbyMode(t, fmt.Sprintf("%s, killed after %d", then, n), func(s *scaled) {
				kept(then)(s)
				user := s.userStandby()
				stop := s.watchCapacity()
				if n > 0 {
					s.run("ci-1/1", n)
				}
				if outcome := s.run("ci-1/2", 0); outcome != report.Incomplete { // for the user's
					s.Errorf("the trigger ended with %s", outcome)
				}
				if fewest := stop(); fewest < 5 {
					s.Errorf("only %d nodes were left", fewest)
				}
				s.expectKept(4, user)
				if outcome := s.run("ci-2/1", 0); outcome != report.Incomplete {
					s.Errorf("the next trigger ended with %s", outcome)
				}
				for call := range s.aws.RequestsBy("ci-2") {
					if !strings.Contains(call, "Describe") {
						t.Errorf("the next trigger called %s", call)
					}
				}
				s.expectKept(4, user)
			})
		}
	}
}
