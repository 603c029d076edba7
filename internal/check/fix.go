package check

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/node-drainer/node-drainer/internal/access"
	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/text"
)

// This file has the commands that fix what a check found. Names that nothing that was read has are in capitals.

// helm sets a value of the chart. The release is taken to have the name of the Lease, as by default.
func helm(f Facts, value string) string {
	return fmt.Sprintf("helm upgrade %s charts/node-drainer --namespace %s --reset-then-reuse-values --set %s",
		f.Config.Leader.LeaseName, namespaceOf(f), text.ShellWord(value))
}

func namespaceOf(f Facts) string {
	return cmp.Or(f.Config.PodNamespace, f.Config.Leader.Namespace, "kube-system")
}

func userOf(f Facts) string { return cmp.Or(f.User, "this process") }

// serviceAccountOf returns the name of the pod's ServiceAccount.
func serviceAccountOf(f Facts) string {
	if parts := strings.Split(f.User, ":"); len(parts) == 4 && parts[1] == "serviceaccount" {
		return parts[3]
	}
	return f.Config.Leader.LeaseName
}

// bind grants a right of Kubernetes.
func bind(f Facts, r access.Right) string {
	name := strings.NewReplacer("/", "-", ".", "-", ",", "-").Replace("node-drainer-" + r.Verb + "-" + r.Kind())
	role, scope := "clusterrole", ""
	if r.Namespace != "" {
		role, scope = "role", " --namespace "+r.Namespace
	}
	named := ""
	if r.Name != "" {
		named = " --resource-name=" + r.Name
	}
	return fmt.Sprintf("kubectl create %[1]s %[2]s%[3]s --verb=%[4]s --resource=%[5]s%[6]s && "+
		"kubectl create %[1]sbinding %[2]s%[3]s --%[1]s=%[2]s --serviceaccount=%[7]s:%[8]s",
		role, name, scope, r.Verb, r.Kind(), named, namespaceOf(f), serviceAccountOf(f))
}

// associate gives the ServiceAccount credentials of a role.
func associate(f Facts) string {
	return fmt.Sprintf("aws eks create-pod-identity-association --region %s --cluster-name %s --namespace %s "+
		"--service-account %s --role-arn ROLE_ARN && kubectl rollout restart --namespace %[3]s deployment/%[5]s; "+
		"with IRSA: %[6]s",
		f.Region, f.Config.ClusterName, namespaceOf(f), serviceAccountOf(f), f.Config.Leader.LeaseName,
		helm(f, "serviceAccount.roleARN=ROLE_ARN"))
}

// reach says how to find out why a service does not answer.
func reach(f Facts, service string) string {
	return fmt.Sprintf("let the pod reach https://%s.%s.amazonaws.com on port 443: VPC endpoint, security group, "+
		"NetworkPolicy or HTTPS_PROXY", service, f.Region)
}

// queueName and queueAccount are the path of QUEUE_URL.
func queueName(f Facts) string {
	u, _ := url.Parse(f.Config.Queue.URL) // the configuration is valid
	return path.Base(u.Path)
}

func queueAccount(f Facts) string {
	u, _ := url.Parse(f.Config.Queue.URL)
	return path.Base(path.Dir(u.Path))
}

func partitionOf(f Facts) string {
	parts := strings.Split(cmp.Or(f.Queue.ARN, f.Identity.ARN), ":")
	if len(parts) > 1 {
		return parts[1]
	}
	return "aws"
}

func queueARNOf(f Facts) string {
	return cmp.Or(f.Queue.ARN, fmt.Sprintf("arn:%s:sqs:%s:%s:%s", partitionOf(f), f.Region, queueAccount(f), queueName(f)))
}

// tagGroup adds the tag of the cluster to a group.
func tagGroup(f Facts, group string) string {
	return fmt.Sprintf("aws autoscaling create-or-update-tags --region %s --tags "+
		"ResourceId=%s,ResourceType=auto-scaling-group,Key=kubernetes.io/cluster/%s,Value=owned,PropagateAtLaunch=true",
		f.Region, text.ShellWord(group), f.Config.ClusterName)
}

// setQueue sets attributes of the queue.
func setQueue(f Facts, attributes string) string {
	return fmt.Sprintf("aws sqs set-queue-attributes --region %s --queue-url %s --attributes %s",
		f.Region, f.Config.Queue.URL, attributes)
}

// setPolicy lets EventBridge send to the queue.
func setPolicy(f Facts) string {
	policy := document(map[string]any{"Service": eventBridge}, []string{"sqs:SendMessage"}, queueARNOf(f), nil)
	attributes, _ := json.Marshal(map[string]string{"Policy": policy}) // texts are always JSON
	return setQueue(f, "'"+string(attributes)+"'") + " replaces the policy; docs/aws-setup.md has one that is stricter"
}

// putHook creates a hook.
func putHook(f Facts, group, name string, t autoscaling.Transition) string {
	return setHook(f, group, name, fmt.Sprintf("--lifecycle-transition %s --heartbeat-timeout 300 "+
		"--default-result CONTINUE %s", t, toQueue(f)))
}

