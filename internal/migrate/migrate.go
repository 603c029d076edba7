// Package migrate translates the configuration of other programs into values of our chart, or a command line of the
// trigger. One table for each of them is all that is known of its options: the pages of docs/migration are made of it.
package migrate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// MaxSize is the size up to which a configuration is read.
const MaxSize = 1 << 20

// Peer is a program whose configuration is translated.
type Peer struct {
	Name    string // of it in the command
	Program string
	Reads   string // what Translate reads, for the help
	Prints  string // what Result.Text is, for the help
	Example string // a command line

	options  []option
	read     reader
	standard string        // what to do about variables that the AWS SDK and Go read; empty: nothing
	begin    func(*Result) // what does not depend on an option; may be nil
	require  func(*Result) // what is required besides
}

// Peers returns all of them, in the order of the help.
func Peers() []Peer {
	return []Peer{nodeTerminationHandler(), lifecycleManager(), eksRollingUpdate(), asgRoller()}
}

// Result is what a configuration becomes.
type Result struct {
	Missing  []Missing // in the order of the lines
	Unneeded []Unneeded

	values   map[string]any // of the chart, by their paths
	command  []string       // words of a command line of the trigger; nil if the result are values
	required []string       // what the user must add
	given    map[string]setting
}

// Missing is an option that has no equivalent, or is unknown.
type Missing struct {
	Line    int
	Name    string
	Unknown bool
	Do      string // what there is instead, and what to do
}

// String is a sentence without the line.
func (m Missing) String() string {
	what := "has no equivalent"
	if m.Unknown {
		what = "is unknown"
	}
	return m.Name + " " + what + ": " + m.Do
}

// Unneeded are options that are not needed.
type Unneeded struct {
	Why   string // empty without a reason
	Names []string
}

// String is a phrase.
func (u Unneeded) String() string {
	return "not needed: " + strings.Join(u.Names, ", ") + strings.TrimSuffix(": "+u.Why, ": ")
}

// Translate translates a configuration. An error names the line.
func (p Peer) Translate(text []byte) (*Result, error) {
	if len(text) > MaxSize {
		return nil, errors.New("it is larger than 1 MiB")
	}
	if err := checkText(text); err != nil {
		return nil, err
	}
	known := p.names()
	settings, err := p.read(text, known)
	if err != nil {
		return nil, err
	}
	r := &Result{values: map[string]any{}, given: map[string]setting{}}
	for _, s := range settings {
		r.given[s.name] = s
	}
	if p.begin != nil {
		p.begin(r)
	}
	err = r.apply(p.options)
	for _, name := range slices.Sorted(maps.Keys(r.given)) {
		if s := r.given[name]; !known[name] && !s.isEmpty() {
			r.other(s, p.standard)
		}
	}
	p.require(r)
	slices.SortFunc(r.Missing, func(a, b Missing) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Name, b.Name))
	})
	return r, err
}

// names returns the options that are known.
func (p Peer) names() map[string]bool {
	known := map[string]bool{}
	for _, o := range p.options {
		for name := range o.each() {
			known[name] = true
		}
	}
	return known
}

// apply translates what is given, in the order of the table. It returns what is wrong with values.
func (r *Result) apply(options []option) error {
	var wrong []setting
	errs := map[string]error{}
	for _, o := range options {
		for name, initial := range o.each() {
			s, given := r.given[name]
			if !given || s.isEmpty() {
				continue
			}
			if err := o.translate(s, initial, r); err != nil {
				wrong, errs[name] = append(wrong, s), err
			}
		}
	}
	slices.SortFunc(wrong, func(a, b setting) int { return cmp.Compare(a.node.Line, b.node.Line) })
	var all []error
	for _, s := range wrong {
		all = append(all, fmt.Errorf("line %d: %s must be %w", s.node.Line, s.name, errs[s.name]))
	}
	return errors.Join(all...)
}

// set sets a value of the chart.
func (r *Result) set(path string, value any) { r.values[path] = value }

// add adds words to the command line.
func (r *Result) add(words ...string) { r.command = append(r.command, words...) }

// lack records that there is no equivalent.
func (r *Result) lack(s setting, do string) {
	r.Missing = append(r.Missing, Missing{Line: s.node.Line, Name: s.name, Do: plainText(do)})
}

// text returns the text that an option is given, or else the initial one.
func (r *Result) text(name, initial string) string {
	if s, given := r.given[name]; given && !s.isEmpty() {
		return s.node.Value
	}
	return initial
}

// skip records that it is not needed.
func (r *Result) skip(s setting, why string) {
	why = plainText(why)
	i := slices.IndexFunc(r.Unneeded, func(u Unneeded) bool { return u.Why == why })
	if i < 0 {
		i, r.Unneeded = len(r.Unneeded), append(r.Unneeded, Unneeded{Why: why})
	}
	r.Unneeded[i].Names = append(r.Unneeded[i].Names, s.name)
}

// other records what is no option of theirs.
func (r *Result) other(s setting, standard string) {
	switch {
	case s.name == fromElsewhere:
		r.lack(s, "the variables are not in this file: translate the Secret or ConfigMap as well")
	case isStandard(s.name) && standard == "":
		r.skip(s, "the trigger reads it as well")
	case isStandard(s.name):
		r.lack(s, standard)
	default:
		r.lack(s, "docs/configuration.md and docs/trigger-flags.md list what there is")
		r.Missing[len(r.Missing)-1].Unknown = true
	}
}

// has reports whether the value of the chart is set.
func (r *Result) has(path string) bool { return r.values[path] != nil }
