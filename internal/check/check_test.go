package check_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/smithy-go"

	"github.com/node-drainer/node-drainer/deploy"
	"github.com/node-drainer/node-drainer/internal/access"
	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/check"
	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/eventbridge"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
	"github.com/node-drainer/node-drainer/test/agentrules"
)

const (
	queueARN = "arn:aws:sqs:eu-central-1:123456789012:node-drainer"
	hookRole = "arn:aws:iam::123456789012:role/node-drainer-hooks"
	policy   = `{"Statement": [
		{"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "sqs:SendMessage", "Resource": "` + queueARN + `"},
		{"Effect": "Deny", "Principal": "*", "Action": "sqs:SendMessage", "Resource": "` + queueARN + `",
			"Condition": {"ArnNotEqualsIfExists": {"aws:PrincipalArn": ["` + hookRole + `"]}}},
		{"Effect": "Deny", "Principal": "*", "Action": "sqs:*", "Resource": "*", "Condition": {"Bool": {"aws:SecureTransport": "false"}}}]}`
)

// configOf returns a configuration with some more variables.
func configOf(t *testing.T, more ...string) config.Agent {
	t.Helper()
	cfg, err := config.ReadAgent(append([]string{
		"CLUSTER_NAME=demo", "QUEUE_URL=https://sqs.eu-central-1.amazonaws.com/123456789012/node-drainer",
		"POD_NAMESPACE=kube-system", "HOOK_NAMES=drain,node-drainer-launching",
	}, more...))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// good is what is read of an installation without a mistake: the first of two groups has an instance, a Node.
func good(t *testing.T) check.Facts {
	t.Helper()
	hook := autoscaling.InspectedHook{
		Name: "drain", Transition: autoscaling.Terminating, Target: queueARN, RoleARN: hookRole,
		Default: autoscaling.Continue, Timing: autoscaling.Timing{Heartbeat: 5 * time.Minute, Global: 500 * time.Minute},
	}
	group := func(name string, instances ...string) check.Group {
		return check.Group{Hooks: []autoscaling.InspectedHook{hook}, InspectedGroup: autoscaling.InspectedGroup{
			Name: name, Tags: map[string]string{"kubernetes.io/cluster/demo": "owned"}, Clusters: []string{"demo"},
			Instances: instances,
		}}
	}
	f := check.Facts{
		Config: configOf(t), Region: "eu-central-1",
		Identity: cloud.Identity{
			Account: "123456789012", ARN: "arn:aws:sts::123456789012:assumed-role/agent/session", Provider: "EnvConfigCredentials",
		},
		Rules:  goodRules(t),
		Queue:  queue.Attributes{ARN: queueARN, Policy: policy, Retention: 14 * 24 * time.Hour, MaxReceives: 100},
		Nodes:  node.Survey{All: 1, Selected: 1, Instances: []string{"i-1"}, Zones: []string{"eu-central-1a"}},
		Known:  map[string]bool{"i-1": true},
		Groups: []check.Group{group("spot"), group("workers", "i-1")},
		Trials: []check.Trial{
			{Action: autoscaling.ActionComplete, Group: "spot", Err: refusal("ValidationError")},
			{Action: autoscaling.ActionTags},
		},
		Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		Settings: []autoscaling.AccountSetting{
			{Name: "launchBeforeTerminate", Value: "disabled"},
			{Name: "later", Value: "disabled", Enforced: "enabled", EnforcedAt: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)},
			{Name: "same", Value: "enabled", Enforced: "enabled", EnforcedAt: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)},
			{Name: "past", Value: "disabled", Enforced: "enabled", EnforcedAt: time.Date(2025, 2, 1, 0, 0, 0, 0, time.UTC)},
		},
		User: "system:serviceaccount:kube-system:node-drainer",
	}
	for _, r := range check.Rights(f.Config) {
		f.Reviews = append(f.Reviews, check.Review{Right: r, Allowed: true})
	}
	return f
}

// goodRules are rules for all kinds of events, with the patterns of the documentation. Their names are those of the
// Terraform module, and one more.
func goodRules(t *testing.T) (rules []eventbridge.Rule) {
	t.Helper()
	for _, document := range deploy.Names("events/") {
		pattern, err := deploy.Read(document)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, eventbridge.Rule{Name: path.Base(document), Pattern: pattern, Enabled: true})
	}
	return rules
}

// ruleOf returns the rule for a kind of events.
func ruleOf(f *check.Facts, k event.Kind) *eventbridge.Rule {
	return &f.Rules[slices.IndexFunc(f.Rules, func(r eventbridge.Rule) bool { return r.Name == string(k) })]
}

func refusal(code string) error { return &smithy.GenericAPIError{Code: code, Message: "refused"} }

