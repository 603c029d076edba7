package deploy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// installation is what stands in AWS in the end, whichever way it was made, in plain data.
type installation struct {
	Queues       map[string]map[string]any // by name
	Rules        map[string]map[string]any // by name
	Roles        map[string]map[string]any // by name
	Policies     map[string]any            // of roles, by role/name
	Associations []string
	Hooks        map[string]map[string]any // by group/name
	Outputs      map[string]any
}

// generic is a value as it reads back from JSON. Policies, patterns and the like, which either twin may give as text,
// become data; numbers become text, which is what CloudFormation makes of some.
func generic(v any) any {
	switch v := v.(type) {
	case string:
		var document map[string]any
		if json.Unmarshal([]byte(v), &document) == nil {
			return generic(document)
		}
		return v
	case map[string]any:
		object := map[string]any{}
		for key, item := range v {
			if item != nil {
				object[key] = generic(item)
			}
		}
		return object
	case []any:
		list := []any{}
		for _, item := range v {
			list = append(list, generic(item))
		}
		return list
	case []string:
		list := []any{}
		for _, item := range v {
			list = append(list, item)
		}
		return list
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case nil:
		return nil
	}
	return fmt.Sprint(v)
}

// pick are the named values of an object under other names, those that are there.
func pick(from map[string]any, names map[string]string) map[string]any {
	picked := map[string]any{}
	for old, name := range names {
		if value := generic(from[old]); value != nil {
			picked[name] = value
		}
	}
	return picked
}

// plain are all instances of a resource.
func (p *plan) plain(address string) []map[string]any {
	p.t.Helper()
	var all []map[string]any
	for _, key := range slices.Sorted(maps.Keys(p.instances[address])) {
		instance := map[string]any{"key": key}
		for name, value := range p.instances[address][key] {
			instance[name] = data(p.t, value)
		}
		all = append(all, instance)
	}
	return all
}

