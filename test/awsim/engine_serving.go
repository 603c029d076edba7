package awsim

import "time"

// CreateServing creates a group as CreateGroup does, but when it returns all that the group desires is in
// service: Machines is not called, no hook runs and no event is sent. If
// versions are given, each instance is of the next of these versions of the launch template, and the group
// has, as always, the version of its spec.
func (s AutoScaling) CreateServing(spec Group, versions ...string) error {
	a := s.asg
	return a.updateErr(func() error {
		g := s.newGroup(spec)
		from := make([]source, max(1, len(versions)))
		for i := range from {
			from[i] = g.source
			if len(versions) > 0 {
				from[i].template.version = versions[i]
			}
			if err := a.catalog.check(from[i]); err != nil {
				return err
			}
		}
		if err := a.capacity.admit(g); err != nil {
			return err
		}
		for i := range g.desired {
			a.capacity.addServing(g, from[i%len(from)], i)
		}
		return nil
	})
}

// addServing needs mu.
func (a groupEngine) addServing(g *group, from source, i int) {
	inst := a.fleet.newInstance(g, a.newInstanceID(), g.zones[i%len(g.zones)])
	inst.template, inst.override = a.catalog.nextLaunch(from, i)
	inst.activity = g.beginActivity(a.rand, "Launching a new EC2 instance: "+inst.id,
		"an instance was created together with its group.", inst)
	inst.activity.end("Successful", "")
	inst.machine, inst.inServiceAt = "running", time.Now()
	inst.setState(stateInService)
	close(inst.booted)
}

// SetLaunchTime sets the launch time of an instance.
func (s EC2) SetLaunchTime(instanceID string, at time.Time) error {
	return s.asg.changeInstance(instanceID, func(inst *instance) { inst.launchedAt = at })
}
