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

// installation is what Terraform or CloudFormation creates in AWS, as plain data: the resources by Terraform's name of
// their type, and the outputs.
type installation struct {
	Resources map[string][]map[string]any
	Outputs   map[string]any
}

// counterpart is a type of resource in both, with the properties that are compared: Terraform's name of each, and
// CloudFormation's, which is a path.
type counterpart struct {
	terraform, cloudFormation string
	properties                map[string]string
}

func counterparts() []counterpart {
	return []counterpart{
		{"aws_sqs_queue", "AWS::SQS::Queue", map[string]string{
			"name": "QueueName", "message_retention_seconds": "MessageRetentionPeriod",
			"max_message_size":          "MaximumMessageSize",
			"receive_wait_time_seconds": "ReceiveMessageWaitTimeSeconds", "sqs_managed_sse_enabled": "SqsManagedSseEnabled",
			"kms_master_key_id": "KmsMasterKeyId", "redrive_policy": "RedrivePolicy", "redrive_allow_policy": "RedriveAllowPolicy",
		}},
		{"aws_sqs_queue_policy", "AWS::SQS::QueuePolicy", map[string]string{"queue_url": "Queues.0", "policy": "PolicyDocument"}},
		{"aws_cloudwatch_event_rule", "AWS::Events::Rule", map[string]string{
			"name": "Name", "description": "Description", "event_pattern": "EventPattern",
		}},
		{"aws_cloudwatch_event_target", "AWS::Events::Rule", map[string]string{
			"rule": "Name", "target_id": "Targets.0.Id", "arn": "Targets.0.Arn",
		}},
		{"aws_iam_role", "AWS::IAM::Role", map[string]string{
			"name": "RoleName", "description": "Description", "assume_role_policy": "AssumeRolePolicyDocument",
			"permissions_boundary": "PermissionsBoundary",
		}},
		{"aws_iam_role_policy", "AWS::IAM::RolePolicy", map[string]string{
			"role": "RoleName", "name": "PolicyName", "policy": "PolicyDocument",
		}},
		{"aws_eks_pod_identity_association", "AWS::EKS::PodIdentityAssociation", map[string]string{
			"cluster_name": "ClusterName", "namespace": "Namespace", "service_account": "ServiceAccount", "role_arn": "RoleArn",
		}},
		{"aws_autoscaling_lifecycle_hook", "AWS::AutoScaling::LifecycleHook", map[string]string{
			"autoscaling_group_name": "AutoScalingGroupName", "name": "LifecycleHookName",
			"lifecycle_transition": "LifecycleTransition", "heartbeat_timeout": "HeartbeatTimeout",
			"default_result": "DefaultResult", "notification_target_arn": "NotificationTargetARN", "role_arn": "RoleARN",
		}},
	}
}

