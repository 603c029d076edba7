package deploy_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
)

// TestInstallation: the queues, rules and roles are complete, encrypted and limited.
func TestInstallation(t *testing.T) {
	t.Parallel()
	p, err := loadModule(t, "terraform").evaluate(t, map[string]cty.Value{
		"cluster_name": cty.StringVal("prod"), "groups": object("w", "workers"),
	})
	if err != nil {
		t.Fatal(err)
	}
	in := terraformInstallation(p)
	queue, dead := in.Queues["node-drainer-prod"], in.Queues["node-drainer-prod-dead"]
	for name, q := range map[string]map[string]any{"queue": queue, "dead-letter queue": dead} {
		if q["retention"] != "1209600" || q["sse"] != "true" || q["key"] != nil {
			t.Errorf("the %s is %v", name, q)
		}
		if statements := fmt.Sprint(q["policy"]); !strings.Contains(statements, "Effect:Deny") || !strings.Contains(statements, "aws:SecureTransport:false") {
			t.Errorf("the %s accepts unencrypted requests: %s", name, statements)
		}
	}
	if want := map[string]any{"deadLetterTargetArn": queueARN("node-drainer-prod-dead"), "maxReceiveCount": "100"}; !cmp.Equal(queue["redrive"], any(want)) {
		t.Errorf("redrive policy: %s", cmp.Diff(queue["redrive"], any(want)))
	}
	for name := range in.Rules {
		arn := "arn:aws:events:eu-central-1:123456789012:rule/" + name
		if prefix := "arn:aws:events:eu-central-1:123456789012:rule/node-drainer-prod-"; !strings.HasPrefix(arn, prefix) ||
			!strings.Contains(fmt.Sprint(queue["policy"]), "aws:SourceArn:"+prefix+"*") {
			t.Errorf("the queue's policy does not let %s send", arn)
		}
	}
	want := map[string]any{
		"transition": "autoscaling:EC2_INSTANCE_TERMINATING", "timeout": "300", "result": "CONTINUE",
		"target": queueARN("node-drainer-prod"), "role": roleARN("node-drainer-prod-hooks"),
	}
	if diff := cmp.Diff(want, in.Hooks["workers/node-drainer-terminating"]); diff != "" || len(in.Hooks) != 1 {
		t.Errorf("%d hooks; the terminating one (-want +got):\n%s", len(in.Hooks), diff)
	}
	if in.Associations[0] != "prod kube-system node-drainer "+roleARN("node-drainer-prod") || len(in.Associations) != 1 {
		t.Errorf("associated: %q", in.Associations)
	}
}

// TestClusterNameWithDots: names of kOps clusters have dots, which names of queues must not have.
func TestClusterNameWithDots(t *testing.T) {
	t.Parallel()
	p, err := loadModule(t, "terraform").evaluate(t, map[string]cty.Value{"cluster_name": cty.StringVal("prod.example.com")})
	if err != nil {
		t.Fatal(err)
	}
	in := terraformInstallation(p)
	if in.Queues["node-drainer-prod-example-com"] == nil {
		t.Errorf("the queues are %q", slices.Sorted(maps.Keys(in.Queues)))
	}
	if policies := fmt.Sprint(in.Policies); !strings.Contains(policies, "aws:ResourceTag/kubernetes.io/cluster/prod.example.com:owned") {
		t.Errorf("the groups have another tag: %s", policies)
	}
}

// TestInvalidInputs: they are refused when planning, not by AWS during the apply.
func TestInvalidInputs(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		variable string
		value    cty.Value
	}{
		"empty cluster name":                {"cluster_name", cty.StringVal("")},
		"a name that is too long":           {"name", cty.StringVal(strings.Repeat("n", 53))},
		"a name that is invalid for queues": {"name", cty.StringVal("prod.example")},
		"a cluster name that is too long":   {"cluster_name", cty.StringVal(strings.Repeat("n", 40))},
		"an unknown delivery":               {"delivery", cty.StringVal("sns")},
		"a timeout that is too short":       {"heartbeat_timeout", cty.NumberIntVal(29)},
		"a timeout that is too long":        {"launch_heartbeat_timeout", cty.NumberIntVal(7201)},
		"an unknown result":                 {"default_result", cty.StringVal("continue")},
		"an unknown result of a launch":     {"launch_default_result", cty.StringVal("")},
		"an unknown kind of event":          {"events", texts("spot")},
		"too few receives":                  {"max_receive_count", cty.NumberIntVal(3)},
		"an unknown feature":                {"trigger", texts("plan")},
		"an unknown identity":               {"identity", cty.StringVal("kiam")},
		"irsa without a provider":           {"identity", cty.StringVal("irsa")},
		"a provider without irsa":           {"oidc_provider_arn", cty.StringVal(oidcARN)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inputs := map[string]cty.Value{"cluster_name": cty.StringVal("prod")}
			inputs[tt.variable] = tt.value
			if _, err := loadModule(t, "terraform").evaluate(t, inputs); !errors.Is(err, errRefused) {
				t.Errorf("%s = %#v was accepted: %v", tt.variable, tt.value, err)
			}
		})
	}
}
