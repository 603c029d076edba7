package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// template is a CloudFormation template, with its functions in the long form.
type template struct {
	Parameters map[string]map[string]any
	Conditions map[string]any
	Resources  map[string]struct {
		Type       string
		Condition  string
		DependsOn  any
		Properties map[string]any
	}
	Outputs map[string]struct {
		Description string
		Condition   string
		Value       any
	}
	AWSTemplateFormatVersion string
	Description              string
	Rules                    map[string]any
}

// loadTemplate parses a template. A section that it should not have is an error.
func loadTemplate(t *testing.T, file string) template {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	document, err := json.Marshal(long(t, root.Content[0]))
	if err != nil {
		t.Fatal(err)
	}
	var read template
	decoder := json.NewDecoder(strings.NewReader(string(document)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&read); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return read
}

// long returns a node with !Ref as {Ref: ...} and any other tag as {Fn::...: ...}.
func long(t *testing.T, node *yaml.Node) any {
	t.Helper()
	name, short := strings.CutPrefix(node.Tag, "!")
	short = short && !strings.HasPrefix(name, "!")
	value := plain(t, node, short)
	switch {
	case !short:
		return value
	case name == "Ref" || name == "Condition":
		return map[string]any{name: value}
	case name == "GetAtt":
		return map[string]any{"Fn::GetAtt": strings.Split(value.(string), ".")}
	}
	return map[string]any{"Fn::" + name: value}
}

func plain(t *testing.T, node *yaml.Node, tagged bool) any {
	t.Helper()
	switch node.Kind {
	case yaml.MappingNode:
		object := map[string]any{}
		for i := 0; i < len(node.Content); i += 2 {
			object[node.Content[i].Value] = long(t, node.Content[i+1])
		}
		return object
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range node.Content {
			list = append(list, long(t, item))
		}
		return list
	}
	if tagged {
		return node.Value
	}
	var value any
	if err := node.Decode(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// stack is a template with values for its parameters.
type stack struct {
	t          *testing.T
	template   template
	name       string
	parameters map[string]any
}

// noValue is AWS::NoValue, which removes a property.
type noValue struct{}

// deploy checks the parameters as CloudFormation does, and returns the stack.
func (c template) deploy(t *testing.T, name string, parameters map[string]any) *stack {
	t.Helper()
	s := &stack{t, c, name, map[string]any{}}
	for parameter, given := range parameters {
		allowed, limited := c.Parameters[parameter]["AllowedValues"].([]any)
		if c.Parameters[parameter] == nil || limited && !slices.Contains(allowed, given) {
			t.Fatalf("there is no parameter %s, or it may not be %v", parameter, given)
		}
		s.parameters[parameter] = given
	}
	for parameter, about := range c.Parameters {
		if _, given := s.parameters[parameter]; !given {
			if _, optional := about["Default"]; !optional {
				t.Fatalf("the parameter %s is missing", parameter)
			}
			s.parameters[parameter] = about["Default"]
		}
	}
	return s
}

// resources returns the created resources of a type, by logical name.
func (s *stack) resources(kind string) map[string]map[string]any {
	s.t.Helper()
	found := map[string]map[string]any{}
	for name, r := range s.template.Resources {
		if r.Type == kind && (r.Condition == "" || s.condition(r.Condition)) {
			found[name] = s.value(r.Properties).(map[string]any)
		}
	}
	return found
}

func (s *stack) condition(name string) bool {
	s.t.Helper()
	c, ok := s.template.Conditions[name]
	if !ok {
		s.t.Fatalf("there is no condition %s", name)
	}
	return s.value(c).(bool)
}

// value resolves the functions in a value.
func (s *stack) value(v any) any {
	s.t.Helper()
	switch v := v.(type) {
	case []any:
		list := []any{}
		for _, item := range v {
			if item = s.value(item); !isNoValue(item) {
				list = append(list, item)
			}
		}
		return list
	case map[string]any:
		for name, args := range v {
			if len(v) == 1 && (name == "Ref" || name == "Condition" || strings.HasPrefix(name, "Fn::")) {
				return s.call(name, args)
			}
		}
		object := map[string]any{}
		for key, item := range v {
			if item = s.value(item); !isNoValue(item) {
				object[key] = item
			}
		}
		return object
	}
	return v
}

func isNoValue(v any) bool {
	_, is := v.(noValue)
	return is
}

func (s *stack) call(name string, args any) any {
	s.t.Helper()
	list, _ := args.([]any)
	switch name {
	case "Ref":
		return s.ref(args.(string))
	case "Condition":
		return s.condition(args.(string))
	case "Fn::GetAtt":
		return s.attribute(fmt.Sprint(list[0]), fmt.Sprint(list[1]))
	case "Fn::If":
		if s.condition(list[0].(string)) {
			return s.value(list[1])
		}
		return s.value(list[2])
	case "Fn::Equals":
		return fmt.Sprint(s.value(list[0])) == fmt.Sprint(s.value(list[1]))
	case "Fn::Not":
		return !s.value(list[0]).(bool)
	case "Fn::And":
		return !slices.ContainsFunc(list, func(one any) bool { return !s.value(one).(bool) })
	case "Fn::Split":
		return strings.Split(s.value(list[1]).(string), list[0].(string))
	case "Fn::Select":
		return s.value(list[1]).([]string)[int(list[0].(float64))]
	case "Fn::Sub":
		return s.substitute(args)
	}
	s.t.Fatalf("%s is not known here", name)
	return nil
}

func (s *stack) substitute(args any) string {
	s.t.Helper()
	more := map[string]any{}
	text, short := args.(string)
	if !short {
		text, more = args.([]any)[0].(string), args.([]any)[1].(map[string]any)
	}
	return regexp.MustCompile(`\$\{[^}]+\}`).ReplaceAllStringFunc(text, func(place string) string {
		name := strings.Trim(place, "${}")
		if value, ok := more[name]; ok {
			return fmt.Sprint(s.value(value))
		}
		return fmt.Sprint(s.ref(name))
	})
}

func (s *stack) ref(name string) any {
	s.t.Helper()
	pseudo := map[string]any{
		"AWS::Partition": "aws", "AWS::Region": "eu-central-1", "AWS::AccountId": "123456789012", "AWS::StackName": s.name,
		"AWS::NoValue": noValue{},
	}
	if value, ok := pseudo[name]; ok {
		return value
	}
	if value, ok := s.parameters[name]; ok {
		if list, is := value.(string); is && s.template.Parameters[name]["Type"] == "CommaDelimitedList" {
			return strings.Split(list, ",")
		}
		return value
	}
	r, ok := s.template.Resources[name]
	if !ok {
		s.t.Fatalf("there is no %s", name)
	}
	if r.Type == "AWS::SQS::Queue" {
		return queueURL(s.physical(name))
	}
	return s.physical(name)
}

// physical returns the name of a resource in AWS.
func (s *stack) physical(name string) string {
	s.t.Helper()
	r := s.template.Resources[name]
	property := map[string]string{"AWS::SQS::Queue": "QueueName", "AWS::IAM::Role": "RoleName", "AWS::Events::Rule": "Name"}[r.Type]
	return s.value(r.Properties[property]).(string)
}

func (s *stack) attribute(name, attribute string) any {
	s.t.Helper()
	r := s.template.Resources[name]
	if attribute != "Arn" || r.Condition != "" && !s.condition(r.Condition) {
		s.t.Fatalf("%s has no %s", name, attribute)
	}
	switch r.Type {
	case "AWS::SQS::Queue":
		return queueARN(s.physical(name))
	case "AWS::IAM::Role":
		return roleARN(s.physical(name))
	}
	s.t.Fatalf("%s has no Arn here", name)
	return nil
}
