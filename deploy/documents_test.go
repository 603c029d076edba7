package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/deploy"
	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/cloudwatch"
	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/eventbridge"
	"github.com/node-drainer/node-drainer/internal/nodegroup"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// policy is an IAM policy document.
type policy struct {
	Version   string
	Statement []statement
}

type statement struct {
	Sid, Effect                   string
	Principal                     any
	Action, Resource, NotResource any
	Condition                     map[string]map[string]any
}

// on returns what the statement is about.
func (st statement) on() []string {
	if st.NotResource != nil {
		return append([]string{"all but"}, list(st.NotResource)...)
	}
	return list(st.Resource)
}

func readPolicy(t *testing.T, name string) policy {
	t.Helper()
	text, err := deploy.Fill(name, deploy.Example())
	if err != nil {
		t.Fatal(err)
	}
	var read policy
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&read); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return read
}

// list returns the values of a field that is a string or a list.
func list(v any) (all []string) {
	if text, is := v.(string); is {
		return []string{text}
	}
	for _, item := range v.([]any) {
		all = append(all, item.(string))
	}
	return all
}

// actions returns the actions of a policy.
func (p policy) actions() (all []string) {
	for _, st := range p.Statement {
		all = append(all, list(st.Action)...)
	}
	return all
}

// calls returns the IAM actions that an interface of an SDK client needs. The action for one item permits
// batches (Amazon SQS developer guide, "Amazon SQS API permissions").
func calls[T any](service string) (all []string) {
	for method := range reflect.TypeFor[T]().Methods() {
		all = append(all, service+":"+strings.TrimSuffix(method.Name, "Batch"))
	}
	return all
}

// TestPoliciesAllowAllCalls: together, the policies of a program allow the actions that its interfaces need,
// and no others.
func TestPoliciesAllowAllCalls(t *testing.T) {
	t.Parallel()
	for program, called := range map[string][]string{
		"agent": slices.Concat(calls[queue.API]("sqs"), calls[autoscaling.API]("autoscaling"), calls[ec2.API]("ec2"),
			calls[cloudwatch.API]("cloudwatch"), calls[eventbridge.API]("events"),
			[]string{"kms:Decrypt"}), // SQS calls it with the agent's role, if the queue is encrypted with a key.
		"trigger": slices.Concat(calls[autoscaling.ReaderAPI]("autoscaling"), calls[autoscaling.ChangesAPI]("autoscaling"),
			calls[ec2.LaunchAPI]("ec2"), calls[ec2.MachinesAPI]("ec2"), calls[cloudwatch.API]("cloudwatch"),
			calls[nodegroup.ReaderAPI]("eks"), calls[nodegroup.WriterAPI]("eks"), calls[ec2.SubnetAPI]("ec2"),
			[]string{"ssm:GetParameter"}, // Of nodegroup.Releases, which has no client.
			// AWS makes a dry run of RunInstances with the trigger's role when it starts a refresh.
			[]string{"ec2:RunInstances", "ec2:CreateTags", "iam:PassRole", "ssm:GetParameters"}),
	} {
		var granted []string
		for _, name := range deploy.Names("iam/" + program + "-") {
			granted = append(granted, readPolicy(t, name).actions()...)
		}
		if diff := cmp.Diff(sortedSet(called), sortedSet(granted)); diff != "" {
			t.Errorf("the %s (-calls +is allowed):\n%s", program, diff)
		}
	}
	if plan := readPolicy(t, "iam/trigger-plan").actions(); slices.ContainsFunc(plan, func(a string) bool { return !strings.Contains(a, ":Describe") }) {
		t.Errorf("a plan has actions that change something: %q", plan)
	}
}

func sortedSet(all []string) []string { return slices.Compact(slices.Sorted(slices.Values(all))) }

