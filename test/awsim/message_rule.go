package awsim

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// rule sends the bus's events that match a pattern to a queue or a topic.
type rule struct {
	name    string
	target  string
	pattern map[string]any // As in JSON.

	disabled bool
}

// AddRule makes the account's event bus send events to a queue, or to a topic and so to its queues. Without
// detail types the rule matches every event.
func (s EventBridge) AddRule(targetARN string, detailTypes ...string) {
	s.AddNamedRule("all", targetARN, detailTypes...)
}

// AddNamedRule is AddRule with a name, which the queue's policy sees in the ARN of the rule.
func (s EventBridge) AddNamedRule(name, targetARN string, detailTypes ...string) {
	pattern := map[string]any{}
	for _, detailType := range detailTypes {
		types, _ := pattern["detail-type"].([]any)
		pattern["detail-type"] = append(types, detailType)
	}
	s.addRule(rule{name: name, target: targetARN, pattern: pattern})
}

// PutRule is AddNamedRule with an event pattern of EventBridge, such as one of a cluster's groups:
//
//	{"source": ["aws.autoscaling"], "detail": {"AutoScalingGroupName": ["a", "b"], "LifecycleHookName": ["drain"]}}
//
// Values, prefix and anything-but are simulated. What else a pattern has is an error.
func (s EventBridge) PutRule(name, targetARN, pattern string) error {
	r := rule{name: name, target: targetARN}
	err := json.Unmarshal([]byte(pattern), &r.pattern)
	if err == nil {
		err = checkPattern(r.pattern)
	}
	if err != nil {
		return fmt.Errorf("awsim: the pattern of rule %s: %w", name, err)
	}
	s.addRule(r)
	return nil
}

// DisableRule keeps a rule from sending.
func (s EventBridge) DisableRule(name string) {
	s.asg.update(func() {
		for i := range s.asg.rules {
			s.asg.rules[i].disabled = s.asg.rules[i].disabled || s.asg.rules[i].name == name
		}
	})
}

func (s EventBridge) addRule(r rule) {
	s.asg.update(func() { s.asg.rules = append(s.asg.rules, r) })
}

func checkPattern(pattern map[string]any) error {
	for _, key := range sortedKeys(pattern) {
		var err error
		switch wanted := pattern[key].(type) {
		case map[string]any:
			err = checkPattern(wanted)
		case []any:
			err = checkValues(wanted)
		default:
			err = fmt.Errorf("%s is neither a list nor an object", key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func checkValues(wanted []any) error {
	for _, value := range wanted {
		operators, is := value.(map[string]any)
		if !is {
			continue
		}
		_, prefix := operators["prefix"].(string)
		_, except := operators["anything-but"]
		if len(operators) != 1 || !prefix && !except {
			return fmt.Errorf("%v is not simulated", operators)
		}
	}
	return nil
}

// matches reports whether EventBridge sends the event to the rule's target.
func (r rule) matches(event map[string]any) bool { return !r.disabled && Matches(r.pattern, event) }

// Matches reports whether an event pattern of EventBridge matches an event, both as decoded from JSON.
func Matches(pattern, event map[string]any) bool {
	for key, wanted := range pattern {
		switch wanted := wanted.(type) {
		case map[string]any:
			inner, is := event[key].(map[string]any)
			if !is || !Matches(wanted, inner) {
				return false
			}
		case []any:
			if !slices.ContainsFunc(listOf(event[key]), func(value any) bool { return isWanted(wanted, value) }) {
				return false
			}
		}
	}
	return true
}

// listOf returns the elements of a list, a value that is no list as one, and nothing for nil.
func listOf(value any) []any {
	if value == nil {
		return nil
	}
	if list, is := value.([]any); is {
		return list
	}
	return []any{value}
}

// isWanted reports whether one of the wanted values of a pattern allows a value.
func isWanted(wanted []any, value any) bool {
	return slices.ContainsFunc(wanted, func(want any) bool {
		operators, is := want.(map[string]any)
		if !is {
			return reflect.DeepEqual(want, value)
		}
		if except, is := operators["anything-but"]; is {
			return !isWanted(listOf(except), value)
		}
		prefix, _ := operators["prefix"].(string)
		text, is := value.(string)
		return is && strings.HasPrefix(text, prefix)
	})
}
