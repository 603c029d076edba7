// Command copies copies the documents of deploy into the CloudFormation template, below each comment that names one.
package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/node-drainer/node-drainer/deploy"
)

func main() {
	for _, file := range os.Args[1:] {
		if err := update(file); err != nil {
			fmt.Fprintln(os.Stderr, "copies:", err)
			os.Exit(1)
		}
	}
}

// update updates the copies in a file.
func update(file string) error {
	text, err := os.ReadFile(file) //nolint:gosec // go:generate passes the files.
	if err != nil {
		return err
	}
	renewed, err := updateTemplate(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(renewed), 0o644) //nolint:gosec // The file is checked in.
}

var inTemplate = regexp.MustCompile(`^( *(?:- )?)(?:\w+: )?# ((?:iam|events)/[a-z-]+)\.json((?: \w+=\w+)*)$`)

// updateTemplate replaces the lines below each comment that are indented more than the comment's line.
func updateTemplate(text string) (string, error) {
	var out strings.Builder
	below := -1 // The indentation of the comment whose old copy is being removed; -1: none.
	for line := range strings.Lines(text) {
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if below >= 0 && (indent > below && strings.TrimSpace(line) != "") {
			continue
		}
		below = -1
		out.WriteString(line)
		found := inTemplate.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if found == nil {
			continue
		}
		below = indent
		document, err := asValue(found[2], strings.Fields(found[3]))
		if err != nil {
			return "", err
		}
		out.WriteString(indentLines(document, len(found[1])+2-len(strings.TrimLeft(found[1], " "))))
	}
	return out.String(), nil
}

// asValue returns a document as a value in the template. With placeholders it is a string for Fn::Sub,
// because CloudFormation does not substitute in the keys of mappings.
func asValue(name string, others []string) (string, error) {
	document, err := deploy.Read(name)
	if err != nil {
		return "", err
	}
	places, err := deploy.Placeholders(name)
	if err != nil || len(places) == 0 {
		return document, err
	}
	values := expressions()
	for _, other := range others {
		place, parameter, _ := strings.Cut(other, "=")
		values[place] = "!Ref " + parameter
	}
	var out strings.Builder
	out.WriteString("Fn::Sub:\n  - |\n" + indentLines(document, 4))
	begin := "  - "
	for _, place := range places {
		if values[place] == "" {
			return "", fmt.Errorf("%s: the template has no value for ${%s}", name, place)
		}
		out.WriteString(begin + place + ": " + values[place] + "\n")
		begin = "    "
	}
	return out.String(), nil
}

func indentLines(text string, by int) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(strings.Repeat(" ", by) + line)
	}
	return out.String()
}

// expressions returns the values of the placeholders in CloudFormation.
func expressions() map[string]string {
	arn := func(rest string) string { return `!Sub "arn:${AWS::Partition}:` + rest + `"` }
	here := "${AWS::Region}:${AWS::AccountId}:"
	hookRole := arn("iam::${AWS::AccountId}:role/${AWS::StackName}-hooks")
	return map[string]string{
		"Account":      "!Ref AWS::AccountId",
		"QueueArn":     "!GetAtt Queue.Arn",
		"DeadQueueArn": "!GetAtt DeadQueue.Arn",
		"RulePrefix":   arn("events:" + here + "rule/${AWS::StackName}"),
		// Between the quotes of a string in a list in JSON.
		"Senders": `!If [WithSenders, !Join ['", "', [` + hookRole + `, !Join ['", "', !Ref Senders]]], ` +
			hookRole + `]`,
		"LaunchTemplates": `!If [WithLaunchTemplates, !Join ['", "', !Ref LaunchTemplates], ` +
			arn("ec2:"+here+"launch-template/*") + `]`,
		"NodeRoles":       `!Join ['", "', !Ref NodeRoles]`,
		"Images":          arn("ec2:${AWS::Region}::image/*"),
		"ImageParameters": arn("ssm:${AWS::Region}::parameter/aws/service/*"),
		"MaxSize":         "!Ref MaxSize",
		"Instances":       arn("ec2:" + here + "instance/*"),
		"Groups":          arn("autoscaling:" + here + "autoScalingGroup:*:autoScalingGroupName/*"),
		"GroupTagKey":     `!If [WithGroupTagKey, !Ref GroupTagKey, !Sub "kubernetes.io/cluster/${ClusterName}"]`,
		"GroupTagValue":   "!Ref GroupTagValue",
		"ClusterArn":      arn("eks:" + here + "cluster/${ClusterName}"),
		"Nodegroups":      arn("eks:" + here + "nodegroup/${ClusterName}/*/*"),
		"Namespace":       "!Ref Namespace",
		"ServiceAccount":  "!Ref ServiceAccount",
		"KeyArn":          "!Ref KmsKeyArn",
		"OidcProviderArn": "!Ref OidcProviderArn",
		"OidcProvider":    `!Select [1, !Split [oidc-provider/, !Ref OidcProviderArn]]`,
	}
}
