package awsim

import (
	"fmt"
	"slices"
	"time"
)

// scheduledChange is one change that EC2 has planned for some instances.
type scheduledChange struct {
	id          string // instance-event-...
	code        string // EC2's word for it.
	description string
	arn         string // The same in all of AWS Health's events about the change.
	healthCode  string // Health's eventTypeCode.
	start       time.Time
	instanceIDs []string
	closed      bool
}

// changeCodes are EC2's codes of scheduled events, and what AWS Health calls each.
func changeCodes() map[string]string {
	return map[string]string{
		"instance-reboot":     "AWS_EC2_INSTANCE_REBOOT_MAINTENANCE_SCHEDULED",
		"system-reboot":       "AWS_EC2_SYSTEM_REBOOT_MAINTENANCE_SCHEDULED",
		"system-maintenance":  "AWS_EC2_INSTANCE_NETWORK_MAINTENANCE_SCHEDULED",
		"instance-retirement": "AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED",
		"instance-stop":       "AWS_EC2_INSTANCE_STOP_SCHEDULED",
	}
}

// ScheduleChange schedules a change of some instances, by EC2's code such as instance-reboot. AWS Health
// sends one event about it, and DescribeInstanceStatus shows it with the returned id. At its time nothing
// happens in EC2, but groups replace those of the instances that are in service.
func (s Notices) ScheduleChange(
	code string, start time.Time, instanceIDs ...string,
) (changeID string, err error) {
	a := s.asg
	healthCode, ok := changeCodes()[code]
	if !ok {
		return "", fmt.Errorf("awsim: EC2 has no scheduled event %q", code)
	}
	err = a.updateErr(func() error {
		for _, id := range instanceIDs {
			if a.instances[id] == nil {
				return errNoInstance(id)
			}
		}
		change := &scheduledChange{
			id:          fmt.Sprintf("instance-event-0%016x", a.rand.Uint64()),
			code:        code,
			description: "The instance is scheduled for " + code,
			arn:         a.bus.envelope().healthARN(healthCode),
			healthCode:  healthCode,
			start:       start,
			instanceIDs: slices.Clone(instanceIDs),
		}
		changeID = change.id
		a.changes = append(a.changes, change)
		a.notices.publishChange(change)
		a.spawn(func() {
			if a.pause(time.Until(start)) {
				a.update(func() { a.notices.begin(change) })
			}
		})
		return nil
	})
	return changeID, err
}

// begin has the groups check the health of the instances. It needs mu.
func (a noticeEngine) begin(change *scheduledChange) {
	for _, id := range change.instanceIDs {
		if g := a.instances[id].group; g != nil {
			a.capacity.reconcile(g)
		}
	}
}

// failMaintained marks the instances in service unhealthy whose scheduled change has begun, and is neither
// completed nor canceled: "The instance has a scheduled event" makes an instance unhealthy, though not before
// the time of the event (user guide of EC2 Auto Scaling, "Health checks"). An older edition of it has the
// instance replaced almost at once, which awsim does not do. It needs mu.
func (a noticeEngine) failMaintained(g *group) {
	if g.suspended["HealthCheck"] {
		return
	}
	for _, inst := range g.members {
		hasBegun := func(c *scheduledChange) bool { return !c.closed && !time.Now().Before(c.start) }
		if inst.state() == stateInService && slices.ContainsFunc(a.changesOf(inst), hasBegun) {
			inst.health = unhealthy
		}
	}
}

// CancelChange cancels a scheduled change, and AWS Health closes its event.
func (s Notices) CancelChange(changeID string) error {
	return s.asg.notices.closeChange(changeID, "[Canceled] ")
}

// CompleteChange completes a scheduled change, and AWS Health closes its event.
func (s Notices) CompleteChange(changeID string) error {
	return s.asg.notices.closeChange(changeID, "[Completed] ")
}

// closeChange must be called without mu.
func (a noticeEngine) closeChange(id, prefix string) error {
	return a.updateErr(func() error {
		i := slices.IndexFunc(a.changes, func(c *scheduledChange) bool { return c.id == id && !c.closed })
		if i < 0 {
			return fmt.Errorf("awsim: no scheduled change %s", id)
		}
		change := a.changes[i]
		change.closed, change.description = true, prefix+change.description
		a.publishChange(change)
		return nil
	})
}

// publishChange needs mu.
func (a noticeEngine) publishChange(change *scheduledChange) {
	told := *change
	told.start = a.server.told(change.start)
	event := healthEvent(a.bus.envelope(), &told)
	a.later(func() { a.bus.publish(event) })
}

// changesOf are the changes planned for an instance, those included that are over. It needs mu.
func (a noticeEngine) changesOf(inst *instance) []*scheduledChange {
	var out []*scheduledChange
	for _, change := range a.changes {
		if slices.Contains(change.instanceIDs, inst.id) {
			out = append(out, change)
		}
	}
	return out
}
