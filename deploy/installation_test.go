package deploy_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestInstallation: the queues, rules and roles are complete, encrypted and limited.
func TestInstallation(t *testing.T) {
	t.Parallel()
	in := terraformInstallation(planOf(t, map[string]any{
		"cluster_name": "prod", "groups": map[string]string{"w": "workers"},
	})).Resources
	queue, dead := queueARN("node-drainer-prod"), queueARN("node-drainer-prod-dead")
	for kind, want := range map[string][]map[string]any{
		"aws_sqs_queue": {
			{
				"name": "node-drainer-prod", "message_retention_seconds": "1209600", "receive_wait_time_seconds": "20",
				"max_message_size":        "262144",
				"sqs_managed_sse_enabled": "true",
				"redrive_policy":          map[string]any{"deadLetterTargetArn": dead, "maxReceiveCount": "100"},
			},
			{
				"name": "node-drainer-prod-dead", "message_retention_seconds": "1209600", "sqs_managed_sse_enabled": "true",
				"redrive_allow_policy": map[string]any{"redrivePermission": "byQueue", "sourceQueueArns": []any{queue}},
			},
		},
		"aws_autoscaling_lifecycle_hook": {{
			"autoscaling_group_name": "workers", "name": "node-drainer-terminating",
			"lifecycle_transition": "autoscaling:EC2_INSTANCE_TERMINATING", "heartbeat_timeout": "300", "default_result": "CONTINUE",
			"notification_target_arn": queue, "role_arn": roleARN("node-drainer-prod-hooks"),
		}},
		"aws_eks_pod_identity_association": {{
			"cluster_name": "prod", "namespace": "kube-system", "service_account": "node-drainer",
			"role_arn": roleARN("node-drainer-prod"),
		}},
	} {
		if diff := cmp.Diff(want, in[kind]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
	policies := fmt.Sprint(in["aws_sqs_queue_policy"])
	if n := strings.Count(policies, "aws:SecureTransport:false"); n != 2 {
		t.Errorf("%d of 2 queues refuse unencrypted requests", n)
	}
	if !strings.Contains(policies, "aws:PrincipalArn:["+roleARN("node-drainer-prod-hooks")+"]") {
		t.Errorf("the queue's policy does not let the hooks send: %s", policies)
	}
}

// TestQueuePolicyListsRules: the queue's policy lists each rule, and no pattern that fits another cluster's.
func TestQueuePolicyListsRules(t *testing.T) {
	t.Parallel()
	inputs, _ := everything()
	var listed, created []string
	for _, delivery := range []string{"direct", "eventbridge"} {
		inputs["delivery"] = delivery
		in := terraformInstallation(planOf(t, inputs)).Resources
		listed = regexp.MustCompile(`:rule/([^] ]+)`).FindAllString(fmt.Sprint(in["aws_sqs_queue_policy"]), -1)
		for _, r := range in["aws_cloudwatch_event_rule"] {
			created = append(created, ":rule/"+r["name"].(string))
		}
	}
	if diff := cmp.Diff(sortedSet(created), sortedSet(listed)); diff != "" {
		t.Errorf("-rules +the queue's policy:\n%s", diff)
	}
}

// TestClusterNameWithDots: names of kOps clusters have dots, which names of queues must not have.
func TestClusterNameWithDots(t *testing.T) {
	t.Parallel()
	in := terraformInstallation(planOf(t, map[string]any{"cluster_name": "prod.example.com"})).Resources
	if name := in["aws_sqs_queue"][0]["name"]; name != "node-drainer-prod-example-com" {
		t.Errorf("the queue is %s", name)
	}
	policies := fmt.Sprint(in["aws_iam_role_policy"])
	if !strings.Contains(policies, "aws:ResourceTag/kubernetes.io/cluster/prod.example.com:owned") {
		t.Errorf("the groups have another tag: %s", policies)
	}
}

// TestInvalidInputs: they are refused when planning, not by AWS during the apply.
func TestInvalidInputs(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		variable string
		value    any
	}{
		"empty cluster name":                {"cluster_name", ""},
		"a tag for a cluster name":          {"cluster_name", "kubernetes.io/cluster/prod"},
		"a group without a name":            {"groups", map[string]string{"a": ""}},
		"a group named twice":               {"groups", map[string]string{"a": "workers", "b": "workers"}},
		"a name that is too long":           {"name", strings.Repeat("n", 53)},
		"a name that is invalid for queues": {"name", "prod.example"},
		"a cluster name that is too long":   {"cluster_name", strings.Repeat("n", 40)},
		"an unknown delivery":               {"delivery", "sns"},
		"a timeout that is too short":       {"heartbeat_timeout", 29},
		"a timeout that is too long":        {"launch_heartbeat_timeout", 7201},
		"an unknown result":                 {"default_result", "continue"},
		"an unknown result of a launch":     {"launch_default_result", ""},
		"an unknown kind of event":          {"events", []string{"spot"}},
		"too few receives":                  {"max_receive_count", 3},
		"an unknown feature":                {"trigger", []string{"plan"}},
		"launches without a role of nodes":  {"trigger", []string{"refresh", "launch"}},
		"an unknown identity":               {"identity", "kiam"},
		"irsa without a provider":           {"identity", "irsa"},
		"a provider without irsa":           {"oidc_provider_arn", oidcARN},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inputs := map[string]any{"cluster_name": "prod"}
			inputs[tt.variable] = tt.value
			if _, err := loadModule(t, "terraform").evaluate(t, inputs); !errors.Is(err, errRefused) {
				t.Errorf("%s = %#v was accepted: %v", tt.variable, tt.value, err)
			}
		})
	}
}

