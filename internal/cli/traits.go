package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// traits say where an option has an effect. The refusals, the help and the pages that are made of it follow from them.
type traits struct {
	modes      []refresh.Mode            // that have the option; nil: all
	valueModes map[string][]refresh.Mode // that have a value of it
	kubernetes bool                      // it needs Kubernetes, unless it has its default
	following  bool                      // it has no effect with --no-wait
	needs      string                    // the flag without which it has no effect, with a value
	excludes   []string                  // the names of those that contradict it
}

// inShort gives the option a place in the short help.
func (o *option) inShort(brief string) *option {
	o.brief = brief
	return o
}

// in limits the option to modes.
func (o *option) in(modes ...refresh.Mode) *option {
	o.modes = modes
	return o
}

// valueIn limits a value of the option to modes.
func (o *option) valueIn(value string, modes ...refresh.Mode) *option {
	if o.valueModes == nil {
		o.valueModes = map[string][]refresh.Mode{}
	}
	o.valueModes[value] = modes
	return o
}

// onKubernetes marks an option that needs Kubernetes.
func (o *option) onKubernetes() *option {
	o.kubernetes = true
	return o
}

// whileFollowing marks an option that has no effect with --no-wait.
func (o *option) whileFollowing() *option {
	o.following = true
	return o
}

// with names the flag, with a value as an example, without which the option has no effect.
func (o *option) with(flag string) *option {
	o.needs = flag
	return o
}

// without names options that contradict this one.
func (o *option) without(names ...string) *option {
	o.excludes = names
	return o
}

// text is the help, with what follows from the traits.
func (o *option) text() string {
	sentences := strings.Fields(o.help) // the source has it on several lines
	if len(o.modes) > 0 {
		sentences = append(sentences, modesOnly(o.modes))
	}
	for _, value := range slices.Sorted(maps.Keys(o.valueModes)) {
		only := modesOnly(o.valueModes[value])
		sentences = append(sentences, strings.ToUpper(value[:1])+value[1:]+":", strings.ToLower(only[:1])+only[1:])
	}
	if o.kubernetes {
		sentences = append(sentences, "It needs Kubernetes.")
	}
	if o.needs != "" {
		sentences = append(sentences, fmt.Sprintf("It needs %s.", nameOf(o.needs)))
	}
	return strings.Join(sentences, " ")
}

// textOf is the text of an option of the section, without the modes that its title has.
func (s section) textOf(o *option) string {
	return strings.Replace(o.text(), " "+s.title+" only.", "", 1)
}

// nameOf is the flag without its value.
func nameOf(flag string) string {
	name, _, _ := strings.Cut(flag, " ")
	return name
}

func modesOnly(modes []refresh.Mode) string {
	plural := ""
	if len(modes) > 1 {
		plural = "s"
	}
	return fmt.Sprintf("Mode%s %s only.", plural, joined(modes, "and"))
}

// joined joins modes for a sentence: refresh, unhealthy and standby.
func joined(modes []refresh.Mode, conjunction string) string {
	words := make([]string, len(modes))
	for i, m := range modes {
		words[i] = string(m)
	}
	return enumeration(words, conjunction)
}

// isSet reports whether the option has another value than its default.
func (o *option) isSet() bool {
	value := strings.Join(o.given, ",")
	if on, err := strconv.ParseBool(value); err == nil && o.kind == "" {
		return on != (o.initial == "true")
	}
	return o.source != "" && value != o.initial
}

// options are those of the command line.
type options []*option

// set returns the option of the name if it was given; nil if it was not.
func (all options) set(name string) *option {
	for _, o := range all {
		if o.name == name && o.source != "" {
			return o
		}
	}
	return nil
}

// source is the flag or variable by which an option was given, for a message.
func (all options) source(name string) string {
	if o := all.set(name); o != nil {
		return o.source
	}
	return "--" + name
}

// needsKubernetes reports whether one of the options does.
func (all options) needsKubernetes() bool {
	return slices.ContainsFunc(all, func(o *option) bool {
		return o.isSet() && (o.kubernetes || slices.Contains(o.excludes, "no-kubernetes"))
	})
}

// refusals returns an error for each option that has no effect as the others are set.
func (all options) refusals(s *settings) (errs []error) {
	for _, o := range all {
		if o.source != "" {
			errs = append(errs, o.refusals(s)...)
		}
	}
	return errs
}

func (o *option) refusals(s *settings) (errs []error) {
	refuse := func(applies bool, format string, args ...any) {
		if applies {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	const elsewhere = "%s is for mode %s only: leave it out, or set --mode %[2]s"
	refuse(o.modes != nil && !slices.Contains(o.modes, s.Mode), elsewhere, o.source, joined(o.modes, "or"))
	for _, value := range o.parts() {
		modes := o.valueModes[strings.ToLower(value)]
		refuse(modes != nil && !slices.Contains(modes, s.Mode), elsewhere, o.source+" "+value, joined(modes, "or"))
	}
	refuse(o.kubernetes && o.isSet() && s.noKubernetes, "%s needs Kubernetes: leave it or %s out",
		o.source, s.options.source("no-kubernetes"))
	refuse(o.following && s.noWait, "%s has no effect with %s: leave one of them out",
		o.source, s.options.source("no-wait"))
	needed := strings.TrimPrefix(nameOf(o.needs), "--")
	refuse(needed != "" && s.options.set(needed) == nil, "%s needs --%s, for example %s", o.source, needed, o.needs)
	for _, name := range o.excludes {
		other := s.options.set(name)
		refuse(other != nil && other.isSet(), "%s and %s exclude each other: leave one of them out",
			o.source, s.options.source(name))
	}
	return errs
}
