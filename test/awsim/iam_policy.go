package awsim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The conditions that are simulated: tags of the resource, the keys of the tags that a call sets or deletes, and
// what launches are limited by.
const (
	ofResource = "aws:ResourceTag/"
	ofTagKeys  = "aws:TagKeys"
	forAllKeys = "ForAllValues:StringEquals"
	atMost     = "NumericLessThanEquals"
	ofAbsence  = "Null"
	ifKnown    = "BoolIfExists"

	forAllKeysLike = "ForAllValues:StringLike"
)

// The action whose parameters are condition keys (Service Authorization Reference, Amazon EC2 Auto Scaling).
const (
	actionUpdate = "autoscaling:UpdateAutoScalingGroup"
	keyMaxSize   = "autoscaling:MaxSize"
	keyVersion   = "autoscaling:LaunchTemplateVersionSpecified"
)

// actionRule is about a rule, and the other action of EventBridge that is simulated about none (Service Authorization
// Reference, Amazon EventBridge).
const actionRule = "events:DescribeRule"

// updateKeys are the condition keys of parameters of actionUpdate, but for keyVersion, with these parameters. No call
// here has distribution segments.
func updateKeys() map[string]string {
	const (
		reservation = "CapacityReservationSpecification.CapacityReservationTarget."
		override    = "MixedInstancesPolicy.LaunchTemplate.Overrides.member.1."
	)
	return map[string]string{
		keyMaxSize: "MaxSize", "autoscaling:MinSize": "MinSize",
		"autoscaling:LaunchConfigurationName":              "LaunchConfigurationName",
		"autoscaling:VPCZoneIdentifiers":                   "VPCZoneIdentifier",
		"autoscaling:InstanceTypes":                        override + "InstanceType",
		"autoscaling:ImageId":                              override + "ImageId",
		"autoscaling:CapacityReservationIds":               reservation + "CapacityReservationIds.member.1",
		"autoscaling:CapacityReservationResourceGroupArns": reservation + "CapacityReservationResourceGroupArns.member.1",
		"autoscaling:TargetCapacityTypes":                  "",
	}
}

// updateCondition reports whether the operator and the key are simulated for actionUpdate.
func updateCondition(operator, key, action string) bool {
	_, parameter := updateKeys()[key]
	return action == actionUpdate && (operator == atMost && key == keyMaxSize ||
		operator == ofAbsence && parameter || operator == ifKnown && key == keyVersion)
}

// updateContext has the condition keys of the parameters that a call has. AWS does not document whether a call without
// a launch template has keyVersion.
func updateContext(r *reader) map[string]string {
	known := map[string]string{}
	for key, name := range updateKeys() {
		if r.has(name) {
			known[key] = r.text(name)
		}
	}
	if from := readSource(r, "", source{}); from.isSet() {
		known[keyVersion] = strconv.FormatBool(!from.template.isMoving())
	}
	return known
}

// isAtMost reports whether a number is at most the limit.
func isAtMost(value, limit string) bool {
	n, err := strconv.Atoi(value)
	most, errMost := strconv.Atoi(limit)
	return err == nil && errMost == nil && n <= most
}

// statement is one of a policy. It only ever allows.
type statement struct {
	Sid         string
	Effect      string
	Action      texts
	Resource    texts
	NotResource texts // All but these.
	Condition   map[string]map[string]texts
}

// texts is a list in a policy, which may be a single text.
type texts []string

// UnmarshalJSON reads either.
func (t *texts) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*t = texts{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(t))
}

// readPolicy returns the policy's statements, or an error if anything in it is not simulated.
func (s *IAM) readPolicy(policy string) ([]statement, error) {
	var document struct {
		Version   string
		Statement []statement
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(policy)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&document); err != nil {
		return nil, fmt.Errorf("it is no policy that is simulated here: %w", err)
	}
	if document.Version != "2012-10-17" {
		return nil, fmt.Errorf("its Version is %q", document.Version)
	}
	for _, st := range document.Statement {
		if err := s.checkStatement(st); err != nil {
			return nil, fmt.Errorf("statement %q: %w", st.Sid, err)
		}
	}
	return document.Statement, nil
}

func (s *IAM) checkStatement(st statement) error {
	switch {
	case st.Effect != "Allow":
		return fmt.Errorf("the Effect %q is not simulated", st.Effect)
	case len(st.Action) == 0 || (len(st.Resource) == 0) == (len(st.NotResource) == 0):
		return fmt.Errorf("it has no Action or no Resource")
	}
	for _, on := range slices.Concat(st.Resource, st.NotResource) {
		if on != "*" && !strings.HasPrefix(on, "arn:") || strings.Contains(on, "${") {
			return fmt.Errorf("the Resource %q is not simulated", on)
		}
	}
	for _, action := range st.Action {
		if err := s.checkAction(action, st); err != nil {
			return err
		}
	}
	return nil
}

// checkAction is an error if the statement could never allow the action.
func (s *IAM) checkAction(action string, st statement) error {
	onAll := len(st.Resource) == 1 && st.Resource[0] == "*" && len(st.Condition) == 0
	switch {
	case !s.knows(action):
		return fmt.Errorf("the action %q is not simulated", action)
	case !onResources(action) && !onAll:
		return fmt.Errorf("AWS can allow %s on * alone, and without a condition", action)
	}
	for operator, keys := range st.Condition {
		for key := range keys {
			if !simulated(operator, key, action) {
				return fmt.Errorf("the condition %s of %s is not simulated for %s", operator, key, action)
			}
		}
	}
	return nil
}

// simulated reports whether a condition is simulated for an action.
func simulated(operator, key, action string) bool {
	switch operator {
	case "StringEquals":
		tagged := onGroups(action) || onMachines(action)
		return tagged && strings.HasPrefix(key, ofResource) || launchCondition(operator, key, action)
	case "ArnLike", "Bool":
		return launchCondition(operator, key, action)
	case atMost, ifKnown:
		return updateCondition(operator, key, action)
	case ofAbsence:
		return updateCondition(operator, key, action) || tagsCondition(key, action)
	case forAllKeys, forAllKeysLike:
		return tagsCondition(key, action)
	}
	return false
}

// tagsCondition reports whether the key is that of the tags which a call sets or deletes.
func tagsCondition(key, action string) bool {
	return onGroups(action) && strings.HasSuffix(action, "Tags") && key == ofTagKeys
}

// knows reports whether a simulated call needs the action.
func (s *IAM) knows(action string) bool {
	for _, service := range s.server.services {
		for name := range service.actions {
			if permission(service.name, name) == action {
				return true
			}
		}
	}
	return toLaunch(action)
}

// onResources reports whether a statement can limit the action to some resources.
func onResources(action string) bool {
	service, _, _ := strings.Cut(action, ":")
	return onGroups(action) || onMachines(action) || toLaunch(action) || action == actionRule ||
		contains([]string{"sqs", eksName, "ssm"}, service)
}

// onGroups reports whether the action is about an Auto Scaling group, so that it can be limited to some. What
// describes is about all (Service Authorization Reference, Amazon EC2 Auto Scaling).
func onGroups(action string) bool {
	name, ours := strings.CutPrefix(action, "autoscaling:")
	return ours && !strings.HasPrefix(name, "Describe")
}
