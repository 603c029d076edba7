package awsim

import "strconv"

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
	out := source{policy: &mixedPolicy{}}
	if before.policy != nil {
		*out.policy, out.template = *before.policy, before.template
	}
	const specification, overrides = "LaunchTemplate.LaunchTemplateSpecification.", "LaunchTemplate.Overrides"
	if r.any(prefix + specification) {
		out.template = readTemplateSpec(r, prefix+specification)
	}
	if r.has(prefix+overrides) || r.any(prefix+overrides+".") {
		out.policy.overrides = readOverrides(r, prefix+overrides)
	}
	if d := readDocument(r, prefix+"InstancesDistribution"); d != nil || out.policy.distribution == nil {
		out.policy.distribution = distribution(d)
	}
	if !out.isSet() {
		r.fail(errorf("ValidationError", "You must specify a launch template in the mixed instances policy."))
	}
	return out
}

// distribution fills in AWS's defaults.
func distribution(d *document) *document {
	if d == nil {
		d = &document{}
	}
	d.without("OnDemandAllocationStrategy", "prioritized")
	d.without("OnDemandBaseCapacity", "0")
	d.without("OnDemandPercentageAboveBaseCapacity", "100")
	d.without("SpotAllocationStrategy", "lowest-price")
	if d.at("SpotAllocationStrategy").text == "lowest-price" {
		d.without("SpotInstancePools", "2")
	}
	return d
}

func readOverrides(r *reader, list string) []override {
	var out []override
	weights := 0
	r.each(list+".member", func(prefix string) {
		o := override{
			instanceType: r.text(prefix + "InstanceType"),
			weight:       r.text(prefix + "WeightedCapacity"),
			image:        r.text(prefix + "ImageId"),
			template:     readTemplateSpec(r, prefix+"LaunchTemplateSpecification."),
			requirements: readDocument(r, prefix+"InstanceRequirements"),
			allowed:      r.members(prefix + "InstanceRequirements.AllowedInstanceTypes"),
		}
		r.number(prefix+"WeightedCapacity", 1, 1, 999)
		weights += score(o.weight != "")
		if o.instanceType != "" && o.requirements != nil {
			r.fail(errorf("ValidationError", "You cannot specify both InstanceType and InstanceRequirements."))
		}
		out = append(out, o)
	})
	if weights != 0 && weights != len(out) {
		r.fail(errorf("ValidationError",
			"You must specify a weighted capacity for all instance types or for none."))
	}
	return out
}

type mixedXML struct {
	Specification         *templateSpecXML `xml:"LaunchTemplate>LaunchTemplateSpecification"`
	Overrides             []overrideXML    `xml:"LaunchTemplate>Overrides>member"`
	InstancesDistribution *document
}

type overrideXML struct {
	InstanceType         string           `xml:",omitempty"`
	WeightedCapacity     string           `xml:",omitempty"`
	Specification        *templateSpecXML `xml:"LaunchTemplateSpecification,omitempty"`
	ImageID              string           `xml:"ImageId,omitempty"`
	InstanceRequirements *document        `xml:",omitempty"`
}

// sourceWire returns the source as AWS describes it: either a launch template or a policy. It needs mu.
func (a templateEngine) sourceWire(c source) (*templateSpecXML, *mixedXML) {
	base := a.templateWire(c.template)
	if c.policy == nil {
		return base, nil
	}
	out := &mixedXML{Specification: base, InstancesDistribution: c.policy.distribution}
	for _, o := range c.policy.overrides {
		out.Overrides = append(out.Overrides, overrideXML{
			InstanceType:         o.instanceType,
			WeightedCapacity:     o.weight,
			Specification:        a.templateWire(o.template),
			ImageID:              o.image,
			InstanceRequirements: o.requirements,
		})
	}
	return nil, out
}

// Override is one entry of a group's mixed instances policy. The group's launch template provides the
// fields that are empty.
type Override struct {
	InstanceType   string
	Weight         int // WeightedCapacity, which is described and not counted.
	ImageID        string
	LaunchTemplate string // Its name or id.
	// LaunchTemplateVersion is a number, $Latest or $Default; $Default when empty.
	LaunchTemplateVersion string
}

// source returns what the group launches from.
func (spec Group) source() source {
	out := source{template: choice(spec.LaunchTemplate, spec.LaunchTemplateVersion)}
	if len(spec.Overrides) == 0 {
		return out
	}
	out.policy = &mixedPolicy{distribution: distribution(nil)}
	for _, one := range spec.Overrides {
		o := override{
			instanceType: one.InstanceType,
			image:        one.ImageID,
			template:     choice(one.LaunchTemplate, one.LaunchTemplateVersion),
		}
		if one.Weight != 0 {
			o.weight = strconv.Itoa(one.Weight)
		}
		out.policy.overrides = append(out.policy.overrides, o)
	}
	return out
}
