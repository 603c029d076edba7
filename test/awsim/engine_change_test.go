package awsim_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// plans are the scheduled events of one instance.
func plans(t testing.TB, c *ec2.Client, instanceID string) []types.InstanceStatusEvent {
	t.Helper()
	out := do(t, c.DescribeInstanceStatus, &ec2.DescribeInstanceStatusInput{InstanceIds: []string{instanceID}})
	if len(out.InstanceStatuses) != 1 {
		t.Fatalf("got %+v", out.InstanceStatuses)
	}
	return out.InstanceStatuses[0].Events
}

// health returns the last scheduled change on the bus: its status, and each entity's.
func health(t testing.TB, s *awsim.Server, url string) (arn, statuses string) {
	t.Helper()
	all := warnings(t, s, url, awsim.HealthChanged)
	if len(all) != 1 {
		t.Fatalf("got %v", all)
	}
	detail := unwrap(t, all[0])
	statuses = detail["statusCode"].(string)
	for _, entity := range detail["affectedEntities"].([]any) {
		statuses += " " + entity.(map[string]any)["status"].(string)
	}
	return detail["eventArn"].(string), statuses
}

func TestScheduledChange(t *testing.T) {
	s := workers(t, awsim.Options{})
	must(t, s.AddInstance(groupName, secondID, ""))
	url := s.CreateQueue("events", nil)
	s.AddRule(s.QueueARN(url), awsim.HealthChanged)
	c := machineClient(t, s)
	if got := plans(t, c, instanceID); len(got) != 0 {
		t.Errorf("planned from the beginning: %+v", got)
	}
	start := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	id, err := s.ScheduleChange("instance-reboot", start, instanceID, secondID)
	must(t, err)
	arn, statuses := health(t, s, url)
	if statuses != "upcoming PENDING PENDING" {
		t.Errorf("got %s", statuses)
	}
	got := plans(t, c, instanceID)
	if len(got) != 1 || *got[0].InstanceEventId != id || got[0].Code != types.EventCodeInstanceReboot ||
		!got[0].NotBefore.Equal(start) || !got[0].NotAfter.After(start) || strings.Contains(*got[0].Description, "[") {
		t.Errorf("got %+v", got)
	}
	must(t, s.ResolveChange(id, secondID))
	if again, statuses := health(t, s, url); statuses != "upcoming PENDING RESOLVED" || again != arn {
		t.Errorf("got %s, %s", again, statuses)
	}
	if got := plans(t, c, secondID); !strings.HasPrefix(*got[0].Description, "[Completed] ") {
		t.Errorf("got %s", *got[0].Description)
	}
	must(t, s.CancelChange(id))
	if again, statuses := health(t, s, url); statuses != "closed RESOLVED RESOLVED" || again != arn {
		t.Errorf("got %s, %s", again, statuses)
	}
	if got := plans(t, c, instanceID); len(got) != 1 || !strings.HasPrefix(*got[0].Description, "[Canceled] ") {
		t.Errorf("got %+v", got)
	}
	if err := s.CancelChange(id); err == nil {
		t.Error("a closed change was closed again")
	}
	if s.Instances(groupName)[0].State != "InService" {
		t.Errorf("got %v", s.Instances(groupName))
	}
}

func TestScheduledChangeCodes(t *testing.T) {
	s := workers(t, awsim.Options{})
	c := machineClient(t, s)
	for _, code := range types.EventCode("").Values() {
		id, err := s.ScheduleChange(string(code), time.Now(), instanceID)
		must(t, err)
		must(t, s.CompleteChange(id))
	}
	for i, code := range types.EventCode("").Values() {
		got := plans(t, c, instanceID)[i]
		if got.Code != code || !strings.HasPrefix(*got.Description, "[Completed] ") {
			t.Errorf("got %+v", got)
		}
	}
	if _, err := s.ScheduleChange("nap", time.Now(), instanceID); err == nil {
		t.Error("an unknown change was planned")
	}
	if _, err := s.ScheduleChange("instance-stop", time.Now(), "i-00000000"); err == nil {
		t.Error("a change of an unknown instance was planned")
	}
}

func TestInstanceStatus(t *testing.T) {
	s := workers(t, awsim.Options{}, awsim.Hook{Name: "drain"})
	for i := range 11 {
		must(t, s.AddInstance(groupName, fmt.Sprintf("i-%08x", i), "eu-central-1b"))
	}
	do(t, groupClient(t, s).SuspendProcesses, &autoscaling.SuspendProcessesInput{
		AutoScalingGroupName: new(groupName), ScalingProcesses: []string{"Launch"},
	})
	c := machineClient(t, s)
	do(t, c.TerminateInstances, &ec2.TerminateInstancesInput{InstanceIds: []string{instanceID}})
	must(t, s.WaitState(within(t), instanceID, "Terminating:Wait"))
	_, err := s.ScheduleChange("instance-retirement", time.Now(), "i-00000003")
	must(t, err)
	count := func(in *ec2.DescribeInstanceStatusInput) int {
		n, p := 0, ec2.NewDescribeInstanceStatusPaginator(c, in)
		for p.HasMorePages() {
			page, err := p.NextPage(t.Context())
			must(t, err)
			n += len(page.InstanceStatuses)
		}
		return n
	}
	instanceEvents := []types.Filter{{Name: new("event.code"), Values: []string{"instance-*"}}}
	for name, row := range map[string]struct {
		in   ec2.DescribeInstanceStatusInput
		want int
	}{
		"the running ones":           {ec2.DescribeInstanceStatusInput{}, 11},
		"by pages":                   {ec2.DescribeInstanceStatusInput{MaxResults: new(int32(5))}, 11},
		"all":                        {ec2.DescribeInstanceStatusInput{IncludeAllInstances: new(true)}, 12},
		"one that is not running":    {ec2.DescribeInstanceStatusInput{InstanceIds: []string{instanceID}}, 0},
		"those of which is planned":  {ec2.DescribeInstanceStatusInput{Filters: instanceEvents}, 1},
		"one that is asked for also": {ec2.DescribeInstanceStatusInput{InstanceIds: []string{"i-00000003"}}, 1},
	} {
		if got := count(&row.in); got != row.want {
			t.Errorf("%s: got %d, want %d", name, got, row.want)
		}
	}
	for want, in := range map[string]*ec2.DescribeInstanceStatusInput{
		"InvalidInstanceID.NotFound":  {InstanceIds: []string{"i-00000aaa", "i-00000003"}},
		"InvalidInstanceID.Malformed": {InstanceIds: []string{"node"}},
		"InvalidParameterCombination": {InstanceIds: []string{instanceID}, MaxResults: new(int32(5))},
		"InvalidParameterValue":       {InstanceIds: make([]string, 101)},
		"InvalidPaginationToken":      {NextToken: new("!")},
	} {
		if _, err := c.DescribeInstanceStatus(t.Context(), in); code(err) != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