// TestTheExampleForNodeGroups: of a managed node group the trigger has EKS update the nodes, and may nothing else: it
// refuses to replace them itself.
func TestTheExampleForNodeGroups(t *testing.T) {
	t.Parallel()
	example, err := os.ReadFile("terraform/examples/pod-identity/main.tf")
	if err != nil {
		t.Fatal(err)
	}
	granted := regexp.MustCompile(`(?m)^  trigger +=(.*)$`).FindStringSubmatch(string(example))
	if granted == nil || granted[1] != ` ["nodegroup"]` {
		t.Errorf("the trigger may %q", granted)
	}
}

// TestHelmValues: the values of the chart follow from the module, with the role only for IRSA. Trigger and watch share a
// role, and so a ServiceAccount.
func TestHelmValues(t *testing.T) {
	t.Parallel()
	provider := "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-central-1.amazonaws.com/id/0123"
	trigger := `{"serviceAccount":{"name":"rollouts","roleARN":"` + roleARN("node-drainer-prod-trigger") + `"}}`
	for accounts, inputs := range map[string]map[string]any{
		`{"name":"drainer"}`: {},
		`{"name":"drainer","roleARN":"` + roleARN("node-drainer-prod") + `"}`: {"identity": "irsa", "oidc_provider_arn": provider},
		`{"name":"drainer"},"trigger":{"serviceAccount":{"name":"rollouts"}},"watch":{"serviceAccount":{"name":"rollouts"}}`: {
			"trigger": []string{"refresh"},
		},
		`{"name":"drainer","roleARN":"` + roleARN("node-drainer-prod") + `"},"trigger":` + trigger + `,"watch":` + trigger: {
			"identity": "irsa", "oidc_provider_arn": provider, "trigger": []string{"refresh"},
		},
	} {
		inputs["cluster_name"], inputs["service_account"], inputs["trigger_service_account"] = "prod", "drainer", "rollouts"
		want := `{"aws":{"region":"eu-central-1"},"config":{"clusterName":"prod",` +
			`"hook":{"names":["node-drainer-launching","node-drainer-terminating"]},` +
			`"queue":{"url":"` + queueURL("node-drainer-prod") + `"}},"serviceAccount":` + accounts + `}`
		if diff := cmp.Diff(want, planOf(t, inputs).scope["output"]["helm_values"].AsString()); diff != "" {
			t.Errorf("%v (-want +got):\n%s", inputs, diff)
		}
	}
}
