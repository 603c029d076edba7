//go:build e2e

package awsim_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// commands runs the AWS command-line client against one server.
type commands struct {
	t *testing.T
	s *awsim.Server
}

// run runs commands at the same time: each takes the client some seconds. A command is written as
// "ARGUMENTS => TEXT", with the text that its output must contain without white space, or as
// "ARGUMENTS =! TEXT", with the text of its error. GROUP stands for the tests' group.
func (c commands) run(lines ...string) {
	c.t.Helper()
	var all sync.WaitGroup
	for _, line := range lines {
		all.Go(func() { c.check(line) })
	}
	all.Wait()
}

func (c commands) check(line string) {
	c.t.Helper()
	line = strings.ReplaceAll(line, "GROUP", "--auto-scaling-group-name "+groupName)
	if args, want, fails := strings.Cut(line, " =! "); fails {
		if _, err := awscli(c.t, c.s.URL(), strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			c.t.Errorf("%s: got %v, want %s", args, err, want)
		}
		return
	}
	args, wants, _ := strings.Cut(line, " => ")
	out := c.output(strings.Fields(args)...)
	for want := range strings.FieldsSeq(wants) {
		if !strings.Contains(out, want) {
			c.t.Errorf("%s: no %s in %s", args, want, out)
		}
	}
}

// output returns the client's JSON without white space.
func (c commands) output(args ...string) string {
	c.t.Helper()
	out, err := awscli(c.t, c.s.URL(), append(args, "--output", "json")...)
	if err != nil {
		c.t.Errorf("aws %s: %v", strings.Join(args, " "), err)
	}
	return strings.NewReplacer(" ", "", "\n", "").Replace(out)
}

func TestCommandLineGroup(t *testing.T) {
	t.Parallel()
	s, _ := templated(t, 1, "1")
	must(t, s.PutHook(groupName, awsim.Hook{Name: "drain", HeartbeatTimeout: 2 * time.Hour}))
	cli, id := commands{t, s}, s.Instances(groupName)[0].ID
	cli.run(`autoscaling describe-lifecycle-hooks GROUP => "GlobalTimeout":172800`,
		`autoscaling describe-auto-scaling-groups => "Version":"1" "Instances":[{"InstanceId":"`+id+`"`,
		`ec2 describe-instances --instance-ids `+id+` => "ImageId":"ami-1"`,
		`ec2 describe-instances --instance-ids i-00000000000000000 =! (InvalidInstanceID.NotFound)`)
	cli.run("autoscaling terminate-instance-in-auto-scaling-group --instance-id " + id +
		" --should-decrement-desired-capacity")
	action := " GROUP --lifecycle-hook-name drain --lifecycle-action-token " + only(t, s).Token
	complete := "autoscaling complete-lifecycle-action --lifecycle-action-result CONTINUE" + action
	cli.run("autoscaling describe-auto-scaling-instances --instance-ids "+id+` => "LifecycleState":"Terminating:Wait"`,
		"autoscaling record-lifecycle-action-heartbeat"+action)
	cli.run(complete)
	must(t, s.WaitState(within(t), id, "Terminated"))
	cli.run(complete + " =! An error occurred (ValidationError) when calling the CompleteLifecycleAction operation: " +
		"No active Lifecycle Action found with token " + only(t, s).Token)
}

func TestCommandLineRefresh(t *testing.T) {
	t.Parallel()
	s, _ := templated(t, 1, "1")
	must(t, s.PutHook(groupName, awsim.Hook{Name: "ready", Transition: awsim.Launching})) // It delays the refresh.
	cli := commands{t, s}
	preferences := `"MinHealthyPercentage":100 "MaxHealthyPercentage":200 "InstanceWarmup":0 "SkipMatching":true ` +
		`"CheckpointPercentages":[100] "CheckpointDelay":7 "BakeTime":8 "AutoRollback":true ` +
		`"ScaleInProtectedInstances":"Ignore" "StandbyInstances":"Terminate" "AlarmSpecification":{"Alarms":["errors"]}`
	start := `autoscaling start-instance-refresh GROUP --preferences {` + strings.ReplaceAll(preferences, " ", ",") +
		`} --desired-configuration {"LaunchTemplate":{"LaunchTemplateName":"node","Version":"2"}}`
	cli.run(start + ` => "InstanceRefreshId":"`)
	cli.run(`autoscaling describe-instance-refreshes GROUP => "Status":"InProgress" `+preferences+
		` "InstancesToUpdate":1 "PercentageComplete":0 "LaunchTemplateName":"node","Version":"2"`,
		start+` =! (InstanceRefreshInProgress)`)
	cli.run(`autoscaling cancel-instance-refresh GROUP => "InstanceRefreshId":"`)
	cli.run(`autoscaling describe-instance-refreshes GROUP => "Status":"Cancelling"`,
		`autoscaling rollback-instance-refresh GROUP =! (ActiveInstanceRefreshNotFound)`)
	for _, id := range inState(s, "Pending:Wait") {
		must(t, complete(t, groupClient(t, s), "ready", id, "CONTINUE"))
	}
	_, err := s.WaitRefresh(within(t), groupName, "Cancelled")
	must(t, err)
	cli.run(`autoscaling cancel-instance-refresh GROUP =! (ActiveInstanceRefreshNotFound)`)
}

func TestCommandLineMachines(t *testing.T) {
	t.Parallel()
	s := workers(t, awsim.Options{})
	must(t, s.SetMarket(instanceID, awsim.CapacityBlock, reservationID))
	id, err := s.ScheduleChange("instance-reboot", time.Now().Add(time.Hour), instanceID)
	must(t, err)
	must(t, s.CancelChange(id))
	commands{t, s}.run(
		`ec2 describe-instances --filters Name=capacity-reservation-id,Values=cr-* Name=tag-key,Values=team `+
			`=> "InstanceLifecycle":"capacity-block"`,
		`ec2 describe-instances --instance-ids `+instanceID+` => "CapacityReservationId":"`+reservationID,
		`ec2 describe-instance-status --instance-ids `+instanceID+` => "Code":"instance-reboot","Description":"[Canceled]`,
		`ec2 describe-instance-status --include-all-instances => "InstanceState":{"Code":16,"Name":"running"}`,
		`ec2 describe-instance-status --instance-ids i-00000002 `+instanceID+` i-00000001 =! An error occurred `+
			`(InvalidInstanceID.NotFound) when calling the DescribeInstanceStatus operation: `+
			`The instance IDs 'i-00000001, i-00000002' do not exist`)
}
