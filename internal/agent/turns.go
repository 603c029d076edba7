package agent

import (
	"cmp"
	"context"
	"maps"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// turns let only some nodes be drained at once for what can wait: maintenance that is ahead, rebalance recommendations,
// and requests. Each drain takes capacity away. None begins while pods of drained nodes have found no room on others.
// Maintenance that starts first has the first turn.
type turns struct {
	nodes      Nodes
	drainer    Drainer
	all, zonal refresh.Amount          // how many at once, also of one Availability Zone
	wake       func(instanceID string) // has the instance decided about, and does not block

	finished     sync.Map // the time of the mark, by the UID of the node: drains that have ended
	contradicted sync.Map // by instance: EC2 has nothing scheduled, whatever its Node says

	asking   chan struct{} // has an element while the API server is asked
	mu       sync.Mutex
	begun    map[string]string // the zones, by instance
	waiting  map[string]bool   // by instance
	read     nodesRead
	unplaced int       // pods without room, as of the time asked
	asked    time.Time // zero if the API server was not asked
	ended    time.Time // when the last drain ended
}

// nodesRead is what was read of all Nodes.
type nodesRead struct {
	at     time.Time
	counts map[string]int // of the Nodes, by zone
	all    int
	turns  []node.Node // those that are, or will be, drained in turn
}

const (
	// nodesReadFor is for how long what was read of all Nodes serves all instances that ask for their turn.
	nodesReadFor = time.Second
	// roomReadFor is the same of the pods that have found no room, of which only a list tells.
	roomReadFor = 5 * time.Second
	// placedAfter is how long after a drain its pods may not have been replaced, or tried by the scheduler.
	placedAfter = 3 * time.Second
)

// claim is what an instance needs a turn for.
type claim struct {
	instanceID  string
	zone        string // empty if unknown
	kind        event.Kind
	maintenance time.Time // when it starts; zero if it is none
	begun       bool      // the drain has begun, in this process or in another one
}

// refusal is why a turn is refused.
type refusal struct {
	isBusy  bool
	noRoom  bool
	mustAsk bool // the API server, whether pods have found no room
	askFrom time.Time
}

// take reports whether the drain of the node may start now, and counts it if so, until end.
func (t *turns) take(c claim, p policy) (ok bool, why refusal) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	earliest, latest := now, time.Time{}
	if !c.maintenance.IsZero() {
		earliest, latest = maintenanceWindow(c.maintenance, p)
	}
	isEarly := now.Before(earliest)
	if !isEarly && !c.begun && (latest.IsZero() || now.Before(latest)) {
		why = t.refuse(c, p)
	}
	if isEarly || why != (refusal{}) {
		t.waiting[c.instanceID] = true
		return false, why
	}
	delete(t.waiting, c.instanceID)
	t.begun[c.instanceID] = c.zone
	return true, why
}

// refuse returns why the drain cannot start; zero if it can. It must be called with mu locked.
func (t *turns) refuse(c claim, p policy) refusal {
	t.readNodes()
	others, near := t.others(c, p), 0
	for _, zone := range others {
		if zone == c.zone {
			near++
		}
	}
	isFresh := time.Since(t.asked) < roomReadFor
	why := refusal{
		isBusy: len(others) >= t.all.Of(max(t.read.all, 1)) || near >= t.zonal.Of(max(t.read.counts[c.zone], 1)),
		noRoom: isFresh && t.unplaced > 0, mustAsk: !isFresh,
	}
	if why.mustAsk {
		why.askFrom = t.ended.Add(placedAfter)
	}
	return why
}

// others returns the zones of the other instances that are drained for what can wait, or have the turn before this one.
// The drains that another process has begun count: this one continues them. What a Node says counts until EC2
// contradicts it: a kubelet can write it. It must be called with mu locked.
func (t *turns) others(c claim, p policy) map[string]string {
	zones := maps.Clone(t.begun)
	for _, other := range t.read.turns {
		earliest, _ := maintenanceWindow(other.Maintenance, p)
		isFirst := cmp.Or(other.Maintenance.Compare(c.maintenance), cmp.Compare(other.InstanceID, c.instanceID)) < 0
		isWaiting := !other.Maintenance.IsZero() && other.Manager == "" && other.Mark.Deadline.IsZero() &&
			!time.Now().Before(earliest)
		_, isContradicted := t.contradicted.Load(other.InstanceID)
		if !isContradicted && (isDrainedInTurn(other) && !t.isFinished(other) || isWaiting && isFirst) {
			zones[other.InstanceID] = other.Zone
		}
	}
	delete(zones, c.instanceID)
	return zones
}

// readNodes reads all Nodes, unless it has just done so. It must be called with mu locked.
func (t *turns) readNodes() {
	if time.Since(t.read.at) < nodesReadFor {
		return
	}
	nodes := t.nodes.All()
	t.read = nodesRead{at: time.Now(), counts: map[string]int{}, all: len(nodes)}
	for _, n := range nodes {
		t.read.counts[n.Zone]++
		if !n.Maintenance.IsZero() || isDrainedInTurn(n) {
			t.read.turns = append(t.read.turns, n)
		}
	}
}

// ask asks the API server whether pods of drained nodes have found no room, unless it has just been asked.
func (t *turns) ask(ctx context.Context) error {
	select {
	case t.asking <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-t.asking }()
	if t.isFresh() {
		return nil
	}
	pods, err := t.drainer.Unplaced(ctx)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unplaced, t.asked = pods, time.Now()
	return nil
}

func (t *turns) isFresh() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Since(t.asked) < roomReadFor
}

// end ends the turn of the instance, or its wait for one, and has those decided about that wait for theirs.
func (t *turns) end(instanceID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, hasBegun := t.begun[instanceID]; hasBegun {
		t.ended, t.asked = time.Now(), time.Time{}
	}
	delete(t.begun, instanceID)
	delete(t.waiting, instanceID)
	t.read.at = time.Time{}
	for id := range t.waiting {
		if t.wake != nil {
			t.wake(id)
		}
	}
}

// answered records whether EC2 has something scheduled for the instance.
func (t *turns) answered(instanceID string, isScheduled bool) {
	if isScheduled {
		t.contradicted.Delete(instanceID)
	} else {
		t.contradicted.Store(instanceID, true)
	}
}

// finish records the end of a drain.
func (t *turns) finish(uid string, since time.Time) { t.finished.Store(uid, since) }

// retain forgets the drains of all other Nodes.
func (t *turns) retain(nodes []node.Node) {
	uids, instances := map[any]bool{}, map[any]bool{}
	for _, n := range nodes {
		uids[n.UID], instances[n.InstanceID] = true, true
	}
	deleteOthers(&t.finished, uids)
	deleteOthers(&t.contradicted, instances)
}

func (t *turns) isFinished(n node.Node) bool {
	since, _ := t.finished.Load(n.UID)
	at, ok := since.(time.Time)
	return ok && at.Equal(n.Mark.Since)
}

// isDrainedInTurn reports whether the drain of the node for an event that can wait has begun, and has time left. A
// kubelet can write the deadline.
func isDrainedInTurn(n node.Node) bool {
	kind := event.Kind(n.Mark.Reason)
	isMaintenance := kind == event.ScheduledChange
	canWait := isMaintenance || kind == event.RebalanceRecommendation || kind == event.DrainRequested
	isOver := time.Since(n.Mark.Deadline) > time.Minute || !isMaintenance && time.Since(n.Mark.Since) > longestAction
	return canWait && !n.Mark.Deadline.IsZero() && !isOver
}
