package refresh

import (
	"fmt"
	"slices"
	"strings"
)

// candidate is one of the ways in which a group launches an instance now.
type candidate struct {
	template Template // Resolved.
	written  string   // Its version as it was written.
	image    string   // Its AMI, or empty if that is not known.
	prefix   string   // Whose goal it is, in words: "the group is at".
}

// sourceReasons is how the instance differs from what the group would launch in its place.
func (t Templates) sourceReasons(i Instance, target Target) []Reason {
	s := target.Source
	switch {
	case s.Mixed == nil && s.Template == nil && s.Configuration == "":
		return nil
	case i.Template == nil && i.Configuration == "":
		// Source: AutoScalingInstanceDetails in the API reference, of instances that were attached. An Instance
		// Refresh does not take them for matching.
		return []Reason{{CodeUnknown, "it is not known what it was launched from, as of one that was attached; " +
			target.prefix() + target.Text}}
	case s.Mixed == nil && s.Template == nil:
		return configurationReasons(i, target)
	case i.Template == nil:
		return []Reason{{CodeSource, "launched from launch configuration " + i.Configuration + ", " +
			target.prefix() + target.Text}}
	default:
		return t.nearestReasons(i, target)
	}
}

// configurationReasons is how the instance differs from one of the target's launch configuration.
func configurationReasons(i Instance, target Target) []Reason {
	switch {
	case i.Template != nil:
		return []Reason{{CodeSource, fmt.Sprintf("launched from launch template %s, %s%s",
			i.Template.describe(i.Template.Version), target.prefix(), target.Text)}}
	case i.Configuration != target.Source.Configuration:
		return []Reason{{CodeConfiguration, fmt.Sprintf("launched from launch configuration %s, %s%s",
			i.Configuration, target.prefix(), target.Source.Configuration)}}
	default:
		return nil
	}
}

// nearestReasons is how the instance differs from what is most like it of all that the group may launch.
func (t Templates) nearestReasons(i Instance, target Target) []Reason {
	goals := t.candidates(i, target)
	if len(goals) == 0 {
		return []Reason{{CodeType, fmt.Sprintf("it is a %s, the group's overrides have %s",
			i.Type, list(target.Source.Mixed.types()))}}
	}
	var best []Reason
	for n, g := range goals {
		differs := t.differences(i, g)
		if len(differs) == 0 {
			return nil
		}
		if n == 0 {
			best = differs
		}
	}
	return best
}

// candidates are the ways in which the group may launch an instance of this type.
func (t Templates) candidates(i Instance, target Target) []candidate {
	s, w := target.Source, target.AsWritten
	if s.Mixed == nil {
		return []candidate{{*s.Template, w.Template.Version, t.image(*s.Template), target.prefix()}}
	}
	base := candidate{s.Mixed.Template, w.Mixed.Template.Version, t.image(s.Mixed.Template), target.prefix()}
	if len(s.Mixed.Overrides) == 0 {
		return []candidate{base}
	}
	var goals []candidate
	for n, o := range s.Mixed.Overrides {
		if !o.Requirements && o.Type != i.Type {
			continue
		}
		g := base
		if o.Template != nil {
			g = candidate{*o.Template, w.Mixed.Overrides[n].Template.Version, t.image(*o.Template), o.prefix()}
		}
		if o.ImageID != "" {
			g.image, g.prefix = o.ImageID, o.prefix()
		}
		goals = append(goals, g)
	}
	return goals
}

// differences are how the instance differs from the goal. A version says nothing without its template, and an
// AMI nothing new where the version differs.
func (t Templates) differences(i Instance, g candidate) []Reason {
	from, _ := t.resolve(*i.Template)
	same, known := from.identical(g.template)
	switch {
	case !known:
		return nil
	case !same:
		return []Reason{{CodeTemplate, fmt.Sprintf("launched from launch template %s, %s%s",
			from.describe(i.Template.Version), g.prefix, "launch template "+g.template.describe(g.written))}}
	case numbered(from) && numbered(g.template) && from.Version != g.template.Version:
		return []Reason{{CodeVersion, fmt.Sprintf("launched from %s, %s%s",
			from.describe(from.Version), g.prefix, g.template.describeVersion(g.written))}}
	case imageID(i.ImageID) && imageID(g.image) && i.ImageID != g.image:
		return []Reason{{CodeImage, fmt.Sprintf("it has %s, %s%s", i.ImageID, g.prefix, g.image)}}
	default:
		return nil
	}
}

// imageID tells whether an AMI is known by its id, not by the name of a parameter.
func imageID(image string) bool { return image != "" && !strings.HasPrefix(image, "resolve:") }

// prefix is how a sentence about the target begins.
func (t Target) prefix() string {
	if t.FromGroup {
		return "the group is at "
	}
	return "asked for is "
}

func (o Override) prefix() string {
	if o.Requirements {
		return "the group's override is at "
	}
	return "the group's override for " + o.Type + " is at "
}

// types are the instance types of the policy's overrides.
func (m Mixed) types() []string {
	types := make([]string, 0, len(m.Overrides))
	for _, o := range m.Overrides {
		types = append(types, o.Type)
	}
	return slices.Compact(types)
}
