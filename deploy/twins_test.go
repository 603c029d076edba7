package deploy_test

import (
	"encoding/json"
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

// installation is what Terraform or CloudFormation creates in AWS, as plain data.
type installation struct {
	Queues       map[string]map[string]any // by name
	Rules        map[string]map[string]any // by name
	Roles        map[string]map[string]any // by name
	Policies     map[string]any            // of roles, by role/name
	Associations []string
	Hooks        map[string]map[string]any // by group/name
	Outputs      map[string]any
}

// normalize converts a value for comparison: JSON documents in strings, such as policies and patterns, become
// data, and numbers become strings, because CloudFormation converts some of them.
func normalize(v any) any {
	switch v := v.(type) {
	case string:
		var document map[string]any
		if json.Unmarshal([]byte(v), &document) == nil {
			return normalize(document)
		}
		return v
	case map[string]any:
		object := map[string]any{}
		for key, item := range v {
			if item != nil {
				object[key] = normalize(item)
			}
		}
		return object
	case []any:
		list := []any{}
		for _, item := range v {
			list = append(list, normalize(item))
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

// pick returns the named values of an object under other names, without missing ones.
func pick(from map[string]any, names map[string]string) map[string]any {
	picked := map[string]any{}
	for old, name := range names {
		if value := normalize(from[old]); value != nil {
			picked[name] = value
		}
	}
	return picked
}

// plain returns all instances of a resource.
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

// terraformInstallation returns what the plan creates.
func terraformInstallation(p *plan) installation {
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
		queue["policy"] = normalize(p.plain("aws_sqs_queue_policy." + name)[0]["policy"])
		if name == "dead" {
			queue["allow"] = normalize(p.plain("aws_sqs_queue_redrive_allow_policy.dead")[0]["redrive_allow_policy"])
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
			in.Policies[fmt.Sprint(policy["role"], "/", policy["name"])] = normalize(policy["policy"])
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

// cloudFormationInstallation returns what the stacks create: the main one, and one with the hooks of each
// group.
func cloudFormationInstallation(s *stack, hooks ...*stack) installation {
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
		in.Queues[url[strings.LastIndex(url, "/")+1:]]["policy"] = normalize(policy["PolicyDocument"])
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
		in.Policies[fmt.Sprint(policy["RoleName"], "/", policy["PolicyName"])] = normalize(policy["PolicyDocument"])
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

// snake converts a CloudFormation name to Terraform's style.
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

// everything returns inputs for Terraform and CloudFormation that enable all features.
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

// TestTerraformEqualsCloudFormation: both create the same for the same inputs.
func TestTerraformEqualsCloudFormation(t *testing.T) {
	t.Parallel()
	all, allParameters := everything()
	for name, tt := range map[string]struct {
		inputs     map[string]cty.Value
		parameters map[string]any
		hooks      map[string]any
		groups     []string
	}{
		"only required inputs": {
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
			outputs := cloudFormationInstallation(main).Outputs
			var hooks []*stack
			for _, group := range tt.groups {
				parameters := map[string]any{"Group": group, "QueueArn": outputs["queue_arn"]}
				if role := outputs["hook_role_arn"]; role != nil {
					parameters["HookRoleArn"] = role
				}
				maps.Copy(parameters, tt.hooks)
				hooks = append(hooks, loadTemplate(t, "cloudformation/hooks.yaml").deploy(t, "hooks", parameters))
			}
			if diff := cmp.Diff(terraformInstallation(p), cloudFormationInstallation(main, hooks...)); diff != "" {
				t.Errorf("-Terraform +CloudFormation:\n%s", diff)
			}
		})
	}
}