// TestJudge: each mistake is the only thing that is wrong, and has a fix.
func TestJudge(t *testing.T) {
	t.Parallel()
	for _, m := range slices.Concat(mistakesInAWS(), mistakesOfHooks(), mistakesOfRules(), mistakesInCluster()) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			f := good(t)
			m.plant(&f)
			results := check.Judge(f)
			wrong := wrongOf(results)
			if m.status == check.NotChecked {
				wrong = slices.DeleteFunc(slices.Clone(results), func(r check.Result) bool {
					return r.Status != check.NotChecked
				})
			}
			if len(wrong) != 1 || wrong[0].Status != m.status || wrong[0].Check != m.check {
				t.Fatalf("wrong is %+v, want one %s of %s", wrong, m.status, m.check)
			}
			wantParts(t, wrong[0].Found, m.found)
			wantParts(t, wrong[0].Fix, m.fix)
		})
	}
}

func wrongOf(results []check.Result) []check.Result {
	return slices.DeleteFunc(slices.Clone(results), func(r check.Result) bool {
		return r.Status == check.OK || r.Status == check.NotChecked
	})
}

func wantParts(t *testing.T, text string, parts []string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not contain %q", text, part)
		}
	}
}

// TestJudgeGood: nothing is wrong with a good installation, also without HOOK_NAMES, and each check has a result.
func TestJudgeGood(t *testing.T) {
	t.Parallel()
	f := good(t)
	for range 2 {
		results := check.Judge(f)
		if wrong := wrongOf(results); len(wrong) > 0 {
			t.Errorf("wrong: %+v", wrong)
		}
		seen := map[string]bool{}
		for _, r := range results {
			seen[r.Check] = true
		}
		if len(seen) != 11 {
			t.Errorf("there are results of %v, want 11 checks", seen)
		}
		f.Config.Hook.Names = nil
	}
}

// TestRights: the rights are those that the agent runs with in the tests, which the chart grants.
func TestRights(t *testing.T) {
	t.Parallel()
	granted := map[string]bool{}
	for _, rule := range slices.Concat(agentrules.All(), agentrules.Own(), agentrules.History(), agentrules.Restarts()) {
		for _, verb := range rule.Verbs {
			name := strings.Join(rule.ResourceNames, "")
			granted[access.Right{Verb: verb, Group: rule.APIGroups[0], Resource: rule.Resources[0], Name: name}.String()] = true
		}
	}
	needed := map[string]bool{}
	for _, r := range check.Rights(configOf(t, "DRAIN_SINGLE_REPLICAS=restart", "HISTORY_CONFIGMAP=node-drainer-history")) {
		r.Namespace = ""
		needed[r.String()] = true
		if !granted[r.String()] {
			t.Errorf("the agent is not granted to %s", r)
		}
	}
	for name := range granted {
		if !needed[name] {
			t.Errorf("no check of %s", name)
		}
	}
}

// TestRightsOfDryRun: a dry run needs no right to change anything.
func TestRightsOfDryRun(t *testing.T) {
	t.Parallel()
	for _, r := range check.Rights(configOf(t, "DRY_RUN=true", "AUTOSCALER_DEPLOYMENT=kube-system/autoscaler")) {
		if !slices.Contains([]string{"get", "list", "watch"}, r.Verb) {
			t.Errorf("a dry run needs %s", r)
		}
	}
	autoscaler := access.Right{Verb: "patch", Group: "apps", Resource: "deployments", Namespace: "kube-system", Name: "autoscaler"}
	if !slices.Contains(check.Rights(configOf(t, "AUTOSCALER_DEPLOYMENT=kube-system/autoscaler")), autoscaler) {
		t.Errorf("no check of %s", autoscaler)
	}
}

// TestWrite: the text has a line for each result and each fix, and JSON has the same.
func TestWrite(t *testing.T) {
	t.Parallel()
	results := []check.Result{
		{Check: "queue", Status: check.OK, Found: "it exists"},
		{Check: "hooks", Status: check.Failed, Found: "none", Fix: "create one && wait"},
		{Check: "rules", Status: check.NotChecked, Found: "not read"},
	}
	var text, data bytes.Buffer
	if err := check.WriteText(&text, results); err != nil {
		t.Fatal(err)
	}
	const want = "ok           queue         it exists\n" +
		"failed       hooks         none\n" +
		"                           fix: create one && wait\n" +
		"not checked  rules         not read\n" +
		"\n1 failed, 0 warnings, 1 not checked, 1 ok\n"
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
	if err := check.WriteJSON(&data, results); err != nil {
		t.Fatal(err)
	}
	var got struct {
		OK     bool
		Checks []check.Result
	}
	if err := json.Unmarshal(data.Bytes(), &got); err != nil || got.OK || !slices.Equal(got.Checks, results) {
		t.Errorf("JSON is %s: %v", data.String(), err)
	}
	results[0].Found = "a\u009b\x1b]0;b\a\nc"
	text.Reset()
	data.Reset()
	if err := errors.Join(check.WriteText(&text, results[:1]), check.WriteJSON(&data, results)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), " a]0;b c\n") || strings.ContainsAny(data.String(), "\u009b\x1b\a") {
		t.Errorf("control characters are written: %q and %q", text.String(), data.String())
	}
	if !strings.Contains(data.String(), "&& wait") {
		t.Errorf("commands are escaped: %s", data.String())
	}
}
