package awsim

import (
	"cmp"
	"slices"
)

// source is what a group launches its instances from: a launch template, or a mixed instances policy whose
// base is that template. A policy is never changed once a source has it, so that sources can be compared.
type source struct {
	template templateChoice
	policy   *mixedPolicy // Nil without one.
}

// mixedPolicy is a mixed instances policy, without its weights and its distribution.
type mixedPolicy struct{ overrides []override }

// override is one entry of a policy. What it leaves empty is taken from the base.
type override struct {
	instanceType string
	image        string
	template     templateChoice
	requirements bool // Attributes stand for the type.
}

func (c source) isSet() bool { return c.template.isSet() }

// overrides returns those of the policy; without any, one that changes nothing.
func (c source) overrides() []override {
	if c.policy == nil || len(c.policy.overrides) == 0 {
		return []override{{}}
	}
	return c.policy.overrides
}

// byRequirements reports whether the policy names types by their attributes.
func (c source) byRequirements() bool {
	return slices.ContainsFunc(c.overrides(), func(o override) bool { return o.requirements })
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

// isPinned reports whether no template of the source has a version that can move.
func (c source) isPinned() bool { return !slices.ContainsFunc(c.templates(), templateChoice.isMoving) }

// isMoving reports whether the version is $Latest or $Default, which can become another version.
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

// usesParameter reports whether the image of a template is a parameter of Systems Manager. It needs mu.
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

// nextLaunch is what the next instance is made of now, and the override that makes it so: they take turns. It
// needs mu.
func (a templateEngine) nextLaunch(c source, turn int) (templateVersion, override) {
	all := c.overrides()
	o := all[turn%len(all)]
	v := a.resolve(cmp.Or(o.template, c.template))
	v.instanceType = cmp.Or(o.instanceType, v.instanceType)
	if image, err := a.image(o.image); err == nil && image != "" {
		v.image = image
	}
	return v, o
}

// matchesSource implements skip matching, which compares launch template, version and instance type, not
// what they make of a machine. With overrides any of them may be the one that the instance was launched by.
// It needs mu.
func (a templateEngine) matchesSource(c source, v templateVersion) bool {
	return slices.ContainsFunc(c.overrides(), func(o override) bool {
		want := a.resolve(cmp.Or(o.template, c.template))
		return v.id == want.id && v.number == want.number && v.instanceType == cmp.Or(o.instanceType, want.instanceType)
	})
}
