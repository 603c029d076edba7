package deploy_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// template is a CloudFormation template.
type template struct {
	Version     string                    `yaml:"AWSTemplateFormatVersion"`
	Description string                    `yaml:"Description"`
	Parameters  map[string]map[string]any `yaml:"Parameters"`
	Rules       map[string]struct {
		Condition  yaml.Node `yaml:"RuleCondition"`
		Assertions []struct {
			Assert      yaml.Node `yaml:"Assert"`
			Description string    `yaml:"AssertDescription"`
		} `yaml:"Assertions"`
	} `yaml:"Rules"`
	Conditions map[string]yaml.Node `yaml:"Conditions"`
	Resources  map[string]struct {
		Type       string    `yaml:"Type"`
		Condition  string    `yaml:"Condition"`
		DependsOn  any       `yaml:"DependsOn"`
		Properties yaml.Node `yaml:"Properties"`
	} `yaml:"Resources"`
	Outputs map[string]struct {
		Description string    `yaml:"Description"`
		Condition   string    `yaml:"Condition"`
		Value       yaml.Node `yaml:"Value"`
	} `yaml:"Outputs"`
}

// loadTemplate parses a template. A section that it should not have is an error.
func loadTemplate(t *testing.T, file string) (read template) {
	t.Helper()
	text, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	decoder := yaml.NewDecoder(text)
	decoder.KnownFields(true)
	if err := decoder.Decode(&read); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return read
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

// refusals returns the rules that the parameters break.
func (s *stack) refusals() (all []string) {
	s.t.Helper()
	for _, r := range s.template.Rules {
		if !s.value(&r.Condition).(bool) {
			continue
		}
		for _, a := range r.Assertions {
			if !s.value(&a.Assert).(bool) {
				all = append(all, a.Description)
			}
		}
	}
	return all
}

// TestRulesOfTemplates: a template refuses parameters that are not whole, and does not guess.
func TestRulesOfTemplates(t *testing.T) {
	t.Parallel()
	hooks := map[string]any{"Group": "workers", "QueueArn": queueARN("q"), "HookRoleArn": roleARN("hooks")}
	without := func(name string) map[string]any {
		left := maps.Clone(hooks)
		delete(left, name)
		return left
	}
	for _, tt := range []struct {
		file       string
		parameters map[string]any
		want       string
	}{
		{"hooks", hooks, "[]"},
		{"hooks", map[string]any{"Group": "workers", "Delivery": "eventbridge"}, "[]"},
		{"hooks", without("HookRoleArn"), "[Delivery direct requires QueueArn and HookRoleArn.]"},
		{"hooks", without("QueueArn"), "[Delivery direct requires QueueArn and HookRoleArn.]"},
		{"node-drainer", map[string]any{"ClusterName": "prod"}, "[]"},
		{"node-drainer", map[string]any{"ClusterName": "prod", "Identity": "irsa"}, "[Identity irsa requires OidcProviderArn.]"},
		{"node-drainer", map[string]any{"ClusterName": "prod", "TriggerLaunch": "true"}, "[TriggerLaunch requires NodeRoles.]"},
	} {
		s := loadTemplate(t, "cloudformation/"+tt.file+".yaml").deploy(t, "stack", tt.parameters)
		if got := fmt.Sprint(s.refusals()); got != tt.want {
			t.Errorf("%s with %v: %s, want %s", tt.file, tt.parameters, got, tt.want)
		}
	}
}

// resources returns the created resources of a type.
func (s *stack) resources(kind string) (all []map[string]any) {
	s.t.Helper()
	for _, r := range s.template.Resources {
		if r.Type == kind && (r.Condition == "" || s.condition(r.Condition)) {
			all = append(all, s.value(&r.Properties).(map[string]any))
		}
	}
	return all
}

func (s *stack) condition(name string) bool {
	s.t.Helper()
	c, ok := s.template.Conditions[name]
	if !ok {
		s.t.Fatalf("there is no condition %s", name)
	}
	return s.value(&c).(bool)
}

// value resolves the functions in a value: tags, and mappings whose only key is the name of a function.
func (s *stack) value(n *yaml.Node) any {
	s.t.Helper()
	if n.Kind == yaml.MappingNode && len(n.Content) == 2 && strings.HasPrefix(n.Content[0].Value, "Fn::") {
		return s.call(strings.TrimPrefix(n.Content[0].Value, "Fn::"), n.Content[1])
	}
	if !strings.HasPrefix(n.Tag, "!!") {
		return s.call(strings.TrimPrefix(n.Tag, "!"), n)
	}
	switch n.Kind {
	case yaml.MappingNode:
		object := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			if item := s.value(n.Content[i+1]); item != any(noValue{}) {
				object[n.Content[i].Value] = item
			}
		}
		return object
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			list = append(list, s.value(item))
		}
		return list
	}
	var value any
	if err := n.Decode(&value); err != nil {
		s.t.Fatal(err)
	}
	return value
}