func data(t *testing.T, value cty.Value) (v any) {
	t.Helper()
	text, err := ctyjson.Marshal(value, value.Type())
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// byTerraform is what the plan makes.
func byTerraform(p *plan) installation {
	p.t.Helper()
	in := installation{
		Queues: map[string]map[string]any{}, Rules: map[string]map[string]any{}, Roles: map[string]map[string]any{},
		Policies: map[string]any{}, Hooks: map[string]map[string]any{}, Outputs: map[string]any{},
	}
	for _, name := range []string{"this", "dead"} {
		q := p.plain("aws_sqs_queue." + name)[0]
		queue := pick(q, map[string]string{
			"message_retention_seconds": "retention", "receive_wait_time_seconds": "wait", "sqs_managed_sse_enabled": "sse",
			"kms_master_key_id": "key", "redrive_policy": "redrive",
		})
		queue["policy"] = generic(p.plain("aws_sqs_queue_policy." + name)[0]["policy"])
		if name == "dead" {
			queue["allow"] = generic(p.plain("aws_sqs_queue_redrive_allow_policy.dead")[0]["redrive_allow_policy"])
		}
		in.Queues[q["name"].(string)] = queue
	}
	targets := map[string]any{}
	for _, target := range p.plain("aws_cloudwatch_event_target.this") {
		targets[target["rule"].(string)] = target["arn"]
	}
	for _, r := range p.plain("aws_cloudwatch_event_rule.this") {
		rule := pick(r, map[string]string{"description": "description", "event_pattern": "pattern"})
		rule["target"] = targets[r["name"].(string)]
		in.Rules[r["name"].(string)] = rule
	}
	for _, kind := range []string{"hooks", "agent", "trigger"} {
		for _, r := range p.plain("aws_iam_role." + kind) {
			in.Roles[r["name"].(string)] = pick(r, map[string]string{
				"description": "description", "assume_role_policy": "trust", "permissions_boundary": "boundary",
			})
		}
		for _, policy := range p.plain("aws_iam_role_policy." + kind) {
			in.Policies[fmt.Sprint(policy["role"], "/", policy["name"])] = generic(policy["policy"])
		}
		for _, a := range p.plain("aws_eks_pod_identity_association." + kind) {
			in.Associations = append(in.Associations, fmt.Sprint(a["cluster_name"], " ", a["namespace"], " ", a["service_account"], " ", a["role_arn"]))
		}
	}
	for _, kind := range []string{"terminating", "launching"} {
		for _, h := range p.plain("aws_autoscaling_lifecycle_hook." + kind) {
			in.Hooks[fmt.Sprint(h["autoscaling_group_name"], "/", h["name"])] = pick(h, map[string]string{
				"lifecycle_transition": "transition", "heartbeat_timeout": "timeout", "default_result": "result",
				"notification_target_arn": "target", "role_arn": "role",
			})
		}
	}
	for _, name := range []string{"queue_url", "queue_arn", "dead_letter_queue_arn", "agent_role_arn", "trigger_role_arn", "hook_role_arn"} {
		if value := data(p.t, p.outputs[name]); value != nil {
			in.Outputs[name] = value
		}
	}
	slices.Sort(in.Associations)
	return in
}

// byCloudFormation is what the stacks make: one for all, and one with the hooks of each group.
func byCloudFormation(s *stack, hooks ...*stack) installation {
	s.t.Helper()
	in := installation{
		Queues: map[string]map[string]any{}, Rules: map[string]map[string]any{}, Roles: map[string]map[string]any{},
		Policies: map[string]any{}, Hooks: map[string]map[string]any{}, Outputs: map[string]any{},
	}
	for _, q := range s.resources("AWS::SQS::Queue") {
		in.Queues[q["QueueName"].(string)] = pick(q, map[string]string{
			"MessageRetentionPeriod": "retention", "ReceiveMessageWaitTimeSeconds": "wait", "SqsManagedSseEnabled": "sse",
			"KmsMasterKeyId": "key", "RedrivePolicy": "redrive", "RedriveAllowPolicy": "allow",
		})
	}
	for _, policy := range s.resources("AWS::SQS::QueuePolicy") {
		url := policy["Queues"].([]any)[0].(string)
		in.Queues[url[strings.LastIndex(url, "/")+1:]]["policy"] = generic(policy["PolicyDocument"])
	}
	for _, r := range s.resources("AWS::Events::Rule") {
		rule := pick(r, map[string]string{"Description": "description", "EventPattern": "pattern"})
		rule["target"] = r["Targets"].([]any)[0].(map[string]any)["Arn"]
		in.Rules[r["Name"].(string)] = rule
	}
	for _, r := range s.resources("AWS::IAM::Role") {
		in.Roles[r["RoleName"].(string)] = pick(r, map[string]string{
			"Description": "description", "AssumeRolePolicyDocument": "trust", "PermissionsBoundary": "boundary",
		})
	}
	for _, policy := range s.resources("AWS::IAM::RolePolicy") {
		in.Policies[fmt.Sprint(policy["RoleName"], "/", policy["PolicyName"])] = generic(policy["PolicyDocument"])
	}
	for _, a := range s.resources("AWS::EKS::PodIdentityAssociation") {
		in.Associations = append(in.Associations, fmt.Sprint(a["ClusterName"], " ", a["Namespace"], " ", a["ServiceAccount"], " ", a["RoleArn"]))
	}
	for _, of := range hooks {
		for _, h := range of.resources("AWS::AutoScaling::LifecycleHook") {
			in.Hooks[fmt.Sprint(h["AutoScalingGroupName"], "/", h["LifecycleHookName"])] = pick(h, map[string]string{
				"LifecycleTransition": "transition", "HeartbeatTimeout": "timeout", "DefaultResult": "result",
				"NotificationTargetARN": "target", "RoleARN": "role",
			})
		}
	}
	for name, o := range s.template.Outputs {
		if o.Condition == "" || s.condition(o.Condition) {
			in.Outputs[snake(name)] = s.value(o.Value)
		}
	}
	slices.Sort(in.Associations)
	return in
}

// snake is a CloudFormation name in Terraform's style.
func snake(name string) string {
	var out strings.Builder
	for i, r := range name {
		if i > 0 && r >= 'A' && r <= 'Z' {
			out.WriteByte('_')
		}
		out.WriteRune(r)
	}
	return strings.ToLower(out.String())
}

func texts(values ...string) cty.Value {
	all := []cty.Value{}
	for _, v := range values {
		all = append(all, cty.StringVal(v))
	}
	return cty.TupleVal(all)
}

func object(pairs ...string) cty.Value {
	all := map[string]cty.Value{}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = cty.StringVal(pairs[i+1])
	}
	return cty.ObjectVal(all)
}

