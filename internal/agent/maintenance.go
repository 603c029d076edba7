package agent

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
)

// maintainedNodes are the Nodes of instances that have maintenance ahead.
type maintainedNodes interface {
	All() []node.Node
	// Announce records on the Node when its maintenance starts. It returns when the cache shows it.
	Announce(ctx context.Context, n node.Node, startsAt time.Time) error
	// EndMaintenance removes that record.
	EndMaintenance(ctx context.Context, n node.Node) error
}

// maintenanceObserver records which drains wait.
type maintenanceObserver interface {
	DrainPostponed(n node.Node, p node.Postponement)
}

// maintenanceDrains starts the drains for scheduled maintenance in time: not long before it, and only a few
// at once, because there is no hurry, and each takes capacity away. It knows which nodes wait from the Nodes
// alone, so that it continues after a restart. Nothing is in flight for a node that waits; the node is not
// cordoned, and its pods run on.
type maintenanceDrains struct {
	cfg      Config
	nodes    maintainedNodes
	observer maintenanceObserver
	inflight *inflight
	history  *drainHistory
	drain    func(context.Context, event.Event) error // acts on an event whose time has come
	changed  chan struct{}                            // has an element if a drain may be able to start

	mu    sync.Mutex
	begun map[string]bool // drains of this process that run, by the id of the instance

	// Only run uses these, by the UID of the node.
	started  map[string]time.Time         // when the last drain was started
	observed map[string]node.Postponement // by the observer
}

// window returns the times between which the drain for maintenance at the given time starts: from earliest on
// if few others run, and at latest in any case, because it needs as much time as any other drain.
func (m *maintenanceDrains) window(maintenance time.Time) (earliest, latest time.Time) {
	end := maintenance.Add(-m.cfg.Events.Margin)
	earliest = end.Add(-m.cfg.Events.ScheduledChangeLead)
	return earliest, laterOf(earliest, end.Add(-m.cfg.DrainTimeout))
}

func laterOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// begin reports whether the drain for maintenance of the instance at the given time may start now, and counts
// it if so. The caller calls the returned function at its end. Maintenance with a zero time has begun. all are
// all Nodes.
func (m *maintenanceDrains) begin(
	instanceID string, maintenance time.Time, all []node.Node,
) (end func(), ok bool) {
	earliest, latest := m.window(maintenance)
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Before(earliest) || now.Before(latest) && m.others(instanceID, all) >= m.cfg.Events.ScheduledChangeDrains {
		return nil, false
	}
	if m.begun == nil {
		m.begun = map[string]bool{}
	}
	m.begun[instanceID] = true
	return func() {
		m.mu.Lock()
		delete(m.begun, instanceID)
		m.mu.Unlock()
		m.wakeUp()
	}, true
}

// others returns how many other instances are drained for maintenance. The drains that another process has
// begun count: this one continues them. It must be called with mu locked.
func (m *maintenanceDrains) others(instanceID string, all []node.Node) int {
	ids := maps.Clone(m.begun)
	if ids == nil {
		ids = map[string]bool{}
	}
	for _, n := range all {
		if isDrainedForMaintenance(n) && !m.history.isDrained(n) {
			ids[n.InstanceID] = true
		}
	}
	delete(ids, instanceID)
	return len(ids)
}

// isDrainedForMaintenance reports whether the drain of the node for maintenance has begun.
func isDrainedForMaintenance(n node.Node) bool {
	return n.Mark.Reason == string(event.ScheduledChange) && !n.Mark.Deadline.IsZero()
}

