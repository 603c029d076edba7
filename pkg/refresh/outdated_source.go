package refresh

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// candidate is one of the ways in which the group may launch an instance now.
type candidate struct {
	template Template // Resolved.
	written  string   // Its version as it was written.
	image    string   // Its AMI, or empty if that is unknown.
	intro    string   // How a text about it begins: "the group is at ".
}

// sourceReasons is how the instance differs from what the group would launch instead of it.
func (t Templates) sourceReasons(i Instance, target Target) []Reason {
	from, to := Source{Configuration: i.Configuration, Template: i.Template}, target.Source
	launched := "launched from " + from.describe(from) + ", " + target.intro()
	switch {
	case to.Template == nil && to.Configuration == "":
		return nil
	case from.Template == nil && from.Configuration == "":
		// An instance refresh does not skip these. Source: AutoScalingInstanceDetails in the API reference, of
		// instances that were attached.
		return []Reason{{CodeUnknown, "what it was launched from is unknown, as of an attached instance; " +
			target.intro() + target.Text}}
	case from.Template != nil && to.Template != nil:
		return t.templateReasons(i, target)
	case from.Template != nil || to.Template != nil:
		return []Reason{{CodeSource, launched + target.Text}}
	case from.Configuration != to.Configuration:
		return []Reason{{CodeConfiguration, launched + to.Configuration}}
	default:
		return nil
	}
}

// templateReasons is how the instance differs from the first candidate; nothing if it equals any of them.
func (t Templates) templateReasons(i Instance, target Target) []Reason {
	var first []Reason
	for n, c := range t.candidates(i, target) {
		reasons := t.differences(i, c)
		if len(reasons) == 0 {
			return nil
		}
		if n == 0 {
			first = reasons
		}
	}
	if first == nil {
		var types []string
		for _, o := range target.Source.Overrides {
			types = append(types, cmp.Or(o.Type, "requirements that exclude it"))
		}
		return []Reason{{CodeType, fmt.Sprintf("its type is %s, the group's overrides have %s",
			i.Type, list(slices.Compact(types)))}}
	}
	return first
}

// candidates are the ways in which the group may launch an instance of this type.
func (t Templates) candidates(i Instance, target Target) []candidate {
	s, w := target.Source, target.AsWritten
	base := candidate{*s.Template, w.Template.Version, t.image(*s.Template), target.intro()}
	if len(s.Overrides) == 0 {
		return []candidate{base}
	}
	var all []candidate
	for n, o := range s.Overrides {
		if !o.launches(i.Type) {
			continue
		}
		c := base
		if o.Template != nil {
			c = candidate{*o.Template, w.Overrides[n].Template.Version, t.image(*o.Template), o.intro()}
		}
		if o.ImageID != "" {
			c.image, c.intro = o.ImageID, o.intro()
		}
		all = append(all, c)
	}
	return all
}

// launches reports whether an instance of the type may be launched for the override. Of requirements only the lists of
// types are compared: the attributes of a type are not known. Source: AllowedInstanceTypes and ExcludedInstanceTypes of
// InstanceRequirements in the API reference.
func (o Override) launches(instanceType string) bool {
	matches := func(pattern string) bool {
		matched, err := path.Match(pattern, instanceType)
		return matched && err == nil
	}
	switch {
	case !o.Requirements:
		return o.Type == instanceType
	case len(o.Allowed) > 0:
		return slices.ContainsFunc(o.Allowed, matches)
	default:
		return !slices.ContainsFunc(o.Excluded, matches)
	}
}

// differences are how the instance differs from the candidate. Versions are compared only of the same
// template, and AMIs only of the same version: another version explains another AMI.
func (t Templates) differences(i Instance, c candidate) []Reason {
	from, _ := t.resolve(*i.Template)
	same, known := from.identical(c.template)
	switch {
	case !known:
		return nil
	case !same:
		return []Reason{{CodeTemplate, fmt.Sprintf("launched from launch template %s, %slaunch template %s",
			from.describe(i.Template.Version), c.intro, c.template.describe(c.written))}}
	case from.number() > 0 && c.template.number() > 0 && from.Version != c.template.Version:
		return []Reason{{CodeVersion, fmt.Sprintf("launched from %s, %s%s",
			from.describe(from.Version), c.intro, c.template.describeVersion(c.written))}}
	case isImageID(i.ImageID) && isImageID(c.image) && i.ImageID != c.image:
		return []Reason{{CodeImage, fmt.Sprintf("its AMI is %s, %s%s", i.ImageID, c.intro, c.image)}}
	default:
		return nil
	}
}

// isImageID reports whether an AMI is given by its id, and not by the name of a parameter.
func isImageID(image string) bool { return image != "" && !strings.HasPrefix(image, "resolve:") }

// intro is how a text about the target begins.
func (t Target) intro() string {
	if t.FromGroup {
		return "the group is at "
	}
	return "requested is "
}

func (o Override) intro() string {
	if o.Requirements {
		return "the group's override is at "
	}
	return "the group's override for " + o.Type + " is at "
}
