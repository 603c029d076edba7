package harness

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/node-drainer/node-drainer/deploy"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// Policies returns the documents of deploy/iam for all features of a program. awsim has no KMS, so the one
// about keys is left out.
func Policies(program, queueARN string) ([]string, error) {
	names := deploy.Names("iam/" + program + "-")
	keys := func(name string) bool { return name == "iam/agent-key" }
	return FillPolicies(queueARN, slices.DeleteFunc(names, keys)...)
}

// FillPolicies returns documents of deploy/iam for a queue and for the groups of the cluster demo.
func FillPolicies(queueARN string, names ...string) (all []string, err error) {
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

// Limit makes awsim refuse a program all that deploy/iam does not allow. The access key identifies the
// program.
func Limit(aws *awsim.Server, program, accessKey, queueARN string) error {
	granted, err := Policies(program, queueARN)
	if err != nil {
		return err
	}
	return aws.Allow(accessKey, granted...)
}

// CompareActions returns a fault for each action that deploy/iam allows the program and that it has not
// called, and for each that it has called and is not allowed.
func CompareActions(program string, called map[string]bool) (faults []string, err error) {
	granted, err := Policies(program, "*")
	if err != nil {
		return nil, err
	}
	return compareActions(program, actionsOf(granted), called), nil
}

// actionsOf returns the actions that policies allow.
func actionsOf(policies []string) map[string]bool {
	actions := map[string]bool{}
	for _, found := range regexp.MustCompile(`"((?:sqs|autoscaling|ec2):\w+)"`).
		FindAllStringSubmatch(strings.Join(policies, ""), -1) {
		actions[found[1]] = true
	}
	return actions
}

func compareActions(program string, allowed, called map[string]bool) (faults []string) {
	for _, action := range slices.Sorted(maps.Keys(allowed)) {
		if !called[action] {
			fault := fmt.Sprintf("deploy/iam allows the %s %s, and no test has it call that", program, action)
			faults = append(faults, fault)
		}
	}
	for _, action := range slices.Sorted(maps.Keys(called)) {
		if !allowed[action] {
			fault := fmt.Sprintf("the %s has called %s, which deploy/iam does not allow", program, action)
			faults = append(faults, fault)
		}
	}
	return faults
}
