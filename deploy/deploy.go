// Package deploy holds what an AWS account is set up with: IAM policies and patterns of EventBridge rules,
// one file each. The Terraform module and the CloudFormation template beside it are made of these files,
// docs/iam.md shows them, and the end-to-end tests run the agent and the trigger under them.
package deploy

import (
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

//go:generate go run ./copies cloudformation/node-drainer.yaml ../docs/iam.md ../docs/events.md

//go:embed iam/*.json events/*.json
var files embed.FS

// place is where a value goes in a document. Terraform's templatefile and CloudFormation's Fn::Sub read it
// alike.
var place = regexp.MustCompile(`\$\{(\w+)\}`)

// Read returns a document as it lies here, by its path without the ending: iam/agent-queue.
func Read(name string) (string, error) {
	text, err := files.ReadFile(name + ".json")
	if err != nil {
		return "", fmt.Errorf("deploy: %w", err)
	}
	return string(text), nil
}

// Places lists what a document has places for, each once, in the order in which they come.
func Places(name string) ([]string, error) {
	text, err := Read(name)
	if err != nil {
		return nil, err
	}
	var places []string
	for _, found := range place.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(places, found[1]) {
			places = append(places, found[1])
		}
	}
	return places, nil
}

// Fill returns a document with values in its places. A place without a value is an error.
func Fill(name string, values map[string]string) (string, error) {
	places, err := Places(name)
	if err != nil {
		return "", err
	}
	for _, p := range places {
		if _, ok := values[p]; !ok {
			return "", fmt.Errorf("deploy: %s has a place for %s, which has no value", name, p)
		}
	}
	text, err := Read(name)
	if err != nil {
		return "", err
	}
	return place.ReplaceAllStringFunc(text, func(p string) string { return values[strings.Trim(p, "${}")] }), nil
}

// Names lists the documents whose paths begin so: iam/agent- for the policies of the agent, each of which is
// for one of its features.
func Names(prefix string) []string {
	found, _ := fs.Glob(files, prefix+"*.json") // Its error is that of a pattern that is none.
	for i := range found {
		found[i] = strings.TrimSuffix(found[i], ".json")
	}
	return found
}

// Example are the values that the docs show: account 123456789012, Region eu-central-1, cluster prod.
func Example() map[string]string {
	const here = "eu-central-1:123456789012:"
	return map[string]string{
		"Account":         "123456789012",
		"QueueArn":        "arn:aws:sqs:" + here + "node-drainer",
		"DeadQueueArn":    "arn:aws:sqs:" + here + "node-drainer-dead",
		"Rules":           "arn:aws:events:" + here + "rule/node-drainer-*",
		"Groups":          "arn:aws:autoscaling:" + here + "autoScalingGroup:*:autoScalingGroupName/*",
		"GroupTagKey":     "kubernetes.io/cluster/prod",
		"GroupTagValue":   "owned",
		"ClusterArn":      "arn:aws:eks:" + here + "cluster/prod",
		"Root":            "arn:aws:iam::123456789012:root",
		"Namespace":       "kube-system",
		"ServiceAccount":  "node-drainer",
		"KeyArn":          "arn:aws:kms:" + here + "key/01234567-89ab-cdef-0123-456789abcdef",
		"OidcProviderArn": "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-central-1.amazonaws.com/id/EXAMPLE",
		"OidcProvider":    "oidc.eks.eu-central-1.amazonaws.com/id/EXAMPLE",
	}
}
