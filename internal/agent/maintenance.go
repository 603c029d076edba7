package agent

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
)

// maintenanceTurns lets only a few nodes be drained for scheduled maintenance at once, because there is no hurry, and
// each takes capacity away. The one whose maintenance starts first has the first turn.
type maintenanceTurns struct {
	nodes Nodes
	most  int
	wake  func(instanceID string) // has the instance decided about, and does not block

	finished     sync.Map // the time of the mark, by the UID of the node: drains that have ended
	contradicted sync.Map // by instance: EC2 has nothing scheduled, whatever its Node says

	mu    sync.Mutex
	begun map[string]bool // by instance
	all   []node.Node     // the Nodes with maintenance, as of the time read
	read  time.Time
}

// nodesReadFor is for how long what was read of all Nodes serves all instances that ask for their turn.
const nodesReadFor = time.Second

// begin reports whether the drain for maintenance of the instance at the given time may start now, and counts
// it if so, until end. Maintenance with a zero time has begun.
func (m *maintenanceTurns) begin(instanceID string, maintenance time.Time, p policy) bool {
	earliest, latest := maintenanceWindow(maintenance, p)
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Before(earliest) || now.Before(latest) && m.others(instanceID, maintenance, p) >= m.most {
		return false
	}
	if m.begun == nil {
		m.begun = map[string]bool{}
	}
	m.begun[instanceID] = true
	return true
}

// others returns how many other instances are drained for maintenance, or have the turn before this one. The drains
// that another process has begun count: this one continues them. What a Node says counts until EC2 contradicts it: a
// kubelet can write it. It must be called with mu locked.
func (m *maintenanceTurns) others(instanceID string, maintenance time.Time, p policy) int {
	ids := maps.Clone(m.begun)
	if ids == nil {
		ids = map[string]bool{}
	}
	for _, n := range m.maintained() {
		earliest, _ := maintenanceWindow(n.Maintenance, p)
		isFirst := cmp.Or(n.Maintenance.Compare(maintenance), cmp.Compare(n.InstanceID, instanceID)) < 0
		isWaiting := !n.Maintenance.IsZero() && n.Manager == "" && n.Mark.Deadline.IsZero() && !time.Now().Before(earliest)
		_, isContradicted := m.contradicted.Load(n.InstanceID)
		if !isContradicted && (isDrainedForMaintenance(n) && !m.isFinished(n) || isWaiting && isFirst) {
			ids[n.InstanceID] = true
		}
	}
	delete(ids, instanceID)
	return len(ids)
}

// maintained returns the Nodes that are, or will be, drained for maintenance.
func (m *maintenanceTurns) maintained() []node.Node {
	if time.Since(m.read) >= nodesReadFor {
		m.read = time.Now()
		m.all = slices.DeleteFunc(m.nodes.All(), func(n node.Node) bool {
			return n.Maintenance.IsZero() && !isDrainedForMaintenance(n)
		})
	}
	return m.all
}

// end ends the turn of the instance, and has those decided about that wait for theirs.
func (m *maintenanceTurns) end(instanceID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.begun, instanceID)
	m.read = time.Time{}
	for _, n := range m.maintained() {
		if !n.Maintenance.IsZero() && n.InstanceID != instanceID && m.wake != nil {
			m.wake(n.InstanceID)
		}
	}
}

// answered records whether EC2 has something scheduled for the instance.
func (m *maintenanceTurns) answered(instanceID string, isScheduled bool) {
	if isScheduled {
		m.contradicted.Delete(instanceID)
	} else {
		m.contradicted.Store(instanceID, true)
	}
}

// finish records the end of a drain.
func (m *maintenanceTurns) finish(uid string, since time.Time) { m.finished.Store(uid, since) }

// retain forgets the drains of all other Nodes.
func (m *maintenanceTurns) retain(nodes []node.Node) {
	uids, instances := map[any]bool{}, map[any]bool{}
	for _, n := range nodes {
		uids[n.UID], instances[n.InstanceID] = true, true
	}
	deleteOthers(&m.finished, uids)
	deleteOthers(&m.contradicted, instances)
}

func (m *maintenanceTurns) isFinished(n node.Node) bool {
	since, _ := m.finished.Load(n.UID)
	at, ok := since.(time.Time)
	return ok && at.Equal(n.Mark.Since)
}

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
