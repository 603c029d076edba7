package deploy_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/deploy"
	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// kindOf returns the kind of the rule that should deliver the events, or "" if none should.
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

// TestRulesDeliverEvents: each event is delivered by the rule of its kind only, and notices are not
// delivered.
func TestRulesDeliverEvents(t *testing.T) {
	t.Parallel()
	inputs, _ := everything()
	inputs["delivery"] = "eventbridge"
	rules, delivered := map[string]map[string]any{}, map[string]bool{}
	for _, r := range planOf(t, inputs).plain("aws_cloudwatch_event_rule") {
		rules[r["key"].(string)] = decoded(t, r["event_pattern"].(string))
	}
	samples, err := filepath.Glob("../internal/event/testdata/bridge-*.json")
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
		message := decoded(t, string(text))
		if detail := message["detail"].(map[string]any); detail["AutoScalingGroupName"] != nil {
			detail["AutoScalingGroupName"] = "workers"
			detail["LifecycleHookName"] = hookNames(t)[0]
		}
		var by []string
		for kind, pattern := range rules {
			if awsim.Matches(pattern, message) {
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

// hookNames returns the HOOK_NAMES that the module puts out.
func hookNames(t *testing.T) []string {
	t.Helper()
	p := planOf(t, map[string]any{"cluster_name": "prod"})
	return strings.Split(p.scope["output"]["hook_names"].AsString(), ",")
}

// TestHookNames: HOOK_NAMES are the names of the hooks that the module creates, and the lifecycle rule delivers the events
// of no other hooks.
func TestHookNames(t *testing.T) {
	t.Parallel()
	inputs, _ := everything()
	inputs["delivery"] = "eventbridge"
	p := planOf(t, inputs)
	var created []string
	for _, kind := range []string{"launching", "terminating"} {
		created = append(created, p.instances["aws_autoscaling_lifecycle_hook."+kind]["one"]["name"].AsString())
	}
	if diff := cmp.Diff(created, hookNames(t)); diff != "" {
		t.Errorf("HOOK_NAMES (-the hooks +the output):\n%s", diff)
	}
	for _, r := range p.plain("aws_cloudwatch_event_rule") {
		if r["key"] != "lifecycle" {
			continue
		}
		for name, want := range map[string]bool{created[0]: true, created[1]: true, "backup": false} {
			if got := awsim.Matches(decoded(t, r["event_pattern"].(string)), decoded(t, `{
				"source": "aws.autoscaling", "detail-type": "EC2 Instance-terminate Lifecycle Action",
				"detail": {"AutoScalingGroupName": "workers", "LifecycleHookName": "`+name+`"}
			}`)); got != want {
				t.Errorf("the hook %s is delivered: %v", name, got)
			}
		}
	}
}

// TestPutEventsForgesNothing: all rules match events of AWS services only, which PutEvents does not take from others.
func TestPutEventsForgesNothing(t *testing.T) {
	t.Parallel()
	inputs, _ := everything()
	inputs["delivery"] = "eventbridge"
	rules := planOf(t, inputs).plain("aws_cloudwatch_event_rule")
	for _, r := range rules {
		pattern := decoded(t, r["event_pattern"].(string))
		sources, _ := pattern["source"].([]any)
		isOfAWS := func(source any) bool {
			name, isText := source.(string) // else it is a condition, such as a prefix
			return isText && strings.HasPrefix(name, "aws.")
		}
		if len(sources) == 0 || slices.ContainsFunc(sources, func(s any) bool { return !isOfAWS(s) }) {
			t.Errorf("the rule %s matches the sources %v", r["key"], sources)
		}
	}
	if len(rules) <= len(deploy.Names("events/")) {
		t.Errorf("only %d rules are created", len(rules))
	}
}

// TestRulesIgnoreOtherEvents: other events of the same services are not delivered.
func TestRulesIgnoreOtherEvents(t *testing.T) {
	t.Parallel()
	for name, message := range map[string]string{
		"a running instance":         `{"source": "aws.ec2", "detail-type": "EC2 Instance State-change Notification", "detail": {"state": "running"}}`,
		"a pending instance":         `{"source": "aws.ec2", "detail-type": "EC2 Instance State-change Notification", "detail": {"state": "pending"}}`,
		"maintenance of databases":   `{"source": "aws.health", "detail-type": "AWS Health Event", "detail": {"service": "RDS", "eventTypeCategory": "scheduledChange"}}`,
		"an outage of EC2":           `{"source": "aws.health", "detail-type": "AWS Health Event", "detail": {"service": "EC2", "eventTypeCategory": "issue"}}`,
		"an alarm of another tool":   `{"source": "aws.cloudwatch", "detail-type": "CloudWatch Alarm State Change", "detail": {"alarmName": "cpu", "state": {"value": "ALARM"}}}`,
		"an alarm that has ended":    `{"source": "aws.cloudwatch", "detail-type": "CloudWatch Alarm State Change", "detail": {"alarmName": "node-drainer-disk", "state": {"value": "OK"}}}`,
		"an event of another source": `{"source": "com.example", "detail-type": "EC2 Spot Instance Interruption Warning", "detail": {}}`,
	} {
		for _, document := range deploy.Names("events/") {
			pattern, err := deploy.Read(document)
			if err != nil {
				t.Fatal(err)
			}
			if awsim.Matches(decoded(t, pattern), decoded(t, message)) {
				t.Errorf("%s is delivered by %s", name, document)
			}
		}
	}
}

func decoded(t *testing.T, text string) (object map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// TestDefaultRules: by default, Terraform and CloudFormation deliver the kinds that the agent handles by
// default.
func TestDefaultRules(t *testing.T) {
	t.Parallel()
	p := planOf(t, map[string]any{"cluster_name": "prod"})
	got := slices.Sorted(maps.Keys(p.instances["aws_cloudwatch_event_rule.this"]))
	var want, kinds []string
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
