package awsim

import (
	"cmp"
	"slices"
	"strings"
)

// aliasPrefix marks an image that a launch template leaves to a parameter of Systems Manager.
const aliasPrefix = "resolve:ssm:"

// SetParameter gives a parameter of Systems Manager its value: an image, for launch templates whose image is
// resolve:ssm:NAME. A version or a label that a template names is part of the name here, as in NAME:3; a
// parameter without it has all versions and labels.
func (s EC2) SetParameter(name, imageID string) {
	s.asg.update(func() { s.asg.parameters[name] = imageID })
}

// isParameter reports whether the image is the value of a parameter of Systems Manager.
func (v templateVersion) isParameter() bool { return strings.HasPrefix(v.image, aliasPrefix) }

// image resolves the image of a template. The error code for an unknown parameter is not documented: it is
// the one that EC2 returns for a parameter of the wrong type. It needs mu.
func (a templateEngine) image(word string) (string, error) {
	name, isAlias := strings.CutPrefix(word, aliasPrefix)
	if !isAlias {
		return word, nil
	}
	plain, _, _ := strings.Cut(name, ":")
	if image := cmp.Or(a.parameters[name], a.parameters[plain]); image != "" {
		return image, nil
	}
	return "", errorf("SsmInvalidParameter", "The parameter %s was not found.", name)
}

// describeLaunchTemplateVersions returns the versions that the call names, each once and the newest first; all if
// it names none.
func (a templateAPI) describeLaunchTemplateVersions(r *reader) (any, error) {
	r.refuse("MinVersion", "MaxVersion", "Filter", "MaxResults")
	choice, names, resolve := readTemplateChoice(r), r.list("LaunchTemplateVersion"), r.flag("ResolveAlias", false)
	if resolve && len(names) != 1 {
		// The limit is not documented, but known from users; the code is a guess.
		r.fail(errorf("InvalidParameterCombination",
			"You must specify a single launch template version to resolve its aliases."))
	}
	return view(a.engine, r, func() (any, error) {
		t, err := a.catalog.template(choice)
		if err == nil && !a.isVisible(r, t.id) {
			err = errorf("InvalidLaunchTemplateId.NotFound",
				"The specified launch template, with template ID %s, does not exist.", t.id)
		}
		if err != nil {
			return nil, err
		}
		versions, err := t.pick(names)
		if err != nil {
			return nil, err
		}
		var out struct {
			Versions []versionXML `xml:"launchTemplateVersionSet>item"`
		}
		for _, v := range versions {
			if resolve {
				if v.image, err = a.catalog.image(v.image); err != nil {
					return nil, err
				}
			}
			out.Versions = append(out.Versions, t.wireVersion(v))
		}
		return out, nil
	})
}

// pick returns the versions of these names, or all, as DescribeLaunchTemplateVersions does.
func (t *template) pick(names []string) (out []templateVersion, err error) {
	if len(names) == 0 {
		out = slices.Clone(t.versions)
	}
	for _, name := range names {
		v, err := t.version(name)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(x, y templateVersion) int { return cmp.Compare(y.number, x.number) })
	return slices.Compact(out), nil
}