// directHook has an existing hook send to the queue.
func directHook(f Facts, group, name string) string {
	return setHook(f, group, name, toQueue(f))
}

// toQueue are the settings of a hook that sends to the queue.
func toQueue(f Facts) string {
	return "--notification-target-arn " + queueARNOf(f) + " --role-arn " + hookRole(f)
}

// setHook changes settings of a hook: PutLifecycleHook leaves those that it does not name.
func setHook(f Facts, group, name, setting string) string {
	return fmt.Sprintf("aws autoscaling put-lifecycle-hook --region %s --auto-scaling-group-name %s "+
		"--lifecycle-hook-name %s %s", f.Region, text.ShellWord(group), name, setting)
}

// hookRole returns the role of another hook that sends to the queue, or the one that the Terraform module creates.
func hookRole(f Facts) string {
	for _, g := range f.Groups {
		for _, h := range g.Hooks {
			if h.RoleARN != "" && isOwnQueue(f, h.Target) {
				return h.RoleARN
			}
		}
	}
	return fmt.Sprintf("arn:%s:iam::%s:role/%s-hooks", partitionOf(f), queueAccount(f), queueName(f))
}

// ruleWord finds the word of a kind of events that the name of its rule ends with, as in the Terraform module.
var ruleWord = regexp.MustCompile(`^(?:capacity-)?([a-z]+)`)

// putRule creates a rule for a kind of events.
func putRule(f Facts, k event.Kind) string {
	return fmt.Sprintf("aws events put-rule --region %[1]s --name %[2]s-%[3]s --event-pattern '%[4]s' && "+
		"aws events put-targets --region %[1]s --rule %[2]s-%[3]s --targets Id=queue,Arn=%[5]s",
		f.Region, queueName(f), ruleWord.FindStringSubmatch(string(k))[1], patternOf(k), queueARNOf(f))
}

// patternOf returns the pattern of the rule for a kind of events, as deploy/events has it.
func patternOf(k event.Kind) string {
	source, detailTypes, detail := k.Source()
	text, _ := json.Marshal(struct { // texts are always JSON
		Source     []string       `json:"source"`
		DetailType []string       `json:"detail-type"`
		Detail     map[string]any `json:"detail,omitempty"`
	}{[]string{source}, detailTypes, detail})
	return string(text)
}

// listRules lists the rules that send to a target.
func listRules(f Facts, targetARN string) string {
	return "aws events list-rule-names-by-target --region " + f.Region + " --target-arn " + targetARN
}

// grant allows the agent's role actions on everything.
func grant(f Facts, actions ...string) string { return putPolicy(f, actions, "*", nil) }

// grantQueue allows an action on the queue.
func grantQueue(f Facts, action string) string {
	return putPolicy(f, []string{"sqs:" + action}, queueARNOf(f), nil)
}

// grantGroup allows an action on groups of the cluster. If the group lacks the tag that the policies of this repository
// require, the tag is what is missing.
func grantGroup(f Facts, action, group string) string {
	key := "kubernetes.io/cluster/" + f.Config.ClusterName
	for _, g := range f.Groups {
		if g.Name == group && g.Tags[key] != "owned" {
			return tagGroup(f, group) + " if the role permits only groups with this tag, as by default"
		}
	}
	groups := fmt.Sprintf("arn:%s:autoscaling:%s:%s:autoScalingGroup:*:autoScalingGroupName/*", partitionOf(f), f.Region,
		cmp.Or(f.Identity.Account, queueAccount(f)))
	tagged := map[string]any{"StringEquals": map[string]string{"aws:ResourceTag/" + key: "owned"}}
	return putPolicy(f, []string{action}, groups, tagged)
}

// putPolicy adds an inline policy, named after the first action, to whom AWS takes the process for.
func putPolicy(f Facts, actions []string, resource string, condition map[string]any) string {
	_, name, _ := strings.Cut(actions[0], ":")
	who, called := "role", "ROLE"
	switch parts := strings.Split(f.Identity.ARN, "/"); {
	case strings.Contains(f.Identity.ARN, ":assumed-role/") && len(parts) > 1:
		called = parts[1]
	case strings.Contains(f.Identity.ARN, ":user/"):
		who, called = "user", parts[len(parts)-1]
	}
	return fmt.Sprintf("aws iam put-%[1]s-policy --%[1]s-name %[2]s --policy-name node-drainer-%[3]s "+
		"--policy-document '%[4]s'", who, called, name, document(nil, actions, resource, condition))
}

// document returns a policy with one statement, which allows the actions.
func document(principal map[string]any, actions []string, resource string, condition map[string]any) string {
	statement := struct {
		Effect    string
		Principal map[string]any `json:",omitempty"`
		Action    []string
		Resource  string
		Condition map[string]any `json:",omitempty"`
	}{"Allow", principal, actions, resource, condition}
	text, _ := json.Marshal(struct { // what it has is always JSON
		Version   string
		Statement []any
	}{"2012-10-17", []any{statement}})
	return string(text)
}
