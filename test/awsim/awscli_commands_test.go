//go:build e2e

package awsim_test

import (
	"encoding/json"
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

func TestCommandLineTemplate(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	_, err := s.CreateLaunchTemplate("node", "ami-1")
	must(t, err)
	s.SetParameter("image", "ami-2")
	cli := commands{t, s}
	cli.run(`ec2 create-launch-template-version --launch-template-name node ` +
		`--launch-template-data {"ImageId":"resolve:ssm:image"} => "ImageId":"resolve:ssm:image"`)
	cli.run(`ec2 modify-launch-template --launch-template-name node --default-version 2 => "DefaultVersionNumber":2`)
	const versions = "ec2 describe-launch-template-versions --launch-template-name node "
	cli.run(versions+`--versions $Latest => "VersionNumber":2`, versions+`--min-version 2 => "VersionNumber":2`,
		versions+`--versions 3 =! (InvalidLaunchTemplateId.VersionNotFound)`,
		`ec2 describe-launch-templates --launch-template-names node => "LatestVersionNumber":2`)
}

func TestCommandLineHealth(t *testing.T) {
	t.Parallel()
	s := workers(t, awsim.Options{}, awsim.Hook{Name: "drain"}) // The unhealthy instance stays because of the hook.
	commands{t, s}.run("autoscaling set-instance-health --instance-id " + instanceID +
		" --health-status Unhealthy --no-should-respect-grace-period")
	if got := s.Instances(groupName); len(got) == 0 || got[0].Health != "Unhealthy" {
		t.Errorf("the group has %+v", got)
	}
}

// held is a templated group whose refresh a launch hook delays.
func held(t *testing.T) (*awsim.Server, commands) {
	t.Helper()
	s, _ := templated(t, 1, "1")
	must(t, s.PutHook(groupName, awsim.Hook{Name: "ready", Transition: awsim.Launching}))
	return s, commands{t, s}
}

func TestCommandLineRefresh(t *testing.T) {
	t.Parallel()
	s, cli := held(t)
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

func TestCommandLineQueue(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	cli, url := commands{t, s}, s.URL()+"/123456789012/jobs"
	cli.run(`sqs create-queue --queue-name jobs --attributes VisibilityTimeout=3600 => "QueueUrl":"` + url + `"`)
	var sent struct{ MessageID string }
	var received struct {
		Messages []struct {
			MessageID, Body, ReceiptHandle string
			Attributes                     map[string]string
		}
	}
	parse := func(v any, args ...string) {
		t.Helper()
		if out := cli.output(args...); json.Unmarshal([]byte(out), v) != nil {
			t.Fatalf("aws %v printed no JSON: %s", args, out)
		}
	}
	parse(&sent, "sqs", "send-message", "--queue-url", url, "--message-body", `{"a":"ü"}`)
	parse(&received, "sqs", "receive-message", "--queue-url", url, "--attribute-names", "All", "--wait-time-seconds", "1")
	if len(received.Messages) != 1 || received.Messages[0].MessageID != sent.MessageID ||
		received.Messages[0].Body != `{"a":"ü"}` || received.Messages[0].Attributes["ApproximateReceiveCount"] != "1" {
		t.Fatalf("sent %v, received %v", sent, received)
	}
	handle := " --queue-url " + url + " --receipt-handle " + received.Messages[0].ReceiptHandle
	cli.run("sqs change-message-visibility --visibility-timeout 7200"+handle,
		`sqs get-queue-attributes --attribute-names All --queue-url `+url+` => "VisibilityTimeout":"3600" `+
			`"ApproximateNumberOfMessagesNotVisible":"1" "QueueArn":"arn:aws:sqs:eu-central-1:123456789012:jobs"`)
	cli.run("sqs delete-message"+handle,
		`sts get-caller-identity => "Account":"123456789012"`,
		`sqs get-queue-url --queue-name none =! An error occurred (AWS.SimpleQueueService.NonExistentQueue) when `+
			`calling the GetQueueUrl operation: The specified queue does not exist.`,
		`sqs delete-message --receipt-handle x --queue-url `+url+` =! An error occurred (ReceiptHandleIsInvalid) when `+
			`calling the DeleteMessage operation`)
	if got := s.Queue(url); got != (awsim.QueueStats{Deleted: 1, Received: 1}) {
		t.Fatalf("the queue is %+v", got)
	}
	if got := s.RequestsBy("cli")["sqs.ReceiveMessage"]; got != 1 {
		t.Fatalf("%d receives were counted for the client's key", got)
	}
}
