package awsim

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// What an instance is launched from without a launch template.
const (
	defaultImage = "ami-00000000000000000"
	defaultType  = "m5.large"
)

// template is one launch template; its versions are numbered from 1.
type template struct {
	id        string
	name      string
	versions  []templateVersion
	preferred int // The default version's number.
}

// templateVersion is one version. Of its data only what matters here is kept.
type templateVersion struct {
	id           string
	name         string
	number       int
	image        string
	instanceType string
	profile      string // The name of its instance profile.
	tagged       bool   // It tags what it launches.
}

// templateChoice selects what a group launches from: a template by id or name, and a version.
type templateChoice struct {
	id      string
	name    string
	version string
}

// choice returns the template of this name or id, in this version.
func choice(nameOrID, version string) templateChoice {
	if strings.HasPrefix(nameOrID, "lt-") {
		return templateChoice{id: nameOrID, version: version}
	}
	return templateChoice{name: nameOrID, version: version}
}

func (c templateChoice) isSet() bool { return c.id != "" || c.name != "" }

type templateSpecXML struct {
	LaunchTemplateID   string `xml:"LaunchTemplateId"`
	LaunchTemplateName string
	Version            string `xml:",omitempty"`
}

// readTemplateChoice reads a launch template's id or name. EC2 takes only one of them.
func readTemplateChoice(r *reader) templateChoice {
	c := templateChoice{id: r.text("LaunchTemplateId"), name: r.text("LaunchTemplateName")}
	if c.id != "" && c.name != "" {
		r.fail(errorf("InvalidParameterCombination",
			"You must specify either the launch template ID or the launch template name, but not both."))
	}
	return c
}

// template needs mu.
func (a templateEngine) template(c templateChoice) (*template, error) {
	for _, t := range a.templates {
		if t.id == c.id || c.id == "" && t.name == c.name {
			return t, nil
		}
	}
	switch {
	case c.id != "":
		return nil, errorf("InvalidLaunchTemplateId.NotFound",
			"The specified launch template, with template ID %s, does not exist.", c.id)
	case c.name != "":
		return nil, errorf("InvalidLaunchTemplateName.NotFoundException",
			"The specified launch template, with template name %s, does not exist.", c.name)
	default:
		return nil, errorf("MissingParameter",
			"Either the launch template ID or the launch template name must be specified.")
	}
}

// version is the one that is meant by a number, $Latest, $Default or nothing, which is $Default too.
func (t *template) version(name string) (templateVersion, error) {
	number := t.preferred
	switch name {
	case "", "$Default":
	case "$Latest":
		number = len(t.versions)
	default:
		n, err := strconv.Atoi(name)
		if err != nil || n < 1 || n > len(t.versions) {
			return templateVersion{}, errorf("InvalidLaunchTemplateId.VersionNotFound",
				"Could not find the specified version %s for the launch template with ID %s.", name, t.id)
		}
		number = n
	}
	return t.versions[number-1], nil
}

// checkTemplate is Auto Scaling's answer to a launch template that EC2 does not know. It needs mu.
func (a templateEngine) checkTemplate(c templateChoice) error {
	if !c.isSet() {
		return nil
	}
	t, err := a.template(c)
	if err == nil {
		_, err = t.version(c.version)
	}
	if err != nil {
		return errorf("ValidationError",
			"You must use a valid fully-formed launch template. %s", strings.SplitN(err.Error(), ": ", 2)[1])
	}
	return nil
}

// resolve is the version that an instance is launched from now. It needs mu.
func (a templateEngine) resolve(c templateChoice) templateVersion {
	var v templateVersion
	if t, err := a.template(c); err == nil {
		v, _ = t.version(c.version)
	}
	if image, err := a.image(v.image); err == nil {
		v.image = image
	}
	v.image, v.instanceType = cmp.Or(v.image, defaultImage), cmp.Or(v.instanceType, defaultType)
	return v
}

// templateWire returns the group's choice with both id and name, as AWS does. It needs mu.
func (a templateEngine) templateWire(c templateChoice) *templateSpecXML {
	t, err := a.template(c)
	if err != nil {
		return nil
	}
	return &templateSpecXML{LaunchTemplateID: t.id, LaunchTemplateName: t.name, Version: c.version}
}

