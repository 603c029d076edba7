package awsim_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// TestCommandLineClientStory runs the life of a group with a client that nobody here wrote. It is one story
// and not a table, because each call of that client takes about a second.
func TestCommandLineClientStory(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	queueARN := s.QueueARN(s.CreateQueue("events", nil))
	cli := func(want string, args ...string) string {
		t.Helper()
		out, err := awscli(t, s.URL(), append(args, "--output", "json")...)
		must(t, err)
		if !strings.Contains(squeeze(out), want) {
			t.Errorf("%s: no %s in\n%s", strings.Join(args, " "), want, out)
		}
		return out
	}
	refused := func(want string, args ...string) {
		t.Helper()
		if _, err := awscli(t, s.URL(), args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", strings.Join(args, " "), err, want)
		}
	}

	cli(`"DefaultVersionNumber":1`, "ec2", "create-launch-template", "--launch-template-name", "node",
		"--launch-template-data", `{"ImageId":"ami-1"}`)
	cli(`"ImageId":"ami-2"`, "ec2", "create-launch-template-version", "--launch-template-name", "node",
		"--launch-template-data", `{"ImageId":"ami-2"}`)
	cli(`"VersionNumber":2`, "ec2", "describe-launch-template-versions", "--launch-template-name", "node",
		"--versions", "$Latest")
	cli("", "autoscaling", "create-auto-scaling-group", "--auto-scaling-group-name", groupName,
		"--min-size", "0", "--max-size", "3", "--desired-capacity", "1", "--availability-zones", "eu-central-1a",
		"--launch-template", "LaunchTemplateName=node,Version=$Latest",
		"--tags", "Key=team,Value=blue,PropagateAtLaunch=true")
	cli("", "autoscaling", "put-lifecycle-hook", "--auto-scaling-group-name", groupName,
		"--lifecycle-hook-name", "drain", "--lifecycle-transition", awsim.Terminating,
		"--heartbeat-timeout", "60", "--notification-target-arn", queueARN, "--role-arn", "arn:aws:iam::1:role/r")
	cli(`"GlobalTimeout":6000`, "autoscaling", "describe-lifecycle-hooks",
		"--auto-scaling-group-name", groupName)
	cli(`["workers"]`, "autoscaling", "describe-auto-scaling-groups", "--filters", "Name=tag:team,Values=blue",
		"--query", "AutoScalingGroups[].AutoScalingGroupName")

	id := settled(t, s)[0].ID
	var group struct {
		AutoScalingGroups []struct {
			Instances []struct{ InstanceId, LifecycleState string } //nolint:revive,staticcheck // The client's name.
		}
	}
	must(t, json.Unmarshal([]byte(cli(`"Version":"2"`, "autoscaling", "describe-auto-scaling-groups",
		"--auto-scaling-group-names", groupName)), &group))
	if got := group.AutoScalingGroups[0].Instances; len(got) != 1 || got[0].InstanceId != id {
		t.Errorf("the client sees %v", got)
	}
	cli(`"ImageId":"ami-2"`, "ec2", "describe-instances", "--instance-ids", id)
	cli(`"StatusCode":"MidLifecycleAction"`, "autoscaling", "terminate-instance-in-auto-scaling-group",
		"--instance-id", id, "--should-decrement-desired-capacity")
	cli(`"LifecycleState":"Terminating:Wait"`, "autoscaling", "describe-auto-scaling-instances",
		"--instance-ids", id)

	named := []string{
		"--auto-scaling-group-name", groupName, "--lifecycle-hook-name", "drain",
		"--lifecycle-action-token", only(t, s).Token,
	}
	completion := append([]string{
		"autoscaling", "complete-lifecycle-action", "--lifecycle-action-result", "CONTINUE",
	}, named...)
	cli("", append([]string{"autoscaling", "record-lifecycle-action-heartbeat"}, named...)...)
	cli("", completion...)
	must(t, s.WaitState(within(t), id, "Terminated"))
	refused("An error occurred (ValidationError) when calling the CompleteLifecycleAction operation: "+
		"No active Lifecycle Action found with token "+only(t, s).Token, completion...)
	refused("(InvalidInstanceID.NotFound)", "ec2", "describe-instances", "--instance-ids", "i-00000000000000000")

	must(t, s.AddInstance(groupName, instanceID, ""))
	cli("", "autoscaling", "set-instance-health", "--instance-id", instanceID, "--health-status", "Unhealthy",
		"--no-should-respect-grace-period")
	cli(`"HealthStatus":"Unhealthy"`, "autoscaling", "describe-auto-scaling-instances",
		"--instance-ids", instanceID)
}

// squeeze takes the white space out of the client's JSON.
func squeeze(s string) string {
	return strings.NewReplacer(" ", "", "\n", "").Replace(s)
}
