package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// option is one thing that a user can set, by a flag or by a variable. It is the flag's pflag.Value, which
// only keeps what was given: it is read when all is known, so that all mistakes are told at once.
type option struct {
	name, short string
	kind        string // What stands for the value in the help; empty if it is true or false.
	initial     string // The default, as the help shows it; empty if there is none.
	help        string
	values      []string // What it may be, if that is a few words.
	many        bool     // Lists: each part of what was given is read.
	read        func(text string) error

	given []string
}

// Set keeps what a flag was given.
func (o *option) Set(text string) error {
	o.given = append(o.given, text)
	return nil
}

// String is the default, as pflag wants it.
func (o *option) String() string { return o.initial }

// Type is the kind, as pflag wants it.
func (o *option) Type() string { return o.kind }

func (o *option) flag() string { return "--" + o.name }

// variable is the name of the environment variable.
func (o *option) variable() string {
	return prefix + strings.ToUpper(strings.ReplaceAll(o.name, "-", "_"))
}

// prefix is what the names of our variables begin with.
const prefix = "TRIGGER_"

func (o *option) add(flags *pflag.FlagSet) {
	o.help = strings.Join(strings.Fields(o.help), " ") // it is written over several lines
	f := flags.VarPF(o, o.name, o.short, o.help)
	if o.kind == "" {
		f.NoOptDefVal = "true"
	}
}

// shorthand gives the flag a letter.
func (o *option) shorthand(letter string) *option {
	o.short = letter
	return o
}

// settle reads what was given: by the flag, else by the variable; one that is empty counts as not set. As
// is the name by which it was given, or empty.
func (o *option) settle(environ map[string]string) (as string, err error) {
	as, given := o.flag(), o.given
	if len(given) == 0 {
		as, given = o.variable(), []string{environ[o.variable()]}
		if given[0] == "" {
			return "", nil
		}
	}
	for _, text := range o.parts(given) {
		if err := o.read(text); err != nil {
			return as, fmt.Errorf("%s is %q: must be %w", as, text, err)
		}
	}
	return as, nil
}

// parts are what is read: of a list each part, else what was given last.
func (o *option) parts(given []string) []string {
	if !o.many {
		return given[len(given)-1:]
	}
	var parts []string
	for _, text := range given {
		for part := range strings.SplitSeq(text, ",") {
			parts = append(parts, strings.TrimSpace(part))
		}
	}
	return parts
}

// errEmpty says what a name must be.
var errEmpty = errors.New("a name")

func into[T any](p *T) func(T) { return func(v T) { *p = v } }

func pointer[T any](p **T) func(T) { return func(v T) { *p = &v } }

// textOption is an option that is any text but none.
func textOption(p *string, name, kind, help string) *option {
	return &option{name: name, kind: kind, initial: *p, help: help, read: func(s string) error {
		if s == "" {
			return errEmpty
		}
		*p = s
		return nil
	}}
}

// list is an option that is several texts.
func list(p *[]string, name, kind, help string) *option {
	return &option{name: name, kind: kind, help: help, many: true, read: func(s string) error {
		if s == "" {
			return errEmpty
		}
		*p = append(*p, s)
		return nil
	}}
}

// choice is an option that is one of a few words.
func choice[T ~string](set func(T), initial T, name, help string, values ...T) *option {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = string(v)
	}
	return &option{
		name: name, kind: strings.Join(words, "|"), initial: string(initial), help: help, values: words,
		read: func(s string) error {
			if !slices.Contains(words, s) {
				return errors.New(alternatives(words))
			}
			set(T(s))
			return nil
		},
	}
}

// alternatives are words as a sentence has them: a, b or c.
func alternatives(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// toggle is an option that is true or false.
func toggle(p *bool, name, help string) *option {
	initial := ""
	if *p {
		initial = "true"
	}
	return &option{name: name, initial: initial, help: help, read: func(s string) error {
		b, err := strconv.ParseBool(s)
		if err != nil {
			return errors.New("true or false")
		}
		*p = b
		return nil
	}}
}

// span is an option that is a duration from least to most.
func span(set func(time.Duration), initial, name, help string, least, most time.Duration) *option {
	return &option{name: name, kind: "DURATION", initial: initial, help: help, read: func(s string) error {
		d, err := time.ParseDuration(s)
		if err != nil || d < least || d > most {
			return fmt.Errorf("a duration with a unit, as 90s, 15m or 2h, from %s to %s", short(least), short(most))
		}
		set(d)
		return nil
	}}
}

// seconds is a span that AWS takes in seconds.
func seconds(set func(time.Duration), name, help string, most time.Duration) *option {
	o := span(set, "", name, help, 0, most)
	read := o.read
	o.read = func(s string) error {
		if d, err := time.ParseDuration(s); err == nil && d%time.Second != 0 {
			return errors.New("whole seconds")
		}
		return read(s)
	}
	return o
}

// short is a duration without its zeros: 1h for 1h0m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// number is an option that is a whole number from least to most.
func number(set func(int), initial, name, kind, help string, least, most int) *option {
	return &option{name: name, kind: kind, initial: initial, help: help, read: func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < least || n > most {
			return fmt.Errorf("a whole number from %d to %d", least, most)
		}
		set(n)
		return nil
	}}
}

// amount is an option that is a number of instances, or a share of them.
func amount(set func(refresh.Amount), initial, name, help string) *option {
	return &option{name: name, kind: "N|N%", initial: initial, help: help, read: func(s string) error {
		a, err := refresh.ParseAmount(s)
		if err != nil {
			return errors.New("a number of instances or a share of them, as 2 or 20%, and more than nothing")
		}
		set(a)
		return nil
	}}
}

// checked has the option refuse what does not fit, with the words of what would.
func (o *option) checked(fits func(string) bool, form string) *option {
	read := o.read
	o.read = func(s string) error {
		if !fits(s) {
			return errors.New(form)
		}
		return read(s)
	}
	return o
}
