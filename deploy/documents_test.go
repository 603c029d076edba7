package deploy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/node-drainer/node-drainer/deploy"
	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/pkg/autoscaling"
	"github.com/node-drainer/node-drainer/pkg/ec2"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// policy is a document of IAM.
type policy struct {
	Version   string
	Statement []struct {
		Sid, Effect      string
		Principal        any
		Action, Resource any
		Condition        map[string]map[string]any
	}
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

// list is what a policy has as a text or a list.
func list(v any) (all []string) {
	if text, is := v.(string); is {
		return []string{text}
	}
	for _, item := range v.([]any) {
		all = append(all, item.(string))
	}
	return all
}

// actions are those of a policy.
func (p policy) actions() (all []string) {
	for _, st := range p.Statement {
		all = append(all, list(st.Action)...)
	}
	return all
}

// calls are the actions of IAM that an interface of an SDK client needs. A batch is permitted by the action for one
// (Amazon SQS developer guide, "Amazon SQS API permissions").
func calls[T any](service string) (all []string) {
	for method := range reflect.TypeFor[T]().Methods() {
		all = append(all, service+":"+strings.TrimSuffix(method.Name, "Batch"))
	}
	return all
}

// TestThePoliciesAllowWhatIsCalled: the policies of a program, taken together, have each action that its interfaces
// have, and no other.
func TestThePoliciesAllowWhatIsCalled(t *testing.T) {
	t.Parallel()
	for program, called := range map[string][]string{
		"agent": slices.Concat(calls[queue.API]("sqs"), calls[autoscaling.API]("autoscaling"), calls[ec2.API]("ec2"),
			[]string{"kms:Decrypt"}), // SQS calls it with the agent's role, for a queue that has a key.
		"trigger": slices.Concat(calls[autoscaling.GroupsAPI]("autoscaling"), calls[autoscaling.ChangesAPI]("autoscaling"),
			calls[ec2.LaunchAPI]("ec2")),
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
		t.Errorf("a plan may change something: %q", plan)
	}
}

func sortedSet(all []string) []string { return slices.Compact(slices.Sorted(slices.Values(all))) }

// TestThePoliciesAreNarrow: what can be limited to a queue, a key or groups with the cluster's tag is, and nothing that
// changes anything is allowed on all. Tags of a group are the trigger's own.
func TestThePoliciesAreNarrow(t *testing.T) {
	t.Parallel()
	values := deploy.Example()
	for _, name := range slices.Concat(deploy.Names("iam/agent-"), deploy.Names("iam/trigger-"), deploy.Names("iam/hooks")) {
		for _, st := range readPolicy(t, name).Statement {
			for _, action := range list(st.Action) {
				where := fmt.Sprintf("%s, statement %s, %s on %v", name, st.Sid, action, st.Resource)
				if st.Effect != "Allow" || strings.Contains(action, "*") {
					t.Errorf("%s: it allows more than one action", where)
				}
				service, verb, _ := strings.Cut(action, ":")
				want, conditions := "", map[string]map[string]any(nil)
				switch {
				case strings.HasPrefix(verb, "Describe"):
					want = "*"
				case service == "sqs":
					want = values["QueueArn"]
				case service == "kms":
					want = values["KeyArn"]
				case service == "autoscaling":
					want = values["Groups"]
					conditions = map[string]map[string]any{"StringEquals": {"aws:ResourceTag/" + values["GroupTagKey"]: values["GroupTagValue"]}}
				}
				if keys := st.Condition["ForAllValues:StringEquals"]["aws:TagKeys"]; strings.HasSuffix(verb, "Tags") && want != "*" {
					conditions["ForAllValues:StringEquals"] = map[string]any{"aws:TagKeys": keys}
					if key := fmt.Sprint(keys); !strings.HasPrefix(key, "node-drainer.io/") {
						t.Errorf("%s: it may write the tag %s", where, key)
					}
				}
				if diff := cmp.Diff(conditions, st.Condition); diff != "" || !slices.Equal(list(st.Resource), []string{want}) {
					t.Errorf("%s: it should be on %s; conditions (-want +got):\n%s", where, want, diff)
				}
			}
		}
	}
}

// TestWhoIsTrusted: a role is for pods of one ServiceAccount of one cluster, or for Auto Scaling of one account; nobody but rules of
// this name sends to the queue, and nothing that is not encrypted reaches it.
func TestWhoIsTrusted(t *testing.T) {
	t.Parallel()
	type conditions = map[string]map[string]any
	values := deploy.Example()
	oidc := values["OidcProvider"]
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
		"iam/trust-hooks": {{"Allow", map[string]any{"Service": "autoscaling.amazonaws.com"}, []string{"sts:AssumeRole"}, conditions{
			"StringEquals": {"aws:SourceAccount": values["Account"]},
		}}},
		"iam/queue": {
			{"Allow", map[string]any{"Service": "events.amazonaws.com"}, []string{"sqs:SendMessage"}, conditions{"ArnLike": {"aws:SourceArn": values["Rules"]}}},
			{"Deny", "*", []string{"sqs:*"}, conditions{"Bool": {"aws:SecureTransport": "false"}}},
		},
		"iam/queue-dead": {{"Deny", "*", []string{"sqs:*"}, conditions{"Bool": {"aws:SecureTransport": "false"}}}},
		"iam/key": {
			{"Allow", map[string]any{"AWS": values["Root"]}, []string{"kms:*"}, nil},
			{"Allow", map[string]any{"Service": "events.amazonaws.com"}, []string{"kms:GenerateDataKey", "kms:Decrypt"}, nil},
		},
	} {
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
}

// TestEveryDocumentIsUsed: what lies in iam and events is what the template has, and the module reads each.
func TestEveryDocumentIsUsed(t *testing.T) {
	t.Parallel()
	template, err := os.ReadFile("cloudformation/node-drainer.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Concat(deploy.Names("iam/"), deploy.Names("events/")) {
		document, err := deploy.Fill(name, deploy.Example())
		if err != nil {
			t.Error(err)
		}
		if !json.Valid([]byte(document)) {
			t.Errorf("%s is no JSON", name)
		}
		if !strings.Contains(string(template), " # "+name+".json") && name != "iam/key" { // Nobody's key is made here.
			t.Errorf("the template does not have %s", name)
		}
	}
}

// matches tells whether EventBridge would hand the event to a rule with the pattern.
func matches(t *testing.T, pattern, event map[string]any) bool {
	t.Helper()
	for key, wanted := range pattern {
		switch wanted := wanted.(type) {
		case map[string]any:
			inner, is := event[key].(map[string]any)
			if !is || !matches(t, wanted, inner) {
				return false
			}
		case []any:
			if !slices.Contains(wanted, event[key]) {
				return false
			}
		default:
			t.Fatalf("%s is neither a list nor an object", key)
		}
	}
	return true
}

// kindOf is the kind of event whose rule is to deliver a message; none for what nobody needs to hear of.
func kindOf(events []event.Event) string {
	switch kind := events[0].Kind; kind {
	case event.Notice:
		return ""
	case event.ScheduledChangeCanceled:
		return string(event.ScheduledChange)
	case event.LifecycleTerminating, event.LifecycleLaunching:
		return "lifecycle"
	default:
		return string(kind)
	}
}

// TestTheRulesDeliverWhatTheAgentReads: each message that EventBridge sends is delivered by the rule of its kind, and by
// no other; what asks for nothing is not delivered.
func TestTheRulesDeliverWhatTheAgentReads(t *testing.T) {
	t.Parallel()
	inputs, _ := everything()
	inputs["delivery"] = cty.StringVal("eventbridge")
	p, err := loadModule(t, "terraform").evaluate(t, inputs)
	if err != nil {
		t.Fatal(err)
	}
	rules, delivered := map[string]map[string]any{}, map[string]bool{}
	for _, r := range p.plain("aws_cloudwatch_event_rule.this") {
		var pattern map[string]any
		if err := json.Unmarshal([]byte(r["event_pattern"].(string)), &pattern); err != nil {
			t.Fatal(err)
		}
		rules[r["key"].(string)] = pattern
	}
	samples, err := filepath.Glob("../pkg/event/testdata/bridge-*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range samples {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		events, err := event.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var message map[string]any
		if err := json.Unmarshal(text, &message); err != nil {
			t.Fatal(err)
		}
		if detail := message["detail"].(map[string]any); detail["AutoScalingGroupName"] != nil {
			detail["AutoScalingGroupName"] = "workers"
		}
		var by []string
		for kind, pattern := range rules {
			if matches(t, pattern, message) {
				by = append(by, kind)
			}
		}
		var want []string
		if kind := kindOf(events); kind != "" {
			want, delivered[kind] = []string{kind}, true
		}
		if !slices.Equal(by, want) {
			t.Errorf("%s is delivered by %q, want %q", file, by, want)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(rules)), slices.Sorted(maps.Keys(delivered))); diff != "" {
		t.Errorf("rules that no sample shows (-rules +samples):\n%s", diff)
	}
}

// TestTheRulesLeaveTheRest: events of the same services that are not for the agent are not delivered.
func TestTheRulesLeaveTheRest(t *testing.T) {
	t.Parallel()
	for name, message := range map[string]string{
		"an instance that runs":    `{"source": "aws.ec2", "detail-type": "EC2 Instance State-change Notification", "detail": {"state": "running"}}`,
		"an instance that begins":  `{"source": "aws.ec2", "detail-type": "EC2 Instance State-change Notification", "detail": {"state": "pending"}}`,
		"maintenance of databases": `{"source": "aws.health", "detail-type": "AWS Health Event", "detail": {"service": "RDS", "eventTypeCategory": "scheduledChange"}}`,
		"an outage of EC2":         `{"source": "aws.health", "detail-type": "AWS Health Event", "detail": {"service": "EC2", "eventTypeCategory": "issue"}}`,
		"somebody's own event":     `{"source": "com.example", "detail-type": "EC2 Spot Instance Interruption Warning", "detail": {}}`,
	} {
		var read map[string]any
		if err := json.Unmarshal([]byte(message), &read); err != nil {
			t.Fatal(err)
		}
		for _, document := range deploy.Names("events/") {
			text, err := deploy.Read(document)
			if err != nil {
				t.Fatal(err)
			}
			var pattern map[string]any
			if err := json.Unmarshal([]byte(text), &pattern); err != nil {
				t.Fatal(err)
			}
			if matches(t, pattern, read) {
				t.Errorf("%s is delivered by %s", name, document)
			}
		}
	}
}

// TestTheRulesOfTheDefaults: without being told otherwise both twins deliver the kinds that the agent by default does
// something about.
func TestTheRulesOfTheDefaults(t *testing.T) {
	t.Parallel()
	p, err := loadModule(t, "terraform").evaluate(t, map[string]cty.Value{"cluster_name": cty.StringVal("prod")})
	if err != nil {
		t.Fatal(err)
	}
	got, want := slices.Sorted(maps.Keys(p.instances["aws_cloudwatch_event_rule.this"])), []string{}
	kinds := []string{}
	for _, name := range deploy.Names("events/") {
		kinds = append(kinds, strings.TrimPrefix(name, "events/"))
	}
	for _, v := range config.Variables() {
		kind := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(v.Name, "EVENT_"), "_", "-"))
		if strings.HasPrefix(v.Name, "EVENT_") && slices.Contains(kinds, kind) && v.Default != string(event.Ignore) {
			want = append(want, kind)
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
		t.Errorf("rules by default (-the agent's defaults +the module):\n%s", diff)
	}
}

