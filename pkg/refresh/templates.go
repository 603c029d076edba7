package refresh

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/node-drainer/node-drainer/internal/text"
)

// Versions of a launch template that AWS resolves, in the API's words.
const (
	LatestVersion  = "$Latest"
	DefaultVersion = "$Default"
)

// Templates are launch templates that were read: what $Latest and $Default are, and the images of versions.
type Templates struct {
	byID, byName map[string]LaunchTemplate
}

// LaunchTemplate is what is known of a launch template.
type LaunchTemplate struct {
	ID, Name        string
	Latest, Default int
	Images          map[int]string // The AMI of each version that was read; resolved if it is a parameter.
	Aliases         map[int]bool   // Versions whose AMI is a Systems Manager parameter, which may change.
	Unreadable      string         // Why the parameters of Aliases cannot be read: EC2's error.
	Missing         bool           // It, or the requested version, does not exist.
}

// Target is what the group's instances should have been launched from.
type Target struct {
	Source  Source // With $Latest and $Default resolved to numbers.
	Text    string // "launch template node (lt-1) version 7 ($Latest)".
	Key     string // The same without blanks, for a tag. It changes whenever other instances would be launched.
	Problem string // Why it is unknown, or cannot be launched from: the template does not exist, …

	Newer string // That the template has a newer version than the group's number, and what to do; else empty.

	AsWritten        Source // The same with $Latest and $Default as they were written.
	FromGroup        bool   // It is the group's own source: no other version, nor a number for $Latest, was requested.
	ImageIsParameter bool   // An AMI of it is a Systems Manager parameter, which may change.

	Nodes *NodeVersion // Of ModeNodegroup: what the nodes are to have; else nil.
}

// NewTemplates returns Templates by id and by name. A name stands for the template that exists.
func NewTemplates(all ...LaunchTemplate) Templates {
	t := Templates{map[string]LaunchTemplate{}, map[string]LaunchTemplate{}}
	for _, lt := range all {
		if lt.ID != "" {
			t.byID[lt.ID] = lt
		}
		if known, ok := t.byName[lt.Name]; lt.Name != "" && (!ok || known.Missing) {
			t.byName[lt.Name] = lt
		}
	}
	return t
}

// Resolve returns what the group's instances should have been launched from. The version, as in Criteria,
// replaces that of the group's launch template; templates of overrides keep their own.
func (t Templates) Resolve(g Group, version string) Target {
	written, problem := g.Source.withVersion(version)
	target := Target{Source: written, AsWritten: written, Problem: problem}
	target.Source.Template = t.resolveFor(&target, written.Template)
	target.Source.Overrides = slices.Clone(written.Overrides)
	for n, o := range written.Overrides {
		target.Source.Overrides[n].Template = t.resolveFor(&target, o.Template)
	}
	target.Text, target.Key = target.Source.describe(written), t.key(target.Source)
	if version == "" && written.Template != nil {
		target.Newer = t.newer(*target.Source.Template, *written.Template)
	}
	target.FromGroup = version == "" || target.Source.same(t.Resolve(g, "").Source) && !isNumberFor(version, g.Source)
	return target
}

// isNumberFor reports whether a number is requested of a group that follows $Latest or $Default, which may change.
func isNumberFor(version string, s Source) bool {
	return (Template{Version: version}).number() > 0 && s.isUnpinned()
}

// newer says that the template has a newer version than the number that was written.
func (t Templates) newer(resolved, written Template) string {
	lt := t.find(resolved)
	if written.number() == 0 || lt.Latest <= written.number() {
		return ""
	}
	return fmt.Sprintf("launch template %s has version %d: to use it, change the group, or set "+
		"--launch-template-version %d", resolved.name(), lt.Latest, lt.Latest)
}

// resolveFor resolves one of the target's templates, if it has it, and sets its problem in the target.
func (t Templates) resolveFor(target *Target, s *Template) *Template {
	if s == nil {
		return nil
	}
	resolved, problem := t.resolve(*s)
	target.Problem = cmp.Or(target.Problem, problem)
	if lt := t.find(resolved); lt.Aliases[resolved.number()] {
		target.ImageIsParameter = true
		if lt.Unreadable != "" && !isImageID(lt.Images[resolved.number()]) {
			target.Problem = cmp.Or(target.Problem, fmt.Sprintf("the Systems Manager parameter that names the AMI "+
				"of launch template %s cannot be read (%s)", resolved.describe(s.Version), lt.Unreadable))
		}
	}
	return &resolved
}