// TestPoliciesAreLimited: actions are limited to the queue, the key, or groups with the cluster's tag where
// this is possible, and only the trigger's own tags may be written.
func TestPoliciesAreLimited(t *testing.T) {
	t.Parallel()
	values := deploy.Example()
	for _, name := range slices.Concat(deploy.Names("iam/agent-"), deploy.Names("iam/trigger-"), deploy.Names("iam/hooks")) {
		for _, st := range readPolicy(t, name).Statement {
			for _, action := range list(st.Action) {
				where := fmt.Sprintf("%s, statement %s, %s on %v", name, st.Sid, action, st.on())
				if st.Effect != "Allow" || strings.Contains(action, "*") {
					t.Errorf("%s: it allows more than one action", where)
				}
				service, verb, _ := strings.Cut(action, ":")
				want, conditions := "", map[string]map[string]any(nil)
				switch {
				case strings.HasPrefix(verb, "Describe") && service != "eks", service == "events":
					want = "*"
				case service == "sqs":
					want = values["QueueArn"]
				case service == "kms":
					want = values["KeyArn"]
				case action == "ec2:RunInstances":
					// A launch needs both: the instance is limited to launches from a template, and the image to the template's.
					want, conditions = values["Images"], map[string]map[string]any{"Bool": {"ec2:IsLaunchTemplateResource": "true"}}
					if st.NotResource != nil {
						conditions = map[string]map[string]any{"ArnLike": {"ec2:LaunchTemplate": []any{values["LaunchTemplates"]}}}
					}
				case action == "ec2:CreateTags":
					want, conditions = "*", map[string]map[string]any{"StringEquals": {"ec2:CreateAction": "RunInstances"}}
				case action == "iam:PassRole":
					want, conditions = values["NodeRoles"], map[string]map[string]any{"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}
				case service == "ssm":
					want = values["ImageParameters"]
				case action == "ec2:StopInstances", action == "ec2:StartInstances":
					want = values["Instances"]
					conditions = map[string]map[string]any{"StringEquals": {"aws:ResourceTag/" + values["GroupTagKey"]: values["GroupTagValue"]}}
				case service == "autoscaling":
					want = values["Groups"]
					conditions = map[string]map[string]any{"StringEquals": {"aws:ResourceTag/" + values["GroupTagKey"]: values["GroupTagValue"]}}
				}
				if action == "autoscaling:UpdateAutoScalingGroup" {
					conditions["NumericLessThanEquals"] = map[string]any{"autoscaling:MaxSize": values["MaxSize"]}
					conditions["BoolIfExists"] = map[string]any{"autoscaling:LaunchTemplateVersionSpecified": "false"}
					conditions["Null"] = map[string]any{}
					for _, key := range []string{ // All others that AWS documents for this action.
						"CapacityReservationIds", "CapacityReservationResourceGroupArns", "ImageId", "InstanceTypes",
						"LaunchConfigurationName", "MinSize", "TargetCapacityTypes", "VPCZoneIdentifiers",
					} {
						conditions["Null"]["autoscaling:"+key] = "true"
					}
				}
				for _, operator := range []string{"ForAllValues:StringEquals", "ForAllValues:StringLike"} {
					keys, limited := st.Condition[operator]["aws:TagKeys"]
					if !limited || !strings.HasSuffix(verb, "Tags") || want == "*" {
						continue
					}
					conditions[operator] = map[string]any{"aws:TagKeys": keys}
					conditions["Null"] = map[string]any{"aws:TagKeys": "false"} // All of no keys are among these.
					for _, key := range list(keys) {
						if !strings.HasPrefix(key, "node-drainer.io/") {
							t.Errorf("%s: it may write the tag %s", where, key)
						}
					}
				}
				on := []string{want}
				switch {
				case service == "eks":
					on = []string{values["ClusterArn"], values["Nodegroups"]}
				case action == "ec2:RunInstances" && st.NotResource != nil:
					on = []string{"all but", values["Images"]}
				}
				if diff := cmp.Diff(conditions, st.Condition); diff != "" || !slices.Equal(st.on(), on) {
					t.Errorf("%s: it should be on %s; conditions (-want +got):\n%s", where, on, diff)
				}
			}
		}
	}
}

// TestTrustPolicies: a role can be assumed by one ServiceAccount of one cluster, by jobs of one environment of one
// repository, or by Auto Scaling of one account. Only the rules and the hooks' role may send to the queue, and only encrypted.
// Only the trigger writes the tags that it believes.
func TestTrustPolicies(t *testing.T) {
	t.Parallel()
	type conditions = map[string]map[string]any
	values := deploy.Example()
	oidc := values["OidcProvider"]
	tested := map[string]bool{}
	var rules []any
	for _, kind := range []string{"spot", "rebalance", "state", "scheduled", "reservation", "block", "alarm", "lifecycle"} {
		rules = append(rules, values["RulePrefix"]+"-"+kind)
	}
	for name, want := range map[string][]struct {
		effect    string
		principal any
		actions   []string
		condition conditions
	}{
		"iam/trust-irsa": {{"Allow", map[string]any{"Federated": values["OidcProviderArn"]}, []string{"sts:AssumeRoleWithWebIdentity"}, conditions{
			"StringEquals": {oidc + ":aud": "sts.amazonaws.com", oidc + ":sub": "system:serviceaccount:kube-system:node-drainer"},
		}}},
		"iam/trust-pod-identity": {{"Allow", map[string]any{"Service": "pods.eks.amazonaws.com"}, []string{"sts:AssumeRole", "sts:TagSession"}, conditions{
			"StringEquals": {
				"aws:RequestTag/eks-cluster-arn": values["ClusterArn"], "aws:RequestTag/kubernetes-namespace": "kube-system",
				"aws:RequestTag/kubernetes-service-account": "node-drainer",
			},
		}}},
		"iam/trust-github": {{"Allow", map[string]any{"Federated": values["GitHubProviderArn"]}, []string{"sts:AssumeRoleWithWebIdentity"}, conditions{
			"StringEquals": { // Of one environment: a pattern would also trust any branch.
				"token.actions.githubusercontent.com:aud": "sts.amazonaws.com",
				"token.actions.githubusercontent.com:sub": "repo:example/infrastructure:environment:replace-nodes",
			},
		}}},
		"iam/trust-hooks": {{"Allow", map[string]any{"Service": "autoscaling.amazonaws.com"}, []string{"sts:AssumeRole"}, conditions{
			"StringEquals": {"aws:SourceAccount": values["Account"]},
		}}},
		"iam/queue": {
			{"Allow", map[string]any{"Service": "events.amazonaws.com"}, []string{"sqs:SendMessage"}, conditions{"ArnEquals": {"aws:SourceArn": rules}}},
			{"Deny", "*", []string{"sqs:SendMessage"}, conditions{
				"BoolIfExists": {"aws:PrincipalIsAWSService": "false"}, "ArnNotEqualsIfExists": {"aws:PrincipalArn": []any{values["Senders"]}},
			}},
			{"Deny", "*", []string{"sqs:*"}, conditions{"Bool": {"aws:SecureTransport": "false"}}},
		},
		"iam/deny-tags": {{"Deny", nil, []string{"autoscaling:CreateOrUpdateTags", "autoscaling:DeleteTags"}, conditions{
			"ForAnyValue:StringLike": {"aws:TagKeys": "node-drainer.io/*"},
			"ArnNotLike":             {"aws:PrincipalArn": "arn:aws:iam::*:role/node-drainer-trigger*"},
		}}},
		"iam/queue-dead": {
			{"Deny", "*", []string{"sqs:SendMessage"}, conditions{"Bool": {"aws:PrincipalIsAWSService": "false"}}},
			{"Deny", "*", []string{"sqs:*"}, conditions{"Bool": {"aws:SecureTransport": "false"}}},
		},
		// EventBridge tells a key neither the rule nor the account.
		"iam/key": {
			{"Allow", map[string]any{"AWS": values["Root"]}, []string{"kms:*"}, nil},
			{"Allow", map[string]any{"Service": "events.amazonaws.com"}, []string{"kms:GenerateDataKey", "kms:Decrypt"}, nil},
		},
	} {
		tested[name] = true
		got := readPolicy(t, name)
		if len(got.Statement) != len(want) {
			t.Errorf("%s has %d statements, want %d", name, len(got.Statement), len(want))
			continue
		}
		for i, st := range got.Statement {
			w := want[i]
			if st.Effect != w.effect || !cmp.Equal(st.Principal, w.principal) || !slices.Equal(list(st.Action), w.actions) || !cmp.Equal(st.Condition, w.condition) {
				t.Errorf("%s has the statement %+v, want %+v", name, st, w)
			}
		}
	}
	for _, name := range slices.Concat(deploy.Names("iam/trust-"), deploy.Names("iam/queue")) {
		if !tested[name] {
			t.Errorf("no test has read %s", name)
		}
	}
}

// TestTablesInDocs: docs/iam.md has a row for each feature of each program, with its actions and what they are limited to.
func TestTablesInDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/iam.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| \\[`[a-z-]+`\\]\\(\\.\\./deploy/(iam/[a-z-]+)\\.json\\) \\| [^|]+ \\| ([^|]+) \\|$")
	values := deploy.Example()
	for _, program := range []string{"agent", "trigger"} {
		_, section, _ := strings.Cut(string(page), "\n## What the "+program+" may do\n")
		section, _, _ = strings.Cut(section, "\n## ")
		documented, granted := map[string]string{}, map[string]string{}
		for _, r := range row.FindAllStringSubmatch(section, -1) {
			documented[r[1]] = r[2]
		}
		for _, name := range deploy.Names("iam/" + program + "-") {
			var grants []string
			for _, st := range readPolicy(t, name).Statement {
				limit := map[string]string{
					"*": "`*`", values["QueueArn"]: "the queue", values["KeyArn"]: "the key", values["Groups"]: "groups", values["Instances"]: "instances",
					values["NodeRoles"]: "the roles of nodes, for EC2", values["ImageParameters"]: "parameters that AWS publishes", values["ClusterArn"]: "the cluster",
				}[st.on()[0]]
				switch st.Sid {
				case "Launch":
					limit = "launch templates, and their images"
				case "LaunchImages":
					continue // Documented with Launch.
				case "LaunchTags":
					limit = "launches"
				}
				for operator := range st.Condition {
					if strings.HasPrefix(operator, "ForAllValues:") {
						limit = "its own tags of " + limit
					}
				}
				grants = append(grants, "`"+strings.Join(list(st.Action), "`, `")+"` on "+limit)
			}
			granted[name] = strings.Join(grants, "; ")
		}
		if diff := cmp.Diff(granted, documented); diff != "" {
			t.Errorf("the %s (-deploy/iam +docs/iam.md):\n%s", program, diff)
		}
	}
}
