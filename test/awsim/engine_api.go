package awsim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// Group is an Auto Scaling group to be created.
type Group struct {
	Name    string
	Min     int
	Max     int
	Desired int
	// Zones are the region's first three when empty.
	Zones []string
	Tags  map[string]string
	// Market is where the group's instances are bought; on demand when empty.
	Market Market
	// LaunchTemplate is the name or the id of one; a group may do without here.
	LaunchTemplate string
	// LaunchTemplateVersion is a number, $Latest or $Default; $Default when empty.
	LaunchTemplateVersion string
	// Overrides give the group a mixed instances policy, whose base is the launch template.
	Overrides []Override
	// MinHealthy and MaxHealthy are the maintenance policy in percent; there is none while both are zero.
	MinHealthy  int
	MaxHealthy  int
	GracePeriod time.Duration
	// RetainOnAbandon keeps an instance, as Terminating:Retained, when its terminate hook is abandoned.
	RetainOnAbandon bool
	// LaunchesFirst makes the group launch all instances from what it had for the first one, whatever it says later. AWS
	// does not do that: it is for programs that must not replace such instances again and again.
	LaunchesFirst bool
}

// Instance is what the group knows of one of its instances, without any delay.
type Instance struct {
	ID     string
	Zone   string
	State  string
	Health string
	// Version is the number of the launch template's version it was launched from, zero without one.
	Version int
	Type    string
	Image   string

	Launched  time.Time
	Protected bool // From scale in.
}

// CreateGroup creates a group, and starts launching what it desires.
func (s AutoScaling) CreateGroup(spec Group) error {
	a, g := s.asg, s.newGroup(spec)
	return a.updateErr(func() error {
		if a.groups[g.name] != nil {
			return fmt.Errorf("awsim: group %s exists", g.name)
		}
		if err := cmp.Or(g.checkSize(), a.catalog.check(g.source)); err != nil {
			return err
		}
		a.groups[g.name] = g
		a.applySettings(g)
		a.capacity.reconcile(g)
		return nil
	})
}

func (s AutoScaling) newGroup(spec Group) *group {
	g := &group{
		name:        spec.Name,
		min:         spec.Min,
		max:         spec.Max,
		desired:     spec.Desired,
		zones:       slices.Clone(spec.Zones),
		source:      spec.source(),
		market:      spec.Market,
		gracePeriod: spec.GracePeriod,
		retain:      spec.RetainOnAbandon,
		keepsFirst:  spec.LaunchesFirst,
		suspended:   map[string]bool{},
	}
	if len(g.zones) == 0 {
		region := s.asg.server.opts.Region
		g.zones = []string{region + "a", region + "b", region + "c"}
	}
	if spec.MinHealthy != 0 || spec.MaxHealthy != 0 {
		g.policy = &maintenancePolicy{min: spec.MinHealthy, max: spec.MaxHealthy}
	}
	for _, key := range sortedKeys(spec.Tags) {
		g.tags = append(g.tags, tag{Key: key, Value: spec.Tags[key], Propagate: true})
	}
	return g
}

func (g *group) checkSize() error {
	switch {
	case g.max < g.min:
		return errorf("ValidationError",
			"Max bound, %d, must be greater than or equal to min bound, %d", g.max, g.min)
	case g.desired < g.min || g.desired > g.max:
		return errorf("ValidationError", "Desired capacity:%d must be between the specified min size:%d "+
			"and max size:%d", g.desired, g.min, g.max)
	}
	return nil
}

// PutHook creates a lifecycle hook or replaces the one of that name. It sends the test notification first: a
// target that cannot be reached leaves the group unchanged. Timeouts may be shorter than AWS's 30 s;
// DescribeLifecycleHooks rounds them up to seconds.
func (s AutoScaling) PutHook(groupName string, h Hook) error {
	a, h := s.asg, h.withDefaults()
	if target := h.NotificationTargetARN; target != "" {
		a.mu.Lock()
		env := a.bus.envelope()
		a.mu.Unlock()
		body := TestNotification(env, groupName, env.groupARN(groupName))
		subject := "Auto Scaling: test notification for group \"" + groupName + "\""
		if _, err := a.bus.deliver(target, subject, body, a.bus.fromHook(h)); err != nil {
			return fmt.Errorf("awsim: send the test notification of hook %s: %w", h.Name, err)
		}
	}
	return a.changeGroup(groupName, func(g *group) error {
		if i := g.hook(h.Name); i >= 0 {
			g.hooks[i] = h
		} else {
			g.hooks = append(g.hooks, h)
		}
		return nil
	})
}

