package awsim

// readSource reads what a group is to launch from over what it launched from before. Of a mixed instances
// policy it reads only the parts that the call names: a part that it names replaces the old one whole.
func readSource(r *reader, prefix string, before source) source {
	template, mixed := prefix+"LaunchTemplate.", prefix+"MixedInstancesPolicy."
	switch {
	case r.any(template) && r.any(mixed):
		r.fail(errorf("ValidationError", "Valid requests must contain either LaunchTemplate, "+
			"LaunchConfigurationName, InstanceId or MixedInstancesPolicy parameter."))
	case r.any(template):
		return source{template: readTemplateSpec(r, template)}
	case r.any(mixed):
		return readMixedPolicy(r, mixed, before)
	}
	return before
}

// readTemplateSpec reads a launch template specification. One with both an id and a name is refused, although
// DescribeAutoScalingGroups returns both.
func readTemplateSpec(r *reader, prefix string) templateChoice {
	c := templateChoice{
		id:      r.text(prefix + "LaunchTemplateId"),
		name:    r.text(prefix + "LaunchTemplateName"),
		version: r.text(prefix + "Version"),
	}
	if r.any(prefix) && (c.id == "") == (c.name == "") {
		r.fail(errorf("ValidationError",
			"Valid requests must contain either launchTemplateId or LaunchTemplateName"))
	}
	return c
}

func readMixedPolicy(r *reader, prefix string, before source) source {
	out := source{template: before.template, policy: &mixedPolicy{}}
	const specification, overrides = "LaunchTemplate.LaunchTemplateSpecification.", "LaunchTemplate.Overrides"
	if r.any(prefix + specification) {
		out.template = readTemplateSpec(r, prefix+specification)
	}
	if r.has(prefix+overrides) || r.any(prefix+overrides+".") {
		out.policy.overrides = readOverrides(r, prefix+overrides)
	} else if before.policy != nil {
		out.policy.overrides = before.policy.overrides
	}
	if !out.isSet() {
		r.fail(errorf("ValidationError", "You must specify a launch template in the mixed instances policy."))
	}
	return out
}

func readOverrides(r *reader, list string) []override {
	var out []override
	r.each(list+".member", func(prefix string) {
		out = append(out, override{
			instanceType: r.text(prefix + "InstanceType"),
			image:        r.text(prefix + "ImageId"),
			template:     readTemplateSpec(r, prefix+"LaunchTemplateSpecification."),
			requirements: r.any(prefix + "InstanceRequirements."),
		})
	})
	return out
}

type mixedXML struct {
	Specification *templateSpecXML `xml:"LaunchTemplate>LaunchTemplateSpecification"`
	Overrides     []overrideXML    `xml:"LaunchTemplate>Overrides>member"`
}

type overrideXML struct {
	InstanceType  string           `xml:",omitempty"`
	Specification *templateSpecXML `xml:"LaunchTemplateSpecification,omitempty"`
	ImageID       string           `xml:"ImageId,omitempty"`
	Requirements  *requirementsXML `xml:"InstanceRequirements,omitempty"`
}

// requirementsXML is what the API requires of them. Nothing here goes by the numbers.
type requirementsXML struct {
	CPUs   int `xml:"VCpuCount>Min"`
	Memory int `xml:"MemoryMiB>Min"`
}

// sourceWire returns the source as AWS describes it: either a launch template or a policy. It needs mu.
func (a templateEngine) sourceWire(c source) (*templateSpecXML, *mixedXML) {
	base := a.templateWire(c.template)
	if c.policy == nil {
		return base, nil
	}
	out := &mixedXML{Specification: base}
	for _, o := range c.policy.overrides {
		wire := overrideXML{InstanceType: o.instanceType, Specification: a.templateWire(o.template), ImageID: o.image}
		if o.requirements {
			wire.Requirements = &requirementsXML{2, 4096}
		}
		out.Overrides = append(out.Overrides, wire)
	}
	return nil, out
}

// Override is one entry of a group's mixed instances policy. The group's launch template provides the
// fields that are empty.
type Override struct {
	InstanceType   string
	ImageID        string
	LaunchTemplate string // Its name or id.
	// LaunchTemplateVersion is a number, $Latest or $Default; $Default when empty.
	LaunchTemplateVersion string
	// InstanceRequirements stand for a type. An instance gets that of the launch template then.
	InstanceRequirements bool
}

// source returns what the group launches from.
func (spec Group) source() source {
	out := source{template: choice(spec.LaunchTemplate, spec.LaunchTemplateVersion)}
	if len(spec.Overrides) == 0 {
		return out
	}
	out.policy = &mixedPolicy{}
	for _, o := range spec.Overrides {
		template := choice(o.LaunchTemplate, o.LaunchTemplateVersion)
		out.policy.overrides = append(out.policy.overrides,
			override{o.InstanceType, o.ImageID, template, o.InstanceRequirements})
	}
	return out
}
