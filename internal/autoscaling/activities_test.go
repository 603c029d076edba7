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
	change := func(after time.Duration, from, to int, by refresh.ChangedBy) refresh.CapacityChange {
		return refresh.CapacityChange{At: at.Add(after), From: from, To: to, By: by}
	}
	for cause, want := range map[string][]refresh.CapacityChange{
		"At 2015-11-22T15:45:16Z a user request explicitly set group desired capacity changing the desired capacity from " +
			"1 to 2.  At 2015-11-22T15:45:34Z an instance was started in response to a difference between desired and actual " +
			"capacity, increasing the capacity from 1 to 2.": {
			change(0, 1, 2, refresh.BySetDesired), change(18*time.Second, 1, 2, ""),
		},
		"At 2015-11-22T15:45:16Z a user request explicitly set group desired capacity changing the desired capacity from " +
			"1 to 2.  At 2015-11-22T15:45:17Z a user request explicitly set group desired capacity changing the desired capacity " +
			"from 2 to 12.": {change(0, 1, 2, refresh.BySetDesired), change(time.Second, 2, 12, refresh.BySetDesired)},
		"At 2015-11-22T15:45:16Z a user request update of AutoScalingGroup constraints to min: 12, max: 20, desired: 13 " +
			"changing the desired capacity from 14 to 13.": {change(0, 14, 13, "")},
		"At 2015-11-22T15:45:16Z a monitor alarm A in state ALARM triggered policy P changing the desired capacity from 4 " +
			"to 5.": {change(0, 4, 5, "")},
		"At 2015-11-22T15:45:16Z instance i-93633f9b was moved out of standby in response to a user request, increasing the " +
			"capacity from 1 to 2.": {change(0, 1, 2, refresh.ByExitStandby)},
		"At 2015-11-22T15:45:16Z instance i-93633f9b was taken out of service in response to a user request, shrinking the " +
			"capacity from 2 to 1.": {change(0, 2, 1, "")},
		"At 2015-11-22T15:45:10Z an instance was taken out of service in response to an EC2 health check.  At " +
			"2015-11-22T15:45:16Z a user request explicitly set group desired capacity changing the desired capacity from 1 to 2.": {
			change(0, 1, 2, refresh.BySetDesired),
		},
		"At 2015-11-22T15:45:16Z a monitor alarm a user request explicitly set group desired capacity in state ALARM " +
			"triggered policy P changing the desired capacity from 4 to 5.": {change(0, 4, 5, "")},
		"At noon a user request explicitly set group desired capacity changing the desired capacity from 1 to 2.":    nil,
		"At 2015-11-22T15:45:16Z a user request explicitly set group desired capacity changing the desired capacity": nil,
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
			if c.By == refresh.BySetDesired {
				reached[c.To] = !c.At.Before(began)
			}
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
