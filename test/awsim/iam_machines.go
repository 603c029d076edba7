package awsim

import "slices"

// onMachines reports whether the action is about instances of EC2, so that it can be limited to some (Service
// Authorization Reference, Amazon EC2).
func onMachines(action string) bool {
	return slices.Contains([]string{"ec2:StopInstances", "ec2:StartInstances", "ec2:TerminateInstances"}, action)
}

// machineResources returns the instances with the ids.
func machineResources(a *engine, ids []string) (all []resource) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		on := resource{arn: a.catalog.arn("ec2", "instance/"+id), tags: map[string]string{}}
		if inst := a.instances[id]; inst != nil {
			on.tags = inst.tags
		}
		all = append(all, on)
	}
	return all
}