// find returns what is known of a launch template. One with an id is found by that only: if it was created
// again under the same name, it is another template.
func (t Templates) find(s Template) LaunchTemplate {
	if s.ID != "" {
		return t.byID[s.ID]
	}
	return t.byName[s.Name]
}

// resolve fills in the id, the name and the number of the version as far as they are known, and returns what
// is wrong with them.
func (t Templates) resolve(s Template) (resolved Template, problem string) {
	lt := t.find(s)
	s.ID, s.Name = cmp.Or(s.ID, lt.ID), cmp.Or(s.Name, lt.Name)
	number := lt.Number(s.Version)
	if _, exists := lt.Images[number]; lt.Missing && !exists {
		problem = fmt.Sprintf("launch template %s does not exist", s.describe(s.Version))
	} else if number == 0 {
		problem = fmt.Sprintf("launch template %s is unknown", s.describe(s.Version))
	}
	if number > 0 {
		s.Version = strconv.Itoa(number)
	}
	return s, problem
}

// Number is the number of a version as it is written, or 0 if it is unknown.
func (t LaunchTemplate) Number(version string) int {
	switch version {
	case LatestVersion:
		return t.Latest
	case DefaultVersion, "":
		return t.Default
	default:
		return Template{Version: version}.number()
	}
}

// image is the AMI of a resolved template, or empty if it is unknown.
func (t Templates) image(s Template) string { return t.find(s).Images[s.number()] }

// number is the version as a number, or 0 if it is not one.
func (s Template) number() int {
	n, err := strconv.Atoi(s.Version)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// identical reports whether both are the same template, and whether that is known. Names decide only if an id
// is missing.
func (s Template) identical(o Template) (same, known bool) {
	if s.ID != "" && o.ID != "" {
		return s.ID == o.ID, true
	}
	return s.Name == o.Name, s.Name != "" && o.Name != ""
}

// same reports whether both are the same version of the same template, or both are none.
func (s *Template) same(o *Template) bool {
	if s == nil || o == nil {
		return s == o
	}
	same, known := s.identical(*o)
	return same && known && cmp.Or(s.Version, DefaultVersion) == cmp.Or(o.Version, DefaultVersion)
}

// describe names a template and its version: "node (lt-1) version 7 ($Latest)". The argument is the version
// as it was written.
func (s Template) describe(written string) string {
	return s.name() + " version " + s.describeVersion(written)
}

// name is the name of the template, with its id as far as it is known: "node (lt-1)".
func (s Template) name() string {
	if s.Name != "" && s.ID != "" {
		return s.Name + " (" + s.ID + ")"
	}
	return cmp.Or(s.Name, s.ID)
}

// describeVersion is the version, with the way it was written if that differs: "7 ($Latest)".
func (s Template) describeVersion(written string) string {
	written = cmp.Or(written, DefaultVersion)
	if number := cmp.Or(s.Version, DefaultVersion); number != written {
		return number + " (" + written + ")"
	}
	return written
}

// withVersion is a copy of the source with another version of its launch template, and why there is none. The
// templates of overrides are not copied.
func (s Source) withVersion(version string) (other Source, problem string) {
	switch {
	case s.Template != nil:
		s.Template = &Template{s.Template.ID, s.Template.Name, cmp.Or(version, s.Template.Version)}
	case s.Configuration == "":
		problem = "the group has neither a launch template nor a launch configuration"
	case version != "":
		problem = fmt.Sprintf("version %s of a launch template is requested, but the group has launch configuration %s",
			version, s.Configuration)
	}
	return s, problem
}

// describe names a resolved source.
func (s Source) describe(written Source) string {
	switch {
	case s.Configuration != "":
		return "launch configuration " + s.Configuration
	case s.Template == nil:
		return "nothing"
	}
	name := "launch template " + s.Template.describe(written.Template.Version)
	if s.Mixed {
		name = "mixed instances policy with " + name
	}
	if n := len(s.Overrides); n > 0 {
		name += " and " + text.Count(n, "override")
	}
	return name
}

// same reports whether both launch the same instances.
func (s Source) same(o Source) bool {
	return s.Configuration == o.Configuration && s.Template.same(o.Template) && s.Mixed == o.Mixed &&
		slices.EqualFunc(s.Overrides, o.Overrides, Override.same)
}

func (o Override) same(p Override) bool {
	return o.Type == p.Type && o.Requirements == p.Requirements && o.ImageID == p.ImageID &&
		o.Template.same(p.Template) && slices.Equal(o.Allowed, p.Allowed) && slices.Equal(o.Excluded, p.Excluded)
}
