package refresh

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/node-drainer/node-drainer/internal/text"
)

// Words for versions, in the API's own.
const (
	latestVersion  = "$Latest"
	defaultVersion = "$Default"
)

// Templates are launch templates that were asked for: what $Latest and $Default are, and the images of
// versions.
type Templates struct {
	byID   map[string]*LaunchTemplate
	byName map[string]*LaunchTemplate
}

// LaunchTemplate is what is known of a launch template.
type LaunchTemplate struct {
	ID, Name        string
	Latest, Default int
	Images          map[int]string // The AMI of each version that was asked for; resolved if it is a parameter.
	Aliases         map[int]bool   // Versions whose AMI is a Systems Manager parameter: it changes on its own.
	Unreadable      string         // Why the parameters of Aliases cannot be read: EC2's words.
	Missing         bool           // It, or the version that was asked for, does not exist.
}

// Target is what the group's instances should have been launched from.
type Target struct {
	Source  Source // With $Latest and $Default resolved to numbers.
	Text    string // In words: "launch template node (lt-1) version 7 ($Latest)".
	Problem string // Why it cannot be said, or cannot be launched from: the template does not exist, …

	AsWritten        Source // The same as it was written, with $Latest and $Default as they are.
	FromGroup        bool   // The group itself is at it: no other version was asked for.
	ImageIsParameter bool   // An AMI of it is a Systems Manager parameter, so that it changes on its own.
}

// NewTemplates files launch templates under their ids and names. A name belongs to the template that exists.
func NewTemplates(all ...LaunchTemplate) Templates {
	t := Templates{byID: map[string]*LaunchTemplate{}, byName: map[string]*LaunchTemplate{}}
	for _, lt := range all {
		if lt.ID != "" {
			t.byID[lt.ID] = &lt
		}
		if known := t.byName[lt.Name]; lt.Name != "" && (known == nil || known.Missing) {
			t.byName[lt.Name] = &lt
		}
	}
	return t
}

// Resolve says what the group's instances should have been launched from. Version is as in Criteria: it
// replaces that of the group's launch template; templates of overrides stay at their own.
func (t Templates) Resolve(g Group, version string) Target {
	words, problem := g.Source.at(version)
	target := Target{AsWritten: words, Problem: problem}
	switch {
	case words.Mixed != nil:
		m := &Mixed{Template: t.take(&target, words.Mixed.Template)}
		for _, o := range words.Mixed.Overrides {
			if o.Template != nil {
				own := t.take(&target, *o.Template)
				o.Template = &own
			}
			m.Overrides = append(m.Overrides, o)
		}
		target.Source.Mixed = m
	case words.Template != nil:
		taken := t.take(&target, *words.Template)
		target.Source.Template = &taken
	default:
		target.Source = words
	}
	target.Text = target.Source.text(words)
	target.FromGroup = version == "" || target.Source.same(t.Resolve(g, "").Source)
	return target
}

// take resolves one of the target's templates, and keeps what is to be said of it.
func (t Templates) take(target *Target, s Template) Template {
	resolved, problem := t.resolve(s)
	target.Problem = cmp.Or(target.Problem, problem)
	if lt := t.find(resolved); lt != nil && lt.Aliases[resolved.number()] {
		target.ImageIsParameter = true
		if lt.Unreadable != "" {
			target.Problem = cmp.Or(target.Problem, fmt.Sprintf("the Systems Manager parameter that names the AMI "+
				"of launch template %s cannot be read (%s)", resolved.at(s.Version), lt.Unreadable))
		}
	}
	return resolved
}

// find returns what is known of a launch template, or nil. What has an id is found by that alone: a template
// that was made anew under the same name is another one.
func (t Templates) find(s Template) *LaunchTemplate {
	if s.ID != "" {
		return t.byID[s.ID]
	}
	return t.byName[s.Name]
}

// resolve fills in the id, the name and the number of the version, as far as they are known, and says what is
// wrong.
func (t Templates) resolve(s Template) (resolved Template, problem string) {
	lt := t.find(s)
	if lt == nil {
		lt = &LaunchTemplate{}
	}
	s.ID, s.Name = cmp.Or(s.ID, lt.ID), cmp.Or(s.Name, lt.Name)
	number := lt.number(s.Version)
	if _, exists := lt.Images[number]; lt.Missing && !exists {
		problem = fmt.Sprintf("launch template %s does not exist", s.at(s.Version))
	} else if number == 0 {
		problem = fmt.Sprintf("it is not known what launch template %s is", s.at(s.Version))
	}
	if number > 0 {
		s.Version = strconv.Itoa(number)
	}
	return s, problem
}