func (s *stack) call(name string, args *yaml.Node) any {
	s.t.Helper()
	list := args.Content
	switch name {
	case "Ref":
		return s.ref(args.Value)
	case "Condition":
		return s.condition(args.Value)
	case "GetAtt":
		return s.attribute(args.Value)
	case "If":
		if s.condition(list[0].Value) {
			return s.value(list[1])
		}
		return s.value(list[2])
	case "Equals":
		return fmt.Sprint(s.value(list[0])) == fmt.Sprint(s.value(list[1]))
	case "Not":
		return !s.value(list[0]).(bool)
	case "And":
		return !slices.ContainsFunc(list, func(one *yaml.Node) bool { return !s.value(one).(bool) })
	case "Or":
		return slices.ContainsFunc(list, func(one *yaml.Node) bool { return s.value(one).(bool) })
	case "Contains":
		return slices.Contains(strings.Split(join(s.value(list[0]), ","), ","), list[1].Value)
	case "Join":
		return join(s.value(list[1]), list[0].Value)
	case "Split":
		return strings.Split(s.value(list[1]).(string), list[0].Value)
	case "Select":
		return s.value(list[1]).([]string)[s.value(list[0]).(int)]
	case "Sub":
		return s.substitute(args)
	}
	s.t.Fatalf("%s is not known here", name)
	return nil
}

// join joins the items of a list: a parameter's, or one with functions.
func join(list any, separator string) string {
	if texts, is := list.([]string); is {
		return strings.Join(texts, separator)
	}
	var texts []string
	for _, item := range list.([]any) {
		texts = append(texts, item.(string))
	}
	return strings.Join(texts, separator)
}

// substitute replaces the placeholders in a string, or in the first of a list, whose second has values for them.
func (s *stack) substitute(args *yaml.Node) string {
	s.t.Helper()
	text, more := args.Value, map[string]any{}
	if args.Kind == yaml.SequenceNode {
		text, more = args.Content[0].Value, s.value(args.Content[1]).(map[string]any)
	}
	return regexp.MustCompile(`\$\{[^}]+\}`).ReplaceAllStringFunc(text, func(place string) string {
		name := strings.Trim(place, "${}")
		if value, ok := more[name]; ok {
			return fmt.Sprint(value)
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
	return s.value(&r.Properties).(map[string]any)[property].(string)
}

func (s *stack) attribute(of string) any {
	s.t.Helper()
	name, attribute, _ := strings.Cut(of, ".")
	r := s.template.Resources[name]
	arn := map[string]func(string) string{"AWS::SQS::Queue": queueARN, "AWS::IAM::Role": roleARN}[r.Type]
	if arn == nil || attribute != "Arn" || r.Condition != "" && !s.condition(r.Condition) {
		s.t.Fatalf("%s has no %s here", name, attribute)
	}
	return arn(s.physical(name))
}
