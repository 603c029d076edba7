package awsim

import "slices"

// HideManaged makes AWS services manage the instances and launch templates with these ids, and hides managed resources:
// a call does not describe them unless it has IncludeManagedResources. What EC2 returns for the id of a hidden resource
// is not documented; here, a template does not exist.
func (s EC2) HideManaged(ids ...string) {
	s.asg.update(func() {
		for _, id := range ids {
			s.asg.hidden[id] = true
		}
	})
}

// visible are the instances that the call describes. It needs mu.
func (a *engine) visible(r *reader, all []*instance) []*instance {
	return slices.DeleteFunc(all, func(inst *instance) bool { return !a.isVisible(r, inst.id) })
}

// isVisible reports whether the call describes the resource with this id. It needs mu.
func (a *engine) isVisible(r *reader, id string) bool {
	return !a.hidden[id] || r.values.Get("IncludeManagedResources") == "true"
}
