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
)

// Variable is one environment variable.
type Variable struct {
	Name     string
	Group    string // The prefix of its name, if others have the same one: QUEUE_, DRAIN_.
	Default  string
	Required bool
	Help     string
	Values   []string // The allowed values, if it has only a few.
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
		if name == "" {
			continue
		}
		out = append(out, Variable{
			Name:     prefix + name,
			Group:    prefix,
			Default:  f.Tag.Get("envDefault"),
			Required: slices.Contains(strings.Split(options, ","), "required"),
			Help:     f.Tag.Get("help"),
			Values:   text.Split(f.Tag.Get("values")),
			Type:     f.Type,
		})
	}
	return out
}

// unparsable returns the required variables that are not set, and those that are not of their type, with an
// error for each. The errors of the library that parses the variables name the field, which users do not
// know.
func unparsable(values map[string]string) (names []string, errs []error) {
	for _, v := range Variables() {
		value := values[v.Name]
		if form := v.requiredForm(value); value != "" && form != "" {
			names = append(names, v.Name)
			errs = append(errs, fmt.Errorf("%s is %q: must be %s", v.Name, value, form))
		} else if value == "" && v.Required {
			names = append(names, v.Name)
			errs = append(errs, fmt.Errorf("%s is required. %s", v.Name, v.Help))
		}
	}
	return names, errs
}

// requiredForm returns the form that the value should have, or empty if it has it.
func (v Variable) requiredForm(value string) string {
	var err error
	form := ""
	switch {
	case v.Type == reflect.TypeFor[time.Duration]():
		form = "a duration with a unit, for example 90s, 15m or 2h"
		_, err = time.ParseDuration(value)
	case v.Type.Kind() == reflect.Bool:
		form = "true or false"
		_, err = strconv.ParseBool(value)
	case v.Type.Kind() == reflect.Int:
		form = "a whole number of at most 2147483647"
		_, err = strconv.ParseInt(value, 10, 32)
	}
	if err == nil {
		return ""
	}
	return form
}

// intro precedes the list of variables.
const intro = `node-drainer agent: drains Kubernetes nodes before EC2 Auto Scaling terminates their instances.

It is configured by environment variables only. In addition to those below it reads the standard
ones of the AWS SDK (AWS_REGION, AWS_ROLE_ARN, AWS_ENDPOINT_URL, ...) and, outside a cluster,
KUBECONFIG.
`

// WriteHelp writes the reference for a terminal.
func WriteHelp(w io.Writer) error {
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "%s\nUsage:\n  agent [--help | --version]\n\nEnvironment variables:\n", intro)
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