// number is the number of a version as it is written, or 0 if it is not known.
func (t LaunchTemplate) number(version string) int {
	switch version {
	case latestVersion:
		return t.Latest
	case defaultVersion, "":
		return t.Default
	default:
		return Template{Version: version}.number()
	}
}

// image is the AMI of a resolved template, or empty if it is not known.
func (t Templates) image(s Template) string {
	lt := t.find(s)
	if lt == nil {
		return ""
	}
	return lt.Images[s.number()]
}

// number is the version as a number, or 0 if it is none.
func (s Template) number() int {
	n, err := strconv.Atoi(s.Version)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

func numbered(s Template) bool { return s.number() > 0 }

// identical tells whether both are the same template, and whether that can be told. Only where an id is
// missing do names decide.
func (s Template) identical(o Template) (same, known bool) {
	if s.ID != "" && o.ID != "" {
		return s.ID == o.ID, true
	}
	return s.Name == o.Name, s.Name != "" && o.Name != ""
}

// same tells whether both are the same version of the same template.
func (s Template) same(o Template) bool {
	same, known := s.identical(o)
	return same && known && cmp.Or(s.Version, defaultVersion) == cmp.Or(o.Version, defaultVersion)
}

// at names a template and its version: "node (lt-1) version 7 ($Latest)". The word is the version as it was
// written.
func (s Template) at(word string) string {
	name := cmp.Or(s.Name, s.ID)
	if s.Name != "" && s.ID != "" {
		name += " (" + s.ID + ")"
	}
	return name + " version " + s.version(word)
}

// version is the version, and the word for it if it is not the version itself: "7 ($Latest)".
func (s Template) version(word string) string {
	word = cmp.Or(word, defaultVersion)
	if number := cmp.Or(s.Version, defaultVersion); number != word {
		return number + " (" + word + ")"
	}
	return word
}

// at is the source with another version of its launch template, and why that cannot be. Changing it does not
// change s, save for the templates of overrides.
func (s Source) at(version string) (other Source, problem string) {
	switch {
	case s.Mixed != nil:
		m := Mixed{Template: s.Mixed.Template, Overrides: slices.Clone(s.Mixed.Overrides)}
		m.Template.Version = cmp.Or(version, m.Template.Version)
		return Source{Mixed: &m}, ""
	case s.Template != nil:
		t := *s.Template
		t.Version = cmp.Or(version, t.Version)
		return Source{Template: &t}, ""
	case s.Configuration == "":
		return s, "the group has neither a launch template nor a launch configuration"
	case version != "":
		return s, fmt.Sprintf("version %s of a launch template is asked for, but the group has launch "+
			"configuration %s",
			version, s.Configuration)
	default:
		return s, ""
	}
}

// text says in words what a resolved source is.
func (s Source) text(words Source) string {
	switch {
	case s.Mixed != nil:
		policy := "mixed instances policy with launch template " + s.Mixed.Template.at(words.Mixed.Template.Version)
		if n := len(s.Mixed.Overrides); n > 0 {
			policy += " and " + text.Count(n, "override")
		}
		return policy
	case s.Template != nil:
		return "launch template " + s.Template.at(words.Template.Version)
	case s.Configuration != "":
		return "launch configuration " + s.Configuration
	default:
		return "nothing"
	}
}

// same tells whether instances of both sources are the same.
func (s Source) same(o Source) bool {
	switch {
	case s.Mixed != nil:
		return o.Mixed != nil && s.Mixed.Template.same(o.Mixed.Template) &&
			slices.EqualFunc(s.Mixed.Overrides, o.Mixed.Overrides, Override.same)
	case o.Mixed != nil:
		return false
	case s.Template != nil:
		return o.Template != nil && s.Template.same(*o.Template)
	default:
		return o.Template == nil && s.Configuration == o.Configuration
	}
}

func (o Override) same(p Override) bool {
	if o.Type != p.Type || o.Requirements != p.Requirements || o.ImageID != p.ImageID {
		return false
	}
	if o.Template == nil || p.Template == nil {
		return o.Template == p.Template
	}
	return o.Template.same(*p.Template)
}
