package agent

import (
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
)

// isDrainedForMaintenance reports whether the drain of the node for maintenance has begun.
func isDrainedForMaintenance(n node.Node) bool {
	return n.Mark.Reason == string(event.ScheduledChange) && !n.Mark.Deadline.IsZero()
}

// maintenanceOf returns the event that announced the maintenance of the node.
func maintenanceOf(n node.Node, now time.Time) event.Event {
	e, _ := withDeadline(event.Event{
		Kind: event.ScheduledChange, InstanceID: n.InstanceID, At: now, Deadline: n.Maintenance,
	})
	return e
}

// maintenanceStart returns when the maintenance starts for which the node is announced, or drained; zero if it is not.
func maintenanceStart(n node.Node) time.Time {
	if n.Maintenance.IsZero() && n.Mark.Reason == string(event.ScheduledChange) {
		return n.Mark.TerminatesAt
	}
	return n.Maintenance
}
