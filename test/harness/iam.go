package harness

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/node-drainer/node-drainer/deploy"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// policies returns the documents of deploy/iam for all features of a program. awsim has no KMS, so the one
// about keys is left out.
func policies(program, queueARN string) ([]string, error) {
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
	granted, err := policies(program, queueARN)
	if err != nil {
		return err
	}
	return aws.Allow(accessKey, granted...)
}

// CompareActions returns a fault for each action that deploy/iam allows the program and that it has not
// called. Limit makes awsim refuse those that it does not allow.
func CompareActions(program string, called map[string]bool) (faults []string, err error) {
	granted, err := policies(program, "*")
	if err != nil {
		return nil, err
	}
	allowed := regexp.MustCompile(`"((?:sqs|autoscaling|ec2):\w+)"`).FindAllStringSubmatch(strings.Join(granted, ""), -1)
	for _, action := range allowed {
		if !called[action[1]] {
			faults = append(faults, fmt.Sprintf("deploy/iam allows the %s %s, and no test has it call that", program, action[1]))
		}
	}
	return faults, nil
}
