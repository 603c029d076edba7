package migrate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// setting is what a configuration sets.
type setting struct {
	name      string
	node      *yaml.Node // its value, with its line
	elsewhere bool       // The value is in a Secret or ConfigMap.
}

// fromElsewhere is the field of a container that has variables of Secrets and ConfigMaps.
const fromElsewhere = "envFrom"

// isEmpty reports whether there is no value, which stands for the default.
func (s setting) isEmpty() bool {
	return !s.elsewhere && len(s.node.Content) == 0 && (s.node.Value == "" || s.node.Tag == "!!null")
}

func scalar(text string, line int) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Value: text, Line: line}
}

// reader reads the settings of a configuration. Those that are known decide how deep it looks.
type reader func(text []byte, known map[string]bool) ([]setting, error)

// pairs returns the keys and values of a map.
func pairs(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(*yaml.Node, *yaml.Node) bool) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i], n.Content[i+1]) {
				return
			}
		}
	}
}

// field returns the value of a key; nil without one.
func field(n *yaml.Node, name string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for key, value := range pairs(n) {
		if key.Value == name {
			return value
		}
	}
	return nil
}

// documents reads the documents of a YAML file.
func documents(text []byte) (all []*yaml.Node, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var document yaml.Node
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, withLine(strings.TrimPrefix(err.Error(), "yaml: "))
		}
		for _, n := range document.Content {
			if err := check(n); err != nil {
				return nil, err
			}
			all = append(all, n)
		}
	}
}

// withLine adds the first line to what the parser says, which has all others.
func withLine(problem string) error {
	if !strings.HasPrefix(problem, "line ") {
		problem = "line 1: " + problem
	}
	return errors.New(problem)
}

// checkText refuses what is no text: the parser of YAML does so as well, without the line.
func checkText(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("it is not text in UTF-8")
	}
	line := 1
	for _, c := range string(text) {
		if c == '\n' {
			line++
		} else if c != '\t' && c != '\r' && unicode.IsControl(c) {
			return fmt.Errorf("line %d: it has the control character %#x", line, c)
		}
	}
	return nil
}

// check refuses what Kubernetes and Helm refuse as well, and aliases, which may make a small file a large one.
func check(n *yaml.Node) error {
	if n.Kind == yaml.AliasNode {
		return fmt.Errorf("line %d: aliases are not read: write the value there", n.Line)
	}
	if n.Kind == yaml.MappingNode {
		lines := map[string]int{}
		for key := range pairs(n) {
			switch first, twice := lines[key.Value]; {
			case key.Kind != yaml.ScalarNode:
				return fmt.Errorf("line %d: a key must be a text", key.Line)
			case twice:
				return fmt.Errorf("line %d: the key %q is in line %d, too", key.Line, key.Value, first)
			}
			lines[key.Value] = key.Line
		}
	}
	for _, below := range n.Content {
		if err := check(below); err != nil {
			return err
		}
	}
	return nil
}

// readValues reads the values of a chart: those below a key that is not known have the key in their names.
func readValues(text []byte, known map[string]bool) ([]setting, error) {
	all, err := documents(text)
	switch {
	case err != nil:
		return nil, err
	case len(all) != 1 || all[0].Kind != yaml.MappingNode:
		return nil, errors.New("line 1: it must be one map: the values of a Helm chart")
	case field(all[0], "apiVersion") != nil && field(all[0], "kind") != nil:
		return nil, errors.New("line 1: it is an object of Kubernetes: give the values of the Helm chart")
	}
	return flatten("", all[0], known), nil
}

func flatten(prefix string, n *yaml.Node, known map[string]bool) (all []setting) {
	for key, value := range pairs(n) {
		name := prefix + key.Value
		if value.Kind == yaml.MappingNode && len(value.Content) > 0 && !known[name] {
			all = append(all, flatten(name+".", value, known)...)
			continue
		}
		all = append(all, setting{name: name, node: value})
	}
	return all
}

// containers is how a program is configured by the arguments and variables of a container.
type containers struct {
	short map[string]string // long flags by their short ones
	bare  []string          // flags that have no value behind a space
}

// assignment is a line of a file of variables.
func assignment() *regexp.Regexp {
	return regexp.MustCompile(`^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*?)\s*$`)
}

