//go:build e2e

package awsim_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// commands runs the client against one server and fails the test where it does not say what is wanted. Each
// call takes the client some seconds, so that what need not be in order is run together.
type commands struct {
	t *testing.T
	s *awsim.Server
}

func (c commands) says(want string, args ...string) string {
	c.t.Helper()
	out, err := awscli(c.t, c.s.URL(), append(args, "--output", "json")...)
	if err != nil || !strings.Contains(squeeze(out), want) {
		c.t.Errorf("%s: no %s in\n%s%v", strings.Join(args, " "), want, out, err)
	}
	return out
}

func (c commands) refuses(want string, args ...string) {
	c.t.Helper()
	if _, err := awscli(c.t, c.s.URL(), args...); err == nil || !strings.Contains(err.Error(), want) {
		c.t.Errorf("%s: got %v, want %s", strings.Join(args, " "), err, want)
	}
}

// squeeze takes the white space out of the client's JSON.
func squeeze(s string) string {
	return strings.NewReplacer(" ", "", "\n", "").Replace(s)
}

// TestCommandLineClientGroup runs the life of a group with a client that nobody here wrote.
func TestCommandLineClientGroup(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	cli, queueARN := commands{t, s}, s.QueueARN(s.CreateQueue("events", nil))
	_, err := s.CreateLaunchTemplate("node", "ami-1")
	must(t, err)

	cli.says("", "autoscaling", "create-auto-scaling-group", "--auto-scaling-group-name", groupName,
		"--min-size", "0", "--max-size", "3", "--desired-capacity", "1", "--availability-zones", "eu-central-1a",
		"--launch-template", "LaunchTemplateName=node,Version=$Latest",
		"--tags", "Key=team,Value=blue,PropagateAtLaunch=true")
	cli.says("", "autoscaling", "put-lifecycle-hook", "--auto-scaling-group-name", groupName,
		"--lifecycle-hook-name", "drain", "--lifecycle-transition", awsim.Terminating,
		"--heartbeat-timeout", "7200", "--notification-target-arn", queueARN, "--role-arn", "arn:aws:iam::1:role/r")
	id := settled(t, s)[0].ID

	together(func() {
		cli.says(`"GlobalTimeout":172800`, "autoscaling", "describe-lifecycle-hooks",
			"--auto-scaling-group-name", groupName)
	}, func() {
		out := cli.says(`"Version":"1"`, "autoscaling", "describe-auto-scaling-groups",
			"--filters", "Name=tag:team,Values=blue")
		seesInstance(t, out, id)
	}, func() {
		cli.says(`"ImageId":"ami-1"`, "ec2", "describe-instances", "--instance-ids", id)
	}, func() {
		cli.refuses("(InvalidInstanceID.NotFound)", "ec2", "describe-instances",
			"--instance-ids", "i-00000000000000000")
	})

	cli.says(`"StatusCode":"MidLifecycleAction"`, "autoscaling", "terminate-instance-in-auto-scaling-group",
		"--instance-id", id, "--should-decrement-desired-capacity")
	named := func(args ...string) []string {
		return append(args, "--auto-scaling-group-name", groupName, "--lifecycle-hook-name", "drain",
			"--lifecycle-action-token", only(t, s).Token)
	}
	together(func() {
		cli.says(`"LifecycleState":"Terminating:Wait"`, "autoscaling", "describe-auto-scaling-instances",
			"--instance-ids", id)
	}, func() {
		cli.says("", named("autoscaling", "record-lifecycle-action-heartbeat")...)
	})
	completion := named("autoscaling", "complete-lifecycle-action", "--lifecycle-action-result", "CONTINUE")
	cli.says("", completion...)
	must(t, s.WaitState(within(t), id, "Terminated"))
	cli.refuses("An error occurred (ValidationError) when calling the CompleteLifecycleAction operation: "+
		"No active Lifecycle Action found with token "+only(t, s).Token, completion...)
}