const (
	oidcARN = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-central-1.amazonaws.com/id/EXAMPLE"
	keyARN  = "arn:aws:kms:eu-central-1:123456789012:key/01234567-89ab-cdef-0123-456789abcdef"
)

// everything are the inputs of both twins that ask for all there is.
func everything() (map[string]cty.Value, map[string]any) {
	inputs := map[string]cty.Value{
		"cluster_name": cty.StringVal("prod"), "groups": object("one", "workers", "two", "batch"),
		"group_tag_key": cty.StringVal("eks:cluster-name"), "group_tag_value": cty.StringVal("prod"),
		"heartbeat_timeout": cty.NumberIntVal(1728), "default_result": cty.StringVal("ABANDON"),
		"launch_hooks": cty.True, "launch_heartbeat_timeout": cty.NumberIntVal(60), "launch_default_result": cty.StringVal("CONTINUE"),
		"events": texts("spot-interruption", "rebalance-recommendation", "state-change", "scheduled-change",
			"capacity-reservation-interruption", "capacity-block-expiration"),
		"replace": cty.True, "max_receive_count": cty.NumberIntVal(50), "kms_key": object("arn", keyARN),
		"namespace": cty.StringVal("drain"), "service_account": cty.StringVal("agent"),
		"trigger":                 texts("refresh", "unhealthy", "surge", "suspend"),
		"trigger_service_account": cty.StringVal("trigger"), "permissions_boundary_arn": cty.StringVal("arn:aws:iam::123456789012:policy/b"),
	}
	parameters := map[string]any{
		"ClusterName": "prod", "GroupTagKey": "eks:cluster-name", "GroupTagValue": "prod", "LaunchHooks": "true",
		"RebalanceRecommendation": "true", "Replace": "true", "MaxReceiveCount": 50, "KmsKeyArn": keyARN,
		"Namespace": "drain", "ServiceAccount": "agent", "Trigger": "true", "TriggerRefresh": "true",
		"TriggerUnhealthy": "true", "TriggerSurge": "true", "TriggerSuspend": "true", "TriggerServiceAccount": "trigger",
		"PermissionsBoundaryArn": "arn:aws:iam::123456789012:policy/b",
	}
	return inputs, parameters
}

// TestTheTwinsAgree: the Terraform module and the CloudFormation templates make the same of the same inputs.
func TestTheTwinsAgree(t *testing.T) {
	t.Parallel()
	all, allParameters := everything()
	for name, tt := range map[string]struct {
		inputs     map[string]cty.Value
		parameters map[string]any
		hooks      map[string]any
		groups     []string
	}{
		"the least": {
			map[string]cty.Value{"cluster_name": cty.StringVal("prod")}, map[string]any{"ClusterName": "prod"}, nil, nil,
		},
		"groups and defaults": {
			map[string]cty.Value{"cluster_name": cty.StringVal("prod"), "groups": object("w", "workers")},
			map[string]any{"ClusterName": "prod"},
			nil,
			[]string{"workers"},
		},
		"IRSA, EventBridge, no events without a hook, a trigger that plans": {
			map[string]cty.Value{
				"cluster_name": cty.StringVal("prod"), "groups": object("a", "workers", "b", "batch"),
				"delivery": cty.StringVal("eventbridge"), "events": texts(), "identity": cty.StringVal("irsa"),
				"oidc_provider_arn": cty.StringVal(oidcARN), "trigger": texts(), "kms_key": object("arn", keyARN),
			},
			map[string]any{
				"ClusterName": "prod", "Groups": "batch,workers", "Delivery": "eventbridge", "SpotInterruption": "false",
				"StateChange": "false", "ScheduledChange": "false", "CapacityReservationInterruption": "false",
				"CapacityBlockExpiration": "false", "Identity": "irsa", "OidcProviderArn": oidcARN, "Trigger": "true",
				"KmsKeyArn": keyARN,
			},
			nil,
			[]string{"workers", "batch"},
		},
		"everything": {all, allParameters, map[string]any{
			"HeartbeatTimeout": 1728, "DefaultResult": "ABANDON", "LaunchHooks": "true", "LaunchHeartbeatTimeout": 60,
			"LaunchDefaultResult": "CONTINUE",
		}, []string{"workers", "batch"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := loadModule(t, "terraform").evaluate(t, tt.inputs)
			if err != nil {
				t.Fatal(err)
			}
			main := loadTemplate(t, "cloudformation/node-drainer.yaml").deploy(t, "node-drainer-prod", tt.parameters)
			outputs := byCloudFormation(main).Outputs
			var hooks []*stack
			for _, group := range tt.groups {
				parameters := map[string]any{"Group": group, "QueueArn": outputs["queue_arn"]}
				if role := outputs["hook_role_arn"]; role != nil {
					parameters["HookRoleArn"] = role
				}
				maps.Copy(parameters, tt.hooks)
				hooks = append(hooks, loadTemplate(t, "cloudformation/hooks.yaml").deploy(t, "hooks", parameters))
			}
			if diff := cmp.Diff(byTerraform(p), byCloudFormation(main, hooks...)); diff != "" {
				t.Errorf("-Terraform +CloudFormation:\n%s", diff)
			}
		})
	}
}