// AddInstance puts an existing instance into service: the test has created its node, so Machines.Launch is
// not called and no launch hook runs. The group's desired capacity, and its maximum when that is reached,
// grow by one. Without a zone it gets the group's next.
func (s AutoScaling) AddInstance(groupName, instanceID, zone string) error {
	a := s.asg
	return a.changeGroup(groupName, func(g *group) error {
		if a.instances[instanceID] != nil {
			return fmt.Errorf("awsim: instance %s exists", instanceID)
		}
		if zone == "" {
			zone = g.nextZone()
		}
		g.desired++
		g.max = max(g.max, g.desired)
		inst := a.fleet.newInstance(g, instanceID, zone)
		close(inst.booted)
		a.hardware.enterMachine(inst, "running")
		a.fleet.putInService(inst)
		return nil
	})
}

// Terminate ends an instance as TerminateInstanceInAutoScalingGroup does. When it returns, the first
// notifications have been sent.
func (s AutoScaling) Terminate(instanceID string, decrement bool) error {
	return s.asg.capacity.terminateOne(instanceID, decrement)
}

// SetState gives an instance any lifecycle state, for tests of rare ones. Nothing else changes.
func (s AutoScaling) SetState(instanceID, state string) error {
	return s.asg.changeInstance(instanceID, func(inst *instance) { inst.setState(state) })
}

// SetProtection protects an instance from scale-in, or ends that.
func (s AutoScaling) SetProtection(instanceID string, protected bool) error {
	return s.asg.changeInstance(instanceID, func(inst *instance) { inst.protected = protected })
}

// SetLaunchTime sets when an instance was launched first.
func (s EC2) SetLaunchTime(instanceID string, at time.Time) error {
	return s.asg.changeInstance(instanceID, func(inst *instance) { inst.launchedAt = at })
}

// SetStartTime sets when an instance was started last, after it was stopped.
func (s EC2) SetStartTime(instanceID string, at time.Time) error {
	return s.asg.changeInstance(instanceID, func(inst *instance) { inst.startedAt = at })
}

// Instances are the members of the group in order of their launch.
func (s AutoScaling) Instances(groupName string) []Instance {
	a := s.asg
	a.mu.Lock()
	defer a.mu.Unlock()
	return s.list(groupName)
}

// WaitInstances blocks until done returns true for the group's instances. done may keep its argument; it
// must not call the Server.
func (s AutoScaling) WaitInstances(ctx context.Context, groupName string, done func([]Instance) bool) error {
	var last []Instance
	err := s.asg.wait(ctx, func() bool {
		last = s.list(groupName)
		return done(last)
	})
	if err != nil {
		return fmt.Errorf("awsim: the instances of %s are %+v: %w", groupName, last, err)
	}
	return nil
}

// list needs mu.
func (s AutoScaling) list(groupName string) []Instance {
	g, err := s.asg.group(groupName)
	if err != nil {
		return nil
	}
	out := make([]Instance, 0, len(g.members))
	for _, inst := range g.members {
		out = append(out, inst.shown())
	}
	return out
}

// shown needs mu.
func (i *instance) shown() Instance {
	return Instance{
		ID: i.id, Zone: i.zone, State: i.state(), Health: i.health, Version: i.template.number,
		Type: i.template.instanceType, Image: i.template.image,
		Launched: i.launchedAt, Protected: i.protected,
	}
}

// Member is an instance with the name of its group, and false if it is in none.
func (s AutoScaling) Member(instanceID string) (groupName string, found Instance, ok bool) {
	a := s.asg
	a.mu.Lock()
	defer a.mu.Unlock()
	inst := a.instances[instanceID]
	if inst == nil || inst.group == nil {
		return "", Instance{}, false
	}
	return inst.groupName, inst.shown(), true
}

