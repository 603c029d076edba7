package autoscaling

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

func TestToChanges(t *testing.T) {
	t.Parallel()
	at := time.Date(2015, 11, 22, 15, 45, 16, 0, time.UTC)
	for cause, want := range map[string][]refresh.CapacityChange{
		"At 2015-11-22T15:45:16Z a user request explicitly set group desired capacity changing the desired capacity from " +
			"1 to 2.  At 2015-11-22T15:45:34Z an instance was started in response to a difference between desired and actual " +
			"capacity, increasing the capacity from 1 to 2.": {{At: at, From: 1, To: 2}},
		"At 2015-11-22T15:45:16Z a user request explicitly set group desired capacity changing the desired capacity from " +
			"1 to 2.  At 2015-11-22T15:45:17Z a user request explicitly set group desired capacity changing the desired capacity " +
			"from 2 to 12.": {{At: at, From: 1, To: 2}, {At: at.Add(time.Second), From: 2, To: 12}},
		"At 2016-05-13T15:03:47Z a user request update of AutoScalingGroup constraints to min: 12, max: 20, desired: 13 " +
			"changing the desired capacity from 14 to 13.": nil,
		"At 2016-05-08T13:55:14Z a monitor alarm A in state ALARM triggered policy P changing the desired capacity from 4 " +
			"to 3.": nil,
		"At noon a user request explicitly set group desired capacity changing the desired capacity from 1 to 2.": nil,
		"": nil,
	} {
		if diff := cmp.Diff(want, toChanges(cause)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", cause, diff)
		}
	}
}

// TestCapacityChanges: a change is known as soon as Auto Scaling has reacted to it.
func TestCapacityChanges(t *testing.T) {
	t.Parallel()
	s, r, w := simulateTrigger(t)
	must(t, s.CreateGroup(awsim.Group{Name: "g", Max: 9}))
	began := time.Now().Truncate(time.Second)
	expect := func(since time.Time, want ...int) {
		t.Helper()
		changes, err := r.CapacityChanges(t.Context(), "g", since)
		must(t, err)
		reached := map[int]bool{}
		for _, c := range changes {
			reached[c.To] = !c.At.Before(began)
		}
		wanted := map[int]bool{}
		for _, n := range want {
			wanted[n] = true
		}
		if diff := cmp.Diff(wanted, reached); diff != "" {
			t.Errorf("raised to (-want +got):\n%s", diff)
		}
	}
	suspended := &sdk.SuspendProcessesInput{AutoScalingGroupName: aws.String("g"), ScalingProcesses: []string{"Launch"}}
	_, err := w.Capacity.api.SuspendProcesses(t.Context(), suspended)
	must(t, err)
	must(t, w.setDesired(t.Context(), "g", 2))
	must(t, w.setDesired(t.Context(), "g", 3))
	expect(began)
	_, err = w.Capacity.api.ResumeProcesses(t.Context(), &sdk.ResumeProcessesInput{AutoScalingGroupName: aws.String("g")})
	must(t, err)
	expect(began, 2, 3)
	expect(began.Add(time.Hour))
	if _, err := r.CapacityChanges(t.Context(), "none", began); err == nil {
		t.Error("a group that does not exist has changes")
	}
}
