package config

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Variable is one environment variable.
type Variable struct {
	Name     string
	Group    string // The prefix of its name, if others have the same one: QUEUE_, DRAIN_.
	Default  string
	Required bool
	Help     string
	Values   []string // The allowed values, if it has only a few.
	Min, Max string   // The bounds of the value; both are empty if it has none.
	Why      string   // The reason for Max; may be empty.
	Secret   bool     // The value must not be shown.
	Type     reflect.Type
}

// Variables returns the agent's environment variables, in the order of the structs that they are read into.
func Variables() []Variable { return variables(reflect.TypeFor[Agent](), "") }

func variables(t reflect.Type, prefix string) []Variable {
	var out []Variable
	for f := range t.Fields() {
		if p, nested := f.Tag.Lookup("envPrefix"); nested {
			out = append(out, variables(f.Type, prefix+p)...)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("env"), ",")
		out = append(out, Variable{
			Name:     prefix + name,
			Group:    prefix,
			Default:  f.Tag.Get("envDefault"),
			Required: slices.Contains(strings.Split(options, ","), "required"),
			Help:     f.Tag.Get("help"),
			Values:   text.Split(f.Tag.Get("values")),
			Min:      f.Tag.Get("min"),
			Max:      f.Tag.Get("max"),
			Why:      f.Tag.Get("why"),
			Secret:   f.Tag.Get("secret") == "true",
			Type:     f.Type,
		})
	}
	return out
}

// checkAll returns the variables that are required and not set, or have a value that their type or their tags
// do not allow, with an error for each. The errors of the library that parses the variables name the field,
// which users do not know.
func checkAll(values map[string]string) (names []string, errs []error) {
	for _, v := range Variables() {
		if err := v.check(values[v.Name]); err != nil {
			names, errs = append(names, v.Name), append(errs, err)
		}
	}
	return names, errs
}

// check returns what is wrong with the value; empty is not set.
func (v Variable) check(value string) error {
	switch {
	case value == "" && v.Required:
		return fmt.Errorf("%s is required. %s", v.Name, v.Help)
	case value == "":
		return nil
	case v.Type == reflect.TypeFor[time.Duration]():
		return checkNumber(v, value, "a duration with a unit, for example 90s, 15m or 2h", time.ParseDuration)
	case v.Type.Kind() == reflect.Int:
		return checkNumber(v, value, "a whole number of at most 2147483647", parseInt)
	case v.Type == reflect.TypeFor[refresh.Amount]():
		if _, err := refresh.ParseAmount(value); err != nil {
			return v.mustBe(value, "a number, for example 2, or a share, for example 20%")
		}
	case v.Type.Kind() == reflect.Bool:
		if _, err := strconv.ParseBool(value); err != nil {
			return v.mustBe(value, "true or false")
		}
	case len(v.Values) > 0 && !slices.Contains(v.Values, value):
		last := len(v.Values) - 1
		return v.mustBe(value, strings.Join(v.Values[:last], ", ")+" or "+v.Values[last])
	}
	return nil
}

func (v Variable) mustBe(value, form string) error {
	return fmt.Errorf("%s is %q: must be %s", v.Name, value, form)
}

func parseInt(s string) (int64, error) { return strconv.ParseInt(s, 10, 32) }

// checkNumber returns an error if the value does not have the form that parse requires, or is not from v.Min
// to v.Max.
func checkNumber[T time.Duration | int64](v Variable, value, form string, parse func(string) (T, error)) error {
	number, err := parse(value)
	if err != nil {
		return v.mustBe(value, form)
	}
	if v.Max == "" {
		return nil
	}
	least, _ := parse(v.Min)
	most, _ := parse(v.Max)
	if number < least || number > most {
		because := strings.TrimSuffix(", "+v.Why, ", ")
		return fmt.Errorf("%s is %v: must be from %s to %s%s", v.Name, number, v.Min, v.Max, because)
	}
	return nil
}

// intro precedes the list of variables.
const intro = `node-drainer agent: drains Kubernetes nodes before EC2 Auto Scaling terminates their instances.

It is configured by environment variables only. In addition to those below it reads the standard
ones of the AWS SDK (AWS_REGION, AWS_ROLE_ARN, AWS_ENDPOINT_URL, ...) and, outside a cluster,
KUBECONFIG. An unknown variable is an error if it begins with DRAIN_, EVENT_, HOOK_, LAUNCH_,
LEADER_, NOTIFY_ or QUEUE_, or resembles one of those below. What Kubernetes
sets for a Service is not.
`

// WriteHelp writes the reference for a terminal.
func WriteHelp(w io.Writer) error {
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "%s\nUsage:\n  agent [--help | --version]\n  "+
		"agent check [--output text|json] [--url URL]\n\nEnvironment variables:\n", intro)
	for _, v := range Variables() {
		title := text.Indent(v.Name+" ("+v.initial()+")", "  ", 100)
		help := text.Indent(v.Help, "      ", 100)
		_, _ = fmt.Fprintf(&b, "\n%s%s", title, help)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// initial returns the default, or that there is none, or that the variable is required.
func (v Variable) initial() string {
	switch {
	case v.Required:
		return "required"
	case v.Default == "":
		return "not set by default"
	}
	return "default " + v.Default
}