// wakeUp has run look at the Nodes. It does not block.
func (m *maintenanceDrains) wakeUp() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// run starts the drains of the nodes that wait, each in its time, until ctx ends. It returns when they have
// ended.
func (m *maintenanceDrains) run(ctx context.Context) {
	m.started, m.observed = map[string]time.Time{}, map[string]node.Postponement{}
	var drains sync.WaitGroup
	defer drains.Wait()
	for {
		next := time.NewTimer(m.startDue(func(n node.Node, end func()) {
			drains.Go(func() {
				defer end()
				_ = m.drain(ctx, maintenanceOf(n)) // the observer has been notified of the error
			})
		}))
		select {
		case <-m.changed:
		case <-next.C:
		case <-ctx.Done():
		}
		next.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// startDue passes the nodes whose drain may begin to start, and reports the others. It returns how long to
// wait until the next one may be due; at most as long as the interval of the resyncs, which may change Nodes.
func (m *maintenanceDrains) startDue(start func(n node.Node, end func())) time.Duration {
	pause, all := m.cfg.ResyncInterval, m.nodes.All()
	for _, n := range m.waiting(all) {
		if end, ok := m.begin(n.InstanceID, n.Maintenance, all); ok {
			m.started[n.UID] = time.Now()
			delete(m.observed, n.UID)
			start(n, end)
			continue
		}
		p := m.postponement(n)
		if m.observed[n.UID] != p {
			m.observed[n.UID] = p
			m.observer.DrainPostponed(n, p)
		}
		pause = min(pause, time.Until(p.Until))
	}
	return pause
}

func (m *maintenanceDrains) postponement(n node.Node) node.Postponement {
	earliest, latest := m.window(n.Maintenance)
	if time.Now().Before(earliest) {
		return node.Postponement{Maintenance: n.Maintenance, Until: earliest}
	}
	return node.Postponement{Maintenance: n.Maintenance, Until: latest, Busy: true}
}

// waiting returns those of the nodes whose drain for maintenance has not started, the earliest maintenance
// first. A drain that could not cordon its node is tried again after the interval of the resyncs.
func (m *maintenanceDrains) waiting(all []node.Node) []node.Node {
	exists := make(map[string]bool, len(all))
	waiting := slices.DeleteFunc(slices.Clone(all), func(n node.Node) bool {
		exists[n.UID] = true
		return n.Maintenance.IsZero() || n.Manager != "" || m.isActedOn(n) || m.inflight.has(maintenanceOf(n)) ||
			time.Since(m.started[n.UID]) < m.cfg.ResyncInterval
	})
	maps.DeleteFunc(m.started, func(uid string, _ time.Time) bool { return !exists[uid] })
	maps.DeleteFunc(m.observed, func(uid string, _ node.Postponement) bool { return !exists[uid] })
	slices.SortFunc(waiting, func(a, b node.Node) int {
		return cmp.Or(a.Maintenance.Compare(b.Maintenance), cmp.Compare(a.Name, b.Name))
	})
	return waiting
}

// unannounced returns those of the nodes for which a message about maintenance would be acted on, and none is.
func (m *maintenanceDrains) unannounced(all []node.Node) []node.Node {
	return slices.DeleteFunc(slices.Clone(all), func(n node.Node) bool {
		return !n.Maintenance.IsZero() || n.Manager != "" || m.isActedOn(n) || m.inflight.has(maintenanceOf(n))
	})
}

// isActedOn reports whether the node is being drained, for whatever reason, or has been; or whether it is
// cordoned, if no more than that is configured.
func (m *maintenanceDrains) isActedOn(n node.Node) bool {
	switch m.cfg.Events.ScheduledChange {
	case event.Cordon:
		return !n.Mark.Since.IsZero()
	case event.Ignore:
		return true // the configuration has changed since the announcement
	}
	return !n.Mark.Deadline.IsZero()
}

// maintenanceOf returns the event that announced the maintenance of the node.
func maintenanceOf(n node.Node) event.Event {
	e, _ := withDeadline(event.Event{
		Kind: event.ScheduledChange, InstanceID: n.InstanceID, At: time.Now(), Deadline: n.Maintenance,
	})
	return e
}

// scheduled returns scheduled maintenance with the start that EC2 has in its schedule, if EC2 answers without delay:
// whoever can write to the queue chooses the one in the message. Other events do not change.
func (c *cordoner) scheduled(ctx context.Context, e event.Event) event.Event {
	if e.Kind != event.ScheduledChange {
		return e
	}
	ctx, cancel := context.WithTimeout(ctx, cordonUnconfirmedAfter)
	defer cancel()
	schedule, err := c.instances.Scheduled(ctx, e.InstanceID)
	if err == nil && !schedule.NotBefore.IsZero() {
		e.Deadline = schedule.NotBefore
		e, _ = withDeadline(e)
	}
	return e
}
