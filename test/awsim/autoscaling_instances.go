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
	LaunchTemplate       *templateSpecXML `xml:",omitempty"`
	ProtectedFromScaleIn bool
}

type detailXML struct {
	memberXML
	AutoScalingGroupName string
}

type autoScalingInstancesXML struct {
	AutoScalingInstances []detailXML `xml:"AutoScalingInstances>member"`
}

func memberWire(inst *instance, state string) memberXML {
	out := memberXML{
		InstanceID:           inst.id,
		InstanceType:         inst.template.instanceType,
		AvailabilityZone:     inst.zone,
		LifecycleState:       state,
		HealthStatus:         inst.health,
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

// detailWire spells the health in capitals, which the group's description does not.
func detailWire(inst *instance, state string) detailXML {
	out := detailXML{memberWire(inst, state), inst.groupName}
	out.HealthStatus = strings.ToUpper(out.HealthStatus)
	return out
}

// shown returns the state that the API shows, which is Delays.Visible old. It is empty for an instance that
// was not in the group then, or has not appeared yet.
func (a *engine) shown(inst *instance) string {
	if !inst.hasAppeared() {
		return ""
	}
	if a.delays.Visible == 0 {
		return inst.state()
	}
	return inst.stateAt(time.Now().Add(-a.delays.Visible))
}

// maxInstanceIDs is how many ids one DescribeAutoScalingInstances may have.
const maxInstanceIDs = 50

// describeAutoScalingInstances shows the instances with the ids of the call, which must name some.
func (a instanceAPI) describeAutoScalingInstances(r *reader) (any, error) {
	r.must("InstanceIds.member.1")
	ids := r.members("InstanceIds")
	if len(ids) > maxInstanceIDs {
		r.fail(errorf("ValidationError", "The number of instance ids that may be passed in is limited to %d",
			maxInstanceIDs))
	}
	return view(a.engine, r, func() (any, error) {
		var out autoScalingInstancesXML
		gone := []string{"", stateTerminated, warmed + stateTerminated}
		for _, id := range ids {
			inst := a.instances[id]
			if inst == nil {
				continue
			}
			if state := a.shown(inst); !contains(gone, state) {
				out.AutoScalingInstances = append(out.AutoScalingInstances, detailWire(inst, state))
			}
		}
		return out, nil
	})
}

func (a instanceAPI) terminateInstance(r *reader) (any, error) {
	id := r.must("InstanceId")
	r.must("ShouldDecrementDesiredCapacity")
	decrement := r.flag("ShouldDecrementDesiredCapacity", false)
	if r.err != nil {
		return nil, r.err
	}
	return struct{}{}, a.capacity.terminateOne(id, decrement)
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
		a.capacity.reconcile(inst.group)
		return nil
	})
}

// setInstanceProtection protects instances from scale in, or ends that: all of them, or none.
func (a instanceAPI) setInstanceProtection(r *reader) (any, error) {
	r.must("ProtectedFromScaleIn")
	ids, protected := r.members("InstanceIds"), r.flag("ProtectedFromScaleIn", false)
	return struct{}{}, r.changeGroup(a.engine, func(g *group) error {
		for _, id := range ids {
			inst := a.instances[id]
			if inst == nil || inst.group != g {
				return errorf("ValidationError", "The instance %s is not part of Auto Scaling group %s.", id, g.name)
			}
			if inst.state() != stateInService && inst.state() != "Standby" {
				return errorf("ValidationError", "The instance %s is not in InService or EnteringStandby or Standby.", id)
			}
		}
		for _, id := range ids {
			a.instances[id].protected = protected
		}
		return nil
	})
}

// inGracePeriod reports whether the health check grace period runs. It starts when the instance is in
// service, so one on its way there is still in it.
func (i *instance) inGracePeriod(now time.Time) bool {
	return i.group.gracePeriod > 0 && (i.inServiceAt.IsZero() || now.Sub(i.inServiceAt) < i.group.gracePeriod)
}