type templateXML struct {
	ID      string `xml:"launchTemplateId"`
	Name    string `xml:"launchTemplateName"`
	Default int    `xml:"defaultVersionNumber"`
	Latest  int    `xml:"latestVersionNumber"`
}

type versionXML struct {
	ID           string `xml:"launchTemplateId"`
	Name         string `xml:"launchTemplateName"`
	Number       int    `xml:"versionNumber"`
	Default      bool   `xml:"defaultVersion"`
	Image        string `xml:"launchTemplateData>imageId,omitempty"`
	InstanceType string `xml:"launchTemplateData>instanceType,omitempty"`
}

func (t *template) wire() templateXML {
	return templateXML{ID: t.id, Name: t.name, Default: t.preferred, Latest: len(t.versions)}
}

func (t *template) wireVersion(v templateVersion) versionXML {
	return versionXML{
		ID: t.id, Name: t.name, Number: v.number, Default: v.number == t.preferred,
		Image: v.image, InstanceType: v.instanceType,
	}
}

// add appends a version with the parameters of the call, and those of the source for the others.
func (t *template) add(r *reader, source templateVersion) templateVersion {
	v := templateVersion{
		id:           t.id,
		name:         t.name,
		number:       len(t.versions) + 1,
		image:        cmp.Or(r.text("LaunchTemplateData.ImageId"), source.image),
		instanceType: cmp.Or(r.text("LaunchTemplateData.InstanceType"), source.instanceType),
		profile:      cmp.Or(r.text("LaunchTemplateData.IamInstanceProfile.Name"), source.profile),
		tagged:       r.any("LaunchTemplateData.TagSpecification.") || source.tagged,
	}
	t.versions = append(t.versions, v)
	return v
}

// CreateLaunchTemplate makes a template with one version of this image, and returns its id.
func (s EC2) CreateLaunchTemplate(name, imageID string) (string, error) {
	var id string
	err := s.asg.updateErr(func() error {
		values := url.Values{"LaunchTemplateData.ImageId": {imageID}}
		t, err := s.asg.catalog.addTemplate(name, &reader{values: values})
		if err == nil {
			id = t.id
		}
		return err
	})
	return id, err
}

// addTemplate needs mu.
func (a templateEngine) addTemplate(name string, r *reader) (*template, error) {
	if _, err := a.template(templateChoice{name: name}); err == nil {
		return nil, errorf("InvalidLaunchTemplateName.AlreadyExistsException",
			"Launch template name already in use.")
	}
	t := &template{id: fmt.Sprintf("lt-0%016x", a.rand.Uint64()), name: name, preferred: 1}
	t.add(r, templateVersion{})
	a.templates = append(a.templates, t)
	return t, nil
}

func (a templateAPI) createLaunchTemplate(r *reader) (any, error) {
	name := r.must("LaunchTemplateName")
	if r.err != nil {
		return nil, errorf("MissingParameter", "The request must contain the parameter LaunchTemplateName")
	}
	var out struct {
		Template templateXML `xml:"launchTemplate"`
	}
	return &out, a.updateErr(func() error {
		t, err := a.catalog.addTemplate(name, r)
		if err == nil {
			out.Template = t.wire()
		}
		return err
	})
}

func (a templateAPI) createLaunchTemplateVersion(r *reader) (any, error) {
	var out struct {
		Version versionXML `xml:"launchTemplateVersion"`
	}
	return &out, a.changeTemplate(r, func(t *template) (err error) {
		var source templateVersion
		if name := r.text("SourceVersion"); name != "" {
			if source, err = t.version(name); err != nil {
				return err
			}
		}
		out.Version = t.wireVersion(t.add(r, source))
		return nil
	})
}

// changeTemplate changes the launch template that the call names.
func (a templateAPI) changeTemplate(r *reader, change func(t *template) error) error {
	choice := readTemplateChoice(r)
	if r.err != nil {
		return r.err
	}
	return a.updateErr(func() error {
		t, err := a.catalog.template(choice)
		if err != nil {
			return err
		}
		return change(t)
	})
}

func (a templateAPI) modifyLaunchTemplate(r *reader) (any, error) {
	var out struct {
		Template templateXML `xml:"launchTemplate"`
	}
	return &out, a.changeTemplate(r, func(t *template) error {
		v, err := t.version(r.text("SetDefaultVersion"))
		if err != nil {
			return err
		}
		t.preferred = v.number
		out.Template = t.wire()
		return nil
	})
}