// TestTheTablesOfTheDocs: docs/iam.md has a row for each action of each program, with the features that it is for and
// what it is limited to.
func TestTheTablesOfTheDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/iam.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `(\\w+:\\w+)` \\| [^|]+ \\| ([^|]+) \\| ([^|]+) \\|$")
	values := deploy.Example()
	for _, program := range []string{"agent", "trigger"} {
		_, section, _ := strings.Cut(string(page), "\n## What the "+program+" may do\n")
		section, _, _ = strings.Cut(section, "\n## ")
		told := map[string][2]string{}
		for _, r := range row.FindAllStringSubmatch(section, -1) {
			told[r[1]] = [2]string{r[2], r[3]}
		}
		there := map[string][2]string{}
		for _, name := range deploy.Names("iam/" + program + "-") {
			feature := strings.TrimPrefix(name, "iam/"+program+"-")
			if !regexp.MustCompile("<!-- deploy [a-z/ -]*\\b" + name + "( [a-z/ -]*)?-->").Match(page) {
				t.Errorf("docs/iam.md does not show %s", name)
			}
			for _, st := range readPolicy(t, name).Statement {
				limit := map[string]string{
					"*": "`*`", values["QueueArn"]: "the queue", values["KeyArn"]: "the key", values["Groups"]: "groups of the cluster",
				}[list(st.Resource)[0]]
				if st.Condition["ForAllValues:StringEquals"] != nil {
					limit += ", and its own tag"
				}
				for _, action := range list(st.Action) {
					if before, twice := there[action]; twice {
						there[action] = [2]string{before[0] + ", " + feature, limit}
					} else {
						there[action] = [2]string{feature, limit}
					}
				}
			}
		}
		if diff := cmp.Diff(there, told); diff != "" {
			t.Errorf("the %s (-deploy/iam +docs/iam.md):\n%s", program, diff)
		}
	}
}