// TestTheInstallation: the queue, the rules and the roles are what the agent needs, and what a security team asks for.
func TestTheInstallation(t *testing.T) {
	t.Parallel()
	p, err := loadModule(t, "terraform").evaluate(t, map[string]cty.Value{
		"cluster_name": cty.StringVal("prod"), "groups": object("w", "workers"),
	})
	if err != nil {
		t.Fatal(err)
	}
	in := byTerraform(p)
	queue, dead := in.Queues["node-drainer-prod"], in.Queues["node-drainer-prod-dead"]
	for name, q := range map[string]map[string]any{"queue": queue, "dead-letter queue": dead} {
		if q["retention"] != "1209600" || q["sse"] != "true" || q["key"] != nil {
			t.Errorf("the %s is %v", name, q)
		}
		if statements := fmt.Sprint(q["policy"]); !strings.Contains(statements, "Effect:Deny") || !strings.Contains(statements, "aws:SecureTransport:false") {
			t.Errorf("the %s takes what is not encrypted on its way: %s", name, statements)
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

// TestAClusterWithDots: the name of a cluster may have dots, as kOps has it, and that of a queue may not.
func TestAClusterWithDots(t *testing.T) {
	t.Parallel()
	p, err := loadModule(t, "terraform").evaluate(t, map[string]cty.Value{"cluster_name": cty.StringVal("prod.example.com")})
	if err != nil {
		t.Fatal(err)
	}
	in := byTerraform(p)
	if in.Queues["node-drainer-prod-example-com"] == nil {
		t.Errorf("the queues are %q", slices.Sorted(maps.Keys(in.Queues)))
	}
	if policies := fmt.Sprint(in.Policies); !strings.Contains(policies, "aws:ResourceTag/kubernetes.io/cluster/prod.example.com:owned") {
		t.Errorf("the groups have another tag: %s", policies)
	}
}

// TestInputsThatAreRefused: a mistake is told when planning, and not by AWS half way through.
func TestInputsThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		variable string
		value    cty.Value
	}{
		"no name of a cluster":       {"cluster_name", cty.StringVal("")},
		"a name that is too long":    {"name", cty.StringVal(strings.Repeat("n", 53))},
		"a name that no queue has":   {"name", cty.StringVal("prod.example")},
		"a cluster's that is":        {"cluster_name", cty.StringVal(strings.Repeat("n", 40))},
		"another delivery":           {"delivery", cty.StringVal("sns")},
		"a timeout that is short":    {"heartbeat_timeout", cty.NumberIntVal(29)},
		"a timeout that is long":     {"launch_heartbeat_timeout", cty.NumberIntVal(7201)},
		"another result":             {"default_result", cty.StringVal("continue")},
		"another result of a launch": {"launch_default_result", cty.StringVal("")},
		"a kind that is none":        {"events", texts("spot")},
		"few receives":               {"max_receive_count", cty.NumberIntVal(3)},
		"a feature that is none":     {"trigger", texts("plan")},
		"another identity":           {"identity", cty.StringVal("kiam")},
		"irsa without a provider":    {"identity", cty.StringVal("irsa")},
		"a provider without irsa":    {"oidc_provider_arn", cty.StringVal(oidcARN)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inputs := map[string]cty.Value{"cluster_name": cty.StringVal("prod")}
			inputs[tt.variable] = tt.value
			if _, err := loadModule(t, "terraform").evaluate(t, inputs); !errors.Is(err, errRefused) {
				t.Errorf("%s = %#v was taken: %v", tt.variable, tt.value, err)
			}
		})
	}
}
