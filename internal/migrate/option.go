package migrate

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// option is what an option of another program becomes, or several for which the same applies.
type option struct {
	names string // separated by " | ", each with the default of theirs behind "=" if it has one
	conversion
	note string // for the page, in Markdown; for what has no equivalent also for the user
}

// conversion is pure: what it returns depends only on the settings in the Result.
type conversion struct {
	ours  string // what it becomes, in Markdown
	apply func(o option, s setting, r *Result) error
}

const (
	none     = "none"
	unneeded = "not needed"
)

// each returns the options' names with their defaults.
func (o option) each() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for text := range strings.SplitSeq(o.names, " | ") {
			name, initial, _ := strings.Cut(text, "=")
			if !yield(name, initial) {
				return
			}
		}
	}
}

func (o option) translate(s setting, initial string, r *Result) error {
	switch {
	case s.elsewhere && o.ours == unneeded:
	case s.elsewhere:
		r.lack(s, "its value is not in this file: set "+o.ours+" yourself")
		return nil
	case o.ours == none && strings.EqualFold(s.node.Value, initial):
		return nil // Nothing is missing.
	}
	return o.apply(o, s, r)
}

// isMissing is for what has no equivalent; the note of the option says why, and what to do.
func isMissing() conversion {
	return conversion{none, func(o option, s setting, r *Result) error {
		r.lack(s, o.note)
		return nil
	}}
}

// isUnneeded is for what needs no equivalent; the note of the option says why.
func isUnneeded() conversion {
	return conversion{unneeded, func(o option, s setting, r *Result) error {
		r.skip(s, o.note)
		return nil
	}}
}

// translated is for what is written by hand. Ours are paths of values, or flags.
func translated(apply func(s setting, r *Result) error, ours ...string) conversion {
	return conversion{"`" + strings.Join(ours, "`, `") + "`", func(_ option, s setting, r *Result) error {
		return apply(s, r)
	}}
}

// value is a value of the chart, as read reads it; none if that is nil.
func value(path string, read func(*yaml.Node) (any, error)) conversion {
	return translated(func(s setting, r *Result) error {
		v, err := read(s.node)
		if v != nil && err == nil {
			r.set(path, v)
		}
		return err
	}, path)
}

// argument is a flag of the trigger, with what read reads as its value; none if that is nil.
func argument(name string, read func(*yaml.Node) (any, error)) conversion {
	return translated(func(s setting, r *Result) error {
		v, err := read(s.node)
		switch {
		case err != nil || v == nil:
			return err
		case v == true:
			r.add(name)
		default:
			r.add(name, fmt.Sprint(v))
		}
		return nil
	}, name)
}

// oneLine reads a text on one line.
func oneLine(n *yaml.Node) (any, error) {
	if n.Kind != yaml.ScalarNode || strings.ContainsFunc(n.Value, unicode.IsControl) {
		return nil, errors.New("a text on one line")
	}
	return n.Value, nil
}

// word reads a text without spaces, such as a name or a URL.
func word(n *yaml.Node) (any, error) {
	v, err := oneLine(n)
	if err != nil || strings.ContainsAny(n.Value, " '\"") || strings.HasPrefix(n.Value, "-") {
		return nil, errors.New("one word")
	}
	return v, nil
}

// words reads a list of words, which are separated by separators.
func words(n *yaml.Node, separators string) ([]string, error) {
	isSeparator := func(c rune) bool { return strings.ContainsRune(separators, c) }
	var all []string
	for _, part := range strings.FieldsFunc(n.Value, isSeparator) {
		one := &yaml.Node{Kind: n.Kind, Value: strings.TrimSpace(part)}
		if _, err := word(one); err != nil {
			return nil, errors.New("a list of names")
		}
		all = append(all, one.Value)
	}
	return all, nil
}

// number reads a whole number.
func number(n *yaml.Node) (int, error) {
	i, err := strconv.ParseInt(n.Value, 10, 32)
	if n.Kind != yaml.ScalarNode || err != nil {
		return 0, errors.New("a whole number")
	}
	return int(i), nil
}

// seconds reads a number of seconds as a duration; one that is not positive is none.
func seconds(n *yaml.Node) (any, error) {
	i, err := number(n)
	if err != nil || i <= 0 {
		return nil, err
	}
	return fmt.Sprintf("%ds", i), nil
}

// isTrue reads a truth value, as YAML, Go and Python have it.
func isTrue(n *yaml.Node) (bool, error) {
	switch word := strings.ToLower(n.Value); {
	case n.Kind == yaml.ScalarNode && slices.Contains([]string{"true", "t", "1", "yes", "y", "on"}, word):
		return true, nil
	case n.Kind == yaml.ScalarNode && slices.Contains([]string{"false", "f", "0", "no", "n", "off"}, word):
		return false, nil
	}
	return false, errors.New("true or false")
}

// truth reads a truth value as one of two values.
func truth(yes, no any) func(*yaml.Node) (any, error) {
	return func(n *yaml.Node) (any, error) {
		switch is, err := isTrue(n); {
		case err != nil:
			return nil, err
		case is:
			return yes, nil
		}
		return no, nil
	}
}

// level reads a level of the log.
func level(n *yaml.Node) (any, error) {
	for ours, theirs := range map[string][]string{
		"debug": {"debug", "trace"}, "info": {"info"}, "warn": {"warn", "warning"}, "error": {"error", "fatal", "panic"},
	} {
		if slices.Contains(theirs, strings.ToLower(n.Value)) {
			return ours, nil
		}
	}
	return nil, errors.New("a level of the log, such as info")
}

// oneOf reads one of some words.
func oneOf(allowed ...string) func(*yaml.Node) (any, error) {
	return func(n *yaml.Node) (any, error) {
		if !slices.Contains(allowed, n.Value) {
			return nil, fmt.Errorf("one of %s", strings.Join(allowed, ", "))
		}
		return n.Value, nil
	}
}

// object reads a map as it is.
func object(n *yaml.Node) (any, error) {
	if n.Kind != yaml.MappingNode {
		return nil, errors.New("a map")
	}
	return plain(n), nil
}

// labels reads a map of texts.
func labels(n *yaml.Node) (any, error) {
	if n.Kind != yaml.MappingNode {
		return nil, errors.New("a map of texts")
	}
	all := map[string]any{}
	for key, value := range pairs(n) {
		if value.Kind != yaml.ScalarNode {
			return nil, errors.New("a map of texts")
		}
		all[key.Value] = value.Value
	}
	return all, nil
}

// plain returns the value of a node.
func plain(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		all := map[string]any{}
		for key, value := range pairs(n) {
			all[key.Value] = plain(value)
		}
		return all
	case yaml.SequenceNode:
		all := []any{}
		for _, item := range n.Content {
			all = append(all, plain(item))
		}
		return all
	}
	var v any
	if err := n.Decode(&v); err == nil {
		switch v.(type) {
		case nil, bool, int, float64:
			return v
		}
	}
	return n.Value
}

// plainText is Markdown for a terminal.
func plainText(markdown string) string { return strings.ReplaceAll(markdown, "`", "") }
