package cli

import (
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// option is one setting, by a flag or by a variable. It is the flag's pflag.Value, which only keeps the
// texts that it is set to: they are parsed later, so that all errors are reported at once.
type option struct {
	name, short string
	kind        string // the placeholder of the value in the help; empty for a boolean
	bare        string // the value of the flag without one; empty if it needs one
	initial     string // the default in the help; empty if there is none
	help        string
	brief       string   // the help in a few words, of an option that is used most
	values      []string // the allowed values, if there are only a few
	many        bool     // a list, whose elements are read one by one
	limits      bool     // Without it, more groups or instances are replaced.
	secret      bool     // No error contains the value.
	read        func(text string) error
	traits

	given  []string
	source string // the flag or variable that has set it; empty if none has
}

// Set keeps a value of the flag.
func (o *option) Set(text string) error {
	o.given = append(o.given, text)
	return nil
}

// String returns the default, as pflag requires.
func (o *option) String() string { return o.initial }

// Type returns the kind, as pflag requires.
func (o *option) Type() string { return o.kind }

func (o *option) flag() string { return "--" + o.name }

// variable is the name of the environment variable.
func (o *option) variable() string {
	return prefix + strings.ToUpper(strings.ReplaceAll(o.name, "-", "_"))
}

// prefix is that of our variables.
const prefix = "TRIGGER_"

// add adds the flag to the command, with shell completion for choices. Names of files are completed by default.
func (o *option) add(c *cobra.Command) {
	f := c.Flags().VarPF(o, o.name, o.short, o.text())
	f.NoOptDefVal = o.bare
	if o.kind != "FILE" && o.kind != "" {
		complete := cobra.FixedCompletions(o.values, cobra.ShellCompDirectiveNoFileComp)
		_ = c.RegisterFlagCompletionFunc(o.name, complete) // fails only for an unknown flag
	}
}

// parse reads the value of the flag, else of the variable. An empty variable counts as not set, unless the option
// limits what is replaced: a variable that a pipeline failed to fill must not replace everything.
func (o *option) parse(environ map[string]string) error {
	if len(o.given) > 0 {
		o.source = o.flag()
	} else {
		value, set := environ[o.variable()]
		switch {
		case set && value == "" && o.limits:
			return fmt.Errorf("%s is empty: unset it, or set it to what is to be replaced", o.variable())
		case value == "":
			return nil
		}
		o.source, o.given = o.variable(), []string{value}
	}
	for _, text := range o.parts() {
		switch err := o.read(text); {
		case err != nil && o.secret:
			return fmt.Errorf("%s is invalid: must be %w", o.source, err)
		case err != nil:
			return fmt.Errorf("%s is %q: must be %w", o.source, text, err)
		}
	}
	return nil
}

// parts returns the elements of a list, or the last value of another option. An element in double quotes may have
// commas, as in CSV.
func (o *option) parts() []string {
	if !o.many {
		return o.given[len(o.given)-1:]
	}
	var parts []string
	for _, text := range o.given {
		record := csv.NewReader(strings.NewReader(strings.ReplaceAll(text, "\n", " ")))
		record.LazyQuotes, record.TrimLeadingSpace = true, true
		elements, err := record.Read()
		if err != nil { // It is empty: with lazy quotes there is no other error.
			elements = []string{""}
		}
		for _, element := range elements {
			parts = append(parts, strings.TrimSpace(element))
		}
	}
	return parts
}

func into[T any](p *T) func(T) { return func(v T) { *p = v } }

func pointer[T any](p **T) func(T) { return func(v T) { *p = &v } }

// nonEmpty reads a text that is not empty.
func nonEmpty(set func(string)) func(text string) error {
	return func(s string) error {
		if s == "" {
			return errors.New("a name")
		}
		set(s)
		return nil
	}
}

// textOption is any text that is not empty.
func textOption(p *string, name, kind, help string) *option {
	return &option{name: name, kind: kind, initial: *p, help: help, read: nonEmpty(into(p))}
}

// list is a list of texts that are not empty.
func list(p *[]string, name, kind, help string) *option {
	add := func(s string) { *p = append(*p, s) }
	return &option{name: name, kind: kind, help: help, many: true, read: nonEmpty(add)}
}

// choice is one of a few words.
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

// alternatives joins words for a sentence: a, b or c.
func alternatives(words []string) string { return enumeration(words, "or") }

func enumeration(words []string, conjunction string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " " + conjunction + " " + words[last]
}

// boolean is true or false.
func boolean(p *bool, name, help string) *option {
	initial := ""
	if *p {
		initial = "true"
	}
	return &option{name: name, bare: "true", initial: initial, help: help, read: func(s string) error {
		b, err := strconv.ParseBool(s)
		if err != nil {
			return errors.New("true or false")
		}
		*p = b
		return nil
	}}
}

// duration is a duration from least to most.
func duration(set func(time.Duration), initial, name, help string, least, most time.Duration) *option {
	return &option{name: name, kind: "DURATION", initial: initial, help: help, read: func(s string) error {
		d, err := parseDuration(s)
		if err != nil || d < least || d > most {
			return fmt.Errorf("a duration with a unit, such as 90s, 15m, 2h or 30d, from %s to %s",
				shortDuration(least), shortDuration(most))
		}
		set(d)
		return nil
	}}
}

// parseDuration reads a duration, also one in days: 30d.
func parseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 15) // as many as a Duration can have
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(s)
}

// seconds is a duration in whole seconds, as AWS accepts it.
func seconds(set func(time.Duration), name, help string, most time.Duration) *option {
	whole := func(s string) bool {
		d, err := parseDuration(s)
		return err != nil || d%time.Second == 0 // Errors are reported by duration.
	}
	return duration(set, "", name, help, 0, most).checked(whole, "whole seconds")
}

// shortDuration formats a duration without trailing zeros: 1h for 1h0m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// number is a whole number from least to most.
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

// amount is a number of instances, or a percentage of them.
func amount(set func(refresh.Amount), initial, name, help string) *option {
	return &option{name: name, kind: "N|N%", initial: initial, help: help, read: func(s string) error {
		a, err := refresh.ParseAmount(s)
		if err != nil {
			return errors.New("a number of instances or a percentage of them, such as 2 or 20%, from 1 or 1% to 100%")
		}
		set(a)
		return nil
	}}
}

// limiting marks an option that limits what is replaced.
func (o *option) limiting() *option {
	o.limits = true
	return o
}

// keptSecret marks an option whose value may be a secret.
func (o *option) keptSecret() *option {
	o.secret = true
	return o
}

// checked makes the option reject texts that are not valid, and describes the valid ones in the error.
func (o *option) checked(valid func(string) bool, form string) *option {
	read := o.read
	o.read = func(s string) error {
		if !valid(s) {
			return errors.New(form)
		}
		return read(s)
	}
	return o
}
