package awsim

import (
	"cmp"
	"slices"
	"strings"
)

// readSource is what a group launches its instances from: a launch template, or a mixed instances policy
// whose base is that template. A policy is never changed once a source has it, so that sources can be
// compared.
type source struct {
	template templateChoice
	policy   *mixedPolicy // Nil without one.
}

// mixedPolicy is a mixed instances policy. Its weights are described and not counted: here every instance
// is one unit of the desired capacity.
type mixedPolicy struct {
	overrides    []override
	distribution *document // As it was sent, with AWS's defaults.
}

// override is one entry of a policy. What it leaves empty is taken from the base.
type override struct {
	instanceType string
	weight       string
	image        string
	template     templateChoice
	requirements *document // As it was sent; nil without them.
	allowed      []string  // The patterns of AllowedInstanceTypes in the requirements.
}

func (c source) isSet() bool { return c.template.isSet() }

// overrides returns those of the policy; without any, one that changes nothing.
func (c source) overrides() []override {
	if c.policy == nil || len(c.policy.overrides) == 0 {
		return []override{{}}
	}
	return c.policy.overrides
}

// templates are all that an instance may be launched from, the base first.
func (c source) templates() []templateChoice {
	out := []templateChoice{c.template}
	for _, o := range c.overrides() {
		if o.template.isSet() {
			out = append(out, o.template)
		}
	}
	return out
}

// isPinned: each template has a version that stays what it is.
func (c source) isPinned() bool { return !slices.ContainsFunc(c.templates(), templateChoice.isMoving) }

// isMoving: a number stays what it is, $Latest and $Default may mean another version by now.
func (c templateChoice) isMoving() bool {
	return !c.isSet() || contains([]string{"", "$Latest", "$Default"}, c.version)
}

// check is Auto Scaling's answer to a source that EC2 cannot launch from. It needs mu.
func (a templateEngine) check(c source) error {
	for _, t := range c.templates() {
		if err := a.checkTemplate(t); err != nil {
			return err
		}
	}
	return nil
}

// usesParameter: the image of a template is whatever a parameter says. It needs mu.
func (a templateEngine) usesParameter(c source) bool {
	return slices.ContainsFunc(c.templates(), func(choice templateChoice) bool {
		t, err := a.template(choice)
		if err != nil {
			return false
		}
		v, err := t.version(choice.version)
		return err == nil && v.isParameter()
	})
}

// templateIn is the template that the override launches from.
func (o override) templateIn(c source) templateChoice {
	if o.template.isSet() {
		return o.template
	}
	return c.template
}

// nextLaunch is what the next instance is made of now, and the override that makes it so: they take turns. It
// needs mu.
func (a templateEngine) nextLaunch(c source, turn int) (templateVersion, override) {
	all := c.overrides()
	o := all[turn%len(all)]
	v := a.resolve(o.templateIn(c))
	v.instanceType = cmp.Or(o.instanceType, o.exampleType(), v.instanceType)
	if image, err := a.image(o.image); err == nil && image != "" {
		v.image = image
	}
	return v, o
}

// exampleType is a type that the override's requirements name; empty if they name none.
func (o override) exampleType() string {
	for _, pattern := range o.allowed {
		if !strings.Contains(pattern, "*") {
			return pattern
		}
	}
	if o.requirements != nil {
		return defaultType
	}
	return ""
}

// matchesSource: skip matching compares launch template, version and instance type, not what they make of a
// machine. With overrides any of them may be the one that the instance was launched by. It needs mu.
func (a templateEngine) matchesSource(c source, v templateVersion) bool {
	return slices.ContainsFunc(c.overrides(), func(o override) bool {
		want := a.resolve(o.templateIn(c))
		return v.id == want.id && v.number == want.number && o.allows(v.instanceType, want.instanceType)
	})
}

// allows reports whether the override launches instances of this type.
func (o override) allows(instanceType, base string) bool {
	switch {
	case o.instanceType != "":
		return instanceType == o.instanceType
	case o.requirements != nil:
		return len(o.allowed) == 0 || slices.ContainsFunc(o.allowed, func(pattern string) bool {
			return matches(pattern, instanceType)
		})
	default:
		return instanceType == base
	}
}
