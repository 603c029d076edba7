package awsim

import (
	"fmt"
	"slices"
	"time"
)

// scheduledChange is one change that EC2 has planned for some instances.
type scheduledChange struct {
	HealthChange
	id          string // instance-event-...
	code        string // EC2's word for it.
	description string
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
// happens.
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
			HealthChange: HealthChange{
				ARN:         a.bus.envelope().healthARN(healthCode),
				Code:        healthCode,
				Start:       start,
				InstanceIDs: slices.Clone(instanceIDs),
				Status:      "upcoming",
			},
			id:          fmt.Sprintf("instance-event-0%016x", a.rand.Uint64()),
			code:        code,
			description: "The instance is scheduled for " + code,
		}
		changeID = change.id
		a.changes = append(a.changes, change)
		a.notices.publishChange(change)
		return nil
	})
	return changeID, err
}

// CancelChange cancels a scheduled change, and AWS Health closes its event.
func (s Notices) CancelChange(changeID string) error {
	return s.asg.notices.closeChange(changeID, "[Canceled] ")
}

// CompleteChange completes a scheduled change, and AWS Health closes its event.
func (s Notices) CompleteChange(changeID string) error {
	return s.asg.notices.closeChange(changeID, "[Completed] ")
}

// ResolveChange completes a scheduled change for some of its instances.
func (s Notices) ResolveChange(changeID string, instanceIDs ...string) error {
	return s.asg.notices.amendChange(changeID, func(c *scheduledChange) {
		c.Resolved = append(c.Resolved, instanceIDs...)
	})
}

func (a noticeEngine) closeChange(id, prefix string) error {
	return a.amendChange(id, func(c *scheduledChange) {
		c.Status = "closed"
		c.description = prefix + c.description
	})
}

// amendChange changes what is planned, once: what is closed stays as it is. It must be called without mu.
func (a noticeEngine) amendChange(id string, amend func(*scheduledChange)) error {
	return a.updateErr(func() error {
		i := slices.IndexFunc(a.changes, func(c *scheduledChange) bool {
			return c.id == id && c.Status != "closed"
		})
		if i < 0 {
			return errorf("InvalidInstanceEventIDNotFound", "The event ID '%s' does not exist", id)
		}
		amend(a.changes[i])
		a.publishChange(a.changes[i])
		return nil
	})
}

// publishChange needs mu.
func (a noticeEngine) publishChange(change *scheduledChange) {
	event := HealthChangeEvent(a.bus.envelope(), change.HealthChange)
	a.later(func() { a.bus.publish(HealthChanged, event) })
}

// changesOf are the changes planned for an instance, those included that are over. It needs mu.
func (a noticeEngine) changesOf(inst *instance) []*scheduledChange {
	var out []*scheduledChange
	for _, change := range a.changes {
		if slices.Contains(change.InstanceIDs, inst.id) {
			out = append(out, change)
		}
	}
	return out
}

// told returns the description of the change for one instance.
func (c *scheduledChange) told(instanceID string) string {
	if c.Status != "closed" && slices.Contains(c.Resolved, instanceID) {
		return "[Completed] " + c.description
	}
	return c.description
}