// read reads manifests, a list of variables, or a file with lines NAME=VALUE. It returns the settings of the containers
// that have one that is known.
func (c containers) read(text []byte, known map[string]bool) (all []setting, err error) {
	if isVariables(text) {
		return readVariables(text)
	}
	read, err := documents(text)
	if err != nil {
		return nil, err
	}
	for _, document := range read {
		for _, one := range containersOf(document) {
			settings, err := c.settingsOf(one)
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(settings, func(s setting) bool { return known[s.name] }) {
				all = append(all, settings...)
			}
		}
	}
	if len(all) == 0 {
		return nil, errors.New("no container has an option that is known")
	}
	return all, nil
}

// isVariables reports whether the first line that is no comment sets a variable.
func isVariables(text []byte) bool {
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return assignment().MatchString(line)
		}
	}
	return false
}

func readVariables(text []byte) (all []setting, err error) {
	at := 0
	for line := range strings.Lines(string(text)) {
		at++
		trimmed := strings.TrimSpace(line)
		if trimmed == "" || strings.HasPrefix(trimmed, "#") {
			continue
		}
		m := assignment().FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("line %d: it must be NAME=VALUE", at)
		}
		all = append(all, setting{name: m[1], node: scalar(unquote(m[2]), at)})
	}
	return all, nil
}

// unquote removes quotes around a value, or a comment behind it.
func unquote(value string) string {
	for _, quote := range []string{`"`, "'"} {
		if inside, opened := strings.CutPrefix(value, quote); opened {
			if inside, _, closed := strings.Cut(inside, quote); closed {
				return inside
			}
		}
	}
	value, _, _ = strings.Cut(value, " #")
	return strings.TrimSpace(value)
}

// containersOf returns all containers below a node. A list of variables is one.
func containersOf(n *yaml.Node) (all []*yaml.Node) {
	if n.Kind == yaml.SequenceNode && len(n.Content) > 0 && field(n.Content[0], "name") != nil &&
		(field(n.Content[0], "value") != nil || field(n.Content[0], "valueFrom") != nil) {
		return []*yaml.Node{{Kind: yaml.MappingNode, Line: n.Line, Content: []*yaml.Node{scalar("env", n.Line), n}}}
	}
	if n.Kind != yaml.MappingNode {
		for _, item := range n.Content {
			all = append(all, containersOf(item)...)
		}
		return all
	}
	for key, value := range pairs(n) {
		if value.Kind == yaml.SequenceNode && (key.Value == "containers" || key.Value == "initContainers") {
			all = append(all, value.Content...)
		} else if key.Value != "env" {
			all = append(all, containersOf(value)...)
		}
	}
	return all
}

// settingsOf returns the settings of a container.
func (c containers) settingsOf(container *yaml.Node) (all []setting, err error) {
	var arguments []*yaml.Node
	for _, name := range []string{"command", "args"} {
		if list := field(container, name); list != nil {
			arguments = append(arguments, list.Content...)
		}
	}
	all = c.flags(arguments)
	if list := field(container, fromElsewhere); list != nil {
		all = append(all, setting{name: fromElsewhere, node: list})
	}
	list := field(container, "env")
	if list == nil {
		return all, nil
	}
	for _, one := range list.Content {
		name, value := field(one, "name"), field(one, "value")
		if name == nil || name.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("line %d: a variable has no name", one.Line)
		}
		s := setting{name: name.Value, node: scalar("", one.Line)}
		if s.elsewhere = value == nil && field(one, "valueFrom") != nil; value != nil {
			s.node = value
		}
		all = append(all, s)
	}
	return all, nil
}

// flags returns the flags among the arguments.
func (c containers) flags(arguments []*yaml.Node) (all []setting) {
	for i := 0; i < len(arguments); i++ {
		name, value, assigned := strings.Cut(arguments[i].Value, "=")
		if long := c.short[name]; long != "" {
			name = long
		}
		if !strings.HasPrefix(name, "--") || name == "--" {
			continue
		}
		line := arguments[i].Line
		switch {
		case assigned:
		case !slices.Contains(c.bare, name) && i+1 < len(arguments):
			i++
			value = arguments[i].Value
		default:
			value = "true"
		}
		all = append(all, setting{name: name, node: scalar(value, line)})
	}
	return all
}