// ResendMessages sends another copy of the notifications of the instance's open actions, with their tokens,
// and returns how many messages that made.
func (s Lifecycle) ResendMessages(instanceID string) int {
	a := s.asg
	var open []*action
	a.mu.Lock()
	if inst := a.instances[instanceID]; inst != nil {
		open = slices.DeleteFunc(slices.Clone(inst.actions), func(act *action) bool { return !act.open() })
	}
	a.mu.Unlock()
	sent := 0
	for _, act := range open {
		sent += a.lifecycle.sendNotifications(act)
	}
	return sent
}

// Resize sets the bounds and the desired capacity of a group, as UpdateAutoScalingGroup does when it names all three.
func (s AutoScaling) Resize(groupName string, least, most, desired int) error {
	return s.asg.changeGroup(groupName, func(g *group) error {
		if err := (&group{min: least, max: most, desired: desired}).checkSize(); err != nil {
			return err
		}
		g.min, g.max = least, most
		return s.asg.capacity.resize(g, desired)
	})
}

// Sizes returns the bounds and the desired capacity of a group, whatever the API answers; zeros if there is no group of
// that name.
func (s AutoScaling) Sizes(groupName string) (least, most, desired int) {
	s.asg.mu.Lock()
	defer s.asg.mu.Unlock()
	if g := s.asg.groups[groupName]; g != nil {
		return g.min, g.max, g.desired
	}
	return 0, 0, 0
}

// Tags returns the tags of a group, whatever the API answers; none if there is no group of that name.
func (s AutoScaling) Tags(groupName string) map[string]string {
	s.asg.mu.Lock()
	defer s.asg.mu.Unlock()
	tags := map[string]string{}
	if g := s.asg.groups[groupName]; g != nil {
		for _, t := range g.tags {
			tags[t.Key] = t.Value
		}
	}
	return tags
}

// Launches are what the group would launch now, one for each of its overrides: Version, Type and Image are set.
func (s AutoScaling) Launches(groupName string) (all []Instance) {
	a := s.asg
	a.mu.Lock()
	defer a.mu.Unlock()
	g, err := a.group(groupName)
	if err != nil {
		return nil
	}
	for n := range g.source.overrides() {
		v, _ := a.catalog.nextLaunch(g.source, n)
		all = append(all, Instance{Version: v.number, Type: v.instanceType, Image: v.image})
	}
	return all
}

// SetDelays slows the engine down from now on.
func (s AutoScaling) SetDelays(d Delays) {
	s.asg.update(func() { s.asg.delays = d })
}

// group needs mu.
func (a *engine) group(name string) (*group, error) {
	if g, ok := a.groups[name]; ok {
		return g, nil
	}
	return nil, errorf("ValidationError",
		"AutoScalingGroup name not found - AutoScalingGroup '%s' not found", name)
}

// terminateOne must be called without mu.
func (a groupEngine) terminateOne(instanceID string, decrement bool) error {
	return a.updateErr(func() error {
		inst, ok := a.instances[instanceID]
		if !ok || inst.group == nil {
			return errNoInstance(instanceID)
		}
		g := inst.group
		if decrement && inst.isRetained() {
			return errorf("ValidationError", "Instance %s is retained, and does not count for the desired capacity. "+
				"Set shouldDecrementDesiredCapacity flag to false.", instanceID)
		}
		if decrement && inst.isLive() {
			if g.desired <= g.min {
				return errorf("ValidationError", "Currently, desiredSize equals minSize (%d). Terminating instance "+
					"without replacement will violate group's min size constraint. Either set "+
					"shouldDecrementDesiredCapacity flag to false or lower group's min size.", g.min)
			}
			g.desired--
			g.resized("Terminating EC2 instance: "+instanceID, "instance %s was taken out of service in response to a user "+
				"request, shrinking the capacity from %d to %d", instanceID, g.desired+1, g.desired)
		}
		a.fleet.terminate(inst)
		a.reconcile(g)
		return nil
	})
}

func errNoInstance(instanceID string) *Error {
	return errorf("ValidationError",
		"Instance Id not found - No managed instance found for instance ID: %s", instanceID)
}

func errNull(member string) *Error {
	return errorf("ValidationError", "1 validation error detected: Value null at '%s' failed to satisfy "+
		"constraint: Member must not be null", member)
}