// seesInstance checks that the client found one instance in the XML, under the names that it gives things.
func seesInstance(t *testing.T, out, id string) {
	t.Helper()
	var answer struct {
		AutoScalingGroups []struct {
			Instances []map[string]any
		}
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil || len(answer.AutoScalingGroups) != 1 {
		t.Errorf("the client sees %s (%v)", out, err)
		return
	}
	if got := answer.AutoScalingGroups[0].Instances; len(got) != 1 || got[0]["InstanceId"] != id {
		t.Errorf("the client sees %v", got)
	}
}

func TestCommandLineClientTemplate(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	_, err := s.CreateLaunchTemplate("node", "ami-1")
	must(t, err)
	cli := commands{t, s}
	s.SetParameter("image", "ami-2")
	cli.says(`"ImageId":"resolve:ssm:image"`, "ec2", "create-launch-template-version", "--launch-template-name", "node",
		"--launch-template-data", `{"ImageId":"resolve:ssm:image"}`)
	cli.says(`"DefaultVersionNumber":2`, "ec2", "modify-launch-template", "--launch-template-name", "node",
		"--default-version", "2")
	versions := func(args ...string) []string {
		return append([]string{"ec2", "describe-launch-template-versions", "--launch-template-name", "node"}, args...)
	}
	together(func() {
		cli.says(`"VersionNumber":2`, versions("--versions", "$Latest")...)
	}, func() {
		cli.says(`"VersionNumber":2`, versions("--min-version", "2")...)
	}, func() {
		cli.refuses("(InvalidLaunchTemplateId.VersionNotFound)", versions("--versions", "3")...)
	}, func() {
		cli.says(`"LatestVersionNumber":2`, "ec2", "describe-launch-templates", "--launch-template-names", "node")
	})
}

func TestCommandLineClientHealth(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	must(t, s.CreateGroup(awsim.Group{Name: groupName, Max: 1}))
	must(t, s.AddInstance(groupName, instanceID, ""))
	must(t, s.PutHook(groupName, awsim.Hook{Name: "drain"})) // So that the unhealthy instance stays.
	commands{t, s}.says("", "autoscaling", "set-instance-health", "--instance-id", instanceID,
		"--health-status", "Unhealthy", "--no-should-respect-grace-period")
	if got := s.Instances(groupName); len(got) == 0 || got[0].Health != "Unhealthy" {
		t.Errorf("the group has %+v", got)
	}
}

// group is the arguments of an action on the tests' group.
func group(action string, args ...string) []string {
	return append([]string{"autoscaling", action, "--auto-scaling-group-name", groupName}, args...)
}

// TestCommandLineClientRefresh runs the life of an Instance Refresh, which a launch hook holds up.
func TestCommandLineClientRefresh(t *testing.T) {
	t.Parallel()
	s, _ := templated(t, 1, "1")
	must(t, s.PutHook(groupName, awsim.Hook{Name: "ready", Transition: awsim.Launching}))
	cli := commands{t, s}
	start := group("start-instance-refresh", "--preferences",
		`{"MinHealthyPercentage":100,"MaxHealthyPercentage":200,"InstanceWarmup":0,"SkipMatching":true,
		"CheckpointPercentages":[100],"CheckpointDelay":7,"BakeTime":8,"AutoRollback":true,
		"ScaleInProtectedInstances":"Ignore","StandbyInstances":"Terminate",
		"AlarmSpecification":{"Alarms":["errors"]}}`,
		"--desired-configuration", `{"LaunchTemplate":{"LaunchTemplateName":"node","Version":"2"}}`)
	cli.says(`"InstanceRefreshId":"`, start...)
	together(func() {
		out := squeeze(cli.says(`"Status":"InProgress"`, group("describe-instance-refreshes")...))
		for _, want := range []string{
			`"MinHealthyPercentage":100`, `"MaxHealthyPercentage":200`, `"InstanceWarmup":0`, `"SkipMatching":true`,
			`"CheckpointPercentages":[100]`, `"CheckpointDelay":7`, `"BakeTime":8`, `"AutoRollback":true`,
			`"ScaleInProtectedInstances":"Ignore"`, `"StandbyInstances":"Terminate"`, `"Alarms":["errors"]`,
			`"InstancesToUpdate":1`, `"PercentageComplete":0`, `"LaunchTemplateName":"node","Version":"2"`,
		} {
			if !strings.Contains(out, want) {
				t.Errorf("no %s in %s", want, out)
			}
		}
	}, func() {
		cli.refuses("(InstanceRefreshInProgress)", start...)
	})
	cli.says(`"InstanceRefreshId":"`, group("cancel-instance-refresh")...)
	together(func() {
		cli.says(`"Status":"Cancelling"`, group("describe-instance-refreshes")...)
	}, func() {
		cli.refuses("(ActiveInstanceRefreshNotFound)", group("rollback-instance-refresh")...)
	})
	for _, id := range inState(s, "Pending:Wait") {
		must(t, complete(t, groupClient(t, s), "ready", id, "CONTINUE"))
	}
	_, err := s.WaitRefresh(within(t), groupName, "Cancelled")
	must(t, err)
	cli.refuses("(ActiveInstanceRefreshNotFound)", group("cancel-instance-refresh")...)
}

// TestCommandLineClientRollback ends one refresh by a rollback and the next by a cancellation that waits for
// nobody.
func TestCommandLineClientRollback(t *testing.T) {
	t.Parallel()
	s, _ := templated(t, 1, "1")
	must(t, s.PutHook(groupName, awsim.Hook{Name: "ready", Transition: awsim.Launching}))
	cli := commands{t, s}
	start := group("start-instance-refresh", "--preferences", "MinHealthyPercentage=100,MaxHealthyPercentage=200",
		"--desired-configuration", "LaunchTemplate={LaunchTemplateName=node,Version=2}")
	cli.says(`"InstanceRefreshId":"`, start...)
	cli.says(`"InstanceRefreshId":"`, group("rollback-instance-refresh")...)
	_, err := s.WaitRefresh(within(t), groupName, "RollbackSuccessful")
	must(t, err)
	out := squeeze(cli.says(`"Status":"RollbackSuccessful"`, group("describe-instance-refreshes")...))
	for _, want := range []string{`"RollbackReason":"Rollbackwas`, `"PercentageCompleteOnRollback":0`, `"RollbackStartTime":"20`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in %s", want, out)
		}
	}
	cli.says(`"InstanceRefreshId":"`, start...)
	cli.says(`"InstanceRefreshId":"`, group("cancel-instance-refresh", "--no-wait-for-transitioning-instances")...)
	cli.says(`"Status":"Cancelled"`, group("describe-instance-refreshes", "--max-records", "1")...)
}

