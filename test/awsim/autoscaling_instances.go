package awsim

import (
	"strconv"
	"strings"
	"time"
)

// memberXML is an instance inside its group's description; detailXML has the group's name too.
type memberXML struct {
	InstanceID           string `xml:"InstanceId"`
	InstanceType         string
	AvailabilityZone     string
	LifecycleState       string
	HealthStatus         string
	ImageID              string           `xml:"ImageId,omitempty"`
	WeightedCapacity     string           `xml:",omitempty"`
	LaunchTemplate       *templateSpecXML `xml:",omitempty"`
	ProtectedFromScaleIn bool
}

type detailXML struct {
	memberXML
	AutoScalingGroupName string
}

func memberWire(inst *instance, state string) memberXML {
	out := memberXML{
		InstanceID:           inst.id,
		InstanceType:         inst.template.instanceType,
		AvailabilityZone:     inst.zone,
		LifecycleState:       state,
		HealthStatus:         inst.health,
		WeightedCapacity:     inst.override.weight,
		ProtectedFromScaleIn: inst.protected,
	}
	if inst.override.image != "" {
		out.ImageID = inst.template.image
	}
	if t := inst.template; t.id != "" {
		out.LaunchTemplate = &templateSpecXML{t.id, t.name, strconv.Itoa(t.number)}
	}
	return out
}

func (a *engine) membersWire(g *group) []memberXML {
	var out []memberXML
	for _, inst := range g.members {
		if state := a.shown(inst); state != "" {
			out = append(out, memberWire(inst, state))
		}
	}
	return out
}

// shown returns the state that the API shows, which is Delays.Visible old. It is empty for an instance that
// was not in the group then.
func (a *engine) shown(inst *instance) string {
	if a.delays.Visible == 0 {
		return inst.state()
	}
	return inst.stateAt(time.Now().Add(-a.delays.Visible))
}

type describeInstancesXML struct {
	AutoScalingInstances []detailXML `xml:"AutoScalingInstances>member"`
	NextToken            string      `xml:",omitempty"`
}

// maxInstanceIDs is how many ids, and how many records, one DescribeAutoScalingInstances may have.
const maxInstanceIDs = 50

func (a instanceAPI) describeAutoScalingInstances(r *reader) (any, error) {
	ids := r.members("InstanceIds")
	most := r.number("MaxRecords", maxInstanceIDs, 1, maxInstanceIDs)
	if len(ids) > maxInstanceIDs {
		r.fail(errorf("ValidationError", "The number of instance ids that may be passed in is limited to %d",
			maxInstanceIDs))
	}
	return view(a.engine, r, func() (any, error) {
		var all []detailXML
		gone := []string{"", stateTerminated, warmed + stateTerminated, stateDetached}
		for _, id := range sortedKeys(a.instances) {
			inst := a.instances[id]
			state := a.shown(inst)
			if (len(ids) == 0 || contains(ids, id)) && inst.groupName != "" && !contains(gone, state) {
				all = append(all, detailXML{memberWire(inst, state), inst.groupName})
			}
		}
		id := func(d detailXML) string { return d.InstanceID }
		page, next, err := paginate(all, id, r.text("NextToken"), most)
		return describeInstancesXML{AutoScalingInstances: page, NextToken: next}, err
	})
}

// readInstanceIDs is the one instance to terminate, or the many of a group.
func readInstanceIDs(r *reader, groupName string) []string {
	ids := r.members("InstanceIds")
	switch {
	case len(ids) > 100:
		r.fail(errConstraint("InstanceIds", strings.Join(ids, ","),
			"Member must have length less than or equal to 100"))
	case len(ids) > 0 && groupName == "":
		r.fail(errNull("autoScalingGroupName"))
	case len(ids) == 0:
		ids = []string{r.must("InstanceId")}
	}
	return ids
}

