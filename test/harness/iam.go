package harness

import (
	"encoding/json"
	"fmt"
	"slices"

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
			"Instances":   "arn:aws:ec2:eu-central-1:123456789012:instance/*",
			"Groups":      "arn:aws:autoscaling:eu-central-1:123456789012:autoScalingGroup:*:autoScalingGroupName/*",
			"GroupTagKey": "kubernetes.io/cluster/demo", "GroupTagValue": "owned",
			"LaunchTemplates": "arn:aws:ec2:eu-central-1:123456789012:launch-template/*",
			"NodeRoles":       "arn:aws:iam::123456789012:role/nodes",
			"MaxSize":         "1000",
			"ClusterArn":      "arn:aws:eks:eu-central-1:123456789012:cluster/demo",
			"Nodegroups":      "arn:aws:eks:eu-central-1:123456789012:nodegroup/demo/*/*",
			"Images":          "arn:aws:ec2:eu-central-1::image/*",
			"ImageParameters": "arn:aws:ssm:eu-central-1::parameter/aws/service/*",
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
	for _, text := range granted {
		var policy struct{ Statement []struct{ Action []string } }
		if err := json.Unmarshal([]byte(text), &policy); err != nil {
			return nil, fmt.Errorf("a policy of the %s: %w", program, err)
		}
		for _, statement := range policy.Statement {
			for _, action := range statement.Action {
				if !called[action] {
					faults = append(faults, fmt.Sprintf("deploy/iam allows the %s %s, and no test has it call that", program, action))
				}
			}
		}
	}
	return faults, nil
}