// add adds a resource, as its properties are under both names: value returns the one of a name.
func (in installation) add(c counterpart, value func(terraform, cloudFormation string) any) {
	resource := map[string]any{}
	for terraform, cloudFormation := range c.properties {
		if v := normalize(value(terraform, cloudFormation)); v != nil {
			resource[terraform] = v
		}
	}
	all := append(in.Resources[c.terraform], resource)
	slices.SortFunc(all, func(x, y map[string]any) int { return strings.Compare(fmt.Sprint(x), fmt.Sprint(y)) })
	in.Resources[c.terraform] = all
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

// plain returns all instances of a type of resource.
func (p *plan) plain(kind string) (all []map[string]any) {
	p.t.Helper()
	for address, instances := range p.instances {
		for key, values := range instances {
			instance := map[string]any{"address": address, "key": key}
			for name, value := range values {
				instance[name] = data(p.t, value)
			}
			if strings.HasPrefix(address, kind+".") {
				all = append(all, instance)
			}
		}
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
	in := installation{map[string][]map[string]any{}, map[string]any{}}
	for _, c := range counterparts() {
		for _, r := range p.plain(c.terraform) {
			for _, allow := range p.plain("aws_sqs_queue_redrive_allow_policy") {
				if allow["queue_url"] == r["url"] { // Terraform has it as a resource of its own.
					r["redrive_allow_policy"] = allow["redrive_allow_policy"]
				}
			}
			in.add(c, func(name, _ string) any { return r[name] })
		}
	}
	for name, value := range p.scope["output"] {
		if value := data(p.t, value); value != nil && !strings.HasSuffix(name, "_policy") { // CloudFormation has no policies as outputs.
			in.Outputs[name] = value
		}
	}
	return in
}

// cloudFormationInstallation returns what the stacks create: the main one, and one with the hooks of each
// group.
func cloudFormationInstallation(s *stack, hooks ...*stack) installation {
	s.t.Helper()
	in := installation{map[string][]map[string]any{}, map[string]any{}}
	for _, c := range counterparts() {
		for _, of := range append(hooks, s) {
			for _, r := range of.resources(c.cloudFormation) {
				in.add(c, func(_, path string) any { return lookup(r, path) })
			}
		}
	}
	for name, o := range s.template.Outputs {
		if o.Condition == "" || s.condition(o.Condition) {
			in.Outputs[snake(name)] = s.value(&o.Value)
		}
	}
	return in
}

// lookup returns what is at a path, such as Targets.0.Arn, or nil.
func lookup(v any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		if list, is := v.([]any); is {
			v = list[name[0]-'0']
		} else {
			v = v.(map[string]any)[name]
		}
	}
	return v
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

const (
	oidcARN = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-central-1.amazonaws.com/id/EXAMPLE"
	keyARN  = "arn:aws:kms:eu-central-1:123456789012:key/01234567-89ab-cdef-0123-456789abcdef"
)

func launchTemplateARN(id string) string {
	return "arn:aws:ec2:eu-central-1:123456789012:launch-template/" + id
}

// everything returns inputs for Terraform and CloudFormation that enable all features.
func everything() (map[string]any, map[string]any) {
	inputs := map[string]any{
		"cluster_name": "prod", "groups": map[string]string{"one": "workers", "two": "batch"},
		"group_tag_key": "eks:cluster-name", "group_tag_value": "prod",
		"heartbeat_timeout": 1728, "default_result": "ABANDON",
		"launch_hooks": true, "launch_heartbeat_timeout": 60, "launch_default_result": "ABANDON",
		"events": []string{
			"spot-interruption", "rebalance-recommendation", "state-change", "scheduled-change",
			"capacity-reservation-interruption", "capacity-block-expiration", "alarm",
		},
		"senders": []string{roleARN("redrive"), roleARN("other-hooks")},
		"replace": true, "max_receive_count": 50, "kms_key": map[string]string{"arn": keyARN},
		"namespace": "drain", "service_account": "agent",
		"trigger": []string{"refresh", "launch", "unhealthy", "surge", "standby", "nodegroup", "raise-max", "suspend", "watch"}, "max_size": 50,
		"launch_templates": []string{launchTemplateARN("lt-1"), launchTemplateARN("lt-2")}, "node_roles": []string{roleARN("a"), roleARN("b")},
		"trigger_service_account": "trigger", "permissions_boundary_arn": "arn:aws:iam::123456789012:policy/b",
	}
	parameters := map[string]any{
		"ClusterName": "prod", "GroupTagKey": "eks:cluster-name", "GroupTagValue": "prod", "LaunchHooks": "true",
		"Senders":                 roleARN("redrive") + "," + roleARN("other-hooks"),
		"RebalanceRecommendation": "true", "Alarm": "true", "Replace": "true", "MaxReceiveCount": 50, "KmsKeyArn": keyARN,
		"Namespace": "drain", "ServiceAccount": "agent", "Trigger": "true", "TriggerRefresh": "true",
		"TriggerLaunch": "true", "LaunchTemplates": launchTemplateARN("lt-1") + "," + launchTemplateARN("lt-2"), "NodeRoles": roleARN("a") + "," + roleARN("b"),
		"TriggerUnhealthy": "true", "TriggerSurge": "true", "TriggerStandby": "true", "TriggerNodegroup": "true", "TriggerRaiseMax": "true", "MaxSize": 50, "TriggerSuspend": "true", "TriggerWatch": "true", "TriggerServiceAccount": "trigger",
		"PermissionsBoundaryArn": "arn:aws:iam::123456789012:policy/b",
	}
	return inputs, parameters
}

// TestTerraformEqualsCloudFormation: both create the same for the same inputs.
func TestTerraformEqualsCloudFormation(t *testing.T) {
	t.Parallel()
	all, allParameters := everything()
	for name, tt := range map[string]struct {
		inputs     map[string]any
		parameters map[string]any
		hooks      map[string]any
		groups     []string
	}{
		"groups and defaults": {
			map[string]any{"cluster_name": "prod", "groups": map[string]string{"w": "workers"}},
			map[string]any{"ClusterName": "prod"},
			nil,
			[]string{"workers"},
		},
		"IRSA, EventBridge, no events without a hook, a trigger that plans and may launch": {
			map[string]any{
				"cluster_name": "prod", "groups": map[string]string{"a": "workers", "b": "batch"},
				"delivery": "eventbridge", "events": []string{}, "identity": "irsa",
				"oidc_provider_arn": oidcARN, "trigger": []string{"launch"}, "node_roles": []string{roleARN("nodes")}, "kms_key": map[string]string{"arn": keyARN},
				"launch_hooks": true,
			},
			map[string]any{
				"ClusterName": "prod", "Groups": "batch,workers", "Delivery": "eventbridge", "SpotInterruption": "false",
				"StateChange": "false", "ScheduledChange": "false", "CapacityReservationInterruption": "false",
				"CapacityBlockExpiration": "false", "Identity": "irsa", "OidcProviderArn": oidcARN, "Trigger": "true",
				"TriggerLaunch": "true", "NodeRoles": roleARN("nodes"),
				"KmsKeyArn": keyARN, "LaunchHooks": "true",
			},
			map[string]any{"LaunchHooks": "true"},
			[]string{"workers", "batch"},
		},
		"everything": {all, allParameters, map[string]any{
			"HeartbeatTimeout": 1728, "DefaultResult": "ABANDON", "LaunchHooks": "true", "LaunchHeartbeatTimeout": 60,
			"LaunchDefaultResult": "ABANDON",
		}, []string{"workers", "batch"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			main := loadTemplate(t, "cloudformation/node-drainer.yaml").deploy(t, "node-drainer-prod", tt.parameters)
			outputs := cloudFormationInstallation(main).Outputs
			var hooks []*stack
			for _, group := range tt.groups {
				parameters := map[string]any{"Group": group, "QueueArn": outputs["queue_arn"]}
				if role := outputs["hook_role_arn"]; role != nil {
					parameters["HookRoleArn"] = role
				} else {
					parameters["Delivery"] = "eventbridge"
				}
				maps.Copy(parameters, tt.hooks)
				hooks = append(hooks, loadTemplate(t, "cloudformation/hooks.yaml").deploy(t, "hooks", parameters))
			}
			if diff := cmp.Diff(terraformInstallation(planOf(t, tt.inputs)), cloudFormationInstallation(main, hooks...)); diff != "" {
				t.Errorf("-Terraform +CloudFormation:\n%s", diff)
			}
		})
	}
}