func (a instanceAPI) terminateInstance(r *reader) (any, error) {
	r.must("ShouldDecrementDesiredCapacity")
	decrement := r.flag("ShouldDecrementDesiredCapacity", false)
	groupName := r.text("AutoScalingGroupName")
	ids := readInstanceIDs(r, groupName)
	if r.err != nil {
		return nil, r.err
	}
	if groupName != "" {
		_, err := r.viewGroup(a.engine, func(g *group) (any, error) { return g.pick(ids) })
		if err != nil {
			return nil, err
		}
	}
	var out struct {
		Activity   *activityXML  `xml:",omitempty"`
		Activities []activityXML `xml:"Activities>member,omitempty"`
	}
	for _, id := range ids {
		v, err := a.capacity.terminateOne(id, decrement)
		if err != nil {
			return nil, err
		}
		wire := v.wire()
		if r.has("InstanceId") {
			out.Activity = &wire
		} else {
			out.Activities = append(out.Activities, wire)
		}
	}
	return out, nil
}

// pick is the members with these ids: all of them, or an error.
func (g *group) pick(ids []string, states ...string) ([]*instance, error) {
	var out []*instance
	for _, id := range ids {
		inst := g.member(id)
		switch {
		case inst == nil:
			return nil, errorf("ValidationError", "The instance %s is not part of Auto Scaling group %s.", id, g.name)
		case len(states) > 0 && !contains(states, inst.state()):
			return nil, errorf("ValidationError", "The instance %s is not in %s.", id, strings.Join(states, " or "))
		}
		out = append(out, inst)
	}
	return out, nil
}

func (a instanceAPI) setInstanceHealth(r *reader) (any, error) {
	id := r.must("InstanceId")
	r.must("HealthStatus")
	health := r.oneOf("HealthStatus", "", healthy, unhealthy)
	grace := r.flag("ShouldRespectGracePeriod", true)
	if r.err != nil {
		return nil, r.err
	}
	return nil, a.updateErr(func() error {
		inst, ok := a.instances[id]
		if !ok || inst.group == nil {
			return errNoInstance(id)
		}
		if grace && health == unhealthy && inst.inGracePeriod(time.Now()) {
			return nil
		}
		inst.health = health
		if health == healthy {
			a.capacity.cancelReplacements(inst.group)
		}
		a.capacity.reconcile(inst.group)
		return nil
	})
}

// inGracePeriod reports whether the health check grace period runs. It starts when the instance is in
// service, so one on its way there is still in it.
func (i *instance) inGracePeriod(now time.Time) bool {
	return i.group.gracePeriod > 0 && (i.inServiceAt.IsZero() || now.Sub(i.inServiceAt) < i.group.gracePeriod)
}

// onMembers reads group and instances of a call, and changes them all together.
func (a instanceAPI) onMembers(r *reader, states []string, do func(g *group, all []*instance) error) error {
	ids := r.members("InstanceIds")
	if len(ids) == 0 {
		r.fail(errNull("instanceIds"))
	}
	return r.changeGroup(a.engine, func(g *group) error {
		all, err := g.pick(ids, states...)
		if err != nil {
			return err
		}
		return do(g, all)
	})
}

func (a instanceAPI) setInstanceProtection(r *reader) (any, error) {
	r.must("ProtectedFromScaleIn")
	protected := r.flag("ProtectedFromScaleIn", false)
	return struct{}{}, a.onMembers(r, nil, func(g *group, all []*instance) error {
		for _, inst := range all {
			inst.protected = protected
		}
		a.capacity.reconcile(g)
		return nil
	})
}

type activitiesXML struct {
	Activities []activityXML `xml:"Activities>member"`
}

