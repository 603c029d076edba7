//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/node-drainer/node-drainer/deploy"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// The programs have access keys of their own, by which awsim knows what they may do and what they have done.
const (
	agentKey   = "agent"
	triggerKey = "trigger"
)

// seen are the AWS actions that the programs called in all worlds of this run, by program.
var seen = struct {
	sync.Mutex
	byProgram map[string]map[string]bool
}{byProgram: map[string]map[string]bool{agentKey: {}, triggerKey: {}}}

// policies are the documents of deploy/iam for all features of a program, but for keys of KMS, which awsim has none of.
func policies(program, queueARN string) ([]string, error) {
	names := deploy.Names("iam/" + program + "-")
	return fill(queueARN, slices.DeleteFunc(names, func(name string) bool { return name == "iam/agent-key" })...)
}

func fill(queueARN string, names ...string) (all []string, err error) {
	for _, name := range names {
		policy, err := deploy.Fill(name, map[string]string{
			"QueueArn":    queueARN,
			"Groups":      "arn:aws:autoscaling:eu-central-1:123456789012:autoScalingGroup:*:autoScalingGroupName/*",
			"GroupTagKey": "kubernetes.io/cluster/demo", "GroupTagValue": "owned",
		})
		if err != nil {
			return nil, err
		}
		all = append(all, policy)
	}
	return all, nil
}

// limit has awsim hold a program to the policies that users are given for it, and the test fail if it asks for more.
// The program is told by its own access key; another one of it has another.
func limit(t testing.TB, aws *awsim.Server, program, key, queueARN string) {
	t.Helper()
	granted, err := policies(program, queueARN)
	if err != nil {
		t.Fatal(err)
	}
	if err := aws.Allow(key, granted...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, call := range aws.Unauthorized() {
			t.Errorf("not allowed by deploy/iam: %s", call)
		}
		seen.Lock()
		defer seen.Unlock()
		for _, action := range aws.Used(key) {
			seen.byProgram[program][action] = true
		}
	})
}

// judgePermissions compares what deploy/iam allows the programs with what a whole run of these tests has seen them
// call, and returns the exit code. What is allowed and not called is not needed, or not tested.
func judgePermissions(code int) int {
	if code != 0 || !isWhole() {
		return code
	}
	for _, program := range []string{agentKey, triggerKey} {
		granted, err := policies(program, "*")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		for _, fault := range compare(program, actionsOf(granted), seen.byProgram[program]) {
			fmt.Fprintln(os.Stderr, fault)
			code = 1
		}
	}
	return code
}

// actionsOf are the actions that policies allow.
func actionsOf(policies []string) map[string]bool {
	actions := map[string]bool{}
	for _, found := range regexp.MustCompile(`"((?:sqs|autoscaling|ec2):\w+)"`).
		FindAllStringSubmatch(strings.Join(policies, ""), -1) {
		actions[found[1]] = true
	}
	return actions
}

// compare tells each action that is allowed or called, but not both.
func compare(program string, allowed, called map[string]bool) (faults []string) {
	for _, action := range slices.Sorted(maps.Keys(allowed)) {
		if !called[action] {
			faults = append(faults, fmt.Sprintf("deploy/iam allows the %s %s, which no test has seen it call", program, action))
		}
	}
	for _, action := range slices.Sorted(maps.Keys(called)) {
		if !allowed[action] {
			faults = append(faults, fmt.Sprintf("the %s has called %s, which deploy/iam does not allow", program, action))
		}
	}
	return faults
}

func TestCompare(t *testing.T) {
	t.Parallel()
	allowed := actionsOf([]string{`{"Action": ["sqs:ReceiveMessage", "ec2:DescribeInstances"]}`, `{"Action": "autoscaling:DescribeTags"}`})
	called := map[string]bool{"sqs:ReceiveMessage": true, "ec2:DescribeInstances": true, "autoscaling:DescribeTags": true}
	if faults := compare("agent", allowed, called); len(faults) > 0 {
		t.Errorf("what is allowed is called: %q", faults)
	}
	delete(allowed, "sqs:ReceiveMessage")
	delete(called, "autoscaling:DescribeTags")
	want := []string{
		"deploy/iam allows the agent autoscaling:DescribeTags, which no test has seen it call",
		"the agent has called sqs:ReceiveMessage, which deploy/iam does not allow",
	}
	if faults := compare("agent", allowed, called); !slices.Equal(faults, want) {
		t.Errorf("%q, want %q", faults, want)
	}
}