// TestCommandLineClientMixed refreshes a group to a mixed instances policy, in the client's own writing of it.
func TestCommandLineClientMixed(t *testing.T) {
	t.Parallel()
	s, _ := templated(t, 2, "1")
	cli := commands{t, s}
	cli.says("", group("update-auto-scaling-group",
		"--instance-maintenance-policy", "MinHealthyPercentage=100,MaxHealthyPercentage=150",
		"--instance-lifecycle-policy", "RetentionTriggers={TerminateHookAbandon=retain}")...)
	cli.says(`"InstanceRefreshId":"`, group("start-instance-refresh", "--preferences", "InstanceWarmup=0",
		"--desired-configuration", `{"MixedInstancesPolicy":{"LaunchTemplate":{
			"LaunchTemplateSpecification":{"LaunchTemplateName":"node","Version":"$Latest"},
			"Overrides":[{"InstanceType":"c5.large","WeightedCapacity":"1","ImageId":"ami-own"},
				{"WeightedCapacity":"2","InstanceRequirements":{"VCpuCount":{"Min":2},"MemoryMiB":{"Min":1024}},
				"LaunchTemplateSpecification":{"LaunchTemplateName":"node","Version":"1"}}]},
			"InstancesDistribution":{"OnDemandPercentageAboveBaseCapacity":50}}}`)...)
	_, err := s.WaitRefresh(within(t), groupName, "Successful")
	must(t, err)
	together(func() {
		out := squeeze(cli.says(`"InstanceType":"c5.large"`, "autoscaling", "describe-auto-scaling-groups"))
		for _, want := range []string{
			`"WeightedCapacity":"2"`, `"VCpuCount":{"Min":2}`, `"OnDemandPercentageAboveBaseCapacity":50`,
			`"Version":"$Latest"`, `"ImageId":"ami-own"`, `"TerminateHookAbandon":"retain"`, `"MaxHealthyPercentage":150`,
		} {
			if !strings.Contains(out, want) {
				t.Errorf("no %s in %s", want, out)
			}
		}
	}, func() {
		cli.says(`"Version":"$Latest"},"Overrides":[{"InstanceType":"c5.large"`, group("describe-instance-refreshes")...)
	}, func() {
		cli.says(`"InstanceType":"c5.large"`, "ec2", "describe-instances", "--filters", "Name=image-id,Values=ami-own")
	})
}

