// Package deploy contains the IAM policies and the patterns of EventBridge rules that an AWS account needs,
// one file each. The Terraform module and the CloudFormation template in this folder use these files,
// docs/iam.md and docs/aws-setup.md link them, and the end-to-end tests run the agent and the trigger with them.
package deploy

import (
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

//go:generate go run ./copies cloudformation/node-drainer.yaml

//go:embed iam/*.json events/*.json
var files embed.FS

// placeholder is the syntax of placeholders, which Terraform's templatefile and CloudFormation's Fn::Sub
// share.
var placeholder = regexp.MustCompile(`\$\{(\w+)\}`)

// Read returns a document with its placeholders. Its name is the path without the extension: iam/agent-queue.
func Read(name string) (string, error) {
	text, err := files.ReadFile(name + ".json")
	if err != nil {
		return "", fmt.Errorf("deploy: %w", err)
	}
	return string(text), nil
}

// Placeholders returns the names of the placeholders in a document, each once, in order.
func Placeholders(name string) ([]string, error) {
	text, err := Read(name)
	if err != nil {
		return nil, err
	}
	var places []string
	for _, found := range placeholder.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(places, found[1]) {
			places = append(places, found[1])
		}
	}
	return places, nil
}

// Fill returns a document with values for its placeholders. It is an error if one has no value.
func Fill(name string, values map[string]string) (string, error) {
	places, err := Placeholders(name)
	if err != nil {
		return "", err
	}
	for _, p := range places {
		if _, ok := values[p]; !ok {
			return "", fmt.Errorf("deploy: fill %s: no value for ${%s}", name, p)
		}
	}
	text, err := Read(name)
	if err != nil {
		return "", err
	}
	fill := func(p string) string { return values[strings.Trim(p, "${}")] }
	return placeholder.ReplaceAllStringFunc(text, fill), nil
}

// Names returns the documents whose paths have the prefix: iam/agent- for the policies of the agent, one for
// each feature.
func Names(prefix string) []string {
	found, _ := fs.Glob(files, prefix+"*.json") // It only fails for an invalid pattern.
	for i := range found {
		found[i] = strings.TrimSuffix(found[i], ".json")
	}
	return found
}

// Example returns the values in the documentation and in example.sed: account 123456789012, Region eu-central-1,
// cluster prod.
func Example() map[string]string {
	const here = "eu-central-1:123456789012:"
	return map[string]string{
		"Account":         "123456789012",
		"QueueArn":        "arn:aws:sqs:" + here + "node-drainer",
		"DeadQueueArn":    "arn:aws:sqs:" + here + "node-drainer-dead",
		"RulePrefix":      "arn:aws:events:" + here + "rule/node-drainer",
		"Senders":         "arn:aws:iam::123456789012:role/node-drainer-hooks",
		"Instances":       "arn:aws:ec2:" + here + "instance/*",
		"Groups":          "arn:aws:autoscaling:" + here + "autoScalingGroup:*:autoScalingGroupName/*",
		"GroupTagKey":     "kubernetes.io/cluster/prod",
		"GroupTagValue":   "owned",
		"ClusterArn":      "arn:aws:eks:" + here + "cluster/prod",
		"Nodegroups":      "arn:aws:eks:" + here + "nodegroup/prod/*/*",
		"Root":            "arn:aws:iam::123456789012:root",
		"Namespace":       "kube-system",
		"ServiceAccount":  "node-drainer",
		"KeyArn":          "arn:aws:kms:" + here + "key/01234567-89ab-cdef-0123-456789abcdef",
		"LaunchTemplates": "arn:aws:ec2:" + here + "launch-template/*",
		"NodeRoles":       "arn:aws:iam::123456789012:role/nodes",
		"Images":          "arn:aws:ec2:eu-central-1::image/*",
		"ImageParameters": "arn:aws:ssm:eu-central-1::parameter/aws/service/*",
		"MaxSize":         "1000",
		"OidcProviderArn": "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-central-1.amazonaws.com/id/EXAMPLE",
		"OidcProvider":    "oidc.eks.eu-central-1.amazonaws.com/id/EXAMPLE",

		"GitHubProviderArn": "arn:aws:iam::123456789012:oidc-provider/token.actions.githubusercontent.com",
		"GitHubSubject":     "repo:example/infrastructure:environment:replace-nodes",
	}
}