func (a instanceAPI) enterStandby(r *reader) (any, error) {
	r.must("ShouldDecrementDesiredCapacity")
	decrement := r.flag("ShouldDecrementDesiredCapacity", false)
	var out activitiesXML
	err := a.onMembers(r, []string{stateInService}, func(g *group, all []*instance) error {
		if err := g.shrink(decrement, len(all), "place into standby"); err != nil {
			return err
		}
		for _, inst := range all {
			inst.setState(stateEnteringStandby)
			inst.setState(stateStandby)
			out.Activities = append(out.Activities, a.done(g, inst, "Moving EC2 instance to Standby: "))
		}
		a.capacity.reconcile(g)
		return nil
	})
	return out, err
}

func (a instanceAPI) exitStandby(r *reader) (any, error) {
	var out activitiesXML
	err := a.onMembers(r, []string{stateStandby}, func(g *group, all []*instance) error {
		if err := g.grow(len(all)); err != nil {
			return err
		}
		for _, inst := range all {
			inst.setState(statePending)
			inst.setState(stateInService)
			inst.inServiceAt = time.Now()
			out.Activities = append(out.Activities, a.done(g, inst, "Moving EC2 instance out of Standby: "))
		}
		a.capacity.reconcile(g)
		return nil
	})
	return out, err
}

func (a instanceAPI) detachInstances(r *reader) (any, error) {
	r.must("ShouldDecrementDesiredCapacity")
	decrement := r.flag("ShouldDecrementDesiredCapacity", false)
	var out activitiesXML
	err := a.onMembers(r, []string{stateInService, stateStandby}, func(g *group, all []*instance) error {
		if err := g.shrink(decrement, len(all), "detach"); err != nil {
			return err
		}
		for _, inst := range all {
			inst.setState(stateDetaching)
			out.Activities = append(out.Activities, a.done(g, inst, "Detaching EC2 instance: "))
			inst.setState(stateDetached)
			g.remove(inst)
			inst.group = nil
		}
		a.capacity.reconcile(g)
		return nil
	})
	return out, err
}

func (a instanceAPI) attachInstances(r *reader) (any, error) {
	ids := r.members("InstanceIds")
	return nil, r.changeGroup(a.engine, func(g *group) error {
		for _, id := range ids {
			if inst := a.instances[id]; inst == nil || inst.group != nil || inst.machine != "running" {
				return errorf("ValidationError", "Invalid Instance ID(s): [%s] specified", id)
			}
		}
		if err := g.grow(len(ids)); err != nil {
			return err
		}
		for _, id := range ids {
			inst := a.instances[id]
			inst.group, inst.groupName, inst.health = g, g.name, healthy
			g.members = append(g.members, inst)
			inst.setState(statePending)
			inst.setState(stateInService)
			inst.inServiceAt = time.Now()
			a.done(g, inst, "Attaching an existing EC2 instance: ")
		}
		return nil
	})
}

// done records a change that needed no time. It needs mu.
func (a instanceAPI) done(g *group, inst *instance, description string) activityXML {
	v := g.beginActivity(a.rand, description+inst.id,
		"an instance was moved in response to a user request.", inst)
	v.end("Successful", "")
	return v.wire()
}

// shrink lowers the desired capacity, if it is to be lowered, by n instances that leave the service.
func (g *group) shrink(decrement bool, n int, what string) error {
	if !decrement {
		return nil
	}
	if g.desired-n < g.min {
		return errorf("ValidationError", "AutoScalingGroup %s has min-size=%d, max-size=%d, and desired-size=%d. "+
			"To %s %d more instance(s), please update the AutoScalingGroup sizes appropriately.",
			g.name, g.min, g.max, g.desired, what, n)
	}
	g.desired -= n
	return nil
}

// grow raises the desired capacity by n instances that are attached or leave Standby.
func (g *group) grow(n int) error {
	if g.desired+n > g.max {
		return errorf("ValidationError", "AutoScalingGroup %s has min-size=%d, max-size=%d, and desired-size=%d. "+
			"To add %d more instance(s), please update the AutoScalingGroup sizes appropriately.",
			g.name, g.min, g.max, g.desired, n)
	}
	g.desired += n
	return nil
}