// TestCommandLineClientSettings changes, and reads, what the trigger changes and reads.
func TestCommandLineClientSettings(t *testing.T) {
	t.Parallel()
	s, _ := templated(t, 1, "1")
	must(t, s.PutHook(groupName, awsim.Hook{Name: "drain"}))
	cli, id := commands{t, s}, s.Instances(groupName)[0].ID
	tag := "ResourceId=" + groupName + ",ResourceType=auto-scaling-group,Key=surge,Value=1,PropagateAtLaunch=false"
	together(func() {
		cli.says("", "autoscaling", "create-or-update-tags", "--tags", tag)
	}, func() {
		cli.says("", group("set-instance-protection", "--instance-ids", id, "--protected-from-scale-in")...)
	}, func() {
		cli.says("", group("suspend-processes", "--scaling-processes", "InstanceRefresh")...)
	}, func() {
		cli.says("", group("update-auto-scaling-group", "--max-size", "3")...)
	})
	cli.says("", group("set-desired-capacity", "--desired-capacity", "2")...)
	settled(t, s)
	together(func() {
		out := squeeze(cli.says(`"Key":"surge"`, "autoscaling", "describe-auto-scaling-groups"))
		for _, want := range []string{
			`"DesiredCapacity":2`, `"MaxSize":3`, `"ProtectedFromScaleIn":true`, `"ProcessName":"InstanceRefresh"`,
		} {
			if !strings.Contains(out, want) {
				t.Errorf("no %s in %s", want, out)
			}
		}
	}, func() {
		cli.says(`"StatusCode":"Successful"`, group("describe-scaling-activities", "--max-items", "1")...)
	})
	together(func() {
		cli.says("", "autoscaling", "delete-tags", "--tags", tag)
	}, func() {
		cli.says("", group("resume-processes", "--scaling-processes", "InstanceRefresh")...)
	})
	if g := groupOf(t, groupClient(t, s)); len(g.Tags)+len(g.SuspendedProcesses) != 0 {
		t.Errorf("got %+v", g)
	}
}

func TestCommandLineClientWarmPool(t *testing.T) {
	t.Parallel()
	s, _ := templated(t, 1, "1")
	cli := commands{t, s}
	cli.says("", group("put-warm-pool", "--pool-state", "Running", "--min-size", "1",
		"--instance-reuse-policy", `{"ReuseOnScaleIn":true}`)...)
	for _, i := range s.Instances(groupName)[1:] {
		must(t, s.WaitState(within(t), i.ID, "Warmed:Running"))
	}
	together(func() {
		out := squeeze(cli.says(`"LifecycleState":"Warmed:Running"`, group("describe-warm-pool")...))
		if !strings.Contains(out, `"ReuseOnScaleIn":true`) || !strings.Contains(out, `"PoolState":"Running"`) {
			t.Errorf("got %s", out)
		}
	}, func() {
		cli.says(`"WarmPoolSize":1`, "autoscaling", "describe-auto-scaling-groups")
	})
	cli.says("", group("delete-warm-pool", "--force-delete")...)
}
