package awsim

import (
	"cmp"
	"fmt"
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

// readVersionQuery reads which versions DescribeLaunchTemplateVersions is to return.
type versionQuery struct {
	template templateChoice
	names    []string
	least    int // The lowest number; both bounds are taken to be among what is wanted.
	highest  int
	resolve  bool
}

func readVersionQuery(r *reader) versionQuery {
	q := versionQuery{
		template: readTemplateChoice(r),
		names:    r.list("LaunchTemplateVersion"),
		least:    r.number("MinVersion", 1, 1, unbounded),
		highest:  r.number("MaxVersion", unbounded, 1, unbounded),
		resolve:  r.flag("ResolveAlias", false),
	}
	if q.resolve && len(q.names) != 1 {
		// The limit is not documented, but known from users; the code is a guess.
		r.fail(errorf("InvalidParameterCombination",
			"You must specify a single launch template version to resolve its aliases."))
	}
	return q
}

// among returns the templates that the query selects: one, or all of the account if the query is for their
// latest or default versions. It needs mu.
func (q versionQuery) among(a *engine) ([]*template, error) {
	general := func(name string) bool { return name == "$Latest" || name == "$Default" }
	if !q.template.isSet() && len(q.names) > 0 && !slices.ContainsFunc(q.names, func(name string) bool {
		return !general(name)
	}) {
		return a.templates, nil
	}
	t, err := a.catalog.template(q.template)
	if err != nil {
		return nil, err
	}
	return []*template{t}, nil
}

func (a templateAPI) describeLaunchTemplateVersions(r *reader) (any, error) {
	q, filters, most := readVersionQuery(r), r.filters(), r.number("MaxResults", 200, 1, 200)
	return view(a.engine, r, func() (any, error) {
		all, err := a.versions(q)
		if err != nil {
			return nil, err
		}
		if all, err = filtered(filters, all); err != nil {
			return nil, err
		}
		page, next, err := paginateEC2(r, all, versionXML.key, most)
		return struct {
			Versions  []versionXML `xml:"launchTemplateVersionSet>item"`
			NextToken string       `xml:"nextToken,omitempty"`
		}{page, next}, err
	})
}

// versions needs mu.
func (a templateAPI) versions(q versionQuery) ([]versionXML, error) {
	found, err := q.among(a.engine)
	if err != nil {
		return nil, err
	}
	var out []versionXML
	for _, t := range found {
		versions, err := t.pick(q)
		if err != nil {
			return nil, err
		}
		for _, v := range versions {
			wire := a.wireVersion(t, v)
			if q.resolve {
				if wire.Image, err = a.catalog.image(v.image); err != nil {
					return nil, err
				}
			}
			out = append(out, wire)
		}
	}
	return out, nil
}

// key orders versions by template, and the newest of one template first, as EC2 does.
func (v versionXML) key() string { return fmt.Sprintf("%s %012d", v.ID, unbounded-v.Number) }

// fields are what DescribeLaunchTemplateVersions can filter by.
func (v versionXML) fields() map[string][]string {
	return map[string][]string{
		"image-id":           {v.Image},
		"instance-type":      {v.InstanceType},
		"is-default-version": {fmt.Sprint(v.Default)},
	}
}

// pick returns the versions that the query names, each once and the newest first; all if it names none.
func (t *template) pick(q versionQuery) ([]templateVersion, error) {
	out := slices.Clone(t.versions)
	if len(q.names) > 0 {
		out = nil
		for _, name := range q.names {
			v, err := t.version(name)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
	}
	out = slices.DeleteFunc(out, func(v templateVersion) bool {
		return v.number < q.least || v.number > q.highest
	})
	slices.SortFunc(out, func(x, y templateVersion) int { return cmp.Compare(y.number, x.number) })
	return slices.Compact(out), nil
}
